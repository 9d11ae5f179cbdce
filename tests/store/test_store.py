"""The store: group commit, isolation of submitted work, durability and queries."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError

from online.errors import BadInput, SetupError, Unavailable
from online.schemas.events import Event
from online.store import Store, events, now
from online.store.database.engine import create_engine_for
from online.store.database.store import MAX_GROUP, MAX_PASSED, WAL_ROOM_BYTES
from online.store.database.values import fold_text
from online.store.feedback import FeedbackRow, add_feedback, load_feedback, mark_learned
from online.store.predictions import add_predictions, load_predictions
from online.store.refusals import load_refusals, mark_refused
from online.store.repertoire.replies import add_reply, find_reply_by_text, normalize_text


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    yield store
    store.close()


def prediction(id: str) -> dict[str, Any]:
    row = {
        "id": id,
        "model": "m",
        "version": 3,
        "learned_until": 7,
        "user": None,
        "input": '"hello"',
        "features": b"\x01",
    }
    return {**row, "choice": "a", "propensity": 1.0, "candidates": "[]", "created_at": now()}


def add_prediction(id: str) -> Callable[[Connection], None]:
    return lambda connection: add_predictions(connection, [prediction(id)])


def feedback(id: str, offset: int) -> dict[str, Any]:
    row = FeedbackRow(
        model="m",
        id=id,
        offset=offset,
        content="{}",
        prediction_id=None,
        input=None,
        user=None,
        created_at=now(),
        retracted_offset=None,
    )
    return row.model_dump()


def test_marking_learned_feedback_uses_the_index_of_offsets(sqlite_store: Store, tmp_path: Path) -> None:
    """A scan of all feedback of a model would block every writer."""
    rows = [feedback(f"f{offset}", offset) for offset in range(1, 201)]
    sqlite_store.submit(lambda connection: add_feedback(connection, rows)).result()
    updates: list[tuple[str, Any]] = []

    @event.listens_for(sqlite_store.writer, "before_cursor_execute")
    def record_updates(_: Any, __: Any, statement: str, values: Any, ___: Any, ____: Any) -> None:
        if statement.startswith("UPDATE"):
            updates.append((statement, values))

    sqlite_store.submit(
        lambda connection: mark_learned(connection, "m", [(100, 110, 5, "now")]), durable=False
    ).result()
    with sqlite3.connect(tmp_path / "online.db") as connection:
        plans = [
            connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall() for statement, values in updates
        ]
        marked = connection.execute("SELECT count(*), min(offset), max(offset) FROM feedback WHERE version = 5")
        assert marked.fetchone() == (10, 101, 110)
    assert [len(plan) for plan in plans] == [1, 1]
    assert "(model=? AND offset>? AND offset<?)" in plans[0][0][3]
    assert "(model=? AND retracted_offset>? AND retracted_offset<?)" in plans[1][0][3]


@pytest.mark.parametrize("count", [1, 7, 1_000, 1_001, 2_345])
def test_any_number_of_predictions_is_written_in_full(store: Store, count: int) -> None:
    rows = [prediction(f"p{n}") for n in range(count)]
    store.submit(lambda connection: add_predictions(connection, rows), durable=False).result()
    found = store.read(lambda connection: load_predictions(connection, "m", ["p0", f"p{count - 1}"]))
    assert found[f"p{count - 1}"].model_dump() == rows[-1]
    total = store.read(lambda connection: connection.execute(text("SELECT count(*) FROM prediction")).scalar())
    assert total == count


def test_a_row_that_cannot_be_written_fails_its_whole_batch(store: Store) -> None:
    rows = [prediction("p1"), prediction("p2"), prediction("p1")]
    with pytest.raises(Unavailable):
        store.submit(lambda connection: add_predictions(connection, rows), durable=False).result()
    assert store.read(lambda connection: load_predictions(connection, "m", ["p1", "p2"])) == {}


def test_predictions_are_found_by_id_and_model(store: Store) -> None:
    store.submit(lambda connection: add_predictions(connection, [prediction("p1"), prediction("p2")])).result()
    found = store.read(lambda connection: load_predictions(connection, "m", ["p1", "nobody"]))
    assert list(found) == ["p1"]
    assert (found["p1"].version, found["p1"].features) == (3, b"\x01")
    assert store.read(lambda connection: load_predictions(connection, "other", ["p1"])) == {}


def test_failing_work_changes_nothing_and_does_not_affect_other_work(store: Store) -> None:
    def fail(connection: Connection) -> None:
        add_predictions(connection, [prediction("half")])
        raise BadInput("changed my mind")

    futures = [store.submit(add_prediction(f"p{n}")) for n in range(20)]
    failing = store.submit(fail)
    futures += [store.submit(add_prediction(f"q{n}")) for n in range(20)]
    with pytest.raises(BadInput, match="changed my mind"):
        failing.result()
    for future in futures:
        future.result()
    ids = ["half", *(f"p{n}" for n in range(20)), *(f"q{n}" for n in range(20))]
    assert sorted(store.read(lambda c: load_predictions(c, "m", ids))) == sorted(ids[1:])


def test_feedback_keeps_the_first_version_that_learned_it(store: Store) -> None:
    store.submit(lambda c: add_feedback(c, [feedback("a", 1), feedback("b", 2), feedback("c", 3)])).result()
    store.submit(lambda c: mark_learned(c, "m", [(0, 2, 5, "t5"), (2, 3, 6, "t6")])).result()
    store.submit(lambda c: mark_learned(c, "m", [(0, 3, 9, "t9")])).result()
    rows = store.read(lambda c: load_feedback(c, "m", ["a", "b", "c"]))
    assert {id: (row.status, row.version) for id, row in rows.items()} == {
        "a": ("learned", 5),
        "b": ("learned", 5),
        "c": ("learned", 6),
    }


def test_refused_feedback_stays_refused(store: Store) -> None:
    store.submit(lambda c: add_feedback(c, [feedback("a", 1)])).result()
    store.submit(lambda c: mark_refused(c, "m", "recipe", 1, "too odd")).result()
    store.submit(lambda c: mark_refused(c, "m", "recipe", 1, "too odd")).result()
    store.submit(lambda c: mark_learned(c, "m", [(0, 2, 5, "t5")])).result()
    row = store.read(lambda c: load_feedback(c, "m", ["a"]))["a"]
    assert (row.status, row.refusal) == ("refused", "too odd")
    assert store.read(lambda c: load_refusals(c, "m", "recipe")) == {1: "too odd"}
    assert store.read(lambda c: load_refusals(c, "m", "another recipe")) == {}


def test_a_cancelled_future_does_not_stop_the_writer(store: Store) -> None:
    futures = [store.submit(add_prediction(f"p{n}")) for n in range(100)]
    cancelled = [future for future in futures if future.cancel()]
    store.submit(add_prediction("after")).result(timeout=10)
    written = [f"p{n}" for n, future in enumerate(futures) if future not in cancelled]
    found = store.read(lambda c: load_predictions(c, "m", [f"p{n}" for n in range(100)]))
    assert cancelled and sorted(found) == sorted(written)


@dataclass
class OccupiedStore:
    """A store whose writer is occupied until `release`, and the transactions in which later work ran."""

    store: Store
    busy: threading.Event = field(default_factory=threading.Event)
    transactions: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        event.listen(self.store.writer, "begin", lambda connection: self.transactions.append([]))
        started = threading.Event()

        def occupy(_: Connection) -> None:
            started.set()
            self.busy.wait()

        self.store.submit(occupy, durable=False)
        started.wait()

    def submit(self, name: str, is_background: bool) -> Future[None]:
        work = partial(self._note, name)
        return self.store.submit(work, durable=False, is_background=is_background)

    def _note(self, name: str, _: Connection) -> None:
        self.transactions[-1].append(name)

    def release(self) -> list[list[str]]:
        """Let the writer do all that waits; return the transactions."""
        self.busy.set()
        self.store.close()
        return self.transactions[1:]


def test_background_work_lets_others_go_first_and_has_transactions_of_its_own(sqlite_store: Store) -> None:
    occupied = OccupiedStore(sqlite_store)
    for name in ("piece 1", "prediction 1", "piece 2", "prediction 2"):
        occupied.submit(name, is_background=name.startswith("piece"))
    assert occupied.release() == [["prediction 1", "prediction 2"], ["piece 1"], ["piece 2"]]


def test_background_work_is_not_passed_over_for_ever(sqlite_store: Store) -> None:
    occupied = OccupiedStore(sqlite_store)
    left = MAX_GROUP * (MAX_PASSED + 2)
    occupied.submit("piece", is_background=True)
    for _ in range(left):
        occupied.submit("prediction", is_background=False)
    assert occupied.release()[MAX_PASSED] == ["piece"]


def test_replies_are_found_by_text_regardless_of_case_and_spaces(store: Store) -> None:
    store.submit(lambda c: add_reply(c, "m", "r1", "We open at nine.", 1)).result()
    found = store.read(lambda c: find_reply_by_text(c, "m", "  we OPEN at   nine. "))
    assert found is not None and found.id == "r1"
    assert store.read(lambda c: find_reply_by_text(c, "m", "We close at nine.")) is None


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("  We open  at\tnine. ", "We open at nine."),
        ("one\r\ntwo\rthree  \n", "one\ntwo\nthree"),
        ("one\n \n\t\n\ntwo", "one\n\ntwo"),
        ("Do:\n- this\n  - and  that\n\n```\n\tif x:\n```", "Do:\n- this\n  - and that\n\n```\n\tif x:\n```"),
        ("\n\n    first\n    second", "first\n    second"),
        ("\u00a0 \u2028", ""),
    ],
)
def test_normalising_a_text_keeps_its_line_breaks_and_indentation(text: str, normalized: str) -> None:
    assert normalize_text(text) == normalized
    assert normalize_text(normalized) == normalized
    assert fold_text(text) == fold_text(normalized)


def test_a_transaction_that_cannot_commit_fails_its_work_with_the_reason(sqlite_store: Store) -> None:
    full = sqlite_store.submit(lambda c: c.execute(text("PRAGMA max_page_count = 1")), durable=True)
    full.result()
    big = {**prediction("big"), "input": "x" * 1_000_000}
    with pytest.raises(Unavailable, match="full"):
        sqlite_store.submit(lambda c: add_predictions(c, [big]), durable=True).result()
    assert sqlite_store.read(lambda c: load_predictions(c, "m", ["big"])) == {}


def test_feedback_is_committed_with_fsync_to_a_write_ahead_log(sqlite_store: Store) -> None:
    with sqlite_store.durable_writer.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    with sqlite_store.writer.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1  # NORMAL


def test_a_file_that_is_not_a_database_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "online.db").write_text("this is no database, and long enough to be looked at as one" * 100)
    with pytest.raises(SetupError, match="cannot be opened"):
        Store(f"sqlite:///{tmp_path / 'online.db'}")


@pytest.mark.parametrize("where", ["somebody:hunter2@127.0.0.1:1/none", "127.0.0.1:1/none?password=hunter2"])
def test_a_password_is_never_shown(where: str) -> None:
    with pytest.raises(SetupError) as caught:
        Store(f"postgresql+psycopg://{where}")
    assert "hunter2" not in str(caught.value)


def test_reserving_space_in_the_wal_leaves_no_rows(sqlite_store: Store, tmp_path: Path) -> None:
    sqlite_store.make_room()
    assert (tmp_path / "online.db-wal").stat().st_size > WAL_ROOM_BYTES
    sqlite_store.submit(add_prediction("after")).result()
    assert list(sqlite_store.read(lambda c: load_predictions(c, "m", ["after"]))) == ["after"]
    assert ("room",) not in sqlite_store.read(lambda c: c.execute(text("SELECT key FROM meta")).all())


def test_closing_finishes_submitted_work(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    futures = [store.submit(add_prediction(f"p{n}")) for n in range(50)]
    store.close()
    assert all(future.done() for future in futures)
    count = sqlite3.connect(tmp_path / "online.db").execute("SELECT count(*) FROM prediction").fetchone()[0]
    assert count == 50


def test_a_new_file_in_which_another_process_writes_is_opened_once_that_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "online.db"
    writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")  # from here on SQLite refuses at once to switch to the write-ahead log
    ending = threading.Timer(0.3, writer.execute, ["COMMIT"])
    ending.start()
    engine = create_engine_for(f"sqlite:///{path}", "NORMAL", "IMMEDIATE")
    with engine.connect() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
    ending.join()
    writer.close()
    engine.dispose()


def test_a_new_file_in_which_another_process_writes_for_too_long_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "online.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    engine = create_engine_for(f"sqlite:///{path}", "NORMAL", "IMMEDIATE", wait_s=0.1)
    with pytest.raises(OperationalError, match="locked"), engine.connect():
        pass
    writer.close()
    engine.dispose()


def test_work_that_is_submitted_after_closing_fails_and_is_not_waited_for(tmp_path: Path) -> None:
    """A thread that continued an erasure while the service stopped waited for ever, and the process never ended."""
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    store.close()
    with pytest.raises(Unavailable, match="the store is closed"):
        store.submit(add_prediction("late")).result(timeout=5)


def test_a_store_opens_while_another_process_writes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'online.db'}"
    first = Store(url)
    with first.separate_connection() as connection:
        connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")  # the write lock is held until the end
        second = Store(url)
        assert second.instance == first.instance
        connection.rollback()
    first.close()
    second.close()


def test_a_page_of_the_log_ends_where_its_events_are_large(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_PAGE_BYTES", 1_000)
    written = [Event(f"s{n}", "sums", bytes(size)) for n, size in enumerate([600, 600, 600, 5_000, 10, 10])]
    store.submit(lambda connection: events.append_events(connection, "m", written)).result()
    pages, after = list[list[Event]](), 0
    with store.reader.connect() as connection:
        while page := events.read_events(connection, "m", after, 100):
            pages.append(page)
            after = page[-1].offset
    assert [event for page in pages for event in page] == written
    assert [len(page) for page in pages] == [2, 2, 2]
