"""Migrations of the store: every revision up and down with rows in place, and stores that are refused."""

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text
from sqlmodel import SQLModel

from online.errors import SetupError
from online.schemas.events import Event, Target, chain_digest
from online.store import Store
from online.store.conversations.conversations import load_conversations
from online.store.database import schema
from online.store.database.engine import create_engine_for
from online.store.database.schema import configure_alembic, downgrade, list_tables, upgrade
from online.store.encoder_moves import encoder_of, encoder_since, load_adaptation
from online.store.events import append_events, find_events_of_feedback, load_feedback_id, read_events
from online.store.feedback import load_slot
from online.store.log_rows import load_counts
from online.store.migrations import HEAD, REVISIONS
from online.store.predictions import load_predictions
from online.store.refusals import load_refusals
from online.store.repertoire.examples import load_examples
from online.store.repertoire.replies import make_sort_key
from online.store.usage.answer_ratings import load_answer_ratings
from online.store.usage.counts import UsageCounts, load_totals

AT = "2026-01-01T00:00:00+00:00"
CORRECTION = Event("f3", "correction", b"q", "r1-f3")
REPLY = Event("f3#reply", "reply", b"t", "r1-f3", "Ask again.")
EXAMPLE = Event("added:starter:hours#1", "label", b"e", "hours", "until when?")
EVENTS = [
    Event("f1", "reward", b"x", "a", reward=1.0),
    Event("f2", "label", b"y", "b"),
    REPLY,
    CORRECTION,
    Event("f4#restore", "restore", label="a"),
    Event("f4", "correction", b"q", "a"),
    Event("added:starter:hours#reply", "reply", b"h", "hours", "Until six."),
    Event("added:starter:hours#0", "label", b"e", "hours", "when do you close?"),
    EXAMPLE,
    Event("20260101-a#retire", "retire", label="hours"),
    Event("20260101-b#restore", "restore", label="hours"),
    Event("f3#retraction", "retraction", b"q", target=Target(4, CORRECTION)),
    Event("f3#reply#retraction", "retraction", b"t", target=Target(3, REPLY)),
    Event("added:starter:hours#1#retraction", "retraction", b"e", target=Target(9, EXAMPLE)),
]
FEEDBACK = ["f1", "f2", "f3", "f4", "webui:u1.1", "webui:u1.2", "webui:u1.10", "odd.id", "1.01"]
META = {
    "instance": "abc123",
    "refused/m/recipe/2": "no number",
    "refused/m/recipe/10": "no number either",
    "refused/m/other/2": "no text",
    "counts/1/m": '{"until":3}',
    "encoder/m": "e" * 64,
    "encoder_since/m": "7",
    "adaptation/m": '{"state":"taken up"}',
    "adaptation/n": '{"state":"refused"}',
}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    sqlite = f"sqlite:///{tmp_path / 'online.db'}"
    return sqlite if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine_for(url, "FULL", "IMMEDIATE")
    yield engine
    engine.dispose()


@pytest.fixture
def release_0_1(engine: Engine) -> Engine:
    """A store of the release that had no migrations, with rows in its tables."""
    with engine.begin() as connection:
        upgrade(connection, "0001")
        connection.execute(text("DROP TABLE alembic_version"))
        add_rows(connection)
    return engine


def add_rows(connection: Connection) -> None:
    for offset, event in enumerate(EVENTS, start=1):
        row = {"model": "m", "offset": offset, "id": event.id, "label": event.label, "features": event.features}
        insert(connection, "event", {**row, "body": event.body()})
    for offset, id in enumerate(FEEDBACK, start=1):
        row = {"model": "m", "id": id, "offset": offset, "content": "{}", "created_at": AT, "status": "accepted"}
        insert(connection, "feedback", row)
    for key, value in META.items():
        insert(connection, "meta", {"key": key, "value": value})
    for id in ("p1", "p2"):
        insert(connection, "turn", {"prediction_id": id, "model": "m", "conversation": "c", "besides": '["a"]'})
    talk = {"model": "m", "id": "c", "user": "ada", "title": "hello", "created_at": AT, "updated_at": AT}
    insert(connection, "conversation", talk)


def insert(connection: Connection, table: str, row: dict[str, Any]) -> None:
    columns = ", ".join(f'"{name}"' for name in row)
    connection.execute(text(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(f':{name}' for name in row)})"), row)


def dump(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables but that of the revision."""
    with engine.connect() as connection:
        names = set(inspect(connection).get_table_names()) - {"alembic_version"}
        rows_by_table = {name: connection.execute(text(f"SELECT * FROM {name}")).mappings().all() for name in names}
    return {name: sorted(({**row} for row in rows), key=repr) for name, rows in rows_by_table.items()}


def open_store(engine: Engine) -> Store:
    return Store(engine.url.render_as_string(hide_password=False))


def columns_of_events(engine: Engine) -> list[tuple[Any, ...]]:
    query = 'SELECT kind, source, feedback_id, target_offset FROM event ORDER BY "offset"'
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def test_the_list_of_revisions_equals_the_scripts(engine: Engine) -> None:
    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(configure_alembic(connection))
    assert [script.revision for script in scripts.walk_revisions()] == list(reversed(REVISIONS))


def test_migrations_create_the_tables_that_the_code_declares(engine: Engine) -> None:
    with engine.begin() as connection:
        upgrade(connection, HEAD)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, SQLModel.metadata) == []
        assert set(inspect(connection).get_table_names()) == {table.name for table in list_tables()} | {
            "alembic_version"
        }


def test_a_new_store_equals_a_migrated_one(url: str, engine: Engine) -> None:
    Store(url).close()
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, SQLModel.metadata) == []
        assert context.get_current_revision() == HEAD


def test_a_store_of_release_0_1_is_migrated_when_it_is_opened(release_0_1: Engine) -> None:
    store = open_store(release_0_1)
    assert columns_of_events(release_0_1) == [
        ("reward", "feedback", None, None),
        ("label", "feedback", None, None),
        ("reply", "feedback", "f3", None),
        ("correction", "feedback", None, None),
        ("restore", "feedback", "f4", None),
        ("correction", "feedback", None, None),
        ("reply", "repertoire", None, None),
        ("label", "repertoire", None, None),
        ("label", "repertoire", None, None),
        ("retire", "operator", None, None),
        ("restore", "operator", None, None),
        ("retraction", "feedback", "f3", 4),
        ("retraction", "feedback", "f3", 3),
        ("retraction", "repertoire", None, 9),
    ]
    with store.reader.connect() as connection:
        assert find_events_of_feedback(connection, "m", "f4", "restore") == [5]
        assert load_feedback_id(connection, "m", 3) == "f3" and load_feedback_id(connection, "m", 7) is None
        assert load_examples(connection, "m") == [("hours", 8, "when do you close?")]
        assert [row.id for row in load_slot(connection, "m", "webui:u1")] == ["webui:u1.1", "webui:u1.2", "webui:u1.10"]
        assert [load_slot(connection, "m", key) for key in ("odd", "1", "f1")] == [[], [], []]
        assert load_refusals(connection, "m", "recipe") == {2: "no number", 10: "no number either"}
        assert load_counts(connection, "m", 1) == '{"until":3}' and load_counts(connection, "m", 2) is None
        assert (encoder_of(connection, "m"), encoder_since(connection, "m")) == ("e" * 64, 7)
        assert (encoder_of(connection, "n"), load_adaptation(connection, "n")) == ("", {"state": "refused"})
        assert connection.scalars(text('SELECT "exclude" FROM turn')).all() == ['["a"]', '["a"]']
        [talk] = load_conversations(connection, "m", "ada")
        assert (talk["title"], talk["pinned"], talk["share_id"]) == ("hello", False, None)
    assert store.instance == "abc123"
    store.close()


def test_a_migrated_log_has_the_digests_that_appending_it_computes(release_0_1: Engine) -> None:
    store = open_store(release_0_1)
    with store.durable_writer.begin() as connection:
        append_events(connection, "m", [Event("next", "reward", b"", "a", reward=0.25, choice="b")])
        digests = [entry.digest for entry in read_events(connection, "m", 0, 100)]
        events = [entry.event for entry in read_events(connection, "m", 0, 100)]
    expected = [hashlib.sha256(b"abc123/m").hexdigest()]
    for offset, event in enumerate(events, start=1):
        expected.append(chain_digest(expected[-1], offset, event))
    assert digests == expected[1:]
    store.close()


def test_a_store_of_release_0_1_gets_the_indexes_it_lacks(release_0_1: Engine) -> None:
    """Early builds of the release lack some indexes."""
    with release_0_1.begin() as connection:
        connection.execute(text("DROP INDEX feedback_by_offset"))
        connection.execute(text("DROP INDEX feedback_taken_back"))
    open_store(release_0_1).close()
    with release_0_1.connect() as connection:
        names = {index["name"] for index in inspect(connection).get_indexes("feedback")}
    assert {"feedback_by_offset", "feedback_taken_back"} <= names


# the first revision, from which all are applied, and the newest: the others are those of earlier releases
@pytest.mark.parametrize(
    "revision",
    [REVISIONS[0], *(pytest.param(each, marks=pytest.mark.long) for each in REVISIONS[1:-3]), *REVISIONS[-3:-1]],
)
def test_rows_are_the_same_after_a_downgrade_and_an_upgrade(release_0_1: Engine, revision: str) -> None:
    open_store(release_0_1).close()
    newest = dump(release_0_1)
    with release_0_1.begin() as connection:
        downgrade(connection, revision)
    assert "reply" in dump(release_0_1)
    open_store(release_0_1).close()
    assert dump(release_0_1) == newest


def test_a_downgrade_to_release_0_1_restores_its_rows(release_0_1: Engine) -> None:
    before = dump(release_0_1)
    open_store(release_0_1).close()
    with release_0_1.begin() as connection:
        downgrade(connection, "0001")
    assert dump(release_0_1) == before


def test_a_downgrade_of_everything_leaves_no_table(release_0_1: Engine) -> None:
    open_store(release_0_1).close()
    with release_0_1.begin() as connection:
        downgrade(connection, "base")
    assert dump(release_0_1) == {}


def test_a_downgrade_removes_what_earlier_releases_cannot_read_from_the_log(engine: Engine) -> None:
    event = Event("f9", "label", b"x", "a", holder=7)
    retraction = Event("f9#retraction", "retraction", b"x", target=Target(1, event))
    with engine.begin() as connection:
        upgrade(connection, "0010")
        for offset, each in enumerate((event, retraction), 1):
            row = {"model": "m", "offset": offset, "id": each.id, "label": each.label, "features": b"x"}
            insert(connection, "event", {**row, "body": each.body()})
        downgrade(connection, "0009")
        bodies = connection.scalars(text('SELECT body FROM event ORDER BY "offset"')).all()
    plain = Event("f9", "label", b"x", "a")
    assert bodies == [plain.body(), Event("f9#retraction", "retraction", b"x", target=Target(1, plain)).body()]


def test_a_downgrade_removes_the_scopes_of_corrections(engine: Engine) -> None:
    event = Event("f9", "correction", b"x", "a", choice="b", scope="reply")
    retraction = Event("f9#retraction", "retraction", b"x", target=Target(1, event))
    with engine.begin() as connection:
        upgrade(connection, "0012")
        for offset, each in enumerate((event, retraction), 1):
            row = {"model": "m", "offset": offset, "id": each.id, "label": each.label, "features": b"x"}
            insert(connection, "event", {**row, "body": each.body()})
        downgrade(connection, "0011")
        bodies = connection.scalars(text('SELECT body FROM event ORDER BY "offset"')).all()
    plain = Event("f9", "correction", b"x", "a", choice="b")
    assert bodies == [plain.body(), Event("f9#retraction", "retraction", b"x", target=Target(1, plain)).body()]


def test_a_downgrade_makes_sums_void_with_their_retractions(engine: Engine) -> None:
    sums, label = Event("f1", "sums", b"file"), Event("f2", "label", b"x", "a")
    retraction = Event("f1#retraction", "retraction", b"file", target=Target(1, sums))
    with engine.begin() as connection:
        upgrade(connection, "0018")
        append_events(connection, "m", [sums, label, retraction])
        row = {"model": "m", "content": "{}", "created_at": AT, "status": "accepted"}
        insert(connection, "feedback", {**row, "id": "f1", "offset": 1, "example_count": 3})
        insert(connection, "feedback", {**row, "id": "f2", "offset": 2})
        downgrade(connection, "0017")
        bodies = connection.scalars(text('SELECT body FROM event ORDER BY "offset"')).all()
        kept = connection.scalars(text("SELECT id FROM feedback")).all()
        assert [entry.event.features for entry in read_events(connection, "m", 0, 9)] == [b"", b"x", b""]
    assert bodies == [Event("void#1", "void").body(), label.body(), Event("void#3", "void").body()]
    assert kept == ["f2"]


def test_cohorts_that_are_under_way_end_with_an_update(engine: Engine) -> None:
    cohort = {"model": "m", "parameters": "{}", "width": 2, "features": "{}", "member_count": 0}
    message = {"model": "m", "number": 1, "round": "joining", "body": b"{}", "holder": "h", "token": "t"}
    with engine.begin() as connection:
        upgrade(connection, "0018")
        for id, state in (("c1", "joining"), ("c2", "done")):
            insert(connection, "cohort", {**cohort, "id": id, "state": state, "created_at": AT, "deadline": AT})
        insert(connection, "cohort_message", {**message, "cohort": "c1"})
        upgrade(connection, "0019")
        states = connection.execute(text("SELECT id, state FROM cohort ORDER BY id")).all()
        left = connection.scalar(text("SELECT count(*) FROM cohort_message"))
    assert (states, left) == ([("c1", "failed"), ("c2", "done")], 0)


def test_a_downgrade_gives_rows_of_numbers_the_features_that_earlier_releases_read(engine: Engine) -> None:
    inputs = {"a": "[2.50, -1e1, 3]", "b": '"[1]"', "c": "null", "d": "[7]"}
    features = {"a": b"", "b": b"text", "c": b"", "d": b"has some"}
    with engine.begin() as connection:
        upgrade(connection, "0011")
        for id, input in inputs.items():
            row = {"id": id, "model": "m", "version": 1, "learned_until": 0, "input": input, "features": features[id]}
            insert(connection, "prediction", {**row, "propensity": 1.0, "candidates": "[]", "created_at": AT})
        found = load_predictions(connection, "m", list(inputs))
        downgrade(connection, "0010")
        rows = connection.execute(text("SELECT id, features FROM prediction")).all()
    numbers = np.array([2.5, -10.0, 3.0]).tobytes()
    assert {id: bytes(value) for id, value in rows} == {**features, "a": numbers}
    assert {id: row.features for id, row in found.items()} == {"a": numbers, "b": b"text", "d": b"has some"}


def test_ratings_become_those_of_answers_and_replies_get_a_key_to_sort_by(engine: Engine) -> None:
    ratings = {"p1": ("hours", 2, 2, 0), "p2": ("hours", 1, 0, 1), "p3": (None, 1, 0, 1), "p4": ("wifi", 1, 1, 0)}
    with engine.begin() as connection:
        upgrade(connection, "0016")
        for id, (choice, rated, good, bad) in ratings.items():
            row = {"id": id, "model": "m", "version": 1, "learned_until": 0, "input": "[1]", "features": b""}
            answer = {"choice": choice, "propensity": 1.0, "candidates": "[]", "created_at": AT}
            insert(connection, "prediction", {**row, **answer})
            sums = {"rated": rated, "good": good, "bad": bad, "corrected": int(choice is None), "helped": 0}
            insert(connection, "rating", {"prediction_id": id, "model": "m", "quarter": 7, **sums})
        for writer, (good, bad) in enumerate([(3, 1), (0, 1)]):
            sums = {
                "asked": 2,
                "answered": 2,
                "rated": good + bad,
                "good": good,
                "bad": bad,
                "corrected": 1,
                "helped": 0,
            }
            insert(connection, "usage_count", {"model": "m", "quarter": 7, "writer": writer, **sums})
        text_of_reply = "  Öffnungszeiten:\n9 Uhr"
        reply = {"model": "m", "id": "hours", "text": text_of_reply, "folded": "öffnungszeiten: 9 uhr", "offset": 1}
        insert(connection, "reply", {**reply, "active": True})
        upgrade(connection, HEAD)
        assert load_totals(connection, "m") == UsageCounts(4, 4, rated=4, good=3, bad=1, corrected=2)
        answers = {name: load_answer_ratings(connection, "m", name) for name in ("hours", "wifi", "print")}
        assert answers == {"hours": (2, 1), "wifi": (1, 0), "print": (0, 0)}
        assert connection.scalar(text("SELECT sort_key FROM reply")) == make_sort_key(text_of_reply)
        assert connection.execute(text("SELECT choice, rated FROM rating WHERE prediction_id = 'p3'")).one() == (
            None,
            0,
        )


def test_a_log_of_several_pages_and_models_is_migrated(url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        upgrade(connection, "0001")
        for model in ("m", "n"):
            rows = [Event(f"{model}{n}#retire", "retire", label="a") for n in range(6_000)]
            columns = '(model, "offset", id, label, features, body)'
            connection.execute(
                text(f"INSERT INTO event {columns} VALUES (:model, :offset, :id, 'a', :features, :body)"),
                [
                    {"model": model, "offset": n, "id": event.id, "features": b"", "body": event.body()}
                    for n, event in enumerate(rows, start=1)
                ],
            )
    Store(url).close()
    assert columns_of_events(engine) == [("retire", "operator", None, None)] * 12_000


def test_a_migration_that_fails_changes_nothing(release_0_1: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with release_0_1.begin() as connection:
        connection.execute(text("DROP TABLE turn"))
        connection.execute(text("CREATE TABLE turn (prediction_id VARCHAR, conversation VARCHAR)"))
    before = dump(release_0_1)
    with pytest.raises(SetupError, match=r"could not be migrated from revision '0001' to .*, nothing was changed"):
        open_store(release_0_1)
    assert dump(release_0_1) == before
    with release_0_1.connect() as connection:
        assert not inspect(connection).has_table("alembic_version")


def test_a_newer_store_is_refused_with_a_remedy(url: str, engine: Engine) -> None:
    Store(url).close()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SetupError, match=r"has schema revision '9999', but .* up to '\d{4}' only: install the version"):
        Store(url)


@pytest.mark.parametrize(
    "damage", ["ALTER TABLE feedback DROP COLUMN content", "DROP TABLE prediction", "ALTER TABLE turn RENAME TO other"]
)
def test_a_damaged_store_is_refused_when_it_is_opened(url: str, engine: Engine, damage: str) -> None:
    Store(url).close()
    with engine.begin() as connection:
        connection.execute(text(damage))
    with pytest.raises(SetupError, match=r"is damaged, or was not written by online: .*; restore a backup"):
        Store(url)


def test_a_foreign_table_of_the_same_name_is_refused(url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE event (id VARCHAR, at VARCHAR)"))
    with pytest.raises(SetupError, match="could not be migrated"):
        Store(url)
    assert list(dump(engine)) == ["event"]


def test_foreign_tables_stay_beside_those_of_the_store(url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE customers (id VARCHAR)"))
        connection.execute(text("INSERT INTO customers VALUES ('c1')"))
    Store(url).close()
    assert dump(engine)["customers"] == [{"id": "c1"}]


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "online.db").write_bytes(b"not a database" * 1_000)
    with pytest.raises(SetupError, match="cannot be opened: file is not a database"):
        Store(f"sqlite:///{tmp_path / 'online.db'}")


OPEN = """
import sys
from online.store import Store
from online.store.conversations.conversations import load_conversations
print(sys.stdin.readline().strip(), flush=True)  # all processes are ready
sys.stdin.readline()
store = Store(sys.argv[1])
print(store.instance)
store.close()
"""


@pytest.mark.parametrize("initial", ["empty", "release_0_1"])
def test_processes_that_start_at_once_migrate_once(
    request: pytest.FixtureRequest, url: str, engine: Engine, initial: str
) -> None:
    if initial == "release_0_1":
        request.getfixturevalue("release_0_1")
    command = [sys.executable, "-c", OPEN, url]
    starting = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in starting:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("ready\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
    instances = set()
    for process in starting:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in starting:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        instances.add(output.strip())
    assert len(instances) == 1
    with engine.connect() as connection:
        assert connection.scalars(text("SELECT version_num FROM alembic_version")).all() == [HEAD]


def test_a_store_of_this_revision_opens_without_alembic(tmp_path: Path) -> None:
    code = "import sys; from online.store import Store; Store(sys.argv[1]).close(); print('alembic' in sys.modules)"
    for _ in ("new", "known"):
        command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'online.db'}"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_start_does_not_wait_for_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema of a known store is only read: a start takes no lock that a busy service holds."""
    url = f"sqlite:///{tmp_path / 'online.db'}"
    Store(url).close()
    monkeypatch.setattr(schema, "migrate", lambda *_: pytest.fail("there is nothing to migrate"))
    with sqlite3.connect(tmp_path / "online.db") as busy:
        busy.execute("BEGIN IMMEDIATE")
        reader = create_engine_for(url, "NORMAL", "DEFERRED")
        schema.prepare_schema(url, reader)
        reader.dispose()
        busy.rollback()


def test_the_bodies_of_events_do_not_change(release_0_1: Engine) -> None:
    """The gate hashes event ids, and logs are compared byte for byte."""
    open_store(release_0_1).close()
    with release_0_1.connect() as connection:
        rows = connection.execute(text('SELECT id, body FROM event ORDER BY "offset"')).all()
    assert [(id, json.loads(body)) for id, body in rows] == [(each.id, json.loads(each.body())) for each in EVENTS]
