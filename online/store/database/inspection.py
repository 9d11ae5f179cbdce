"""The facts of a database that an operator has to know, read without a change of anything: no table is created or migrated."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from online.errors import SetupError, Unavailable
from online.store.database.engine import create_engine_for, first_line, is_sqlite, without_password
from online.store.database.schema import find_revisions, list_groups


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The state of a database.

    version: of the server. revisions: group of tables -> (the revision found, the newest); None: there are no tables yet.
    clock_difference_s: the clock of this machine minus that of the database. settings: of Postgres, as text.
    max_connections, connections: of Postgres; 0 where it does not say.
    """

    version: str
    revisions: dict[str, tuple[str | None, str]]
    clock_difference_s: float = 0.0
    is_standby: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    max_connections: int = 0
    connections: int = 0

    @property
    def is_current(self) -> bool:
        """Whether every table is at the newest revision: opening the store changes nothing then."""
        return all(found == newest for found, newest in self.revisions.values())


SETTINGS = ("default_transaction_isolation", "synchronous_commit", "fsync", "full_page_writes")


def inspect_database(url: str) -> DatabaseFacts:
    """Return the facts of a database.

    Raises Unavailable for one that does not answer or does not exist, and SetupError for tables that this version of the package
    does not know.
    """
    if is_sqlite(url) and not Path(str(make_url(url).database)).exists():
        raise Unavailable(f"there is no store {without_password(url)} yet; the service creates it when it starts")
    engine = create_engine_for(url, "FULL", "DEFERRED", wait_s=2)
    try:
        with engine.connect() as connection:
            groups = list_groups()
            found = find_revisions(connection, groups, url)
            revisions = {group.name: (each, group.head) for group, each in zip(groups, found, strict=True)}
            is_postgres = connection.dialect.name == "postgresql"
            return inspect_postgres(connection, revisions) if is_postgres else inspect_sqlite(connection, revisions)
    except (SQLAlchemyError, ImportError) as error:
        raise Unavailable(f"the store {without_password(url)} does not answer: {first_line(error)}") from error
    finally:
        engine.dispose()


def check_current(url: str) -> None:
    """Raise SetupError unless a store can be opened without a migration. Raises Unavailable as `inspect_database`."""
    facts = inspect_database(url)
    if not facts.is_current:
        old = ", ".join(f"{name} {pair[0] or 'none'}" for name, pair in facts.revisions.items() if pair[0] != pair[1])
        raise SetupError(
            f"the tables of the store {without_password(url)} are not those of this version of online (revisions: {old}); nothing was "
            "changed: use the version that wrote them, or start a service of this version, which migrates them"
        )


def inspect_postgres(connection: Connection, revisions: dict[str, tuple[str | None, str]]) -> DatabaseFacts:
    """Return the facts of a database of Postgres."""
    before = time.time()
    now = float(connection.scalar(text("SELECT extract(epoch from clock_timestamp())")) or 0.0)
    difference = (before + time.time()) / 2 - now
    return DatabaseFacts(
        version=f"Postgres {connection.scalar(text('SHOW server_version'))}",
        revisions=revisions,
        clock_difference_s=difference,
        is_standby=bool(connection.scalar(text("SELECT pg_is_in_recovery()"))),
        settings={name: str(connection.scalar(text(f"SHOW {name}"))) for name in SETTINGS},
        max_connections=int(connection.scalar(text("SHOW max_connections")) or 0),
        connections=int(connection.scalar(text("SELECT count(*) FROM pg_stat_activity")) or 0),
    )


def inspect_sqlite(connection: Connection, revisions: dict[str, tuple[str | None, str]]) -> DatabaseFacts:
    """Return the facts of a database of SQLite."""
    version = connection.scalar(text("SELECT sqlite_version()"))
    mode = str(connection.scalar(text("PRAGMA journal_mode")))
    return DatabaseFacts(version=f"SQLite {version}", revisions=revisions, settings={"journal_mode": mode})
