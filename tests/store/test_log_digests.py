"""The digests of the log: what they cover, what they leave out, and that they stay as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from online.errors import LogReplaced
from online.schemas.events import Event, chain_digest
from online.store import Store
from online.store.erasure.log import void_events
from online.store.events import append_events, build_retraction, check_log, load_digests

EVENT = Event("f1", "correction", b"features", "r1", "some words", 0.5, "r0")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    yield store
    store.close()


def append(store: Store, model: str, *events: Event, feedback_id: str | None = None) -> dict[int, str]:
    """Append events; return the digests of the log."""
    store.submit(lambda connection: append_events(connection, model, events, feedback_id=feedback_id)).result()
    found: dict[int, str] = store.read(lambda connection: load_digests(connection, model, range(10)))
    return found


@pytest.mark.parametrize(
    "change",
    [
        {"id": "f2"},
        {"kind": "reward"},
        {"label": "r2"},
        {"reward": 1.0},
        {"choice": None},
        {"target": EVENT.at(1)},
    ],
    ids=str,
)
def test_a_digest_covers_what_happened(change: dict[str, Any]) -> None:
    assert chain_digest("before", 3, replace(EVENT, **change)) != chain_digest("before", 3, EVENT)


def test_a_digest_covers_the_log_before_it_and_the_offset() -> None:
    digests = {chain_digest(previous, offset, EVENT) for previous in ("a", "b") for offset in (3, 4)}
    assert len(digests) == 4


def test_a_digest_proves_nothing_about_words_and_features() -> None:
    assert chain_digest("", 1, replace(EVENT, text="other words", features=b"")) == chain_digest("", 1, EVENT)


def test_the_logs_of_two_models_and_of_two_stores_differ_from_their_first_event(store: Store, tmp_path: Path) -> None:
    other = Store(f"sqlite:///{tmp_path / 'other.db'}")
    assert len({append(store, "m", EVENT)[1], append(store, "n", EVENT)[1], append(other, "m", EVENT)[1]}) == 3
    other.close()


def test_erasing_words_changes_no_digest(store: Store) -> None:
    reply = Event("f1#reply", "reply", b"features", "r1", "My name is Ada.")
    append(store, "m", reply, feedback_id="f1")
    before = append(store, "m", build_retraction(reply, 1), feedback_id="f1")
    assert store.submit(lambda connection: void_events(connection, "m", ["f1"])).result()[0] == 2
    assert append(store, "m", EVENT).items() >= before.items()


def test_a_log_is_compared_at_an_offset(store: Store) -> None:
    digests = append(store, "m", EVENT, replace(EVENT, id="f2"))
    with store.reader.connect() as connection:
        for offset, digest in ((0, "anything"), (1, digests[1]), (2, digests[2]), (2, "")):
            check_log(connection, "m", offset, digest)
        with pytest.raises(LogReplaced, match="until offset 2 is not the one that was learned"):
            check_log(connection, "m", 2, digests[1])
        for digest in (digests[2], ""):
            with pytest.raises(LogReplaced, match="ends at offset 2, but was learned until 3"):
                check_log(connection, "m", 3, digest)
