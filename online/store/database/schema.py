"""Bring the schema of a database to the revisions of this version of the package, when a store is opened.

For the core, then for each group of tables that a feature has (`tables.py`):

    revision is the newest      --> nothing to do (one query; Alembic is not imported)
    no revision, no tables      --> create them
    a known older revision      --> run the migrations
    a newer, compatible one     --> nothing to do: a newer release has migrated, and services of both run side by side
    tables that the core had    --> are those of the group's first revision
    any other, or damaged       --> SetupError, and nothing is changed

Processes that start at the same time wait for the first one. All is one transaction: a process that is killed leaves the
schema as it was. On Postgres services go on meanwhile. A migration waits for a lock for less than a moment and then begins
again, because the requests behind it wait as long as it does.

A migration writes into the store which code may use the tables then (`TableGroup.compatible_from`). A release reads it where it
meets a revision that it does not know.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Dialect, Engine, Table, false, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from online.errors import SetupError
from online.installed import collect_all
from online.store.callers.api_keys import API_KEYS
from online.store.callers.audit import AUDIT
from online.store.callers.held_feedback import HELD
from online.store.callers.quotas import QUOTAS
from online.store.classes import CLASSES
from online.store.conversations.conversations import CONVERSATION_TABLES
from online.store.database.engine import (
    create_engine_for,
    first_line,
    is_lock_conflict,
    limit_answers,
    without_password,
)
from online.store.database.meta import META, load_oldest_code, save_oldest_code
from online.store.database.tables import CORE, MIGRATIONS, TableGroup
from online.store.drift_alarms import DRIFT_ALARMS
from online.store.encoder_moves import ENCODERS
from online.store.erasure.relearnings import RELEARNINGS
from online.store.erasure.replicas import ERASURE_TABLES
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK
from online.store.log_rows import TALLIES
from online.store.predictions import PREDICTIONS
from online.store.quarantine import QUARANTINES
from online.store.refusals import REFUSALS, REJECTED_SNAPSHOTS
from online.store.repertoire.examples import EXAMPLES
from online.store.repertoire.replies import REPLIES
from online.store.replicas import REPLICA_TABLES, REPLICAS, SCHEMA, list_replicas
from online.store.usage.tables import USAGE_TABLES

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATION_WAIT_S = 3_600  # that a process waits for another one's migration
LOCK_TIMEOUT_MS = (
    400  # of a migration: less than `deadlock_timeout`, so that Postgres never ends a request in its place
)
LOCK_TRIES, LOCK_PAUSE_S = 100, 0.2
CORE_TABLES = [
    PREDICTIONS,
    FEEDBACK,
    EVENTS,
    REPLIES,
    EXAMPLES,
    CLASSES,
    *CONVERSATION_TABLES,
    DRIFT_ALARMS,
    META,
    REFUSALS,
    TALLIES,
    ENCODERS,
    QUARANTINES,
    REJECTED_SNAPSHOTS,
    API_KEYS,
    QUOTAS,
    HELD,
    *ERASURE_TABLES,
    RELEARNINGS,
    AUDIT,
    *REPLICA_TABLES,
]
UNRECORDED = "unrecorded"  # the revision of tables that the core had before their group did: its first one
NOTHING: dict[tuple[Table, str], str] = {}  # the queries of `select_nothing`, by table and dialect


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The migration of one group of tables. before: its revision before; None for no tables. now: the newest one, or a newer."""

    tables: str
    before: str | None
    now: str


def list_groups() -> list[TableGroup]:
    """Return the tables of the core, of the features that are still in this package, and of every plugin."""
    core = TableGroup(CORE, CORE_TABLES, ("1", "2"), MIGRATIONS / "core")
    return [core, USAGE_TABLES, *collect_all("tables")]


def prepare_schema(url: str, reader: Engine, groups: Sequence[TableGroup] = ()) -> None:
    """Raise SetupError for a database that this version of the package cannot use. groups: by default all."""
    groups = groups or list_groups()
    with reader.connect() as connection:
        revisions = find_revisions(connection, groups, url)
        if not any(map(is_older, groups, revisions)):
            check_columns(connection, groups, url)
            return
    engine = create_engine_for(url, "FULL", "IMMEDIATE", wait_s=MIGRATION_WAIT_S)
    try:
        migrate_all(engine, groups, url)
    finally:
        engine.dispose()


def is_older(group: TableGroup, revision: str | None) -> bool:
    """Return whether the tables of a group are to be created or migrated. Those of a newer, compatible release are not."""
    return revision is None or revision in (UNRECORDED, *group.revisions[:-1])


def migrate_all(engine: Engine, groups: Sequence[TableGroup], url: str) -> None:
    """Bring every group to its newest revision, in one transaction, which begins again where a request holds a lock for long."""
    for tries_left in reversed(range(LOCK_TRIES)):
        try:
            with engine.begin() as connection:
                lock_schema(connection)
                for group, revision in zip(groups, find_revisions(connection, groups, url), strict=True):
                    migrate(connection, group, revision, url)
                check_columns(connection, groups, url)
            return
        except SetupError as error:
            if not tries_left or not is_lock_conflict(error.__cause__):
                raise
        time.sleep(LOCK_PAUSE_S)  # those that waited behind this transaction go first


def migrate_store(url: str) -> list[SchemaChange]:
    """Bring the schema of a database to the newest revisions; return what was done to each group of tables.

    Raises SetupError for a database that cannot be reached, or that this version of the package cannot use.
    """
    groups = list_groups()
    try:
        reader = create_engine_for(url, "NORMAL", "DEFERRED")
        try:
            with reader.connect() as connection:
                before = find_revisions(connection, groups, url)
            prepare_schema(url, reader, groups)
        finally:
            reader.dispose()
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise SetupError(f"the store {without_password(url)} cannot be opened: {first_line(error)}") from error
    return [
        SchemaChange(group.name, was, group.head if is_older(group, was) else was or "")
        for group, was in zip(groups, before, strict=True)
    ]


def find_revisions(connection: Connection, groups: Sequence[TableGroup], url: str) -> list[str | None]:
    """Return the revision of each group's tables; None for a group of which the database has none.

    Raises SetupError for a revision of which this code may not use the tables, and for tables of ours that have none.
    """
    names = set(inspect(connection).get_table_names())
    return [find_revision(connection, group, names, url) for group in groups]


def find_revision(connection: Connection, group: TableGroup, names: set[str], url: str) -> str | None:
    """Return the revision of a group's tables, `UNRECORDED` for those of an earlier core, or None if there are none.

    Raises SetupError for tables of another origin.
    """
    if group.version_table not in names:
        foreign = sorted({table.name for table in group.tables} & names)
        if foreign and group.was_core and "alembic_version" in names:
            return UNRECORDED
        if foreign:
            raise SetupError(
                f"the store {without_password(url)} has a table {foreign[0]!r} without a schema revision: a version of online "
                "before the first release wrote it, or another program; nothing was changed: open it with what wrote it, or "
                "choose another store"
            )
        return None
    revision: str | None = connection.scalar(text(f"SELECT version_num FROM {group.version_table}"))
    if revision in group.revisions:
        return revision
    if revision and META.name in names and load_oldest_code(connection, group.name, revision) in group.revisions:
        return revision  # a newer release has migrated them, and lets this one use them
    raise SetupError(
        f"the store {without_password(url)} has schema revision {revision!r} of the {group.name} tables, but this version "
        f"of online knows only {', '.join(map(repr, group.revisions))}; nothing was changed: install the version that "
        "wrote it, or choose another store"
    )


def lock_schema(connection: Connection) -> None:
    """Let one process migrate at a time. On SQLite the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        limit_answers(connection, None)
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))  # it imports Alembic meanwhile
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('online/schema'))"))
        connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))


def migrate(connection: Connection, group: TableGroup, revision: str | None, url: str) -> None:
    """Bring the tables of a group from a revision to the newest one. The lock is held."""
    if not is_older(group, revision):
        return
    if revision == UNRECORDED:
        revision = group.revisions[0]
        record_revision(connection, group, revision)
    if revision is None:
        create_tables(connection, group)
    elif revision != group.head:
        check_running(connection, group, url)
        try:
            upgrade(connection, group)
        except SQLAlchemyError as error:
            raise SetupError(
                f"the {group.name} tables of the store {without_password(url)} could not be migrated from revision {revision!r} "
                f"to {group.head!r}, nothing was changed: {first_line(error)}"
            ) from error
    save_oldest_code(connection, group.name, group.head, group.oldest_code)


def check_running(connection: Connection, group: TableGroup, url: str) -> None:
    """Raise SetupError where a service runs whose release may not use the tables after the migration."""
    if REPLICAS.name not in inspect(connection).get_table_names():
        return
    too_old = group.revisions[: group.revisions.index(group.oldest_code)]
    for replica in list_replicas(connection):
        known = replica.report.get(SCHEMA, {}).get(group.name)
        if replica.is_present and known in too_old:
            raise SetupError(
                f"the {group.name} tables of the store {without_password(url)} are not migrated to revision {group.head!r}: the replica "
                f"{replica.id} runs, whose release knows them until {known!r}, and {group.oldest_code!r} is needed; nothing was "
                "changed: upgrade it to a release in between first, or stop it"
            )


def create_tables(connection: Connection, group: TableGroup) -> None:
    """Create the tables of a group at its newest revision."""
    for table in group.tables:
        table.create(connection)
    record_revision(connection, group, group.head)


def record_revision(connection: Connection, group: TableGroup, revision: str) -> None:
    """Record the revision of the tables of a group, which has none yet."""
    name = group.version_table
    key = f"CONSTRAINT {name}_pkc PRIMARY KEY (version_num)"  # as Alembic creates it
    connection.execute(text(f"CREATE TABLE {name} (version_num VARCHAR(32) NOT NULL, {key})"))
    connection.execute(text(f"INSERT INTO {name} (version_num) VALUES (:revision)"), {"revision": revision})


def check_columns(connection: Connection, groups: Sequence[TableGroup], url: str) -> None:
    """Find a missing table or column now, not when the first request needs it."""
    try:
        for group in groups:
            for table in group.tables:
                connection.exec_driver_sql(select_nothing(table, connection.dialect))
    except SQLAlchemyError as error:
        raise SetupError(
            f"the store {without_password(url)} is damaged, or was not written by online: {first_line(error)}; "
            "restore a backup, or choose another store"
        ) from error


def select_nothing(table: Table, dialect: Dialect) -> str:
    """Return a query that names every column of a table. Compiling those of all tables would take longer than running them."""
    key = table, dialect.name
    if (found := NOTHING.get(key)) is None:
        found = NOTHING[key] = str(select(table).where(false()).compile(dialect=dialect))
    return found


def upgrade(connection: Connection, group: TableGroup) -> None:
    """Run the migrations of a group, in the caller's transaction."""
    from alembic import command

    command.upgrade(configure_alembic(connection, group), group.head)


def configure_alembic(connection: Connection, group: TableGroup) -> "Config":
    """Return Alembic's configuration for a group of tables."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", str(group.migrations).replace("%", "%%"))
    config.attributes.update(connection=connection, version_table=group.version_table)
    return config
