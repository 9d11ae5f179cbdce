"""The stream of a learner that reads the copy in Redis: what does not verify there is read from the store.

RedisStream --entries that this service wrote, in their place--> learner
     | a foreign or broken entry, another type, no further entry, or no answer
     v
SqlStream, which is the truth
"""

import logging
import time
from collections.abc import Callable

from online.errors import BrokenCopy, LogReplaced, Unavailable
from online.schemas.events import Event
from online.stream.redis import RedisStream
from online.stream.sql import SqlStream
from online.telemetry import OutageLog

log = logging.getLogger("online.stream")

REST_S = 1.0  # in which a copy that did not answer is not asked again, because each time may take seconds


class VerifiedStream:
    """Reads from a copy as far as it can be trusted, and else from its source. For one thread."""

    def __init__(self, copy: RedisStream, source: SqlStream, clock: Callable[[], float] = time.monotonic) -> None:
        self.copy, self.source, self.clock = copy, source, clock
        self._rests_until = -1e9
        self._outage = OutageLog(log, "reading the store, not the copy in Redis", model=source.model)

    def append(self, event: Event) -> int:
        """Append to the source."""
        return self.source.append(event)

    def read(self, after: int, count: int, block_ms: float = 0, digest: str = "") -> list[Event]:
        """Return entries after an offset. Raises LogReplaced if the source is not the log that was read.

        What the copy does not have is looked for in the source: entries may have been deleted from the copy, or not be
        copied yet.
        """
        if self.clock() < self._rests_until:
            return self.source.read(after, count, block_ms, digest)
        try:
            entries = self.copy.read(after, count, block_ms, digest)
        except (BrokenCopy, LogReplaced) as error:
            self._outage.record_failure(error)
            return self.source.read(after, count, block_ms, digest)
        except Unavailable as error:
            self._rests_until = self.clock() + REST_S
            self._outage.record_failure(error)
            return self.source.read(after, count, block_ms, digest)
        self._outage.record_success()
        return entries or self.source.read(after, count, digest=digest)

    def head(self) -> int:
        """Return the last offset of the source."""
        return self.source.head()

    def close(self) -> None:
        """Close the copy and the source."""
        self.copy.close()
        self.source.close()
