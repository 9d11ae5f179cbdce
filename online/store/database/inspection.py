"""The facts of a database that an operator has to know, read without a change of anything: no table is created or migrated."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from online.errors import SetupError, Unavailable
from online.store.database.engine import create_engine_for, first_line, is_sqlite, without_password
from online.store.database.schema import find_revisions, is_older, list_groups


class FoundRevision(NamedTuple):
    """The revision of a group of tables. found: None where there are no tables yet. newest: that this version knows."""

    found: str | None
    newest: str
    is_older: bool

    @property
    def is_newer(self) -> bool:
        """Whether a newer release has migrated the tables, and lets this version use them."""
        return not self.is_older and self.found != self.newest


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The state of a database.

    version: of the server. revisions: by group of tables.
    clock_difference_s: the clock of this machine minus that of the database. settings: of Postgres, as text.
    max_connections, connections: of Postgres; 0 where it does not say.
    """

    version: str
    revisions: dict[str, FoundRevision]
    clock_difference_s: float = 0.0
    is_standby: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    max_connections: int = 0
    connections: int = 0

    @property
    def older(self) -> dict[str, FoundRevision]:
        """Return the groups that are created or migrated when the store is opened."""
        return {name: each for name, each in self.revisions.items() if each.is_older}

    @property
    def newer(self) -> dict[str, FoundRevision]:
        """Return the groups that a newer release has migrated."""
        return {name: each for name, each in self.revisions.items() if each.is_newer}


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
            revisions = {
                group.name: FoundRevision(each, group.head, is_older(group, each))
                for group, each in zip(groups, found, strict=True)
            }
            is_postgres = connection.dialect.name == "postgresql"
            return inspect_postgres(connection, revisions) if is_postgres else inspect_sqlite(connection, revisions)
    except (SQLAlchemyError, ImportError) as error:
        raise Unavailable(f"the store {without_password(url)} does not answer: {first_line(error)}") from error
    finally:
        engine.dispose()


def check_current(url: str, allow_newer: bool = False) -> None:
    """Raise SetupError unless a store can be opened without a migration. Raises Unavailable as `inspect_database`.

    allow_newer: also for tables that a newer release has migrated, which may have columns that this version does not know.
    """
    facts = inspect_database(url)
    differing = facts.older | ({} if allow_newer else facts.newer)
    if differing:
        revisions = ", ".join(f"{name} {each.found or 'none'}" for name, each in differing.items())
        raise SetupError(
            f"the tables of the store {without_password(url)} are not those of this version of online (revisions: {revisions}); "
            "nothing was changed: use the version that wrote them, or start a service of this version, which migrates older ones"
        )


def inspect_postgres(connection: Connection, revisions: dict[str, FoundRevision]) -> DatabaseFacts:
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


def inspect_sqlite(connection: Connection, revisions: dict[str, FoundRevision]) -> DatabaseFacts:
    """Return the facts of a database of SQLite."""
    version = connection.scalar(text("SELECT sqlite_version()"))
    mode = str(connection.scalar(text("PRAGMA journal_mode")))
    return DatabaseFacts(version=f"SQLite {version}", revisions=revisions, settings={"journal_mode": mode})
