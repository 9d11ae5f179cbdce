"""The schema of the store: what a new one has, how the tables of a group are added and migrated, and what is refused."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, String, Table, inspect, text
from sqlmodel import SQLModel

from online.errors import SetupError
from online.store import Store
from online.store.database import schema
from online.store.database.engine import create_engine_for
from online.store.database.schema import configure_alembic, list_groups, prepare_schema, upgrade
from online.store.database.tables import TableGroup
from online.store.replicas import remove_replica, report_replica
from tests.preload import launcher

POSTGRES_SCHEMA = """
SELECT 'column', table_name, ordinal_position::text, concat_ws(' ', column_name, data_type, is_nullable, column_default)
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, '', prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""
SQLITE_SCHEMA = "SELECT type, tbl_name, name, sql FROM sqlite_master"
VERSION_1 = """
from alembic import op
import sqlalchemy as sa
revision, down_revision = "1", None
def upgrade():
    op.create_table("note", sa.Column("id", sa.String(), primary_key=True))
"""
VERSION_2 = """
from alembic import op
import sqlalchemy as sa
revision, down_revision = "2", "1"
def upgrade():
    op.add_column("note", sa.Column("stars", sa.Integer(), nullable=True))
    op.execute("UPDATE note SET stars = 5")
"""
VERSION_3 = """
from alembic import op
import sqlalchemy as sa
revision, down_revision = "3", "2"
def upgrade():
    op.create_table("remark", sa.Column("id", sa.String(), primary_key=True))
"""
VERSION_2_FAILS = VERSION_2 + "    op.execute('UPDATE nothing SET stars = 5')\n"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    sqlite = f"sqlite:///{tmp_path / 'online.db'}"
    return sqlite if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine_for(url, "FULL", "IMMEDIATE")
    yield engine
    engine.dispose()


def notes(folder: Path, *scripts: str) -> TableGroup:
    """The tables of a feature of somebody else, with a migration for each script, in a folder whose name has a space."""
    migrations = folder / f"migrations of {len(scripts)}"
    migrations.mkdir(parents=True)
    for number, script in enumerate(scripts, start=1):
        (migrations / f"r{number}.py").write_text(script)
    table = Table("note", MetaData(), Column("id", String, primary_key=True))
    if len(scripts) > 1:
        table.append_column(Column("stars", Integer))
    return TableGroup("notes", [table], [str(number + 1) for number in range(len(scripts))], migrations)


@pytest.fixture
def releases(tmp_path: Path) -> list[TableGroup]:
    """The tables of three releases. The code of each may use those of the release that follows it."""
    scripts = (VERSION_1, VERSION_2, VERSION_3)
    groups = [notes(tmp_path, *scripts[:count]) for count in (1, 2, 3)]
    return [groups[0], replace(groups[1], compatible_from="1"), replace(groups[2], compatible_from="2")]


def open_with(engine: Engine, *groups: TableGroup) -> None:
    """Prepare the schema as a service with these features does when it opens the store."""
    prepare_schema(engine.url.render_as_string(hide_password=False), engine, [*list_groups(), *groups])


def dump(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables."""
    with engine.connect() as connection:
        names = inspect(connection).get_table_names()
        rows_by_table = {name: connection.execute(text(f'SELECT * FROM "{name}"')).mappings().all() for name in names}
    return {name: sorted(({**row} for row in rows), key=repr) for name, rows in rows_by_table.items()}


def describe_schema(engine: Engine) -> list[tuple[str, ...]]:
    """All tables with their columns, indexes, constraints and triggers, as the database itself describes them."""
    query = POSTGRES_SCHEMA if engine.dialect.name == "postgresql" else SQLITE_SCHEMA
    with engine.connect() as connection:
        rows = connection.execute(text(query)).all()
    return sorted(tuple("".join((field or "").split()) for field in row) for row in rows)


def empty(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    else:
        for name in inspect(connection).get_table_names():
            connection.execute(text(f'DROP TABLE "{name}"'))


@pytest.mark.parametrize("group", list_groups(), ids=lambda group: group.name)
def test_the_revisions_of_a_group_equal_its_scripts(engine: Engine, group: TableGroup) -> None:
    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(configure_alembic(connection, group))
    assert [script.revision for script in scripts.walk_revisions()] == list(reversed(group.revisions))


def test_the_groups_hold_every_table_once() -> None:
    tables = [table for group in list_groups() for table in group.tables]
    assert sorted(table.name for table in tables) == sorted(SQLModel.metadata.tables)


def test_migrations_create_the_schema_that_the_code_declares(engine: Engine) -> None:
    with engine.begin() as connection:
        for group in list_groups():
            upgrade(connection, group)
    migrated = describe_schema(engine)
    with engine.begin() as connection:
        empty(connection)
    open_with(engine)
    assert describe_schema(engine) == migrated


def test_a_group_is_added_to_a_store_that_is_in_use(engine: Engine, tmp_path: Path) -> None:
    open_with(engine)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO meta VALUES ('a', 'b')"))
    before = dump(engine)
    open_with(engine, notes(tmp_path, VERSION_1))
    known = {"key": "compatible-from/notes/1", "value": "1"}
    assert dump(engine) == {
        **before,
        "meta": sorted([*before["meta"], known], key=repr),
        "note": [],
        "alembic_version_notes": [{"version_num": "1"}],
    }


def test_the_tables_of_a_feature_that_is_gone_stay(engine: Engine, tmp_path: Path) -> None:
    group = notes(tmp_path, VERSION_1)
    open_with(engine, group)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO note VALUES ('n1')"))
    before = dump(engine)
    open_with(engine)
    open_with(engine, group)
    assert dump(engine) == before


def test_a_group_of_an_earlier_revision_is_migrated(engine: Engine, tmp_path: Path) -> None:
    open_with(engine, notes(tmp_path, VERSION_1))
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO note VALUES ('n1')"))
    open_with(engine, notes(tmp_path, VERSION_1, VERSION_2))
    rows = dump(engine)
    assert rows["note"] == [{"id": "n1", "stars": 5}] and rows["alembic_version_notes"] == [{"version_num": "2"}]


def test_a_release_opens_the_store_of_the_next_one_and_leaves_it_as_it_is(
    engine: Engine, releases: list[TableGroup]
) -> None:
    for group in releases[:2]:
        open_with(engine, group)
    before = dump(engine)
    open_with(engine, releases[0])
    assert dump(engine) == before and before["alembic_version_notes"] == [{"version_num": "2"}]


def test_a_release_is_refused_by_the_store_of_the_one_after_the_next(
    engine: Engine, releases: list[TableGroup]
) -> None:
    for group in releases:
        open_with(engine, group)
    open_with(engine, releases[1])
    with pytest.raises(
        SetupError, match="has schema revision '3' of the notes tables, but this version of online knows only '1';"
    ):
        open_with(engine, releases[0])


def test_a_revision_of_which_nothing_is_said_is_for_its_own_release_alone(engine: Engine, tmp_path: Path) -> None:
    open_with(engine, notes(tmp_path, VERSION_1, VERSION_2))
    with pytest.raises(SetupError, match="schema revision '2' of the notes tables"):
        open_with(engine, notes(tmp_path, VERSION_1))


def test_a_group_is_compatible_from_one_of_its_revisions(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the notes tables have no revision '7': name one of"):
        replace(notes(tmp_path, VERSION_1), compatible_from="7")


def test_the_tables_are_not_migrated_beside_a_service_that_could_not_use_them(
    engine: Engine, releases: list[TableGroup]
) -> None:
    open_with(engine, releases[0])
    with engine.begin() as connection:
        report_replica(connection, "old", "http://127.0.0.1", {"schema": {"notes": "1"}})
    before = dump(engine)
    with pytest.raises(SetupError, match="the replica old runs, whose release knows them until '1', and '2' is needed"):
        open_with(engine, releases[2])
    assert dump(engine) == before
    open_with(engine, releases[1])  # the release in between
    with engine.begin() as connection:
        remove_replica(connection, "old")
    open_with(engine, releases[2])


def test_a_migration_that_waits_for_a_request_lets_others_pass(
    postgres_url: str, releases: list[TableGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_engine_for(postgres_url, "FULL", "IMMEDIATE")
    open_with(engine, releases[0])
    given_up = threading.Event()
    monkeypatch.setattr(schema, "time", SimpleNamespace(sleep=lambda seconds: given_up.set()))
    with engine.connect() as slow, ThreadPoolExecutor() as threads:
        slow.execute(text("SELECT * FROM note"))
        migration = threads.submit(open_with, engine, releases[1])
        assert given_up.wait(30)
        with engine.begin() as other:
            other.execute(text("INSERT INTO note VALUES ('n1')"))
        assert not migration.done()
        slow.rollback()
        migration.result(30)
    assert dump(engine)["note"] == [{"id": "n1", "stars": 5}]
    engine.dispose()


def test_a_table_that_the_core_once_had_becomes_that_of_a_group_and_is_migrated(engine: Engine, tmp_path: Path) -> None:
    open_with(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE note (id VARCHAR NOT NULL, PRIMARY KEY (id))"))
        connection.execute(text("INSERT INTO note VALUES ('n1')"))
    with pytest.raises(SetupError, match="a table 'note' without a schema revision"):
        open_with(engine, notes(tmp_path / "a", VERSION_1, VERSION_2))
    open_with(engine, replace(notes(tmp_path / "b", VERSION_1, VERSION_2), was_core=True))
    rows = dump(engine)
    assert rows["note"] == [{"id": "n1", "stars": 5}] and rows["alembic_version_notes"] == [{"version_num": "2"}]


def test_a_migration_that_fails_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    open_with(engine, notes(tmp_path, VERSION_1))
    before = describe_schema(engine), dump(engine)
    with pytest.raises(
        SetupError, match=r"the notes tables .* could not be migrated from revision '1' to '2', nothing was"
    ):
        open_with(engine, notes(tmp_path, VERSION_1, VERSION_2_FAILS))
    assert (describe_schema(engine), dump(engine)) == before


@pytest.mark.parametrize("revision", ["0020", "9999"])
def test_a_store_of_another_revision_is_refused_and_not_changed(url: str, engine: Engine, revision: str) -> None:
    """0020: of the last version before the first release."""
    Store(url).close()
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))
        connection.execute(text("DROP TABLE alembic_version_inbox"))
    before = dump(engine)
    with pytest.raises(
        SetupError, match=f"has schema revision '{revision}' .* only '1', '2'; nothing was changed: install the"
    ):
        Store(url)
    assert dump(engine) == before


def test_tables_without_a_revision_are_refused_and_not_changed(url: str, engine: Engine) -> None:
    """As those of another program, and of a version before the first release that had no migrations."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE event (id VARCHAR, at VARCHAR)"))
    with pytest.raises(SetupError, match=r"has a table 'event' without a schema revision: .* choose another store"):
        Store(url)
    assert dump(engine) == {"event": []}


@pytest.mark.parametrize(
    "damage", ["ALTER TABLE feedback DROP COLUMN content", "DROP TABLE prediction", "ALTER TABLE turn RENAME TO other"]
)
def test_a_damaged_store_is_refused_when_it_is_opened(url: str, engine: Engine, damage: str) -> None:
    Store(url).close()
    with engine.begin() as connection:
        connection.execute(text(damage))
    with pytest.raises(SetupError, match=r"is damaged, or was not written by online: .*; restore a backup"):
        Store(url)


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
print(sys.stdin.readline().strip(), flush=True)  # all processes are ready
sys.stdin.readline()
store = Store(sys.argv[1])
print(store.instance)
store.close()
"""


@pytest.mark.few(1)
def test_processes_that_start_at_once_create_the_tables_once(url: str, engine: Engine) -> None:
    command = [launcher(), "-c", OPEN, url]
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
    assert [row["version_num"] for row in dump(engine)["alembic_version"]] == ["2"]


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
