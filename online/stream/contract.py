"""The contract of a stream: append, read after an offset.

Offsets count from 1 within a model. Appending an event whose id is in the log already changes nothing.
"""

from typing import Protocol

from online.schemas.events import Event


class Stream(Protocol):
    """The log that a learner reads.

    One suite, tests/contracts/test_streams.py, runs over every implementation.
    """

    def append(self, event: Event) -> int:
        """Append an event and return its offset; if its id is known, the offset that it has."""

    def read(self, after: int, count: int, block_ms: float = 0, digest: str = "") -> list[Event]:
        """Return up to `count` entries after an offset, in order; wait up to `block_ms` for the first.

        A page ends with the entry with which it holds more than `online.store.events.MAX_PAGE_BYTES`.
        digest: of the log up to `after`, as the reader knows it; "" if it does not. Raises LogReplaced if the
        entries follow another log.
        """

    def head(self) -> int:
        """Return the last offset; 0 while the stream is empty."""

    def close(self) -> None:
        """Close connections and files."""


class StreamCopy(Protocol):
    """A copy of the log that can be deleted and written again. rebuilds: how often it was."""

    rebuilds: int

    def request_rebuild(self) -> None:
        """Return at once; `rebuilds` counts it once it is done."""
