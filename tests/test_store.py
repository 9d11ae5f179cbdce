"""The store: group commit, isolation of one work from another, the questions."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from online import store
from online.errors import BadInput, SetupError, Unavailable
from online.store import Store


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = (
        f"sqlite:///{tmp_path / 'online.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    made = Store(url)
    yield made
    made.close()


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
    return {**row, "choice": "a", "propensity": 1.0, "candidates": "[]", "created_at": store.now()}


def adding(id: str) -> Callable[[Connection], None]:
    return lambda connection: store.add_predictions(connection, [prediction(id)])


def feedback(id: str, offset: int) -> dict[str, Any]:
    row = store.FeedbackRow(
        model="m",
        id=id,
        offset=offset,
        content="{}",
        prediction_id=None,
        input=None,
        user=None,
        created_at=store.now(),
        retracted_offset=None,
    )
    return row.model_dump()


def test_what_a_publication_marks_is_found_by_its_offsets(tmp_path: Path) -> None:
    """Not by walking all that the model was ever told: that holds up everybody who writes."""
    made = Store(f"sqlite:///{tmp_path / 'online.db'}")
    rows = [feedback(f"f{offset}", offset) for offset in range(1, 201)]
    made.submit(lambda connection: store.add_feedback(connection, rows)).result()
    updates: list[tuple[str, Any]] = []

    @event.listens_for(made.writer, "before_cursor_execute")
    def seen(_: Any, __: Any, statement: str, values: Any, ___: Any, ____: Any) -> None:
        if statement.startswith("UPDATE"):
            updates.append((statement, values))

    made.submit(lambda connection: store.mark_learned(connection, "m", 100, 110, 5, "now"), durable=False).result()
    with sqlite3.connect(tmp_path / "online.db") as connection:
        plans = [
            connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall() for statement, values in updates
        ]
        marked = connection.execute("SELECT count(*), min(offset), max(offset) FROM feedback WHERE version = 5")
        assert marked.fetchone() == (10, 101, 110)
    assert [len(plan) for plan in plans] == [1, 1]
    assert "(model=? AND offset>? AND offset<?)" in plans[0][0][3]
    assert "(model=? AND retracted_offset>? AND retracted_offset<?)" in plans[1][0][3]
    made.close()


def test_a_store_from_before_gets_the_indexes_it_lacks(tmp_path: Path) -> None:
    Store(f"sqlite:///{tmp_path / 'online.db'}").close()
    with sqlite3.connect(tmp_path / "online.db") as connection:
        connection.execute("DROP INDEX feedback_by_offset")
        connection.execute("DROP INDEX feedback_taken_back")
    Store(f"sqlite:///{tmp_path / 'online.db'}").close()
    with sqlite3.connect(tmp_path / "online.db") as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert {"feedback_by_offset", "feedback_taken_back"} <= names


@pytest.mark.parametrize("count", [1, 7, 1_000, 1_001, 2_345])
def test_as_many_predictions_as_there_are_are_written(opened: Store, count: int) -> None:
    rows = [prediction(f"p{n}") for n in range(count)]
    opened.submit(lambda connection: store.add_predictions(connection, rows), durable=False).result()
    found = opened.read(lambda connection: store.predictions_of(connection, "m", ["p0", f"p{count - 1}"]))
    assert found[f"p{count - 1}"].model_dump() == rows[-1]
    total = opened.read(lambda connection: connection.execute(text("SELECT count(*) FROM prediction")).scalar())
    assert total == count


def test_a_row_that_cannot_be_written_takes_none_of_its_company_along(opened: Store) -> None:
    twice = [prediction("p1"), prediction("p2"), prediction("p1")]
    with pytest.raises(Unavailable):
        opened.submit(lambda connection: store.add_predictions(connection, twice), durable=False).result()
    assert opened.read(lambda connection: store.predictions_of(connection, "m", ["p1", "p2"])) == {}


def test_predictions_come_back_by_id_and_model(opened: Store) -> None:
    opened.submit(lambda connection: store.add_predictions(connection, [prediction("p1"), prediction("p2")])).result()
    found = opened.read(lambda connection: store.predictions_of(connection, "m", ["p1", "nobody"]))
    assert list(found) == ["p1"]
    assert (found["p1"].version, found["p1"].features) == (3, b"\x01")
    assert opened.read(lambda connection: store.predictions_of(connection, "other", ["p1"])) == {}


def test_one_failing_work_leaves_no_trace_and_does_not_disturb_the_others(opened: Store) -> None:
    def spoiled(connection: Connection) -> None:
        store.add_predictions(connection, [prediction("half")])
        raise BadInput("changed my mind")

    works = [opened.submit(adding(f"p{n}")) for n in range(20)]
    bad = opened.submit(spoiled)
    works += [opened.submit(adding(f"q{n}")) for n in range(20)]
    with pytest.raises(BadInput, match="changed my mind"):
        bad.result()
    for work in works:
        work.result()
    ids = ["half", *(f"p{n}" for n in range(20)), *(f"q{n}" for n in range(20))]
    assert sorted(opened.read(lambda c: store.predictions_of(c, "m", ids))) == sorted(ids[1:])


def test_the_first_version_that_knows_a_feedback_is_written_as_its_fate(opened: Store) -> None:
    opened.submit(lambda c: store.add_feedback(c, [feedback("a", 1), feedback("b", 2), feedback("c", 3)])).result()
    opened.submit(lambda c: store.mark_spans(c, "m", [(0, 2, 5, "t5"), (2, 3, 6, "t6")])).result()
    opened.submit(lambda c: store.mark_spans(c, "m", [(0, 3, 9, "t9")])).result()
    rows = opened.read(lambda c: store.feedback_of(c, "m", ["a", "b", "c"]))
    assert {id: (row.status, row.version) for id, row in rows.items()} == {
        "a": ("learned", 5),
        "b": ("learned", 5),
        "c": ("learned", 6),
    }


def test_what_was_refused_stays_refused(opened: Store) -> None:
    opened.submit(lambda c: store.add_feedback(c, [feedback("a", 1)])).result()
    opened.submit(lambda c: store.mark_refused(c, "m", "recipe", 1, "too odd")).result()
    opened.submit(lambda c: store.mark_refused(c, "m", "recipe", 1, "too odd")).result()
    opened.submit(lambda c: store.mark_spans(c, "m", [(0, 2, 5, "t5")])).result()
    row = opened.read(lambda c: store.feedback_of(c, "m", ["a"]))["a"]
    assert (row.status, row.refusal) == ("refused", "too odd")
    assert opened.read(lambda c: store.refused_offsets(c, "m", "recipe")) == {1: "too odd"}
    assert opened.read(lambda c: store.refused_offsets(c, "m", "another recipe")) == {}


def test_somebody_who_gives_up_waiting_does_not_stop_the_writer(opened: Store) -> None:
    works = [opened.submit(adding(f"p{n}")) for n in range(100)]
    given_up = [work for work in works if work.cancel()]
    opened.submit(adding("after")).result(timeout=10)
    kept = [f"p{n}" for n, work in enumerate(works) if work not in given_up]
    found = opened.read(lambda c: store.predictions_of(c, "m", [f"p{n}" for n in range(100)]))
    assert given_up and sorted(found) == sorted(kept)


def test_replies_are_found_by_text_whatever_its_case_and_spaces(opened: Store) -> None:
    opened.submit(lambda c: store.add_reply(c, "m", "r1", "We open at nine.", 1)).result()
    found = opened.read(lambda c: store.reply_with_text(c, "m", "  we OPEN at   nine. "))
    assert found is not None and found.id == "r1"
    assert opened.read(lambda c: store.reply_with_text(c, "m", "We close at nine.")) is None


@pytest.mark.parametrize(
    ("taught", "kept"),
    [
        ("  We open  at\tnine. ", "We open at nine."),
        ("one\r\ntwo\rthree  \n", "one\ntwo\nthree"),
        ("one\n \n\t\n\ntwo", "one\n\ntwo"),
        ("Do:\n- this\n  - and  that\n\n```\n\tif x:\n```", "Do:\n- this\n  - and that\n\n```\n\tif x:\n```"),
        ("\n\n    first\n    second", "first\n    second"),
        ("\u00a0 \u2028", ""),
    ],
)
def test_of_a_replys_blanks_those_that_lay_it_out_are_kept(taught: str, kept: str) -> None:
    assert store.laid_out(taught) == kept
    assert store.laid_out(kept) == kept
    assert store.folded(taught) == store.folded(kept)


def test_a_transaction_that_cannot_commit_answers_everyone_with_the_reason(tmp_path: Path) -> None:
    made = Store(f"sqlite:///{tmp_path / 'online.db'}")
    full = made.submit(lambda c: c.execute(text("PRAGMA max_page_count = 1")), durable=True)
    full.result()
    big = {**prediction("big"), "input": "x" * 1_000_000}
    with pytest.raises(Unavailable, match="full"):
        made.submit(lambda c: store.add_predictions(c, [big]), durable=True).result()
    assert made.read(lambda c: store.predictions_of(c, "m", ["big"])) == {}
    made.close()


def test_feedback_commits_are_fsynced_and_the_log_is_a_wal(tmp_path: Path) -> None:
    made = Store(f"sqlite:///{tmp_path / 'online.db'}")
    with made.durable_writer.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    with made.writer.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1  # NORMAL
    made.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "online.db").write_text("this is no database, and long enough to be looked at as one" * 100)
    with pytest.raises(SetupError, match="cannot be opened"):
        Store(f"sqlite:///{tmp_path / 'online.db'}")


@pytest.mark.parametrize("where", ["somebody:hunter2@127.0.0.1:1/none", "127.0.0.1:1/none?password=hunter2"])
def test_a_password_is_never_shown(where: str) -> None:
    with pytest.raises(SetupError) as caught:
        Store(f"postgresql+psycopg://{where}")
    assert "hunter2" not in str(caught.value)


def test_room_in_the_wal_is_made_and_leaves_nothing_behind(tmp_path: Path) -> None:
    made = Store(f"sqlite:///{tmp_path / 'online.db'}")
    made.make_room()
    assert (tmp_path / "online.db-wal").stat().st_size > store.WAL_ROOM_BYTES
    made.submit(adding("after")).result()
    assert list(made.read(lambda c: store.predictions_of(c, "m", ["after"]))) == ["after"]
    assert made.read(lambda c: c.execute(text("SELECT key FROM meta")).all()) == [("instance",)]
    made.close()


def test_closing_finishes_what_was_submitted(tmp_path: Path) -> None:
    made = Store(f"sqlite:///{tmp_path / 'online.db'}")
    works = [made.submit(adding(f"p{n}")) for n in range(50)]
    made.close()
    assert all(work.done() for work in works)
    count = sqlite3.connect(tmp_path / "online.db").execute("SELECT count(*) FROM prediction").fetchone()[0]
    assert count == 50
