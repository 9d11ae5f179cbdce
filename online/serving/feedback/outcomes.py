"""Marks the outcomes of feedback at every swap: in the store, and for subscribers.

swap --record_swap--> spans of offsets, freshness --gathered for 0.1 s--> store --> event feed
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from online.errors import Unavailable
from online.serving.event_feed import EventFeed, FeedEvent
from online.serving.feedback.feedback import Feedback, describe_outcome
from online.serving.processes.store_messages import MarkLearned
from online.serving.versions import ServedVersion
from online.store import now
from online.store.feedback import load_feedback, load_feedback_between
from online.telemetry import Metrics, log_event

log = logging.getLogger("online.serving")

GATHER_S = 0.1  # swaps within this time are written together
MAX_FRESHNESS = 1_000  # newest feedbacks whose freshness is reported
FINAL_STATUSES = ("learned", "refused", "retracted")


class OutcomeMarker:
    """Marks which version learned which feedback of one model.

    freshness_ms: of the newest feedback since this process started.
    """

    def __init__(
        self,
        feedback: Feedback,
        feed: EventFeed,
        metrics: Metrics,
        clock: Callable[[], float],
        is_primary: bool,
    ) -> None:
        """is_primary: only the first worker writes to the store. clock: monotonic seconds."""
        self.feedback, self.feed, self.metrics, self.clock = feedback, feed, metrics, clock
        self.transactions, self.name, self.is_primary = feedback.transactions, feedback.name, is_primary
        self.freshness_ms: deque[float] = deque(maxlen=MAX_FRESHNESS)
        self.stopping = asyncio.Event()
        self._spans: list[tuple[int, int, int, str]] = []  # (after, until, version, when), not written yet
        self._marked_until = 0
        self._learned_ids: list[str] = []  # feedback whose outcome is not sent yet
        self._shared_spans: list[tuple[int, int]] = []  # (after, until], in which other replicas may have got feedback
        self._is_due = asyncio.Event()
        self._writing = asyncio.Lock()
        feedback.on_overtaken = self.record_overtaken

    def record_swap(self, before: ServedVersion, served: ServedVersion) -> None:
        """Called on the event loop at every swap: count it, send it, remember what it has learned."""
        self._count(served)
        loaded_from_ns = self.transactions.live.loaded_from_ns
        self.feedback.tracer.serve(self.name, served.version, served.learned_until, loaded_from_ns)
        freshness_ms = self._measure_freshness(served.learned_until)
        kind = "rolled_back" if served.version < before.version else "published"
        data = {"version": str(served.version), "learned_until": served.learned_until}
        self.feed.notify(kind, **data, **({"freshness_ms": freshness_ms} if kind == "published" else {}))
        if self.transactions.store.is_shared and self.feed.has_subscribers:
            self._shared_spans.append((before.learned_until, served.learned_until))
        if served.learned_until < self._marked_until:  # rolled back, or the log went back in time
            self._marked_until = 0
        if served.learned_until > self._marked_until and self.is_primary:
            self._spans.append((self._marked_until, served.learned_until, served.version, now()))
            self._marked_until = served.learned_until
            self._is_due.set()

    def record_overtaken(self, learned_until: int) -> None:
        """Called for feedback that the live version had learned before it was acknowledged."""
        self._measure_freshness(learned_until)
        self._is_due.set()

    def _count(self, served: ServedVersion) -> None:
        self.metrics.swaps.labels(self.name).inc()
        self.metrics.live_version.labels(self.name).set(served.version)
        self.metrics.learned_until.labels(self.name).set(served.learned_until)
        if served.loaded is not None:
            alarms = served.loaded.manifest.metrics.get("drift_alarms", 0)
            self.metrics.drift_alarms.labels(self.name).set(alarms)

    def _measure_freshness(self, learned_until: int) -> float | None:
        """Return freshness in ms of the newest feedback that this version is the first to have learned."""
        age, acknowledged = None, self.feedback.acknowledged
        while acknowledged and acknowledged[0][0] <= learned_until:
            _, id, acknowledged_at = acknowledged.popleft()
            age = self.clock() - acknowledged_at
            self.metrics.freshness_seconds.labels(self.name).observe(age)
            self.freshness_ms.append(round(age * 1000, 1))
            self._learned_ids.append(id)
        return None if age is None else round(age * 1000, 1)

    async def run(self) -> None:
        """Write outcomes until cancelled; those decided while a write is under way are gathered.

        `wait_for` loses a cancellation that comes just when `stopping` is set, so that is looked at as well.
        """
        while not self.stopping.is_set():
            await self._is_due.wait()
            self._is_due.clear()
            with suppress(TimeoutError):  # a client that asks for an outcome has it written at once
                async with asyncio.timeout(GATHER_S):
                    await self.stopping.wait()
            await self.flush()

    async def flush(self) -> None:
        """Return once every outcome decided so far is written."""
        async with self._writing:
            due, self._spans = self._spans, []
            if due:
                try:
                    await self.transactions.watch(self.feedback.store.perform(MarkLearned(self.name, due)))
                except Unavailable as error:
                    self._spans = due + self._spans
                    log_event(log, "outcomes not written yet", logging.WARNING, model=self.name, reason=str(error))
                    return
        await self._send()

    async def _send(self) -> None:
        """Send the outcome of each feedback to the subscribers of the event feed."""
        ids, self._learned_ids = self._learned_ids, []
        spans, self._shared_spans = self._shared_spans, []
        if not ((ids or spans) and self.feed.has_subscribers):
            return
        try:
            rows = await self.transactions.read(lambda connection: load_feedback(connection, self.name, ids))
            for span in spans:
                rows |= await self.transactions.read(partial(load_feedback_between, model=self.name, span=span))
        except Unavailable as error:
            log_event(log, "outcomes not sent", logging.WARNING, model=self.name, reason=str(error))
            return
        for row in rows.values():
            if row.status in FINAL_STATUSES:
                data = describe_outcome(row).model_dump(exclude_none=True)
                self.feed.send(FeedEvent(row.status, data, row.user if row.user is not None else row.caller or ""))
