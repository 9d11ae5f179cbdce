"""The stream of a learner that reads the copy in Redis: what does not verify there is read from the store.

RedisStream --entries that this service wrote, in their place--> learner
     | a foreign or broken entry, another type, or no further entry
     v
SqlStream, which is the truth
"""

import logging

from online.errors import BrokenCopy, LogReplaced
from online.schemas.events import Event
from online.stream.redis import RedisStream
from online.stream.sql import SqlStream
from online.telemetry import OutageLog

log = logging.getLogger("online.stream")


class VerifiedStream:
    """Reads from a copy as far as it can be trusted, and else from its source. For one thread."""

    def __init__(self, copy: RedisStream, source: SqlStream) -> None:
        self.copy, self.source = copy, source
        self._outage = OutageLog(log, "reading the store, not the copy in Redis", model=source.model)

    def append(self, event: Event) -> int:
        """Append to the source."""
        return self.source.append(event)

    def read(self, after: int, count: int, block_ms: float = 0, digest: str = "") -> list[Event]:
        """Return entries after an offset. Raises LogReplaced if the source is not the log that was read.

        What the copy does not have is looked for in the source: entries may have been deleted from the copy, or not be
        copied yet.
        """
        try:
            entries = self.copy.read(after, count, block_ms, digest)
        except (BrokenCopy, LogReplaced) as error:
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
