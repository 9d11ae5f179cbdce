"""Feedback: accept it, report its outcome, retract it.

items -> checks -> encoded -> events -> one durable transaction (rows, events, new replies) -> receipts
                                                     |
                                                     +--> the learner is woken
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime

from sqlalchemy import Connection

from online.errors import Conflict, NotFound
from online.models import Encoder, spec_of
from online.schemas.access.callers import Caller
from online.schemas.feedback import FeedbackItem, FeedbackOutcome, FeedbackStatus, Receipt
from online.serving.event_feed import EventFeed, FeedEvent
from online.serving.feedback.admission import Admission, admit, charge, holder_of, owns_feedback
from online.serving.feedback.checks import check_items, learned_fields, signal_of
from online.serving.feedback.events import ItemFeatures, build_events
from online.serving.feedback.held import held_outcome, held_receipt, withdraw
from online.serving.feedback.influence import Influence
from online.serving.feedback.retraction import record_retraction
from online.serving.predictor import encode
from online.serving.transactions import Transactions
from online.serving.versions import EncoderConfig
from online.settings import Settings
from online.store import now, quarantine
from online.store.callers.held_feedback import HeldFeedbackRow, HoldReason, add_held, load_held, load_held_of
from online.store.events import append_events, lock_log
from online.store.feedback import FeedbackRow, add_feedback, assign_slot, load_feedback, load_standing
from online.store.predictions import PredictionRow
from online.store.replies import add_reply
from online.telemetry import Metrics

MAX_ACKNOWLEDGED = 10_000  # acknowledgements remembered until a version has learned them


class Feedback:
    """The feedback of one model. Every method may raise an OnlineError, which names its HTTP status.

    acknowledged: (offset, id, monotonic seconds) of feedback that no live version has learned yet.
    """

    def __init__(
        self,
        settings: Settings,
        transactions: Transactions,
        feed: EventFeed,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self.settings, self.transactions, self.metrics, self.clock = settings, transactions, metrics, clock
        self.feed = feed
        self.spec, self.name = transactions.spec, transactions.name
        self.influence = Influence(settings, self.spec)
        self.acknowledged: deque[tuple[int, str, float]] = deque(maxlen=MAX_ACKNOWLEDGED)

    async def submit(
        self, items: Sequence[FeedbackItem], caller: Caller, slot: tuple[str, int] | None = None
    ) -> list[Receipt]:
        """Store all items or none: an error names the item, and nothing of the request is kept.

        slot: of a single item, the key and the turn of its feedback slot.
        """
        check_items(items, self.spec, self.settings)
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
        for item in items:
            self.metrics.feedback.labels(self.name, signal_of(item)).inc()
        return receipts

    def note_acknowledged(self, receipts: Sequence[Receipt]) -> None:
        """Remember what was acknowledged just now, to measure when it is learned."""
        at = self.clock()
        self.acknowledged.extend((receipt.offset, receipt.id, at) for receipt in receipts if receipt.status != "held")

    def note_rejected(self, rows: Sequence[HeldFeedbackRow]) -> None:
        """Send each item's caller that it is not learned. The decision is in the store, and in the row."""
        for row in rows:
            data = held_outcome(row).model_dump(exclude_none=True)
            self.feed.send(FeedEvent("rejected", data, row.user if row.user is not None else row.caller))

    async def _submit(
        self,
        items: Sequence[FeedbackItem],
        chosen: Sequence[bool],
        caller: Caller,
        config: EncoderConfig,
        slot: tuple[str, int] | None,
    ) -> list[Receipt]:
        features = [await encode_item(item, config.encoder) for item in items]
        encoders = {config.encoder_name} if any(features) else set[str]()

        def record(connection: Connection) -> list[Receipt]:
            self.begin(connection, encoders)
            receipts = self._record(connection, items, chosen, caller, features)
            if slot is not None:
                assign_slot(connection, self.name, receipts[0].id, *slot)
            return receipts

        receipts: list[Receipt] = await self.transactions.commit(record)
        return receipts

    def begin(self, connection: Connection, encoders: Set[str]) -> None:
        """Begin a transaction that appends events. encoders: names of those that computed its features."""
        lock_log(connection, self.name)
        self.transactions.hold_encoder(connection)
        self.transactions.check_encoder(connection, encoders)

    def _record(
        self,
        connection: Connection,
        items: Sequence[FeedbackItem],
        chosen: Sequence[bool],
        caller: Caller,
        features: Sequence[ItemFeatures],
    ) -> list[Receipt]:
        """chosen: whether the client has chosen the id of each item."""
        ids = [item.id or "" for item in items]
        known, held = load_feedback(connection, self.name, ids), load_held_of(connection, self.name, ids)
        predictions = self._load_predictions(connection, items, caller)
        receipts, new = list[Receipt](), list[tuple[FeedbackItem, Admission]]()
        for place, (item, is_chosen, encoded) in enumerate(zip(items, chosen, features, strict=True)):
            row, waiting, content = known.get(item.id or ""), held.get(item.id or ""), content_of(item)
            if row is not None:
                check_repetition(place, item, content, row, owns_feedback(caller, row))
                receipts.append(receipt_of(row))
                continue
            if waiting is not None:
                check_repetition(place, item, content, waiting, waiting.caller == caller.id)
                receipts.append(held_receipt(waiting))
                continue
            prediction = self._find_prediction(place, item, predictions)
            if not is_chosen and (same := self._find_same(connection, item, caller)) is not None:
                receipts.append(receipt_of(same))
                continue
            admission = admit(connection, self.influence, caller, place, item, prediction)
            new.append((item, admission))
            if admission.hold is not None:
                receipts.append(self._hold(connection, item, caller, prediction, admission.hold))
            else:
                row = self.record_item(connection, place, item, encoded, prediction, caller.id, admission.holder)
                known[row.id] = row
                receipts.append(receipt_of(row))
        charge(connection, self.settings, caller, new)
        return receipts

    def _load_predictions(
        self, connection: Connection, items: Sequence[FeedbackItem], caller: Caller
    ) -> dict[str, PredictionRow]:
        """The predictions that items are about, by id, and of those the caller's own. A curator corrects those of others."""
        ids = [item.prediction_id for item in items if item.prediction_id]
        rows = self.transactions.load_predictions_within(connection, ids)
        return {id: row for id, row in rows.items() if caller.may("curate") or caller.may_act_for(row.user)}

    def _find_prediction(
        self, place: int, item: FeedbackItem, predictions: Mapping[str, PredictionRow]
    ) -> PredictionRow | None:
        """Raises NotFound for a prediction that does not exist, or is another caller's."""
        if item.prediction_id is not None and item.prediction_id not in predictions:
            raise NotFound(
                f"feedback {place}: {self.name} has no prediction {item.prediction_id!r}{describe_retention(self.settings)}"
            )
        return predictions.get(item.prediction_id or "")

    def _find_same(self, connection: Connection, item: FeedbackItem, caller: Caller) -> FeedbackRow | None:
        """The standing feedback of the same holder about the same prediction, if it says the same."""
        if item.prediction_id is None:
            return None
        standing = load_standing(connection, self.name, item.prediction_id, holder_of(caller, item.user))
        return next((row for row in standing if learned_fields(row.content) == learned_fields(content_of(item))), None)

    def _hold(
        self,
        connection: Connection,
        item: FeedbackItem,
        caller: Caller,
        prediction: PredictionRow | None,
        reason: HoldReason,
    ) -> Receipt:
        row = HeldFeedbackRow(
            model=self.name,
            id=item.id or "",
            content=content_of(item),
            question=prediction.input if prediction is not None else json.dumps(item.input),
            caller=caller.id,
            user=item.user,
            reason=reason,
            created_at=now(),
        )
        add_held(connection, [row])
        return held_receipt(row)

    def record_item(
        self,
        connection: Connection,
        place: int,
        item: FeedbackItem,
        features: ItemFeatures,
        prediction: PredictionRow | None,
        caller: str,
        holder_number: int,
    ) -> FeedbackRow:
        """Store one item with its events. What the same holder said before about the same prediction is retracted.

        holder_number: as `holder` of `Event`.
        """
        if item.prediction_id is not None:
            holder = item.user if item.user is not None else caller
            for row in load_standing(connection, self.name, item.prediction_id, holder):
                record_retraction(connection, self.spec, row.id)
        events = build_events(connection, self.spec, place, item, features, prediction, holder_number)
        # the feedback is new, so the ids of its events are
        offsets = append_events(connection, self.name, events, new=True, feedback_id=item.id)
        for event, offset in zip(events, offsets, strict=True):
            if event.kind == "reply":
                add_reply(connection, self.name, event.label, event.text, offset)
        about = None if spec_of(self.spec.kind).predicts_numbers else events[-1].label
        row = build_row(self.name, item, offsets[-1], caller, about)
        add_feedback(connection, [row.model_dump()])
        return row

    async def load_outcome(self, id: str, caller: Caller) -> FeedbackOutcome:
        """What became of one feedback. Raises NotFound, also for another caller's."""
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
        receipt: Receipt = await self.transactions.commit(lambda connection: self._retract(connection, id, caller))
        self.note_acknowledged([receipt])
        return receipt

    def _retract(self, connection: Connection, id: str, caller: Caller) -> Receipt:
        row, held = load_feedback(connection, self.name, [id]).get(id), load_held(connection, self.name, id)
        if row is None and held is not None and owns_feedback(caller, held):
            return withdraw(connection, held, caller.id)
        if row is None or not owns_feedback(caller, row):
            raise unknown_feedback(self.settings, self.name, id)
        return record_retraction(connection, self.spec, id)


def describe_retention(settings: Settings) -> str:
    """Why a prediction may be gone; empty where none is ever deleted."""
    reasons = []
    if settings.retention_days is not None:
        reasons.append(f"one without feedback is deleted after {settings.retention_days:g} days (retention_days)")
    elif settings.retention_bytes is not None:
        most = f"{settings.retention_bytes:,} bytes (retention_bytes)"
        reasons.append(f"the oldest without feedback are deleted beyond {most}")
    if settings.event_retention_days is not None:
        after = f"{settings.event_retention_days:g} days (event_retention_days)"
        reasons.append(f"one with feedback is deleted after {after}, so that cannot be un-learned or replaced")
    return "".join(f"; {reason}" for reason in reasons)


def unknown_feedback(settings: Settings, model: str, id: str) -> NotFound:
    """The error about feedback that does not exist, is another caller's, or has expired."""
    expired = ""
    if settings.event_retention_days is not None:
        expired = (
            f"; if it is older than {settings.event_retention_days:g} days (event_retention_days), its contents are no "
            "longer kept, so it cannot be un-learned"
        )
    return NotFound(f"{model} has no feedback {id!r}{expired}")


async def encode_item(item: FeedbackItem, encoder: Encoder) -> ItemFeatures:
    own = (await encode(encoder, [item.input]))[0] if item.input is not None else None
    correction = (await encode(encoder, [item.correction]))[0] if item.correction is not None else None
    return ItemFeatures(own, correction)


def check_repetition(
    place: int, item: FeedbackItem, content: str, row: FeedbackRow | HeldFeedbackRow, is_own: bool
) -> None:
    """Raises Conflict for an id that was used before for something else, or by another caller."""
    if not is_own or row.content != content:
        raise Conflict(f"feedback {place}: the id {item.id!r} was used before for something else")


def content_of(item: FeedbackItem) -> str:
    return item.model_dump_json(exclude_none=True)


def build_row(model: str, item: FeedbackItem, offset: int, caller: str, about: str | None) -> FeedbackRow:
    return FeedbackRow(
        model=model,
        id=item.id or "",
        offset=offset,
        content=content_of(item),
        prediction_id=item.prediction_id,
        input=None if item.input is None else json.dumps(item.input),
        user=item.user,
        created_at=now(),
        retracted_offset=None,
        caller=caller,
        about=about,
    )


def receipt_of(row: FeedbackRow) -> Receipt:
    status: FeedbackStatus = "accepted" if row.retracted_offset is None else "retracted"
    return Receipt(id=row.id, offset=row.retracted_offset or row.offset, status=status)


def describe_outcome(row: FeedbackRow) -> FeedbackOutcome:
    """What became of a feedback, from its row alone; an open quarantine is not considered."""
    return FeedbackOutcome(
        id=row.id,
        status=row.status,
        offset=row.retracted_offset or row.offset,
        version=None if row.version is None else str(row.version),
        reason=row.refusal,
        freshness_ms=elapsed_ms(row.created_at, row.learned_at),
    )


def elapsed_ms(start: str, end: str | None) -> float | None:
    if end is None:
        return None
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000, 1)
