"""Hears of changes that other machines commit: Postgres sends the name of a model with each commit that concerns it.

    commit on any machine --NOTIFY model--> listen --> the wake-ups of that model on this machine

A notification may be lost, as while the connection is opened again, so those who wait also look from time to time.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection

from online.errors import OnlineError, Unavailable
from online.io.wakeup import Wakeup
from online.store import Store
from online.store.database.engine import limit_answers
from online.store.events import CHANNEL
from online.telemetry import OutageLog

log = logging.getLogger("online.store")

POLL_S = 0.25  # the longest time between two answers of `listen`
ASK_EVERY_S = 1.0  # for a sign of life
SILENT_S = 3.0  # after which a connection on which the server does not answer is opened again


class NotificationThread:
    """Calls a function with the models of which something was heard, in a thread, and with none of them in between."""

    def __init__(self, store: Store, on_heard: Callable[[set[str]], None], name: str) -> None:
        """on_heard: called at least every POLL_S; what it raises is logged as an outage. name: of the thread."""
        self.store, self.on_heard = store, on_heard
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._outage = OutageLog(log, "nothing is heard of other machines")

    def start(self) -> None:
        """Listen until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._stopping.set()
        if self._thread.is_alive():  # a service that could not start has not begun to listen
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self.store.separate_connection() as connection:
                    for heard in listen(connection):
                        if self._stopping.is_set():
                            return
                        self.on_heard(heard)
                        self._outage.record_success()
            except (OnlineError, OSError) as error:
                self._outage.record_failure(error)
            except Exception as error:  # of the driver: the connection is opened again
                log.debug("listening failed", exc_info=error)
                self._outage.record_failure(f"{type(error).__name__}: {error}")
            self._stopping.wait(POLL_S)


def listen(connection: Connection, clock: Callable[[], float] = time.monotonic) -> Iterator[set[str]]:
    """Yield the models of which something was heard; every POLL_S at least, then perhaps none.

    Every second it asks the server for a sign of life, because a connection that is cut off is silent like one on which
    nothing happens. Raises the driver's error SILENT_S after the last answer.
    """
    driver: Any = connection.connection.driver_connection
    connection.rollback()
    if not hasattr(driver, "notifies"):
        raise Unavailable("this driver of Postgres has no notifications: install psycopg 3")
    limit_answers(connection, SILENT_S)
    driver.autocommit = True
    driver.execute(f"LISTEN {CHANNEL}")
    yield set()
    asked_at = clock()
    while True:
        if clock() - asked_at >= ASK_EVERY_S:
            driver.execute("SELECT 1")
            asked_at = clock()
        first = {notice.payload for notice in driver.notifies(timeout=POLL_S, stop_after=1)}
        yield first | {notice.payload for notice in driver.notifies(timeout=0)}


def wake(wakeups: Mapping[str, Wakeup]) -> Callable[[set[str]], None]:
    """Return a function that wakes those who wait for the log of a model of which something was heard."""

    def on_heard(heard: set[str]) -> None:
        for name in heard & wakeups.keys():
            wakeups[name].notify()

    return on_heard
