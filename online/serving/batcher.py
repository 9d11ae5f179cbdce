"""Many single requests -> one model call, and one transaction of prediction rows.

    submit --queue--> [everything that waits, up to max_batch] -> one snapshot -> model.predict -> rows -> answers
                                                                 (one call for each version that somebody asked for)

While one batch is being committed the next one gathers: batches grow with the load and are of one when it is quiet, and
nobody ever waits for company. No more than a bounded number wait; whose time is over before their turn comes is dropped
before the model is called.

What a batch prediction job asks has a lane of its own: it is answered when no person waits, however long that takes, and
alone, so that its answers depend on nobody's company.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from online.errors import DeadlineExceeded, EncoderMoved, Overloaded
from online.models import Answer, Encoder
from online.serving.live import Served

Rows = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request's encoded instances.

    encoder: that made the inputs, and must be that of the version that answers. keys: what a policy that explores draws
    with, one per instance; none for a dry run, like record, which makes the rows of the answers. recorded_by: name of
    the encoder of the features in the rows. pinned: the version that is to answer; None for whatever is live by then.
    at, until: when it came, and when its time is over, by the batcher's clock.
    """

    inputs: Sequence[bytes]
    encoder: Encoder
    keys: Sequence[int | None]
    record: Callable[[Served, Sequence[Answer]], Rows] | None
    recorded_by: str
    pinned: Served | None
    at: float
    until: float
    done: "asyncio.Future[tuple[Served, list[Answer]]]"


@dataclass(frozen=True, slots=True)
class Limits:
    """max_batch: instances in one call; max_waiting: instances in the queue; timeout_s: the longest wait in it."""

    max_batch: int
    max_waiting: int
    timeout_s: float


class Observer(Protocol):
    """Is told of every micro-batch: of people's how many instances and how long the first waited; how long the model worked."""

    def gathered(self, size: int, waited_s: float, still_waiting: int) -> None: ...

    def computed(self, seconds: float) -> None: ...


class Batcher:
    def __init__(
        self,
        current: Callable[[], Served],
        write: Callable[[Rows, Set[str]], Awaitable[None]],
        limits: Limits,
        observer: Observer,
        clock: Callable[[], float],
    ) -> None:
        self._current, self._write, self._limits = current, write, limits
        self._observer, self._clock = observer, clock
        self._people: deque[Asked] = deque()
        self._jobs: deque[Asked] = deque()  # answered when no person waits
        self._waiting = 0  # instances of people
        self._came = asyncio.Event()

    async def ask(
        self,
        inputs: Sequence[bytes],
        encoder: Encoder,
        keys: Sequence[int | None],
        record: Callable[[Served, Sequence[Answer]], Rows] | None,
        recorded_by: str,
        pinned: Served | None = None,
        of_a_job: bool = False,
    ) -> tuple[Served, list[Answer]]:
        """The answers of one version, given once their rows are committed. of_a_job: when no person waits, and alone.

        Raises EncoderMoved where the version that is live by now, or the store, takes another encoder's features; Overloaded
        where too many wait already; DeadlineExceeded where its turn did not come in time.
        """
        if not of_a_job and self._waiting and self._waiting + len(inputs) > self._limits.max_waiting:
            raise Overloaded(f"{self._waiting} instances wait to be answered, the most that may (max_waiting)")
        done = asyncio.get_running_loop().create_future()
        at = self._clock()
        until = math.inf if of_a_job else at + self._limits.timeout_s
        asked = Asked(inputs, encoder, keys, record, recorded_by, pinned, at, until, done)
        (self._jobs if of_a_job else self._people).append(asked)
        self._waiting += 0 if of_a_job else len(inputs)
        self._came.set()
        return await asked.done

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            for served, batch in self._by_version(await self._gather()):
                await self._answer(served, batch)

    def _by_version(self, gathered: list[Asked]) -> list[tuple[Served, list[Asked]]]:
        live = self._current()
        if all(asked.pinned is None for asked in gathered):
            return [(live, gathered)]
        shares: dict[int, tuple[Served, list[Asked]]] = {}
        for asked in gathered:
            served = asked.pinned or live
            shares.setdefault(id(served), (served, []))[1].append(asked)
        return list(shares.values())

    async def _gather(self) -> list[Asked]:
        """Whoever waits, up to a batch; at least one. A job's turn comes when nobody does."""
        while True:
            await self._came.wait()
            batch = self._people_waiting(self._clock()) or self._next_of_a_job()
            if not self._people and not self._jobs:
                self._came.clear()
            if batch:
                return batch

    def _people_waiting(self, now: float) -> list[Asked]:
        batch, size = list[Asked](), 0
        while self._people and size < self._limits.max_batch:
            asked = self._people.popleft()
            self._waiting -= len(asked.inputs)
            if self._wanted(asked, now):
                batch.append(asked)
                size += len(asked.inputs)
        if batch:
            self._observer.gathered(size, now - batch[0].at, self._waiting)
        return batch

    def _next_of_a_job(self) -> list[Asked]:
        while self._jobs:
            asked = self._jobs.popleft()
            if not asked.done.done():  # cancelled meanwhile
                return [asked]
        return []

    @staticmethod
    def _wanted(asked: Asked, now: float) -> bool:
        """Nobody waits any more for what a caller left, or whose time is over."""
        if asked.done.done():
            return False
        if now > asked.until:
            asked.done.set_exception(DeadlineExceeded(f"no turn came in {now - asked.at:.1f} s (request_timeout_ms)"))
            return False
        return True

    async def _answer(self, served: Served, batch: list[Asked]) -> None:
        try:
            if any(asked.encoder is not served.encoder for asked in batch):
                raise EncoderMoved("another version is live, with another encoder; try again")
            started = self._clock()
            answers = served.model.predict(
                [features for asked in batch for features in asked.inputs],
                [key for asked in batch for key in asked.keys],
            )
            self._observer.computed(self._clock() - started)
            shares, rows, start = [], [], 0
            for asked in batch:
                shares.append(answers[start : start + len(asked.inputs)])
                start += len(asked.inputs)
                rows += asked.record(served, shares[-1]) if asked.record else []
            if rows:
                await self._write(rows, {asked.recorded_by for asked in batch if asked.record})
        except Exception as error:  # whoever caused it must not be a trouble to the others
            if len(batch) > 1:
                for asked in batch:
                    await self._answer(asked.pinned or self._current(), [asked])
            elif not batch[0].done.done():
                batch[0].done.set_exception(error)
            return
        for asked, share in zip(batch, shares, strict=True):
            if not asked.done.done():  # a caller may have gone away
                asked.done.set_result((served, share))
