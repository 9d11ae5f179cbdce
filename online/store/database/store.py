"""One database: any number of readers and one thread that writes.

    submit(work) --queue--> writer thread: BEGIN; work, work, work; COMMIT --> every future resolves

All work that waits when the writer is free goes into one transaction (group commit). Groups that carry feedback are
fsynced before their futures resolve (SQLite: synchronous=FULL); groups of predictions alone are committed to the WAL.
Each piece of work has a savepoint: one that fails leaves no trace and does not disturb the others.

On Postgres, what one piece of a group has locked is locked until the whole group is committed. So a further piece that waits for a
lock of another replica does not wait for long: it is undone, and runs again in a transaction of its own. Otherwise two replicas
would wait for each other.

Background work, a piece of something long, has a transaction of its own and lets others go first. So a request waits for
one piece at most.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from sqlalchemy import Connection, Row, Select, delete, insert, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, PendingRollbackError, SQLAlchemyError

from online.errors import SetupError, Unavailable
from online.io.private import create_private, make_private
from online.store.database.engine import (
    create_engine_for,
    first_line,
    is_lock_conflict,
    is_sqlite,
    no_answer,
    snapshot_isolation,
    unavailable,
    was_too_slow,
    without_password,
)
from online.store.database.meta import META, find_instance, load_instance
from online.store.database.schema import prepare_schema
from online.store.database.sqlite_checkpoints import Checkpointer
from online.store.database.watch import DatabaseWatch

log = logging.getLogger("online.store")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LOST = DBAPIError, PendingRollbackError  # the second: an earlier piece of the same transaction has lost the connection
MAX_GROUP = 512  # pieces of work in one transaction
LOCK_WAIT_MS = 100  # of a further piece of work in a transaction on Postgres
MAX_REPEATS = 5  # of a transaction that the database rolled back although the work is right
MAX_PASSED = 4  # transactions that go before a piece of background work
WAL_ROOM_BYTES = 6_000_000  # a little more than the WAL of SQLite grows to before it starts over


@dataclass(slots=True)
class StoreWork:
    """A write that waits for the writing thread."""

    run: Callable[[Connection], object]
    durable: bool
    done: "Future[Any]"
    is_background: bool = False


class Store:
    """One database. Call `read` and `submit` from any thread.

    after_commit: called by the writer thread after each commit, before the futures of its work resolve. It raises nothing.
    """

    def __init__(self, url: str) -> None:
        """url: as SQLAlchemy takes it. Raises SetupError for a database that cannot be used.

        is_shared: whether services on other machines may use it too.
        """
        self.url, self.is_shared = url, not is_sqlite(url)
        if is_sqlite(url) and (file := make_url(url).database) and not file.startswith((":", "file:")):
            keep_database_private(Path(file))
        try:
            self.writer = create_engine_for(url, "NORMAL", "IMMEDIATE")
            self.durable_writer = create_engine_for(url, "FULL", "IMMEDIATE") if is_sqlite(url) else self.writer
            self.reader = create_engine_for(url, "NORMAL", "DEFERRED").execution_options(**snapshot_isolation(url))
            prepare_schema(url, self.reader)
            self.instance = self._load_instance()
        except (SQLAlchemyError, ImportError, ValueError) as error:
            raise SetupError(f"the store {without_password(url)} cannot be opened: {first_line(error)}") from error
        self._queue: queue.SimpleQueue[StoreWork | None] = queue.SimpleQueue()
        self.after_commit: Callable[[], None] = lambda: None
        self._is_closed, self._closing = False, threading.Lock()  # nothing is queued behind the end
        self._checkpointer = Checkpointer(str(make_url(url).database)) if is_sqlite(url) else None
        self._watch: DatabaseWatch | None = None
        self._thread = threading.Thread(target=self._write, name="store-writer", daemon=True)
        self._thread.start()

    def _load_instance(self) -> str:
        """Return a store that has its name is opened without a write, which beside a busy process might wait for long."""
        with self.reader.connect() as connection:
            known = find_instance(connection)
        if known is None:
            with self.durable_writer.begin() as connection:
                known = load_instance(connection)
        return known

    def start_watch(self) -> None:
        """Keep `is_away` up to date from now on. An embedded store is a file beside the journal, and is not watched."""
        if self.is_shared:
            self._watch = DatabaseWatch(lambda: self.read(lambda connection: connection.execute(text("SELECT 1"))))

    @property
    def is_away(self) -> bool:
        """Whether the store does not answer, as it is known from at most two seconds ago. It asks nothing."""
        return self._watch is not None and self._watch.is_away

    def make_room(self) -> None:
        """Let the WAL of SQLite grow to its full size before a request waits for it, and start it over.

        A commit that lengthens the file also syncs the journal of the file system, with every snapshot that is being
        written; a commit that overwrites syncs its own few pages. Without the room, commits are slower.
        """
        if is_sqlite(self.url):
            with suppress(DBAPIError), self.durable_writer.begin() as connection:
                connection.execute(insert(META).values(key="room", value="." * WAL_ROOM_BYTES))
                connection.execute(delete(META).where(META.c.key == "room"))
            with suppress(DBAPIError), self.durable_writer.connect() as connection:
                connection.connection.cursor().execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def submit(self, run: Callable[[Connection], T], durable: bool = True, is_background: bool = False) -> "Future[T]":
        """Run `run` in the next transaction; the future resolves once that is committed.

        durable: whether the commit is fsynced. `run` may raise: its changes are undone, and the future raises the same.
        is_background: run it in a transaction of its own, and let waiting work go first for a limited time.
        After `close` it raises Unavailable: a thread of a service that stops may still submit work, and wait for it.
        """
        done = Future[T]()
        with self._closing:
            if not self._is_closed:
                self._queue.put(StoreWork(run, durable, done, is_background))
                return done
        done.set_exception(Unavailable("the store is closed, because the service stops; nothing was changed"))
        return done

    def read(self, run: Callable[[Connection], T]) -> T:
        """Run queries that see one moment of the store. Raises Unavailable."""
        try:
            with self.reader.connect() as connection:
                return run(connection)
        except SQLAlchemyError as error:
            raise no_answer(error) from error

    @property
    def runs_alone(self) -> bool:
        """Whether `run_alone` can be used: on Postgres, where one statement can change several tables."""
        return not is_sqlite(self.url)

    def run_alone(self, run: Callable[[Connection], T]) -> T:
        """Run one statement that is a transaction of its own.

        The server carries it out whatever becomes of this process, so that no lock outlives it. Raises Unavailable.
        """
        try:
            with self.writer.connect() as connection:
                return run(connection.execution_options(isolation_level="AUTOCOMMIT"))
        except SQLAlchemyError as error:
            raise no_answer(error) from error

    def walk(self, query: Select[*Ts], page: int) -> Iterator[Sequence[Row[*Ts]]]:
        """Yield the rows of a query in pages; all pages see one moment of the store. Raises Unavailable."""
        try:
            with self.reader.connect() as connection:
                yield from connection.execution_options(yield_per=page).execute(query).partitions()
        except SQLAlchemyError as error:
            raise no_answer(error) from error

    @contextmanager
    def separate_connection(self) -> Iterator[Connection]:
        """Yield a connection whose transactions the caller begins and ends. Raises Unavailable."""
        engine = create_engine_for(self.url, "FULL", "DEFERRED")
        try:
            with engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise unavailable(error) from error
        finally:
            engine.dispose()

    def close(self) -> None:
        """Finish the work that was submitted, then close all connections."""
        with self._closing:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()
        if self._watch is not None:
            self._watch.stop()
        if self._checkpointer is not None:
            self._checkpointer.close()
        for engine in {self.writer, self.durable_writer, self.reader}:
            engine.dispose()

    def _write(self) -> None:
        background: deque[StoreWork] = deque()
        is_open, passed = True, 0
        while is_open or background:
            group: list[StoreWork] = []
            if passed < MAX_PASSED:
                group, is_closed = self._take(background, blocks=is_open)
                is_open = is_open and not is_closed
            passed = passed + 1 if group and background else 0
            if not group and background:
                group = [background.popleft()]
            self._commit([work for work in group if work.done.set_running_or_notify_cancel()])

    def _take(self, background: deque[StoreWork], blocks: bool) -> tuple[list[StoreWork], bool]:
        """Return the work that waits, and whether `close` was called. Background work goes to the end of `background`.

        blocks: wait for work if there is none.
        """
        group: list[StoreWork] = []
        while len(group) < MAX_GROUP:
            try:
                work = self._queue.get(block=blocks and not group and not background)
            except queue.Empty:
                return group, False
            if work is None:
                return group, True
            (background if work.is_background else group).append(work)
        return group, False

    def _commit(self, group: list[StoreWork], repeats: int = 0) -> None:
        if not group:
            return
        engine = self.durable_writer if any(work.durable for work in group) else self.writer
        outcomes: list[tuple[StoreWork, object, BaseException | None]] = []
        postponed = list[StoreWork]()
        try:
            with engine.begin() as connection:
                for place, work in enumerate(group):
                    if place == 1 and self.is_shared:
                        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
                    result, failure_or_none = self._attempt(connection, work, alone=len(group) == 1)
                    if is_lock_conflict(failure_or_none):
                        postponed.append(work)
                    else:
                        outcomes.append((work, result, failure_or_none))
        except Exception as error:  # the transaction failed as a whole: none of the work is in the store
            if (is_lock_conflict(error) or was_too_slow(error)) and repeats < MAX_REPEATS:
                self._commit(group, repeats + 1)
                return
            outcomes, postponed = [(work, None, error) for work in group], []
        else:
            self._follow_commit()
        for work, result, error_or_none in outcomes:
            if error_or_none is None:
                work.done.set_result(result)
            else:
                work.done.set_exception(
                    unavailable(error_or_none) if isinstance(error_or_none, LOST) else error_or_none
                )
        for work in postponed:
            self._commit([work])

    def _follow_commit(self) -> None:
        """Do what follows a commit. It is in the store, so that no failure may be reported as its own."""
        try:
            if self._checkpointer is not None:
                self._checkpointer.after_commit()
            self.after_commit()
        except Exception:
            log.exception("what follows a commit failed")

    @staticmethod
    def _attempt(connection: Connection, work: StoreWork, alone: bool) -> tuple[object, BaseException | None]:
        if alone:
            return work.run(connection), None
        try:
            with connection.begin_nested():
                return work.run(connection), None
        except Exception as error:  # raised to the caller that submitted the work
            if was_too_slow(error):
                raise  # the others of the group are rolled back with it
            return None, error


def keep_database_private(file: Path) -> None:
    """Let only this user read a database of SQLite, which gives the files beside it the permissions that it has itself."""
    with suppress(OSError):  # SQLite says better why it cannot be created
        create_private(file)
    for suffix in ("-wal", "-shm", "-journal"):
        make_private(file.with_name(file.name + suffix))
