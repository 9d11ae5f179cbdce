"""Asks the version labelled `shadow` what another version has just answered; callers never wait for it.

answered request -> bounded queue (dropped and counted when full) -> answers, in a thread -> rows
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from online.plugins.shadow.tables import ShadowAnswerRow
from online.serving.live import LiveModel
from online.serving.parts import AnsweredRequest, ModelPart, Work
from online.serving.versions import ServedVersion
from online.snapshots.labels import SHADOW
from online.telemetry import OutageLog

log = logging.getLogger("online.shadow")

MAX_QUEUED = 1_000  # requests
MAX_BATCH = 32  # requests that are answered together


class ShadowCounter(Protocol):
    def inc(self) -> None:
        """Count one more."""


class Shadow(ModelPart):
    """Repeats requests to one model on its shadow version."""

    def __init__(
        self,
        live: LiveModel,
        write: Callable[[Sequence[ShadowAnswerRow]], Awaitable[None]],
        dropped: ShadowCounter,
    ) -> None:
        """write: stores answers. dropped: counts requests for which the queue has no room."""
        self.live, self._write, self._dropped = live, write, dropped
        self._queue: deque[AnsweredRequest] = deque()
        self._arrival = asyncio.Event()
        self._outage = OutageLog(log, "shadow failed", model=live.snapshots.model)

    def observe(self, request: AnsweredRequest) -> None:
        """Queue a recorded request if there is a shadow version. Never blocks."""
        if SHADOW not in self.live.labels or not request.ids:
            return
        if len(self._queue) >= MAX_QUEUED:
            self._dropped.inc()
            return
        self._queue.append(request)
        self._arrival.set()

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Return the answering, which runs beside the requests in every worker."""
        return (self.run(),)

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._arrival.wait()
            batch = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
            if not self._queue:
                self._arrival.clear()
            target = self.live.labels.get(SHADOW)
            served = None if target is None else self.live.available.get(target.version)
            if served is not None:
                await self._answer(served, [request for request in batch if request.encoder is served.encoder])

    async def _answer(self, served: ServedVersion, batch: Sequence[AnsweredRequest]) -> None:
        if not batch:
            return
        inputs = [features for request in batch for features in request.inputs]
        keys = [key for request in batch for key in request.keys]
        ids = [id for request in batch for id in request.ids]
        model = self.live.snapshots.model
        try:
            answers = await asyncio.to_thread(served.predict, inputs, keys)
            rows = [
                ShadowAnswerRow(prediction_id=id, model=model, version=served.version, choice=answer.choice)
                for id, answer in zip(ids, answers, strict=True)
            ]
            await self._write(rows)
            self._outage.record_success()
        except Exception as error:  # of any sort: a shadow version must not disturb the service
            self._outage.record_failure(f"version {served.version}: {type(error).__name__}: {error}")
