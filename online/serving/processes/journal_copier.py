"""Copies the journal of predictions into the store, beside the service.

every COPY_EVERY_S: is there anything new? --small transactions, behind all other work--> store
a segment that is older than SEAL_AFTER_S is sealed, so that the disk does not keep what was copied
"""

import asyncio
import logging
import time
from contextlib import suppress

from online.errors import Unavailable
from online.journal import list_segments
from online.store import Store
from online.store.journal_copy import COPIED_AT_ONCE, Copied, JournalCopy, copy_all
from online.telemetry import Metrics, OutageLog

log = logging.getLogger("online.journal")

COPY_EVERY_S = 0.1
SEAL_AFTER_S = 60.0


class JournalCopier:
    """Copies until it is cancelled. Only the first worker runs it."""

    def __init__(self, store: Store, journal: JournalCopy, metrics: Metrics) -> None:
        self.store, self.journal, self.metrics = store, journal, metrics
        self._first_seen: dict[str, float] = {}  # seconds of the monotonic clock, by segment
        self._outage = OutageLog(log, "predictions are not copied into the store")

    async def run(self) -> None:
        self.journal.seal_all()  # their writers are dead
        while True:
            await asyncio.to_thread(self._seal_old)
            try:
                await self._copy()
                self._outage.record_success()
            except (Unavailable, OSError) as error:  # predictions go on: the journal keeps them
                self._outage.record_failure(error)
            await asyncio.sleep(COPY_EVERY_S)

    async def stop(self) -> None:
        """Copy the rest, if the store answers."""
        with suppress(Unavailable, OSError):
            await asyncio.to_thread(copy_all, self.store, self.journal, True)

    async def _copy(self) -> None:
        is_complete = not self.journal.has_new()
        while not is_complete:
            work = self.store.submit(
                lambda it: self.journal.copy(it, COPIED_AT_ONCE), durable=False, is_background=True
            )
            copied: Copied = await asyncio.wrap_future(work)
            await asyncio.to_thread(self.journal.note_committed, copied)
            is_complete = copied.is_complete

    def _seal_old(self) -> None:
        now, segments = time.monotonic(), list_segments(self.journal.folder)
        self._first_seen = {each.name: self._first_seen.get(each.name, now) for each in segments}
        self.metrics.journal_bytes.set(sum(each.size for each in segments))
        for segment in segments:
            if not segment.is_sealed and now - self._first_seen[segment.name] >= SEAL_AFTER_S:
                with suppress(FileNotFoundError):
                    segment.seal()
