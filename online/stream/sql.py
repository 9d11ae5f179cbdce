"""The stream in a SQL database: the events are rows, appended in the same transaction as the feedback."""

import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from online.errors import Unavailable
from online.io.wakeup import Wakeup
from online.schemas.events import Event
from online.store.events import append_events, head_of, read_events

T = TypeVar("T")

POLL_S = 0.25  # the longest a reader on another machine waits for an entry without a wake-up


class SqlStream:
    """The stream of one model in a SQL database. It is the truth, also where Redis has a copy."""

    def __init__(
        self,
        writer: Engine,
        reader: Engine,
        model: str,
        wakeup: Wakeup,
        check: Callable[[Connection], None] = lambda connection: None,
        poll_s: float = POLL_S,
    ) -> None:
        """check: called in the transaction of every read; what it raises, `read` raises. poll_s: as POLL_S."""
        self.writer, self.reader, self.model, self.wakeup, self.check = writer, reader, model, wakeup, check
        self.poll_s = poll_s
        self._listener = wakeup.listen()

    def append(self, event: Event) -> int:
        """Append an event in a transaction of its own. Raises Unavailable."""
        try:
            with self.writer.begin() as connection:
                offset = append_events(connection, self.model, [event])[0]
        except SQLAlchemyError as error:
            raise Unavailable(
                f"the log of {self.model} refused the event, nothing was changed: {type(error).__name__}"
            ) from error
        self.wakeup.notify()
        return offset

    def read(self, after: int, count: int, block_ms: float = 0, digest: str = "") -> list[Event]:
        """Return entries after an offset; none also after a wake-up without an entry, which may be for something else.

        Raises LogReplaced also if there is no entry, and if the log is shorter than `after`.
        """
        until, is_woken = time.monotonic() + block_ms / 1000, False
        while True:
            self._listener.clear()  # before the read: a wake-up for an entry that the read misses stays in the pipe
            entries = self._read(after, count, digest)
            left = until - time.monotonic()
            if entries or left <= 0 or is_woken:
                return entries
            is_woken = self._listener.wait(min(left, self.poll_s))

    def _read(self, after: int, count: int, digest: str) -> list[Event]:
        def checked(connection: Connection) -> list[Event]:
            self.check(connection)
            return read_events(connection, self.model, after, count, digest)

        return self._query(checked)

    def head(self) -> int:
        """Return the last offset; 0 for none."""
        return self._query(lambda connection: head_of(connection, self.model))

    def _query(self, query: Callable[[Connection], T]) -> T:
        try:
            with self.reader.connect() as connection:
                return query(connection)
        except SQLAlchemyError as error:
            raise Unavailable(f"the log of {self.model} does not answer: {type(error).__name__}") from error

    def close(self) -> None:
        """Stop listening for new events."""
        self._listener.close()
