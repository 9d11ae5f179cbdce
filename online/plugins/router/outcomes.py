"""Records what answers took: cost, seconds and tokens, as events of the log from which the router learns.

    answer complete --add--> queue --a batch every moment--> one durable transaction --> learner

The answer does not wait for it. While the store is away outcomes wait here, at most MOST of them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from online.errors import OnlineError, Unavailable
from online.schemas.access.callers import SERVICE
from online.schemas.feedback import FeedbackItem
from online.serving.model_runtime import ModelRuntime
from online.telemetry import log_event

log = logging.getLogger("online.router")

MOST = 10_000
BATCH = 128
GATHER_S = 0.5  # in which further outcomes join a batch: each batch is learned, and a version is made of it
RETRY_S = 1.0  # while the store is away


class OutcomeQueue:
    """The outcomes of one model that are not in the log yet. For one event loop."""

    def __init__(self, model: ModelRuntime, on_lost: Callable[[], None]) -> None:
        """on_lost: called for each outcome that is lost."""
        self.model, self.waiting, self.on_lost = model, deque[FeedbackItem](), on_lost
        self._wakeup = asyncio.Event()

    def add(self, item: FeedbackItem) -> None:
        """Add an outcome. The oldest is lost where too many wait."""
        if len(self.waiting) >= MOST:
            self.waiting.popleft()
            self.on_lost()
        self.waiting.append(item)
        self._wakeup.set()

    async def run(self) -> None:
        """Record outcomes until cancelled."""
        while True:
            await self._wakeup.wait()
            await asyncio.sleep(GATHER_S)
            self._wakeup.clear()
            while self.waiting:
                if not await self.flush_batch():
                    await asyncio.sleep(RETRY_S)

    async def flush_batch(self) -> bool:
        """Record the oldest outcomes; return whether the store took them."""
        count = min(len(self.waiting), BATCH, self.model.predictor.settings.max_instances)
        batch = [self.waiting[place] for place in range(count)]
        try:
            await self.model.feedback.submit(batch, SERVICE)
        except Unavailable:
            return False
        except OnlineError as error:
            if count > 1:  # one of them is about a prediction that is gone
                return await self._flush_each(batch)
            log_event(log, "outcome not recorded", logging.WARNING, model=self.model.spec.name, reason=str(error))
        self._drop(batch)
        return True

    async def _flush_each(self, batch: list[FeedbackItem]) -> bool:
        for item in batch:
            try:
                await self.model.feedback.submit([item], SERVICE)
            except Unavailable:
                return False
            except OnlineError as error:
                log_event(log, "outcome not recorded", logging.WARNING, model=self.model.spec.name, reason=str(error))
            self._drop([item])
        return True

    def _drop(self, batch: list[FeedbackItem]) -> None:
        """Remove what was recorded; the oldest may have been lost meanwhile."""
        for item in batch:
            if self.waiting and self.waiting[0] is item:
                self.waiting.popleft()

    async def close(self) -> None:
        """Record what is left."""
        while self.waiting and await self.flush_batch():
            pass
