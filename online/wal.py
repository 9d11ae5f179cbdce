"""SQLite's write-ahead log, copied into the database beside whoever writes, not by one of them.

commit --wrote()--> more than LONG frames to copy? --> a thread copies them; a log of more than FULL frames starts over

Left to itself, the commit that finds the log long copies it, and waits for the disk twice, with everybody behind it.
A copy beside the writers never catches up with them for good, so that the log grows under a load that never pauses, until
they are made to wait for one copy after all. What of the log's index is read here is as SQLite's "WAL-mode File Format"
describes it.
"""

import os
import sqlite3
import struct
import threading
import time
from contextlib import closing, suppress

LONG, FULL = 1_000, 16_000  # frames, of a page each
WAIT_S = 0.05  # that writers are held up at most, where somebody still reads what the log began with
AGAIN_S = 5.0  # until they are held up the next time
FRAMES_AT, COPIED_AT = 16, 96  # in the log's index: how many frames there are, how many of them are copied
NUMBER = struct.Struct("=I")


class Checkpointer:
    """One for each process that writes. Its thread is started when it is first needed."""

    def __init__(self, database: str) -> None:
        """database: its path."""
        self.database = database
        self._index: int | None = None
        self._due = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def wrote(self) -> None:
        """To be called after each commit. Quick."""
        frames, copied = self.frames()
        if frames - copied < LONG:
            return
        self._due.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="store-checkpointer", daemon=True)
            self._thread.start()

    def frames(self) -> tuple[int, int]:
        """(those in the log, how many of them the database has); none where there is no log."""
        try:
            if self._index is None:
                self._index = os.open(f"{self.database}-shm", os.O_RDONLY | os.O_CLOEXEC)
            head = os.pread(self._index, COPIED_AT + NUMBER.size, 0)
            return NUMBER.unpack_from(head, FRAMES_AT)[0], NUMBER.unpack_from(head, COPIED_AT)[0]
        except (OSError, struct.error):
            return 0, 0

    def close(self) -> None:
        self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()
        if self._index is not None:
            os.close(self._index)
            self._index = None

    def _run(self) -> None:
        tried = -AGAIN_S
        with closing(sqlite3.connect(self.database, timeout=WAIT_S, isolation_level=None)) as connection:
            while not self._closed:
                self._due.wait()
                self._due.clear()
                with suppress(sqlite3.Error):  # then the log grows; a commit that has no room says so itself
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                    if self.frames()[0] >= FULL and time.monotonic() - tried >= AGAIN_S:
                        tried = time.monotonic()
                        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
