"""Copy SQLite's write-ahead log (WAL) into the database in a thread, so that no commit has to.

    commit --after_commit()--> more than LONG frames to copy? --> the thread copies them
                               more than FULL frames in all?  --> the log starts over, while writers wait

By default, the commit that finds the log long copies it, and waits for the disk twice, with all other writers behind it.
A copy beside the writers never catches up under a load that never pauses, so the log grows until the writers have to wait
for one copy. The fields of the log's index are described in SQLite's "WAL-mode File Format".
"""

import os
import sqlite3
import struct
import threading
import time
from contextlib import closing, suppress

LONG, FULL = 1_000, 16_000  # frames, of a page each
WAIT_S = 0.05  # the longest that writers wait while a reader still uses the beginning of the log
AGAIN_S = 5.0  # until writers may have to wait again
FRAMES_AT, COPIED_AT = 16, 96  # offsets in the log's index: number of frames, number of copied frames
NUMBER = struct.Struct("=I")


class Checkpointer:
    """One for each process that writes. Its thread starts when it is first needed."""

    def __init__(self, database: str) -> None:
        """database: its path."""
        self.database = database
        self._index: int | None = None
        self._due = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def after_commit(self) -> None:
        """Call this after each commit; it takes microseconds."""
        frames, copied = self.frames()
        if frames - copied < LONG:
            return
        self._due.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="store-checkpointer", daemon=True)
            self._thread.start()

    def frames(self) -> tuple[int, int]:
        """Return the number of frames in the log, and how many of them are copied; (0, 0) without a log."""
        try:
            if self._index is None:
                self._index = os.open(f"{self.database}-shm", os.O_RDONLY | os.O_CLOEXEC)
            head = os.pread(self._index, COPIED_AT + NUMBER.size, 0)
            return NUMBER.unpack_from(head, FRAMES_AT)[0], NUMBER.unpack_from(head, COPIED_AT)[0]
        except (OSError, struct.error):
            return 0, 0

    def close(self) -> None:
        """Stop the thread after a last checkpoint."""
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
                with suppress(sqlite3.Error):  # the log grows then; a commit without disk space reports that itself
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                    if self.frames()[0] >= FULL and time.monotonic() - tried >= AGAIN_S:
                        tried = time.monotonic()
                        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
