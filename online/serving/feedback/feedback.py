"""Feedback: accept it, report its outcome, retract it.

items -> checks -> encoded -> store process, or this one: one durable transaction (recording.py) -> receipts
                                            |
                                            +--> the learner is woken
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec.structs import replace
from sqlalchemy import Connection

from online.errors import BadInput
from online.models import Answer, Encoder
from online.schemas.access.callers import Caller
from online.schemas.feedback import FeedbackItem, FeedbackOutcome, Receipt
from online.serving.event_feed import EventFeed
from online.serving.feedback.admission import owns_feedback
from online.serving.feedback.checks import check_items, signal_of
from online.serving.feedback.held import held_outcome
from online.serving.feedback.recording import FeedbackRecorder, prepare_item, unknown_feedback
from online.serving.predictor import encode
from online.serving.processes.store_client import StoreClient
from online.serving.processes.store_messages import NewFeedback, RetractFeedback, SubmitFeedback, Work
from online.serving.rates import RateLimits
from online.serving.transactions import Transactions
from online.serving.versions import EncoderConfig, ServedVersion
from online.settings import Settings
from online.store import quarantine
from online.store.callers.held_feedback import HeldFeedbackRow, load_held
from online.store.feedback import FeedbackRow, load_feedback
from online.telemetry import Metrics, Tracer, log_event

log = logging.getLogger("online.serving")

MAX_ACKNOWLEDGED = 10_000  # acknowledgements remembered until a version has learned them


class Feedback:
    """The feedback of one model. Every method may raise an OnlineError, which names its HTTP status.

    acknowledged: (offset, id, monotonic seconds) of feedback that no live version has learned yet. on_overtaken: called with
    what the live version has learned if that includes feedback which is acknowledged only now: the learner is woken by the
    process that commits, and may be faster than the answer.
    """

    def __init__(
        self,
        settings: Settings,
        transactions: Transactions,
        store: StoreClient,
        recorder: FeedbackRecorder,
        feed: EventFeed,
        metrics: Metrics,
        clock: Callable[[], float],
        rates: RateLimits,
        tracer: Tracer,
    ) -> None:
        """store: where feedback is committed. recorder: for what this process commits itself."""
        self.settings, self.transactions, self.metrics, self.clock = settings, transactions, metrics, clock
        self.store, self.recorder, self.feed, self.rates, self.tracer = store, recorder, feed, rates, tracer
        self.spec, self.name = transactions.spec, transactions.name
        self.acknowledged: deque[tuple[int, str, float]] = deque(maxlen=MAX_ACKNOWLEDGED)
        self.on_overtaken: Callable[[int], None] = lambda learned_until: None

    async def submit(
        self, items: Sequence[FeedbackItem], caller: Caller, slot: tuple[str, int] | None = None
    ) -> list[Receipt]:
        """Store all items or none: an error names the item, and nothing of the request is kept.
        Raises QuotaExceeded.

        slot: of a single item, the key and the turn of its feedback slot.
        """
        check_items(items, self.spec, self.settings)
        self.rates.check(caller, instances=len(items))
        new_id = self.transactions.new_id
        chosen = [item.id is not None for item in items]
        items = [
            item.model_copy(update={"id": item.id or new_id(), "user": caller.acts_for(item.user)}) for item in items
        ]
        receipts = await self.transactions.with_predictions(
            [item.prediction_id for item in items if item.prediction_id],
            lambda: self.transactions.retry_on_encoder_change(
                lambda config: self._submit(items, chosen, caller, config, slot)
            ),
        )
        self.note_acknowledged(receipts)
        if not caller.is_trusted:
            self.feed.notify_curators()
        for item in items:
            self.metrics.feedback.labels(self.name, signal_of(item)).inc()
        return receipts

    def note_acknowledged(self, receipts: Sequence[Receipt]) -> None:
        """Remember what was acknowledged just now, to measure when it is learned."""
        at = self.clock()
        new = [(receipt.offset, receipt.id, at) for receipt in receipts if receipt.status != "held"]
        self.acknowledged.extend(new)
        self.tracer.acknowledge(self.name, [offset for offset, _, _ in new])
        learned_until = self.transactions.live.current.learned_until
        if any(offset <= learned_until for offset, _, _ in new):
            self.on_overtaken(learned_until)

    async def _submit(
        self,
        items: Sequence[FeedbackItem],
        chosen: Sequence[bool],
        caller: Caller,
        config: EncoderConfig,
        slot: tuple[str, int] | None,
    ) -> list[Receipt]:
        """chosen: whether the client has chosen the id of each item."""
        prepared = await self._answer_examples(await prepare_items(items, chosen, config.encoder), config.encoder)
        has_features = any(item.features or item.correction_features for item in prepared)
        encoders = [config.encoder_name] if has_features else []
        return await self.perform(SubmitFeedback(self.name, prepared, caller, encoders, slot, any(chosen)))

    async def _answer_examples(self, items: list[NewFeedback], encoder: Encoder) -> list[NewFeedback]:
        """Return the items; a label with an input of its own has the answer of the live version, which it judges.

        A version that has learned nothing, or reads other features, answers nothing.
        """
        served = self.transactions.live.current
        places = [place for place, item in enumerate(items) if item.label is not None and item.input is not None]
        if not places or not served.learned_until or served.encoder is not encoder:
            return items
        try:
            answers = await self._answer_batches(served, [items[place].features for place in places])
        except Exception as error:  # of any model: feedback is accepted all the same, and judges nothing
            reason = f"{type(error).__name__}: {error}"
            log_event(log, "examples not judged", logging.WARNING, model=self.name, reason=reason)
            return items
        judged, until = dict(zip(places, answers, strict=True)), served.learned_until
        return [
            replace(item, answer=judged[place].choice, answered_until=until) if place in judged else item
            for place, item in enumerate(items)
        ]

    async def _answer_batches(self, served: ServedVersion, inputs: Sequence[bytes]) -> list[Answer]:
        """Return the answers of one version, in micro-batches between which other requests are served."""
        size, answers = self.settings.max_batch, list[Answer]()
        for start in range(0, len(inputs), size):
            if start:
                await asyncio.sleep(0)
            batch = inputs[start : start + size]
            answers += served.predict(batch, [None] * len(batch))
        return answers

    async def perform(self, work: Work) -> list[Receipt]:
        """Let the store do work on feedback, in this process or another one."""
        with self.tracer.span("commit") as annotate:
            receipts = await self.transactions.commit_elsewhere(lambda: self.store.perform(work))
            annotate(offset=receipts[-1].offset)
        return receipts

    async def submit_with(self, work: SubmitFeedback, alongside: Callable[[Connection], None]) -> list[Receipt]:
        """Store all items or none, in one transaction of this process with other work, whose error undoes both."""

        def record(connection: Connection) -> list[Receipt]:
            receipts = self.recorder.submit(connection, work)
            alongside(connection)
            return receipts

        receipts: list[Receipt] = await self.transactions.commit(record)
        return receipts

    async def load_outcome(self, id: str, caller: Caller) -> FeedbackOutcome:
        """Return what became of one feedback. Raises NotFound, also for another caller's."""
        row, held, open_quarantine = await self.transactions.read(lambda connection: self._read_outcome(connection, id))
        if row is None and held is not None and owns_feedback(caller, held):
            return held_outcome(held)
        if row is None or not owns_feedback(caller, row):
            raise unknown_feedback(self.settings, self.name, id)
        outcome = describe_outcome(row)
        if open_quarantine is not None and row.retracted_offset is None and row.offset >= open_quarantine.since:
            return outcome.model_copy(update={"status": "quarantined", "reason": open_quarantine.reason})
        return outcome

    def _read_outcome(
        self, connection: Connection, id: str
    ) -> tuple[FeedbackRow | None, HeldFeedbackRow | None, quarantine.QuarantineRow | None]:
        rows, held = load_feedback(connection, self.name, [id]), load_held(connection, self.name, id)
        return rows.get(id), held, quarantine.load_open(connection, self.name)

    async def retract(self, id: str, caller: Caller) -> Receipt:
        """Take one feedback back. A repeated call returns the same receipt. Raises NotFound, also for another caller's."""
        receipts = await self.perform(RetractFeedback(self.name, id, caller))
        self.note_acknowledged(receipts)
        self.feed.notify_curators()
        return receipts[0]


async def prepare_items(items: Sequence[FeedbackItem], chosen: Sequence[bool], encoder: Encoder) -> list[NewFeedback]:
    """Return items with their features. chosen: whether the client has chosen the id of each. Raises BadInput."""
    texts = [text for item in items for text in (item.input, item.correction) if text is not None]
    features = iter(await encode_all(encoder, texts))
    return [
        prepare_item(
            item,
            is_chosen,
            next(features) if item.input is not None else b"",
            next(features) if item.correction is not None else b"",
        )
        for item, is_chosen in zip(items, chosen, strict=True)
    ]


async def encode_all(encoder: Encoder, instances: Sequence[object]) -> list[bytes]:
    """Encode instances together. Raises what encoding each instance by itself raises."""
    if not instances:
        return []
    try:
        return await encode(encoder, instances)
    except BadInput:
        for instance in instances:
            await encode(encoder, [instance])
        raise


def describe_outcome(row: FeedbackRow) -> FeedbackOutcome:
    """Return what became of a feedback, from its row alone; an open quarantine is not considered."""
    return FeedbackOutcome(
        id=row.id,
        status=row.status,
        offset=row.retracted_offset or row.offset,
        version=None if row.version is None else str(row.version),
        reason=row.refusal,
        freshness_ms=elapsed_ms(row.created_at, row.learned_at),
    )


def elapsed_ms(start: str, end: str | None) -> float | None:
    """Return the milliseconds between two instants."""
    if end is None:
        return None
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000, 1)
