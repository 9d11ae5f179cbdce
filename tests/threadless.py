"""Stand-ins that let code which uses threads run in one: a seed then decides everything, and nothing waits for a thread."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest
from sqlalchemy import Connection

from online.state import workspace
from online.store import Store
from online.store.database.store import StoreWork

P = ParamSpec("P")
T = TypeVar("T")


class InlineExecutor(Executor):
    """An executor that calls each function at once, in the thread that submits it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Return a future that is done. What is no `Exception`, such as a crash, is raised at once."""
        done = Future[T]()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class InlineStore(Store):
    """A store on SQLite that commits each piece of work in the thread that submits it, in a transaction of its own.

    It counts as one that several services share. It can be emptied, because a new one is slow: it has to check its tables, and to
    compile each query again.
    """

    def __init__(self, file: Path) -> None:
        """file: of the database, in a folder that exists."""
        super().__init__(f"sqlite:///{file}")
        self.is_shared = True
        self._empty = sqlite3.connect(":memory:", check_same_thread=False)
        with closing(sqlite3.connect(file)) as source:
            source.backup(self._empty)

    def submit(self, run: Callable[[Connection], T], durable: bool = True, is_background: bool = False) -> "Future[T]":
        """Run it and commit; return a future that is done."""
        done = Future[T]()
        done.set_running_or_notify_cancel()
        self._commit([StoreWork(run, durable, done, is_background)])
        return done

    def empty(self) -> None:
        """Make the database as it was when it was opened."""
        with self.durable_writer.connect() as connection:
            driver: Any = connection.connection.driver_connection
            connection.rollback()
            self._empty.backup(driver)
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def store_of_workspaces(store: Store) -> Iterator[None]:
    """Let every workspace that is opened meanwhile use this store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace, "Store", lambda url: store)
        yield
