"""The rows that the replicas of a model agree on: its publications, and which version answers.

    learner --propose--> publication: accepted once per version, under a lock --> serving: live, labels, frozen, ...
    operator, guard --ControlChange--> event in the log  ────────────────────────────^   in the same transaction

Only stores that several machines may share have these rows. Elsewhere the folder of the snapshots is all there is. Nothing
elects a leader: each replica that has applied the log until an offset has the same bytes, so it does not matter who is first.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, Index, delete, func, insert, select, text, update
from sqlmodel import Field, SQLModel

from online.errors import LogReplaced
from online.schemas.control import ControlChange
from online.schemas.events import Event
from online.snapshots.agreed import Publication, ServingState, follow_change, follow_publication
from online.store.database.tables import table_of
from online.store.events import EVENTS, append_events, load_digests, notify_replicas
from online.store.leases import LeaseToken, check_lease

KEPT = 2_000  # publications of a model, of which older ones are forgotten unless something names them
FORGET_EVERY = 256  # versions


class PublicationRow(SQLModel, table=True):
    """One accepted version; the fields are those of `Publication`. metrics: JSON."""

    __tablename__ = "publication"
    __table_args__ = (Index("publication_by_place", "model", "recipe", "relearned", "learned_until"),)

    model: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    parent: int | None
    learned_until: int
    taught_until: int
    relearned: int
    state_sha256: str
    weights_sha256: str
    feature_epoch: str
    metrics: str
    log_digest: str
    recipe: str
    determinism_domain: str
    created_at: str
    replica: str


class ServingRow(SQLModel, table=True):
    """The state of serving of one model: a `ServingState` as JSON, and its revision."""

    __tablename__ = "serving"

    model: str = Field(primary_key=True)
    revision: int
    state: str


PUBLICATIONS, SERVING = table_of(PublicationRow), table_of(ServingRow)
COLUMNS = [column for column in PUBLICATIONS.c if column.name != "model"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a proposal. accepted: the publication at its place in the log, proposed now or by another replica before;

    None if publications are further, or if another recipe goes live. newest: of the proposal's recipe.
    """

    accepted: Publication | None
    newest: Publication | None
    state: ServingState
    is_ours: bool = False


class StoredPublications:
    """The publications of one model in the store."""

    def __init__(self, connection: Connection, model: str) -> None:
        self.connection, self.of_model = connection, PUBLICATIONS.c.model == model

    def find(self, version: int) -> Publication | None:
        """Return a publication; None if there is none of this version."""
        return self._one(select(*COLUMNS).where(self.of_model, PUBLICATIONS.c.version == version))

    def newest(self, recipe: str) -> Publication | None:
        """Return the one of a recipe that is last in the order of `Publication.place`."""
        of_recipe = select(*COLUMNS).where(self.of_model, PUBLICATIONS.c.recipe == recipe)
        by_place = (PUBLICATIONS.c.relearned.desc(), PUBLICATIONS.c.learned_until.desc(), PUBLICATIONS.c.version.desc())
        return self._one(of_recipe.order_by(*by_place).limit(1))

    def at(self, recipe: str, place: tuple[int, int]) -> Publication | None:
        """Return the first publication of a recipe at a place; None if there is none."""
        same = (PUBLICATIONS.c.relearned == place[0], PUBLICATIONS.c.learned_until == place[1])
        of_recipe = select(*COLUMNS).where(self.of_model, PUBLICATIONS.c.recipe == recipe, *same)
        return self._one(of_recipe.order_by(PUBLICATIONS.c.version).limit(1))

    def last_version(self) -> int:
        """Return the highest version of any recipe; 0 if there is none."""
        return self.connection.scalar(select(func.max(PUBLICATIONS.c.version)).where(self.of_model)) or 0

    def list(self, count: int, before: int | None = None) -> list[Publication]:
        """Return the newest publications before a version, newest first."""
        older = () if before is None else (PUBLICATIONS.c.version < before,)
        query = select(*COLUMNS).where(self.of_model, *older).order_by(PUBLICATIONS.c.version.desc()).limit(count)
        return [parse_row(dict(row)) for row in self.connection.execute(query).mappings()]

    def _one(self, query: Any) -> Publication | None:
        row = self.connection.execute(query).mappings().one_or_none()
        return None if row is None else parse_row(dict(row))


def parse_row(row: Mapping[str, Any]) -> Publication:
    """Return the publication in a row."""
    return Publication(**{**row, "metrics": json.loads(row["metrics"])})


def describe_row(model: str, publication: Publication) -> dict[str, object]:
    """Return the row of a publication."""
    return {"model": model, **asdict(publication), "metrics": json.dumps(publication.metrics)}


# reads


def load_serving(connection: Connection, model: str) -> ServingState | None:
    """Return what answers for a model; None where nothing was published or changed yet."""
    found = connection.scalar(select(SERVING.c.state).where(SERVING.c.model == model))
    return None if found is None else ServingState.parse(found)


def load_revisions(connection: Connection) -> dict[str, int]:
    """Return model -> the revision of what answers."""
    return dict(connection.execute(select(SERVING.c.model, SERVING.c.revision)).all())


def has_learned_version(connection: Connection, model: str) -> bool:
    """Return whether a version answers that has learned something."""
    state = load_serving(connection, model)
    live = None if state is None else StoredPublications(connection, model).find(state.live)
    return live is not None and live.learned_until > 0


def load_newest(connection: Connection, model: str, recipe: str) -> tuple[Publication | None, ServingState | None]:
    """Return the newest publication of a recipe, and what answers."""
    return StoredPublications(connection, model).newest(recipe), load_serving(connection, model)


def list_changes(connection: Connection, model: str, after: int) -> list[tuple[int, ControlChange]]:
    """Return (offset, change) of the control events after an offset."""
    query = select(EVENTS.c.offset, EVENTS.c.body).where(
        EVENTS.c.model == model, EVENTS.c.kind == "control", EVENTS.c.offset > after
    )
    rows = connection.execute(query.order_by(EVENTS.c.offset)).all()
    return [(offset, ControlChange.parse(Event.parse(body, b"", offset).control)) for offset, body in rows]


# writes


def lock_serving(connection: Connection, model: str) -> ServingState:
    """Return what answers for a model, and keep other transactions from changing it. On SQLite the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"online/serving/{model}"})
    return load_serving(connection, model) or ServingState()


def claim(
    connection: Connection,
    model: str,
    proposed: Publication,
    floor: int = 0,
    repeats: bool = False,
    lease: LeaseToken | None = None,
) -> Claim:
    """Accept a proposed version, or return the publication that takes its place.

    proposed: its version and its parent are chosen here. floor: a version number that was used before. repeats: also accept
    one at the place of the newest. lease: of a learner that must be the only one. Raises LogReplaced for a state that was not
    learned from this log, and LeaseLost for a lease that another learner has taken.
    """
    state = lock_serving(connection, model)
    if lease is not None:
        check_lease(connection, model, lease)
    check_learned_from_log(connection, model, proposed)
    publications = StoredPublications(connection, model)
    newest = publications.newest(proposed.recipe)
    if state.recipe and state.recipe != proposed.recipe:
        return Claim(None, newest, state)
    if newest is not None and not repeats and proposed.place <= newest.place:
        return Claim(publications.at(proposed.recipe, proposed.place), newest, state)
    last = publications.last_version()
    new = replace(proposed, version=max(last, floor) + 1, parent=last or None)
    connection.execute(insert(PUBLICATIONS), [describe_row(model, new)])
    before = replace(state, recipe=new.recipe)
    after = save_serving(connection, model, state, follow_publication(before, new, publications))
    if new.version % FORGET_EVERY == 0:
        forget_publications(connection, model, new.version - KEPT, after)
    return Claim(new, new, after, is_ours=True)


def check_learned_from_log(connection: Connection, model: str, proposed: Publication) -> None:
    """Raise LogReplaced unless the log has the digest of the proposal at its offset."""
    if not proposed.learned_until or not proposed.log_digest:
        return
    found = load_digests(connection, model, [proposed.learned_until]).get(proposed.learned_until)
    if found != proposed.log_digest:
        raise LogReplaced(f"the log of {model} until offset {proposed.learned_until} is not the one that was learned")


def announce_recipe(connection: Connection, model: str, recipe: str) -> ServingState:
    """Let versions of a recipe go live from now on; those of another one, which went live before, do not any more."""
    state = lock_serving(connection, model)
    return state if state.recipe == recipe else save_serving(connection, model, state, replace(state, recipe=recipe))


def adopt_folder(
    connection: Connection, model: str, known: Sequence[Publication], state: ServingState
) -> ServingState | None:
    """Take over what a folder has published before there were rows of it; None if there are rows already."""
    lock_serving(connection, model)
    if load_serving(connection, model) is not None:
        return None
    for each in known:
        connection.execute(insert(PUBLICATIONS), [describe_row(model, each)])
    return save_serving(connection, model, ServingState(), state)


def record_change(connection: Connection, model: str, change: ControlChange, shared: bool) -> tuple[int, ServingState]:
    """Append a control change to the log; return its offset, and what answers then.

    shared: whether the store says what answers; otherwise the caller applies the change to its folder. Raises NotFound or
    Conflict for a change that is not possible, and then nothing was changed.
    """
    event = Event(f"control#{uuid.uuid4().hex}", "control", control=change.dump())
    offset = append_events(connection, model, [event], new=True, source="operator")[0]
    if not shared:
        return offset, ServingState()
    state = lock_serving(connection, model)
    after = follow_change(state, change, StoredPublications(connection, model))
    return offset, save_serving(connection, model, state, after)


def save_serving(connection: Connection, model: str, before: ServingState, after: ServingState) -> ServingState:
    """Save what answers, with the next revision; return it."""
    after = replace(after, revision=before.revision + 1)
    values = {"revision": after.revision, "state": after.dump()}
    found = connection.execute(update(SERVING).where(SERVING.c.model == model).values(**values))
    if not found.rowcount:
        connection.execute(insert(SERVING), [{"model": model, **values}])
    notify_replicas(connection, model)
    return after


def forget_publications(connection: Connection, model: str, before: int, state: ServingState) -> None:
    """Forget publications before a version, except those that the state names."""
    named = {state.live, state.previous, *(each.version for each in state.labels.values())}
    old = (PUBLICATIONS.c.model == model, PUBLICATIONS.c.version < before, PUBLICATIONS.c.version.not_in(named))
    connection.execute(delete(PUBLICATIONS).where(*old))
