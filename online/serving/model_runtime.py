"""Everything that serves one model: its live snapshot, predictor, feedback, and background tasks."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from sqlalchemy import Connection

from online.installed import ContributedParts
from online.schemas.models import LearnerState
from online.schemas.replies import NewReply
from online.serving.event_feed import EventFeed
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.outcomes import OutcomeMarker
from online.serving.live import LiveModel, describe_set_aside
from online.serving.monitoring.arrivals import ArrivalNotifier
from online.serving.monitoring.standstill import StandstillWatch
from online.serving.parts import ModelPart
from online.serving.predictor import Predictor
from online.serving.rating_counter import RatingCounter
from online.serving.readiness import Readiness
from online.serving.repertoire.repertoire import Repertoire
from online.serving.repertoire.starter import report_shared_examples
from online.serving.stream_relay import StreamRelay
from online.serving.transactions import Transactions
from online.settings import ModelSettings
from online.snapshots import Snapshots
from online.stream.sql import SqlStream
from online.telemetry import Metrics, log_event

log = logging.getLogger("online.serving")

T = TypeVar("T")


@dataclass(slots=True)
class ModelRuntime:
    """The parts of one served model, and what handlers ask of them.

    relay: None unless events are copied to Redis. starter_replies: the first repertoire of a ranker.
    parts: what plugins keep.
    """

    spec: ModelSettings
    live: LiveModel
    snapshots: Snapshots
    stream: SqlStream
    transactions: Transactions
    predictor: Predictor
    feedback: Feedback
    outcomes: OutcomeMarker
    repertoire: Repertoire
    relay: StreamRelay | None
    feed: EventFeed
    ratings: RatingCounter
    metrics: Metrics
    standstill: StandstillWatch
    readiness: Readiness
    starter_replies: list[NewReply]
    parts: ContributedParts = field(default_factory=ContributedParts)

    def describe_standstill(self) -> dict[str, object]:
        """Return what /readyz and the status say while learning stands still; nothing otherwise."""
        watch = self.standstill
        if not watch.stood_s:
            return {}
        facts = {"events": watch.waiting, "seconds": round(watch.stood_s, 1), "reason": watch.describe()}
        return {"standstill": facts}

    def new_id(self) -> str:
        """Return a new id."""
        return self.transactions.new_id()

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a read-only query on the store, off the event loop."""
        return await self.transactions.read(query)

    async def commit(self, work: Callable[[Connection], T], needs_room: bool = True) -> T:
        """Run `work` in a durable transaction, then wake the learner. needs_room: as in `Transactions`."""
        return await self.transactions.commit(work, needs_room)

    def describe(self, learner: LearnerState) -> dict[str, object]:
        """Return the data of the event `status`."""
        served = self.live.current
        return {
            "version": str(served.version),
            "learned_until": served.learned_until,
            "learner": learner.model_dump(exclude_none=True),
            "frozen": None if self.live.frozen is None else asdict(self.live.frozen),
            "set_aside": None if self.live.set_aside is None else describe_set_aside(self.live.set_aside),
        }

    def add_part(self, part: ModelPart) -> None:
        """Add a part, which observes the answers if it can."""
        self.parts.add(part)
        if type(part).observe is not ModelPart.observe:
            self.predictor.observers.append(part.observe)

    async def start_parts(self) -> None:
        """Start what plugins keep. Raises SetupError."""
        for part in self.parts.list(ModelPart):
            await part.start()

    def forget_log(self) -> None:
        """Drop what is in memory about a log that is no longer there."""
        self.feedback.acknowledged.clear()
        self.standstill.reset()
        asyncio.get_running_loop().run_in_executor(None, self.forget_log_of_parts)

    def forget_log_of_parts(self) -> None:
        """Let plugins drop what they have in memory of the log. It may take a moment."""
        for part in self.parts.list(ModelPart):
            part.forget_log()

    def background_work(self, is_primary: bool) -> Iterator[Coroutine[object, object, None]]:
        """Yield what runs beside the requests until the service stops; some of it in the first worker only."""
        yield self.live.watch()
        yield ArrivalNotifier(self.spec.name, self.stream.wakeup, self.stream.head, self.feed).run()
        yield self.standstill.run()
        for part in self.parts.list(ModelPart):
            yield from part.background(is_primary)
        if is_primary:
            yield self.outcomes.run()
            if self.relay is not None:
                yield self.relay.run()

    async def add_starter_replies(self, will_learn: bool) -> None:
        """Give a ranker without a history its first repertoire.

        will_learn: a learner runs beside this process, so the model is ready once it has learned it.
        """
        if not self.starter_replies:
            return
        head = await asyncio.to_thread(self.stream.head)
        if head == 0 and (rows := await self.repertoire.add_first(self.starter_replies)):
            log_event(log, "repertoire loaded", model=self.spec.name, replies=len(rows))
            report_shared_examples(self.spec.name, self.starter_replies)
        head = await asyncio.to_thread(self.stream.head)
        if will_learn and not await asyncio.to_thread(self.snapshots.folder.versions):
            self.readiness.starter_until = head

    def close_feed(self) -> None:
        """End the event streams of the model."""
        self.outcomes.stopping.set()
        self.feed.close()

    async def close(self) -> None:
        """Write what is not written yet. Called after the background work has ended."""
        await self.outcomes.flush()
        for part in self.parts.list(ModelPart):
            await part.close()
        await self.ratings.stop()
        self.stream.close()
        if self.relay is not None:
            self.relay.close()
