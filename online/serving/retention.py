"""Retention: deletes what is older, or more, than the settings keep, in small steps beside the service.

    every PRUNE_EVERY_S: predictions without feedback, conversations --small transactions--> store
                         contents of expired events (event_retention.py) -----small transactions--> store
                         damaged files of the journal ----------------------------------------------> state folder
                         what plugins keep: prune() of each part

Before each step it waits for a moment without interactive requests, but not for long. What was stopped, or killed, goes on
from the last step.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from online.errors import Unavailable
from online.installed import ContributedParts
from online.serving.batcher import InteractiveLoad
from online.serving.event_retention import EventRetention
from online.serving.parts import PruningRun, ServicePart
from online.settings import Settings
from online.state.workspace import Workspace
from online.store.deletion.retention import (
    ID_KINDS,
    DeletionStep,
    StoredPredictions,
    measure_predictions,
    prune_conversations,
    prune_oldest,
    prune_predictions,
)
from online.store.journal_copy import DAMAGED
from online.telemetry import Metrics, OutageLog, log_event

log = logging.getLogger("online.retention")

T = TypeVar("T")

PRUNE_EVERY_S = 300.0
STEP_ROWS, STEP_CONVERSATIONS = 500, 20  # of one transaction, which takes milliseconds
MAX_YIELD_S = 0.05  # the longest that a step waits for a moment without interactive requests


class RetentionJob:
    """Prunes the store and the files of one service. Only the first worker runs it."""

    def __init__(
        self,
        settings: Settings,
        workspace: Workspace,
        metrics: Metrics,
        parts: ContributedParts,
        loads: Sequence[InteractiveLoad],
        events: EventRetention,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.settings, self.workspace, self.metrics, self.parts = settings, workspace, metrics, parts
        self.loads, self.events, self.clock = loads, events, clock
        self._outage = OutageLog(log, "pruning failed")

    async def run(self) -> None:
        """Prune now and then until cancelled."""
        while True:
            try:
                await self.prune()
                self._outage.record_success()
            except (Unavailable, OSError) as error:
                self._outage.record_failure(error)
            await asyncio.sleep(PRUNE_EVERY_S)

    async def prune(self) -> None:
        """Delete everything that is not to be kept. Raises Unavailable, OSError."""
        days, most_bytes, at = self.settings.retention_days, self.settings.retention_bytes, self.clock()
        before = None if days is None else (at - timedelta(days=days)).isoformat()
        if before is not None:
            await self._prune_conversations(before)
            for kind in ID_KINDS:
                await self._prune_predictions(partial(prune_predictions, kind=kind, before=before))
            await asyncio.to_thread(self._prune_journal, before)
        for part in self.parts.list(ServicePart):
            await part.prune(PruningRun(at, before, self._write))
        if self.settings.event_retention_days is not None:
            await self.events.prune(self._write)
        stored = await self._measure()
        if most_bytes is not None and stored.total_bytes > most_bytes:
            excess = math.ceil((stored.total_bytes - most_bytes) / stored.row_bytes)
            await self._prune_predictions(prune_oldest, excess)
            await self._measure()

    async def _prune_predictions(self, step: Callable[..., DeletionStep], most: float = math.inf) -> None:
        """Delete predictions until `most` are deleted, or there are no more to delete."""
        deleted = 0
        while deleted < most:
            done: DeletionStep = await self._write(partial(step, count=int(min(STEP_ROWS, most - deleted))))
            deleted += done.deleted
            self.metrics.pruned.labels("predictions").inc(done.deleted)
            if not done.seen:
                break
        if deleted:
            log_event(log, "predictions pruned", rows=deleted)

    async def _prune_conversations(self, before: str) -> None:
        work = partial(prune_conversations, before=before, count=STEP_CONVERSATIONS)
        while deleted := await self._write(work):
            self.metrics.pruned.labels("conversations").inc(deleted)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        await asyncio.to_thread(self._wait_for_a_quiet_moment)
        return await asyncio.wrap_future(self.workspace.store.submit(work, durable=False))

    def _wait_for_a_quiet_moment(self) -> None:
        for load in self.loads:
            load.gone.wait(MAX_YIELD_S)

    async def _measure(self) -> StoredPredictions:
        stored: StoredPredictions = await asyncio.to_thread(self.workspace.store.read, measure_predictions)
        self.metrics.stored_predictions.set(stored.rows)
        self.metrics.stored_prediction_bytes.set(stored.total_bytes)
        return stored

    def _prune_journal(self, before: str) -> None:
        """Delete damaged files of the journal that were set aside before an instant."""
        for path in self.workspace.journal.glob(f"*{DAMAGED}"):
            with suppress(FileNotFoundError):
                if datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat() < before:
                    path.unlink()
