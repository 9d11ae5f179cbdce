"""Proposals of versions by several replicas at once, on one Postgres."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from online.errors import LogReplaced
from online.schemas.control import ControlChange
from online.schemas.events import Event
from online.snapshots.agreed import Publication
from online.store import Store
from online.store.claims import FORGET_EVERY, KEPT, Claim, Draft, Proposal, claim, look, save
from online.store.events import append_events, load_digests
from online.store.publications import StoredPublications, load_serving, lock_serving, record_change

FREEZE = ControlChange("freeze", at="2026-01-01T00:00:00+00:00", reason="for a test")
EVENTS = 40
WAIT_S = 10.0


@pytest.fixture
def stores(postgres_url: str) -> Iterator[tuple[Store, Store]]:
    """Two replicas' stores, whose log has events of which the first is published."""
    with closing(Store(postgres_url)) as one, closing(Store(postgres_url)) as other:
        events = [Event(f"e{n}", "label", b"", "a") for n in range(EVENTS)]
        one.submit(partial(append_events, model="m", events=events)).result()
        claim(one, propose(one, 1))
        yield one, other


def propose(store: Store, until: int, replica: str = "first") -> Proposal:
    digest = store.read(partial(load_digests, model="m", offsets=[until]))[until]
    state = f"{until:064x}"
    facts = {"learned_until": until, "taught_until": until, "relearned": 0, "state_sha256": state, "weights_sha256": ""}
    place = {"feature_epoch": "", "metrics": {}, "log_digest": digest, "recipe": "r", "determinism_domain": ""}
    known = {"version": 0, "parent": None, "created_at": "2026-01-01T00:00:00+00:00", "replica": replica}
    return Proposal("m", Publication(**facts, **place, **known))  # type: ignore[arg-type]


def look_at(store: Store, proposal: Proposal) -> Draft:
    found = store.read(partial(look, proposal=proposal))
    assert isinstance(found, Draft)
    return found


def save_in(store: Store, draft: Draft) -> Claim | None:
    return store.run_alone(partial(save, model="m", draft=draft))


def test_a_replica_that_is_stopped_in_the_middle_of_a_proposal_holds_nobody_up(stores: tuple[Store, Store]) -> None:
    one, other = stores
    with one.reader.connect() as connection:  # its transaction stays open, as that of a stopped process does
        draft = look(connection, propose(one, 2))
        assert isinstance(draft, Draft)
        with ThreadPoolExecutor(1) as pool:
            published = pool.submit(claim, other, propose(other, 3)).result(WAIT_S)
        assert published.is_ours and published.state.live == published.newest.version == 2  # type: ignore[union-attr]
    assert not save_in(one, draft), "what was seen before is not saved over what was published since"
    assert claim(one, propose(one, 2)).accepted is None
    assert other.read(partial(load_serving, model="m")) == published.state


def test_a_change_that_is_under_way_is_not_overwritten(stores: tuple[Store, Store]) -> None:
    one, other = stores
    draft = look_at(one, propose(one, 2))
    with ThreadPoolExecutor(1) as pool, other.writer.begin() as connection:
        lock_serving(connection, "m")
        saving = pool.submit(save_in, one, draft)
        record_change(connection, "m", FREEZE, shared=True)
        with pytest.raises(TimeoutError):
            saving.result(0.3)
        connection.commit()
        assert saving.result(WAIT_S) is None
    claimed = claim(one, propose(one, 2))
    assert claimed.is_ours and claimed.state.frozen is not None and claimed.state.live == 1


def test_replicas_that_propose_at_once_number_their_versions_one_after_the_other(stores: tuple[Store, Store]) -> None:
    def publish(store: Store, name: str) -> list[Claim]:
        return [claim(store, propose(store, until, name)) for until in range(2, EVENTS + 1)]

    with ThreadPoolExecutor(2) as pool:
        found = [*pool.map(publish, stores, ("first", "second"))]
    listed = stores[0].read(lambda connection: StoredPublications(connection, "m").list(100))[::-1]
    assert [each.version for each in listed] == [*range(1, len(listed) + 1)]
    assert all(after.parent == before.version and after.place > before.place for before, after in pairwise(listed))
    assert sum(each.is_ours for claims in found for each in claims) == len(listed) - 1
    state = stores[1].read(partial(load_serving, model="m"))
    assert state is not None and (state.live, state.revision) == (len(listed), len(listed))


def test_what_was_learned_from_another_log_is_refused(stores: tuple[Store, Store]) -> None:
    proposal = propose(stores[0], 2)
    other = replace(proposal, publication=replace(proposal.publication, log_digest="0" * 64))
    with pytest.raises(LogReplaced):
        claim(stores[0], other)
    draft = look_at(stores[0], proposal)
    assert not save_in(stores[0], replace(draft, new=replace(draft.new, log_digest="0" * 64)))
    assert save_in(stores[0], draft)


def test_old_publications_are_forgotten(stores: tuple[Store, Store]) -> None:
    store, before = stores[0], FORGET_EVERY * (KEPT // FORGET_EVERY + 2)
    assert claim(store, replace(propose(store, 2), floor=before - 2)).newest.version == before - 1  # type: ignore[union-attr]
    assert store.read(lambda connection: StoredPublications(connection, "m").find(1)) is not None
    assert claim(store, propose(store, 3)).newest.version == before  # type: ignore[union-attr]
    assert store.read(lambda connection: StoredPublications(connection, "m").find(1)) is None
