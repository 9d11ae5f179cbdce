"""Watches from one thread whether a database answers, so that a request need not ask.

once a second: a short read --an error, or no answer for PATIENCE_S--> is_away
                            --an answer------------------------------> not any more
"""

import threading
import time
from collections.abc import Callable

from online.errors import Unavailable

CHECK_EVERY_S = 1.0
PATIENCE_S = 1.0


class DatabaseWatch:
    """A thread that asks a database again and again until it is stopped. It has one question open at a time."""

    def __init__(self, ask: Callable[[], object]) -> None:
        """ask: reads from the database. Raises Unavailable."""
        self._ask = ask
        self._failed = False
        self._asked_at: float | None = None  # monotonic seconds, while a question is open
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="database-watch", daemon=True)
        self._thread.start()

    @property
    def is_away(self) -> bool:
        """Whether the database did not answer the last question, or has not answered the open one for a while."""
        asked_at = self._asked_at
        return self._failed or (asked_at is not None and time.monotonic() - asked_at > PATIENCE_S)

    def stop(self) -> None:
        """Ask no more. A question that is open is not waited for longer than another one would be."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        while not self._stopping.wait(CHECK_EVERY_S):
            self._asked_at = time.monotonic()
            try:
                self._ask()
                self._failed = False
            except Unavailable:
                self._failed = True
            self._asked_at = None
