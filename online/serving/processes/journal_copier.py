"""Copies the journal of predictions into the store, beside the processes that answer.

    every COPY_EVERY_S: is there anything new? --small transactions--> store
    a segment that is older than SEAL_AFTER_S is sealed, so that the disk does not keep what was copied

A service runs it as a process of its own, so that SQL takes no time from the answers; an application inside another program runs
it as a thread. Two copiers do not disturb each other, and while there is none, predictions wait in the journal.
"""

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection

from online.errors import Unavailable
from online.journal import list_segments
from online.store import Store
from online.store.journal_copy import COPIED_AT_ONCE, CopyCounts, JournalCopy, copy_all
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.journal")

COPY_EVERY_S = 0.1
SEAL_AFTER_S = 60.0


class JournalCopier:
    """Copies until it is stopped."""

    def __init__(self, store: Store, journal: JournalCopy) -> None:
        self.store, self.journal = store, journal
        self._first_seen: dict[str, float] = {}  # seconds of the monotonic clock, by segment
        self._outage = OutageLog(log, "predictions are not copied into the store")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="journal-copier", daemon=True)

    def start(self) -> None:
        """Run in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let `run` copy the rest, and return; wait for the thread, if there is one."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def run(self) -> None:
        """Copy until `stop` is called. Nothing that fails ends it: the journal keeps the predictions, and it is tried again."""
        log_event(log, "journal copier started", pid=os.getpid())
        self.journal.seal_all()  # of processes that ended before
        with suppress(Unavailable):
            self.store.submit(self.journal.forget_orphans, durable=False, is_background=True).result()
        while not self._stopping.is_set():
            self._copy()
            self._seal_old()
            self._stopping.wait(COPY_EVERY_S)
        with suppress(Unavailable, OSError):
            copy_all(self.store, self.journal, is_sealing=True)

    def _copy(self) -> None:
        try:
            is_complete = not self.journal.has_new()
            while not is_complete and not self._stopping.is_set():
                copied: CopyCounts = self.store.submit(self._copy_next, durable=False, is_background=True).result()
                self.journal.note_committed(copied)
                is_complete = copied.is_complete
            self._outage.record_success()
        except (Unavailable, OSError) as error:
            self._outage.record_failure(error)
        except Exception as error:  # of whatever else: an encoder that cannot be loaded, for example
            log.debug("copying the journal failed", exc_info=error)
            self._outage.record_failure(f"{type(error).__name__}: {error}")

    def _copy_next(self, connection: Connection) -> CopyCounts:
        return self.journal.copy(connection, COPIED_AT_ONCE)

    def _seal_old(self) -> None:
        now, segments = time.monotonic(), list_segments(self.journal.folder)
        self._first_seen = {each.name: self._first_seen.get(each.name, now) for each in segments}
        for segment in segments:
            if not segment.is_sealed and now - self._first_seen[segment.name] >= SEAL_AFTER_S:
                with suppress(OSError):  # it is deleted, or another user's
                    segment.seal()


def measure_journal(folder: Path) -> int:
    """Return how many bytes of predictions wait to be copied, or to be deleted."""
    return sum(segment.size for segment in list_segments(folder))
