"""Everything that serves one model: its live snapshot, predictor, feedback, and background tasks."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from online.errors import LogReplaced, Unavailable
from online.installed import ContributedParts
from online.schemas.models import LearnerState
from online.schemas.replies import NewReply
from online.serving.event_feed import EventFeed
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.outcomes import OutcomeMarker
from online.serving.feedback.quarantine_ending import end_quarantine
from online.serving.live import LiveModel, describe_set_aside
from online.serving.monitoring.arrivals import ArrivalNotifier
from online.serving.monitoring.standstill import StandstillWatch
from online.serving.parts import ModelPart
from online.serving.predictor import Predictor
from online.serving.rating_counter import RatingCounter
from online.serving.repertoire.repertoire import Repertoire, find_shared_examples
from online.serving.stream_relay import StreamRelay
from online.serving.transactions import Transactions
from online.serving.versions import ServedVersion
from online.settings import ModelSettings
from online.snapshots import Snapshots
from online.state.base_snapshot import find_base, missing_until
from online.store.encoder_moves import encoder_of, load_adaptation
from online.store.events import check_log, head_of
from online.store.quarantine import Outcome, QuarantineRow
from online.stream.sql import SqlStream
from online.telemetry import Metrics, log_event

log = logging.getLogger("online.serving")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelReadiness:
    """The readiness of a model to answer, and to record its answers. head: newest offset; None without a store.

    reason: why it cannot. store_error: why the store does not answer: no feedback is taken then.
    """

    reason: str | None
    head: int | None
    store_error: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the model can answer."""
        return self.reason is None


@dataclass(slots=True)
class ModelRuntime:
    """The parts of one served model, and what handlers ask of them.

    relay: None unless events are copied to Redis. starter_replies: the first repertoire of a ranker.
    parts: what plugins keep. starter_until: offset that a version must have learned before the model is ready; 0: none.
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
    starter_replies: list[NewReply]
    parts: ContributedParts = field(default_factory=ContributedParts)
    starter_until: int = 0
    _starter_was_learned: bool = False
    _has_base: bool = False

    @property
    def unready_reason(self) -> str | None:
        """Why the model cannot answer yet; None if it can. This is quick: it does not read the store.

        A version that is about to be loaded for the first time is not a reason: until then the model
        answers as one that has learned nothing.
        """
        if self.live.unservable:
            return "it has versions, and none of them can be loaded"
        notice = self.live.set_aside
        if notice is not None and not notice.learned_again and self.live.frozen is None:
            return f"it learns its log again: {notice.reason}"
        if self.waits_for_base:
            return "it begins with a base, which is not live yet: its learner makes it the first version"
        return None if self.has_learned_starter else "its first repertoire is not learned yet"

    @property
    def waits_for_base(self) -> bool:
        """Whether the model answers as one that has learned nothing although it has a base to begin with."""
        return self._has_base and not self.live.current.version

    async def look_for_base(self) -> None:
        """Note whether the model has a base that no version rests on yet. Without the store it stays unknown."""
        with suppress(Unavailable):
            await self.read(self._note_base)

    def _note_base(self, connection: Connection) -> None:
        if not self.live.current.version:
            self._has_base = find_base(connection, self.snapshots, self.live.encoder_config.recipe) is not None

    @property
    def missing_until(self) -> int:
        """The offset up to which the live version lacks what had expired before it could learn it; 0: it lacks nothing."""
        loaded = self.live.current.loaded
        return 0 if loaded is None else missing_until(loaded.manifest.metrics)

    def describe_standstill(self) -> dict[str, object]:
        """Return what /readyz and the status say while learning stands still; nothing otherwise."""
        watch = self.standstill
        if not watch.stood_s:
            return {}
        facts = {"events": watch.waiting, "seconds": round(watch.stood_s, 1), "reason": watch.describe()}
        return {"standstill": facts}

    @property
    def has_learned_starter(self) -> bool:
        """Whether a live version has ever learned the first repertoire, if it waits for one."""
        if not self._starter_was_learned:  # once is enough: a later roll-back does not make it unready
            self._starter_was_learned = self.live.current.learned_until >= self.starter_until
        return self._starter_was_learned

    async def check_readiness(self) -> ModelReadiness:
        """Also ask the journal, and the store, whose log must be the one that was learned.

        Without the store, predictions go on, and wait for it in the journal.
        """
        try:
            self.predictor.recorder.journal.open()
        except Unavailable as error:
            return ModelReadiness(str(error), None)
        try:
            head, difference = await self.read(partial(self._compare_log, served=self.live.current))
            await self.transactions.write(lambda connection: None)
        except Unavailable as error:
            return ModelReadiness(self.unready_reason, None, str(error))
        return ModelReadiness(difference or self.unready_reason, head)

    def _compare_log(self, connection: Connection, served: ServedVersion) -> tuple[int, str | None]:
        """Return the last offset, and in what the log is not the one that a version has learned."""
        digest, name = served.loaded.manifest.log_digest if served.loaded else "", self.spec.name
        self._note_base(connection)
        try:
            check_log(connection, name, served.learned_until, digest)
        except LogReplaced as error:
            return head_of(connection, name), str(error)
        return head_of(connection, name), None

    @property
    def freshness_ms(self) -> deque[float]:
        """The newest measured freshness values."""
        return self.outcomes.freshness_ms

    def new_id(self) -> str:
        """Return a new id."""
        return self.transactions.new_id()

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a read-only query on the store, off the event loop."""
        return await self.transactions.read(query)

    async def commit(self, work: Callable[[Connection], T], needs_room: bool = True) -> T:
        """Run `work` in a durable transaction, then wake the learner. needs_room: as in `Transactions`."""
        return await self.transactions.commit(work, needs_room)

    async def end_quarantine(self, outcome: Outcome) -> QuarantineRow:
        """End a quarantine. Raises NotFound if no feedback of the model is in quarantine."""
        return await end_quarantine(self.transactions, outcome)

    async def flush_outcomes(self) -> None:
        """Return once every outcome of feedback decided so far is in the store."""
        await self.outcomes.flush()

    def read_encoder_status(self, connection: Connection) -> dict[str, object]:
        """Return the encoder in use, and the last attempt to tune one."""
        name = self.spec.name
        return {"encoder": encoder_of(connection, name), "adaptation": load_adaptation(connection, name)}

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
        if head == 0:
            rows = await self.repertoire.add(self.starter_replies, origin="starter")
            head = max(row.offset for row in rows)
            log_event(log, "repertoire loaded", model=self.spec.name, replies=len(rows))
            report_shared_examples(self.spec.name, self.starter_replies)
        if will_learn and not await asyncio.to_thread(self.snapshots.folder.versions):
            self.starter_until = head

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


def report_shared_examples(model: str, replies: Sequence[NewReply]) -> None:
    """Warn of examples that a first repertoire has under two replies: the one that is learned last counts."""
    shared = find_shared_examples(replies)
    if shared:
        example, first, later = shared[0]
        event = "examples under two replies: the later one counts"
        facts = {"count": len(shared), "example": example, "first": first, "later": later}
        log_event(log, event, logging.WARNING, model=model, **facts)
