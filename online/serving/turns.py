"""Turns: one request computes at a time, few wait, and the next are refused.

A request that waits holds no thread. A request that is cancelled does not stop its work, so the next one begins after that.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TypeVar

from online.errors import Overloaded

MAX_WAITING = 4  # requests that may wait, beside the one that computes
T = TypeVar("T")


@dataclass(slots=True)
class Turns:
    """The turns of one kind of work. what: a plural, for the refusal. waiting: requests that wait now."""

    what: str
    max_waiting: int = MAX_WAITING
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0

    async def run(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run work when it is its turn. Raises Overloaded, or what the work raises."""
        if self.waiting >= self.max_waiting:
            raise Overloaded(f"{self.max_waiting} {self.what} wait already; send the request again later")
        self.waiting += 1
        try:
            await self.lock.acquire()
        finally:
            self.waiting -= 1
        task = asyncio.create_task(work())
        task.add_done_callback(lambda _: self.lock.release())
        return await asyncio.shield(task)
