"""Retention: deletes what is older, or more, than the settings keep, in small steps beside the service.

    every PRUNE_EVERY_S: predictions without feedback, conversations, cohorts --small transactions--> store
                         contents of expired events (event_retention.py) -----small transactions--> store
                         reports, uploaded logs, records of jobs -----------------------------------> state folder

Before each step it waits for a moment without interactive requests, but not for long. What was stopped, or killed, goes on
from the last step.
"""

import asyncio
import logging
import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from online.errors import Unavailable
from online.serving.batcher import InteractiveLoad
from online.serving.jobs.batch_records import JobRecords
from online.serving.jobs.event_retention import EventRetention
from online.serving.jobs.replay_jobs import ReplayJobs
from online.settings import Settings
from online.state.workspace import Workspace
from online.store.cohorts import prune_cohorts
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

PRUNE_EVERY_S = 300.0
STEP_ROWS, STEP_CONVERSATIONS, STEP_COHORTS = 500, 20, 1  # of one transaction, which takes milliseconds
MAX_YIELD_S = 0.05  # the longest that a step waits for a moment without interactive requests
UNFINISHED = ("waiting", "running")


class RetentionJob:
    """Prunes the store and the files of one service. Only the first worker runs it."""

    def __init__(
        self,
        settings: Settings,
        workspace: Workspace,
        metrics: Metrics,
        replays: ReplayJobs,
        loads: Sequence[InteractiveLoad],
        events: EventRetention,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.settings, self.workspace, self.metrics, self.replays = settings, workspace, metrics, replays
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
        days, most_bytes = self.settings.retention_days, self.settings.retention_bytes
        if days is not None:
            before = (self.clock() - timedelta(days=days)).isoformat()
            await self._prune_conversations(before)
            for kind in ID_KINDS:
                await self._prune_predictions(partial(prune_predictions, kind=kind, before=before))
            await asyncio.to_thread(self._prune_files, before)
        await self._prune_cohorts((self.clock() - timedelta(days=self.settings.cohort_retention_days)).isoformat())
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

    async def _prune_cohorts(self, before: str) -> None:
        work = partial(prune_cohorts, before=before, count=STEP_COHORTS)
        while deleted := await self._write(work):
            self.metrics.pruned.labels("cohorts").inc(deleted)

    async def _write(self, work: Callable[[Connection], Any]) -> Any:
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

    # files

    def _prune_files(self, before: str) -> None:
        reports = [*(self.workspace.state / "reports").glob("*/[0-9]*.html")]
        records = JobRecords(self.workspace.jobs)
        jobs = [job for job in records.list_jobs() if job.state not in UNFINISHED and job.created_at < before]
        old_reports = [path for path in reports if modified_at(path) < before]
        replays = [each.id for each in self.replays.list_replays() if each.created_at < before]
        old_replays = [id for id in replays if id not in self.replays.running]
        damaged = self.workspace.journal.glob(f"*{DAMAGED}")
        for path in [*old_reports, *(path for path in damaged if modified_at(path) < before)]:
            path.unlink(missing_ok=True)
        for job in jobs:
            records.delete(job)
        for id in old_replays:
            shutil.rmtree(self.workspace.replays / id, ignore_errors=True)
        pruned = [path for path in old_reports if path.stem.isdecimal()]  # without the translations of each
        for what, found in (("reports", pruned), ("jobs", jobs), ("replays", old_replays)):
            self.metrics.pruned.labels(what).inc(len(found))


def modified_at(path: Path) -> str:
    """When a file was written, ISO 8601 in UTC; the end of time for one that is gone."""
    with suppress(FileNotFoundError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
    return "9999"
