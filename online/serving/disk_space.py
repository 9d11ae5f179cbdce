"""The free space of the disk that holds the state folder, and what stops when there is too little of it.

    once a second: measure --below the floor--> predictions go on unrecorded; what would be appended is refused (507)
                           --above it again---> everything goes on

A request reads one attribute: only the watch asks the system.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from online.errors import InsufficientStorage
from online.telemetry import Metrics, OutageLog

log = logging.getLogger("online.disk")

CHECK_EVERY_S = 1.0
DEFAULT_FLOOR_BYTES = 500_000_000
DEFAULT_FLOOR_RATIO = 0.1  # of a smaller disk


class DiskUsage(NamedTuple):
    """The free and the total space of a disk."""

    free_bytes: int
    total_bytes: int


def measure_space(folder: Path) -> DiskUsage:
    """Return the space of the file system that holds a folder, as far as this user may fill it."""
    status = os.statvfs(folder)
    return DiskUsage(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)


def find_floor(min_free_bytes: int | None, total_bytes: int) -> int:
    """Return how many bytes must be free on a disk. min_free_bytes: the setting."""
    if min_free_bytes is not None:
        return min_free_bytes
    return min(DEFAULT_FLOOR_BYTES, int(DEFAULT_FLOOR_RATIO * total_bytes))


class DiskSpace:
    """Watches the free space of the disk. is_short: whether it is below the floor."""

    def __init__(self, measure: Callable[[], DiskUsage], min_free_bytes: int | None, metrics: Metrics) -> None:
        """min_free_bytes: the floor; 0 switches it off, None: 500 MB, or a tenth of a smaller disk."""
        self._measure, self.min_free_bytes = measure, min_free_bytes
        self._free, self._is_short = metrics.disk_free_bytes, metrics.disk_is_short
        self._outage = OutageLog(log, "too little free disk space")
        self.is_short = False
        self.reason: str | None = None
        self.check()

    def check(self) -> None:
        """Measure the space. A disk that cannot be measured counts as one with enough."""
        try:
            space = self._measure()
        except OSError as error:
            log.debug("the free disk space cannot be measured: %s", error)
            return
        floor = find_floor(self.min_free_bytes, space.total_bytes)
        self.is_short = space.free_bytes < floor
        self._free.set(space.free_bytes)
        self._is_short.set(int(self.is_short))
        if not self.is_short:
            self.reason = None
            self._outage.record_success()
            return
        self.reason = (
            f"the disk of the state folder has {space.free_bytes:,} free bytes, less than {floor:,} (min_free_bytes)"
        )
        self._outage.record_failure(self.reason)

    def check_room(self) -> None:
        """Raise InsufficientStorage below the floor."""
        if self.is_short:
            raise InsufficientStorage(
                f"{self.reason}; nothing was changed: make room, or lower the setting, then send the request again"
            )

    async def watch(self) -> None:
        """Check once a second until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            await asyncio.to_thread(self.check)
