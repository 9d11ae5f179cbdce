"""Tells the learner which offsets are traced: a FIFO in the state folder, one line of JSON for each traced request.

    serving --{"model", "first", "last", "version", "traceparent"}--> state/bells/traces --> learning

Only requests that are sampled send a line, once a version that has learned their feedback is served. It may be lost: where no
learner listens, or does not keep up, a trace lacks the learner.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class TracedOffsets:
    """The events of one traced request: first to last offset, the version that was the first to be served with them, and the span
    whose parts their learning is."""

    model: str
    first: int
    last: int
    version: int
    traceparent: str


def find_channel(state: Path) -> Path:
    """Return the path of the FIFO."""
    return state / "bells" / "traces"


def send(path: Path, traced: TracedOffsets) -> None:
    """Send a line without waiting; nothing where nobody listens. It is short enough to arrive as a whole."""
    with suppress(OSError):
        end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(end, json.dumps(asdict(traced)).encode() + b"\n")
        finally:
            os.close(end)


class TraceListener:
    """The end of the learner, which must be closed."""

    def __init__(self, path: Path) -> None:
        """Replace the FIFO of a learner that was killed. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        aside.unlink(missing_ok=True)
        os.mkfifo(aside, 0o600)
        self._end = os.open(aside, os.O_RDWR)  # also for writing: else it would end with the first sender
        os.rename(aside, path)
        self.path = path

    def __iter__(self) -> Iterator[TracedOffsets]:
        """Yield what arrives until `stop` is called."""
        rest = b""
        while True:
            *lines, rest = (rest + os.read(self._end, PIECE_BYTES)).split(b"\n")
            for line in lines:
                if not line:
                    os.close(self._end)
                    return
                with suppress(ValueError, TypeError):  # written by another release
                    yield TracedOffsets(**json.loads(line))

    def stop(self) -> None:
        """Let the iteration end once it has come to here."""
        self.path.unlink(missing_ok=True)
        os.write(self._end, b"\n")
