"""Asks the version with the label `shadow` what was just answered by another; no caller ever waits for it or hears it.

answered -> a bounded queue (what finds no room is dropped and counted) -> its answers, in a thread -> rows
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from online.models import Encoder
from online.observability import fact
from online.serving.live import LiveModel, Served
from online.shadow import ShadowRow
from online.snapshots import SHADOW

log = logging.getLogger("online.shadow")

MOST = 1_000  # requests in the queue
AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Answered:
    """One request's instances, which were recorded under these ids. keys: as the policy that answered drew with."""

    ids: Sequence[str]
    inputs: Sequence[bytes]
    encoder: Encoder
    keys: Sequence[int | None]


class Counter(Protocol):
    def inc(self) -> None: ...


class Shadow:
    def __init__(
        self, live: LiveModel, write: Callable[[Sequence[ShadowRow]], Awaitable[None]], dropped: Counter
    ) -> None:
        self.live, self._write, self._dropped = live, write, dropped
        self._queue: deque[Answered] = deque()
        self._came = asyncio.Event()

    def offer(self, answered: Answered) -> None:
        """Quick, whatever happens."""
        if SHADOW not in self.live.labels:
            return
        if len(self._queue) >= MOST:
            self._dropped.inc()
            return
        self._queue.append(answered)
        self._came.set()

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._came.wait()
            batch = [self._queue.popleft() for _ in range(min(AT_ONCE, len(self._queue)))]
            if not self._queue:
                self._came.clear()
            labelled = self.live.labels.get(SHADOW)
            served = None if labelled is None else self.live.available.get(labelled.version)
            if served is not None:
                await self._answer(served, [each for each in batch if each.encoder is served.encoder])

    async def _answer(self, served: Served, batch: Sequence[Answered]) -> None:
        if not batch:
            return
        inputs = [features for each in batch for features in each.inputs]
        keys = [key for each in batch for key in each.keys]
        ids = [id for each in batch for id in each.ids]
        model = self.live.snapshots.model
        try:
            answers = await asyncio.to_thread(served.model.predict, inputs, keys)
            rows = [
                ShadowRow(prediction_id=id, model=model, version=served.version, choice=answer.choice)
                for id, answer in zip(ids, answers, strict=True)
            ]
            await self._write(rows)
        except Exception as error:  # whatever it is that a shadow does wrong, it is nobody's trouble
            reason = f"{type(error).__name__}: {error}"
            fact(log, "shadow failed", logging.WARNING, model=model, version=served.version, reason=reason)
