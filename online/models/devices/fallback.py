r"""Falls back when a device has too little memory: smaller batches first, then the CPU, with a report of each fallback.

    rows --run_in_pieces--> work on all of them --OutOfMemoryError--> halves --> ... --> LEAST_ROWS --> SmallestBatchTooLarge: to the CPU
                                    \-- note_fallback --> the log, and the listener of this thread (the learner's, say)

Pieces do not change a result: sums are added and rows are answered one by one.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
else:
    from online.models.lazy_torch import torch

log = logging.getLogger("online.models")

LEAST_ROWS = 64  # fewer rows at once are not tried: what does not fit then is not the rows


@dataclass(frozen=True, slots=True)
class Fallback:
    """A device had too little memory. what: was computed. to: what happens instead."""

    what: str
    device: str
    to: str
    reason: str


Listener = Callable[[Fallback], None]
_listener: ContextVar[Listener | None] = ContextVar("fallback_listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Pass every fallback in this block to a listener; those of other threads are not."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def note_fallback(what: str, device: str, to: str, error: BaseException) -> None:
    """Say that something is computed in another way, because `device` has too little memory."""
    fallback = Fallback(what, device, to, first_line(error))
    log.warning("%s is out of memory: %s continues %s (%s)", device, what, to, fallback.reason)
    listener = _listener.get()
    if listener is not None:
        listener(fallback)


def first_line(error: BaseException) -> str:
    """Return what an error says, without the advice that torch adds; its class if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether it says that an accelerator is full. Only ask where one is used: this imports torch."""
    return isinstance(error, torch.OutOfMemoryError)


class SmallestBatchTooLarge(Exception):
    """Not even few rows at once fit into a device's memory. done: the rows before them, which are done."""

    def __init__(self, reason: str, done: int) -> None:
        super().__init__(reason)
        self.done = done


class PieceSize:
    """The most rows that are computed at once on a device: as many as ever fitted."""

    def __init__(self, rows: int, least: int = LEAST_ROWS) -> None:
        self.rows, self.least = rows, least

    def shrink(self, tried: int) -> bool:
        """Halve it after as many rows did not fit. False if they were few enough."""
        if tried <= self.least:
            return False
        self.rows = max(self.least, tried // 2)
        return True


def run_in_pieces(work: Callable[[int, int], None], count: int, size: PieceSize, what: str, device: str) -> int:
    """Call work(start, stop) until `count` rows are done; returns `count`. Raises SmallestBatchTooLarge.

    work: changes nothing if it raises torch.OutOfMemoryError.
    """
    done = 0
    while done < count:
        stop = min(done + size.rows, count)
        try:
            work(done, stop)
        except torch.OutOfMemoryError as error:
            if not size.shrink(stop - done):
                raise SmallestBatchTooLarge(first_line(error), done) from error
            note_fallback(what, device, f"with {size.rows} rows at once", error)
        else:
            done = stop
    return done
