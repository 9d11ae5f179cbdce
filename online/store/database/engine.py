"""Connect to SQLite or Postgres: pragmas, timeouts, isolation, and errors that show no password."""

import sqlite3
import time
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from online.errors import Unavailable
from online.store.database.bounded import bound_connections, describe_limits
from online.store.database.sqlite_checkpoints import FULL

BUSY_TIMEOUT_S = 10  # SQLite waits this long for another process's commit
LOCK_CONFLICTS = ("55P03", "40P01")  # lock_not_available, deadlock_detected
IDLE_TOO_LONG = "25P03"  # idle_in_transaction_session_timeout
# connections of an engine: a replica has three processes with two engines each, and Postgres takes 100 in all
KEPT, MORE = 2, 6
POOL_WAIT_S = 30  # for one of them


def create_engine_for(url: str, synchronous: str, begin: str, wait_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Return an engine whose transactions start with BEGIN `begin`.

    synchronous: the SQLite pragma. wait_s: how long a transaction on SQLite waits for another process.
    """
    if not is_sqlite(url):
        limits = describe_limits(writes=begin == "IMMEDIATE") if url.startswith("postgresql") else {}
        engine = create_engine(
            url, pool_pre_ping=True, pool_size=KEPT, max_overflow=MORE, pool_timeout=POOL_WAIT_S, connect_args=limits
        )
        bound_connections(engine)
        return engine
    engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": wait_s})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the listener below begins each transaction
        switch_to_wal(connection, wait_s)
        connection.execute("PRAGMA secure_delete=ON")  # what is erased is overwritten, not only unlinked
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint={2 * FULL}")  # the checkpoint thread comes first

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(f"BEGIN {begin}")

    return engine


def limit_answers(connection: Connection, limit_s: float | None) -> None:
    """Let a connection wait so long for each answer, until it is back in its pool. None: without a limit, as for a migration."""
    driver: Any = connection.connection.driver_connection
    if hasattr(driver, "limit_s"):
        driver.limit_s = limit_s


def switch_to_wal(connection: Any, wait_s: float) -> None:
    """Let a connection of sqlite3 use the write-ahead log. Raises sqlite3.OperationalError.

    For the first switch of a new file, SQLite does not wait for other processes: where they switch it at the same moment,
    it raises "database is locked" at once.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def snapshot_isolation(url: str) -> dict[str, str]:
    """Return execution options that let all queries of one read see the same moment, as on SQLite."""
    return {} if is_sqlite(url) else {"isolation_level": "REPEATABLE READ"}


def is_sqlite(url: str) -> bool:
    """Return whether a URL is of SQLite."""
    return url.startswith("sqlite")


def without_password(url: str) -> str:
    """Return a URL without its password, in the address or in the query."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def first_line(error: BaseException) -> str:
    """Return the first line of what the database driver says."""
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__


def is_lock_conflict(error: BaseException | None) -> bool:
    """Return whether Postgres has ended a wait for a lock: it took longer than `lock_timeout`, or both sides waited for each other."""
    return find_sqlstate(error) in LOCK_CONFLICTS


def was_too_slow(error: BaseException | None) -> bool:
    """Return whether Postgres has rolled a transaction back because this process did not go on with it (`bounded.IDLE_S`)."""
    return find_sqlstate(error) == IDLE_TOO_LONG


def find_sqlstate(error: BaseException | None) -> str | None:
    """Return the code of the error that Postgres reported, or None."""
    return getattr(getattr(error, "orig", None), "sqlstate", None)


def no_answer(error: SQLAlchemyError) -> Unavailable:
    """Return the error for what the database did not answer; a write may have happened."""
    return Unavailable(f"the store does not answer: {first_line(error)}")


def unavailable(error: SQLAlchemyError) -> Unavailable:
    """Return the error for a write that the database refused."""
    return Unavailable(f"the store refused the write, nothing was changed: {first_line(error)}")
