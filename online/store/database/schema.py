"""Bring the schema of a database to the revision of this version of the package, when a store is opened.

    revision is the newest  --> nothing to do (one query; Alembic is not imported)
    no tables               --> create them
    older, or release 0.1   --> run the migrations
    unknown or damaged      --> SetupError

Processes that start at the same time wait for the first one. A migration is one transaction: a process that is killed
leaves the schema as it was.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, Table, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import SQLModel

from online.errors import SetupError
from online.installed import collect_all
from online.store.callers.api_keys import API_KEYS
from online.store.callers.audit import AUDIT
from online.store.callers.held_feedback import HELD
from online.store.callers.quotas import QUOTAS
from online.store.callers.standing import STANDING
from online.store.classes import CLASSES
from online.store.cohorts import COHORT_MESSAGES, COHORTS
from online.store.conversations.conversations import CONVERSATIONS
from online.store.conversations.turns import TURNS
from online.store.database.engine import create_engine_for, first_line, without_password
from online.store.database.meta import META, SECURE_DELETE, save_value
from online.store.drift_alarms import DRIFT_ALARMS
from online.store.encoder_moves import ENCODERS
from online.store.erasure.jobs import ERASURE_ITEMS, ERASURE_MODELS, ERASURES
from online.store.erasure.relearnings import RELEARNINGS
from online.store.events import EVENTS
from online.store.external_messages import EXTERNAL_FEEDBACK, MESSAGES
from online.store.feedback import FEEDBACK
from online.store.inbox import ASSIGNMENTS, DECISIONS, ITEMS, OUTCOMES
from online.store.log_rows import TALLIES
from online.store.migrations import HEAD, REVISIONS
from online.store.predictions import PREDICTIONS
from online.store.quarantine import QUARANTINES
from online.store.refusals import REFUSALS
from online.store.rejected_snapshots import REJECTED_SNAPSHOTS
from online.store.repertoire.examples import EXAMPLES
from online.store.repertoire.replies import REPLIES
from online.store.shadow_answers import SHADOW_ANSWERS
from online.store.usage.answer_ratings import ANSWER_RATINGS
from online.store.usage.counts import USAGE_COUNTS
from online.store.usage.ratings import RATINGS

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATION_WAIT_S = 3_600  # that a process waits for another one's migration
MIGRATIONS = Path(__file__).parent.parent / "migrations"
VERSION_TABLE = "alembic_version"
CORE_TABLES = [
    PREDICTIONS,
    FEEDBACK,
    EVENTS,
    REPLIES,
    EXAMPLES,
    CLASSES,
    CONVERSATIONS,
    TURNS,
    DRIFT_ALARMS,
    META,
    REFUSALS,
    TALLIES,
    ENCODERS,
    MESSAGES,
    EXTERNAL_FEEDBACK,
    QUARANTINES,
    REJECTED_SNAPSHOTS,
    SHADOW_ANSWERS,
    API_KEYS,
    QUOTAS,
    HELD,
    ERASURES,
    ERASURE_MODELS,
    ERASURE_ITEMS,
    RELEARNINGS,
    AUDIT,
    STANDING,
    USAGE_COUNTS,
    RATINGS,
    ANSWER_RATINGS,
    ITEMS,
    ASSIGNMENTS,
    DECISIONS,
    OUTCOMES,
    COHORTS,
    COHORT_MESSAGES,
]


def list_tables() -> list[Table]:
    """The tables of the core and of every plugin."""
    return [*CORE_TABLES, *collect_all("tables")]


def prepare_schema(url: str, reader: Engine) -> None:
    """Raises SetupError for a database that this version of the package cannot use."""
    with reader.connect() as connection:
        revision = load_revision(connection)
        if revision == HEAD:
            check_columns(connection, url)
            return
    check_revision(revision, url)
    engine = create_engine_for(url, "FULL", "IMMEDIATE", wait_s=MIGRATION_WAIT_S)
    try:
        with engine.begin() as connection:
            lock_schema(connection)
            migrate(connection, url)
    finally:
        engine.dispose()


def load_revision(connection: Connection) -> str | None:
    """The revision of the schema; None for an empty database or a store of release 0.1."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return revision


def check_revision(revision: str | None, url: str) -> None:
    if revision is not None and revision not in REVISIONS:
        raise SetupError(
            f"the store {without_password(url)} has schema revision {revision!r}, but this version of online knows "
            f"revisions up to {HEAD!r} only: install the version that wrote it, or choose another store"
        )


def lock_schema(connection: Connection) -> None:
    """Let one process migrate at a time. On SQLite the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('online/schema'))"))


def migrate(connection: Connection, url: str) -> None:
    """The lock is held."""
    revision = load_revision(connection)
    check_revision(revision, url)
    if revision is None and not has_tables(connection):
        create_schema(connection)
    elif revision != HEAD:
        try:
            upgrade(connection, HEAD)
        except SQLAlchemyError as error:
            raise SetupError(
                f"the store {without_password(url)} could not be migrated from revision {revision or REVISIONS[0]!r} "
                f"to {HEAD!r}, nothing was changed: {first_line(error)}"
            ) from error
    check_columns(connection, url)


def has_tables(connection: Connection) -> bool:
    return bool({table.name for table in list_tables()} & set(inspect(connection).get_table_names()))


def create_schema(connection: Connection) -> None:
    """Create all tables of an empty database at the newest revision."""
    SQLModel.metadata.create_all(connection, tables=list_tables())
    connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text(f"INSERT INTO {VERSION_TABLE} (version_num) VALUES (:head)"), {"head": HEAD})
    save_value(connection, SECURE_DELETE, "1")  # every connection that has ever written overwrites what it deletes


def check_columns(connection: Connection, url: str) -> None:
    """Find a missing table or column now, not when the first request needs it."""
    try:
        for table in list_tables():
            connection.execute(select(table).limit(0))
    except SQLAlchemyError as error:
        raise SetupError(
            f"the store {without_password(url)} is damaged, or was not written by online: {first_line(error)}; "
            "restore a backup, or choose another store"
        ) from error


def upgrade(connection: Connection, revision: str) -> None:
    """Run the migrations up to a revision, in the caller's transaction."""
    from alembic import command

    command.upgrade(configure_alembic(connection), revision)


def downgrade(connection: Connection, revision: str) -> None:
    """Run the migrations back to a revision, in the caller's transaction."""
    from alembic import command

    command.downgrade(configure_alembic(connection), revision)


def configure_alembic(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("recursive_version_locations", "true")
    config.attributes["connection"] = connection
    return config
