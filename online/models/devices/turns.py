"""Learning and answering on one device: who goes first, and for how long the learner may keep it.

    learner   short turns (`LearningQuantum`), each finished before the next one begins; a stream of low priority
    serving   a stream of high priority: its kernels go before those that wait
    the CPU   the same turns; no streams

A GPU runs the kernels that were queued before it runs others. What bounds the wait of an answer is thus how much work the
learner has queued. Streams of one process, and of several under MPS, are ordered by priority; without MPS the GPU changes
between processes by time slices of its own.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from online.models.devices.placement import split_devices

if TYPE_CHECKING:
    import torch
else:
    from online.models.lazy_torch import torch

LOW, HIGH = 0, -1  # of CUDA streams: lower numbers go first
FADING = 0.8  # of what is known about the time of an event


def list_cuda(device: str) -> list[str]:
    """Return the CUDA devices in a joined name."""
    return [name for name in split_devices(device) if name.startswith("cuda")]


@contextmanager
def low_priority(device: str) -> Iterator[None]:
    """Queue what this block computes on an accelerator behind what others of this process compute there."""
    names = list_cuda(device)[:1]
    with on_stream(create_stream(names[0], LOW)) if names else nullcontext():
        yield


@contextmanager
def high_priority(device: str) -> Iterator[None]:
    """Queue what this block computes on an accelerator before what others of this process compute there."""
    names = list_cuda(device)[:1]
    with on_stream(urgent_stream(names[0])) if names else nullcontext():
        yield


@cache
def urgent_stream(name: str) -> "torch.cuda.Stream":
    """Return the stream of all answers on a device. One, because the allocator keeps memory for each stream."""
    return create_stream(name, HIGH)


def create_stream(name: str, priority: int) -> "torch.cuda.Stream":
    """Create a stream. priority: lower numbers go first."""
    return torch.cuda.Stream(name, priority=priority)  # type: ignore[no-untyped-call]


@contextmanager
def on_stream(stream: "torch.cuda.Stream") -> Iterator[None]:
    """Make a stream, and its device, those of this thread."""
    with torch.cuda.device(stream.device), torch.cuda.stream(stream):
        yield


def finish_work(device: str) -> None:
    """Return once an accelerator has done what this thread has queued, and let others have the processor."""
    for name in list_cuda(device):
        torch.cuda.current_stream(name).synchronize()
    os.sched_yield()


class LearningQuantum:
    """The number of events that the learner may take at once, so that a turn lasts about `limit_ms` at most.

    The number never decides what is learned: any batches leave the same state.
    """

    def __init__(self, limit_ms: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        """limit_ms: None for no limit."""
        self.limit_s, self.clock = None if limit_ms is None else limit_ms / 1000, clock
        self.event_s: float | None = None  # of one event, lately

    def find_count(self, most: int) -> int:
        """Return the number of events of the next turn: 1 while their cost is not known."""
        if self.limit_s is None:
            return most
        if self.event_s is None:
            return 1
        return max(1, min(most, int(self.limit_s / max(self.event_s, 1e-9))))

    @contextmanager
    def turn(self, count: int, device: str) -> Iterator[None]:
        """Learn so many events in this block; then wait for the device, and give others a chance."""
        started = self.clock()
        yield
        if self.limit_s is not None:
            finish_work(device)
            took = (self.clock() - started) / count
            self.event_s = took if self.event_s is None else max(took, FADING * self.event_s + (1 - FADING) * took)
