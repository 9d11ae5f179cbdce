"""What an erasure asks of the log, in a time that depends on the user's events and not on those of all others."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from online.schemas.events import Event
from online.store import Store, now
from online.store.erasure.log import find_retracted_events, find_unnamed_labels, forget_labels, void_events
from online.store.events import append_events, build_retraction, load_events
from online.store.refusals import RejectedSnapshotRow, add_rejection, load_rejections

EVENTS_COUNT = 300


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    yield from teach(f"sqlite:///{tmp_path / 'online.db'}")


@pytest.fixture(params=["sqlite", "postgres"])
def taught(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite")
    else:
        yield from teach(request.getfixturevalue("postgres_url"))


def teach(url: str) -> Iterator[Store]:
    """A store with feedback f1, f2, ... of three classes; f1 also brought a reply. f1, its reply and f2 are retracted."""

    def append(connection: Connection) -> None:
        append_events(connection, "m", [Event("f1#reply", "reply", b"", "hi")], feedback_id="f1")
        events = [Event(f"f{n}", "label", b"x", "abc"[n % 3]) for n in range(1, EVENTS_COUNT)]
        append_events(connection, "m", [*events, Event("last", "label", b"x", "only")])
        for offset, target in load_events(connection, "m", [1, 2, 3]).items():
            append_events(connection, "m", [build_retraction(target, offset)])

    store = Store(url)
    try:
        store.submit(append).result()
        yield store
    finally:
        store.close()


def record_plans(store: Store, path: Path, run: Callable[[Connection], Any]) -> list[str]:
    """How SQLite finds the rows of each statement that `run` executes."""
    statements: list[tuple[str, Any]] = []

    @event.listens_for(store.writer, "before_cursor_execute")
    def record(_: Any, __: Any, statement: str, values: Any, ___: Any, ____: Any) -> None:
        if not statement.startswith(("BEGIN", "INSERT")):
            statements.append((statement, values))

    store.submit(run, durable=False).result()
    with sqlite3.connect(path / "online.db") as connection:
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {each}", values).fetchall() for each, values in statements]
    return [str(step[3]) for plan in plans for step in plan if "event" in str(step[3])]


def is_narrow(step: str) -> bool:
    """Whether a step uses more of an index than the model, which is that of every event."""
    return "SEARCH" in step and ("AND" in step or "label=?" in step)


@pytest.mark.parametrize(
    "run",
    [
        lambda connection: find_retracted_events(connection, "m", [f"f{n}" for n in range(1, 51)]),
        lambda connection: void_events(connection, "m", [f"f{n}" for n in range(1, 51)]),
        lambda connection: find_unnamed_labels(connection, "m", ["a", "b", "nobody's"]),
    ],
    ids=["retracted events", "void", "unnamed labels"],
)
def test_no_step_reads_every_event(sqlite: Store, tmp_path: Path, run: Callable[[Connection], Any]) -> None:
    steps = record_plans(sqlite, tmp_path, run)
    assert steps and all(map(is_narrow, steps)), steps


def test_the_retracted_events_of_feedback_are_its_own_and_those_that_it_brought(taught: Store) -> None:
    found = taught.read(lambda connection: find_retracted_events(connection, "m", ["f1", "f2", "f3"]))
    assert found == {1: "hi", 2: "b", 3: "c"}


def test_labels_that_no_event_names_are_found(taught: Store) -> None:
    asked = ["a", "gone", "only", "also gone"]
    assert taught.read(lambda connection: find_unnamed_labels(connection, "m", asked)) == ["also gone", "gone"]
    assert taught.read(lambda connection: find_unnamed_labels(connection, "m", [])) == []
    assert taught.read(lambda connection: find_unnamed_labels(connection, "other", ["a"])) == ["a"]


def test_rejections_that_name_a_label_are_deleted(taught: Store) -> None:
    def reject(connection: Connection) -> None:
        for since, reason in enumerate(["class anna's_own is never answered", "classes are wrong", "50% wrong"]):
            row = RejectedSnapshotRow(model="m", since=since, until=since, times=1, reason=reason, created_at=now())
            add_rejection(connection, row)
        forget_labels(connection, "m", ["anna's_own"], ["anna's_own", "%"])

    taught.submit(reject).result()
    left = taught.read(lambda connection: load_rejections(connection, "m", 10))
    assert [row.reason for row in left] == ["classes are wrong"]
