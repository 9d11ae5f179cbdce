"""Proposals of versions, of which the store accepts one for each version.

    look: what answers, which version is newest? --settled already--> the publication at this place
        | (locks nothing)
    one statement: publication added and serving changed, if serving still has the revision that was seen
        | otherwise look again

The statement is a transaction of its own. So a replica that is stopped in the middle of a proposal holds no lock for which the others
would wait. Where the parts do not fit in one statement, they are one transaction under a lock: with a lease, for the first version
of a model, to forget old ones, and on SQLite.
"""

from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection, insert, text

from online.errors import LogReplaced
from online.snapshots.agreed import Publication, ServingState, follow_publication
from online.store.database.store import Store
from online.store.events import CHANNEL, load_digests
from online.store.leases import LeaseToken, check_lease
from online.store.publications import (
    COLUMNS,
    PUBLICATIONS,
    StoredPublications,
    describe_row,
    forget_publications,
    load_serving,
    lock_serving,
    save_serving,
    serving_lock,
)

KEPT = 2_000  # publications of a model, of which older ones are forgotten unless something names them
FORGET_EVERY = 256  # versions
NAMES = [column.name for column in COLUMNS]
TRIES = 3  # of one statement, before the proposal waits for its turn under the lock

# Nothing is changed unless what answers is as it was seen. The lock lets it wait for transactions that are under way; the row is
# read again after the wait, so that a revision that one of them has changed does not match any more. The digest is compared again,
# because the store may have failed over since the look to a standby that lacks the last events, and no publication.
SAVE = f"""
WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext(CAST(:lock AS VARCHAR)))),
changed AS (
    UPDATE serving SET revision = CAST(:revision AS INTEGER), state = CAST(:state AS VARCHAR) FROM turn
    WHERE serving.model = CAST(:model AS VARCHAR) AND serving.revision = CAST(:before AS INTEGER)
    AND (CAST(:log_digest AS VARCHAR) = '' OR CAST(:learned_until AS INTEGER) = 0 OR EXISTS (
        SELECT 1 FROM event WHERE event.model = CAST(:model AS VARCHAR)
        AND event."offset" = CAST(:learned_until AS INTEGER) AND event.digest = CAST(:log_digest AS VARCHAR)
    ))
    RETURNING serving.model
),
added AS (
    INSERT INTO publication (model, {", ".join(NAMES)})
    SELECT model, {", ".join(f"CAST(:{column.name} AS {column.type})" for column in COLUMNS)} FROM changed RETURNING model
)
SELECT pg_notify(CAST(:channel AS VARCHAR), model) FROM added
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a proposal. accepted: the publication at its place in the log, proposed now or by another replica before;

    None if publications are further, or if another recipe goes live. newest: of the proposal's recipe.
    """

    accepted: Publication | None
    newest: Publication | None
    state: ServingState
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A version that a learner proposes; its number and its parent are chosen by the store.

    floor: a number that was used before. repeats: also accept one at the place of the newest.
    """

    model: str
    publication: Publication
    floor: int = 0
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A version with its number, and the state that it leads to. It is saved if nothing has changed since `before`."""

    new: Publication
    before: ServingState
    after: ServingState


def claim(store: Store, proposal: Proposal, lease: LeaseToken | None = None) -> Claim:
    """Accept a proposed version, or return the publication that takes its place.

    lease: of a learner that must be the only one. Raises LogReplaced for a state that was not learned from this log, LeaseLost for a
    lease that another learner has taken, and Unavailable.
    """
    for _ in range(TRIES if lease is None and store.runs_alone else 0):
        found = store.read(partial(look, proposal=proposal))
        if isinstance(found, Claim):
            return found
        if found is None:
            break
        saved = store.run_alone(partial(save, model=proposal.model, draft=found))
        if saved is not None:
            return saved
    claimed: Claim = store.submit(partial(claim_under_lock, proposal=proposal, lease=lease)).result()
    return claimed


def look(connection: Connection, proposal: Proposal) -> Claim | Draft | None:
    """Return the publication that takes the place of a proposal, or what to save; None for what is saved under the lock."""
    state = load_serving(connection, proposal.model)
    if state is None:
        return None
    found = settle(connection, proposal, state)
    return None if isinstance(found, Draft) and found.new.version % FORGET_EVERY == 0 else found


def settle(connection: Connection, proposal: Proposal, state: ServingState) -> Claim | Draft:
    """Return the publication that takes the place of a proposal, or what to save. Raises LogReplaced."""
    model, proposed = proposal.model, proposal.publication
    check_learned_from_log(connection, model, proposed)
    publications = StoredPublications(connection, model)
    newest = publications.newest(proposed.recipe)
    if state.recipe and state.recipe != proposed.recipe:
        return Claim(None, newest, state)
    if newest is not None and not proposal.repeats and proposed.place <= newest.place:
        return Claim(publications.at(proposed.recipe, proposed.place), newest, state)
    last = publications.last_version()
    new = replace(proposed, version=max(last, proposal.floor) + 1, parent=last or None)
    return Draft(new, state, follow_publication(replace(state, recipe=new.recipe), new, publications))


def save(connection: Connection, model: str, draft: Draft) -> Claim | None:
    """Save a draft on Postgres with one statement; return None where what answers has changed since."""
    before = draft.before.revision
    after = replace(draft.after, revision=before + 1)
    values = {"before": before, "revision": after.revision, "state": after.dump()}
    names = {"lock": serving_lock(model), "channel": CHANNEL}
    saved = connection.execute(text(SAVE), {**describe_row(model, draft.new), **values, **names}).one_or_none()
    return None if saved is None else Claim(draft.new, draft.new, after, is_ours=True)


def claim_under_lock(connection: Connection, proposal: Proposal, lease: LeaseToken | None = None) -> Claim:
    """Accept a proposal as `claim` does, and keep other transactions from changing what answers until this one ends."""
    model = proposal.model
    state = lock_serving(connection, model)
    if lease is not None:
        check_lease(connection, model, lease)
    found = settle(connection, proposal, state)
    if isinstance(found, Claim):
        return found
    connection.execute(insert(PUBLICATIONS), [describe_row(model, found.new)])
    after = save_serving(connection, model, state, found.after)
    if found.new.version % FORGET_EVERY == 0:
        forget_publications(connection, model, found.new.version - KEPT, after)
    return Claim(found.new, found.new, after, is_ours=True)


def check_learned_from_log(connection: Connection, model: str, proposed: Publication) -> None:
    """Raise LogReplaced unless the log has the digest of the proposal at its offset."""
    if not proposed.learned_until or not proposed.log_digest:
        return
    found = load_digests(connection, model, [proposed.learned_until]).get(proposed.learned_until)
    if found != proposed.log_digest:
        raise LogReplaced(f"the log of {model} until offset {proposed.learned_until} is not the one that was learned")
