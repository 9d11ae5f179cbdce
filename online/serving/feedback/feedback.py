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
from online.models import Encoder
from online.schemas.feedback import FeedbackItem, FeedbackOutcome, FeedbackStatus, Receipt
from online.serving.feedback.checks import check_items, signal_of
from online.serving.feedback.events import ItemFeatures, build_events
from online.serving.feedback.retraction import record_retraction
from online.serving.predictor import encode
from online.serving.transactions import Transactions
from online.serving.versions import EncoderConfig
from online.settings import Settings
from online.store import now, quarantine
from online.store.events import append_events
from online.store.feedback import FeedbackRow, add_feedback, assign_slot, load_feedback
from online.store.predictions import PredictionRow, load_predictions
from online.store.replies import add_reply
from online.telemetry import Metrics

MAX_ACKNOWLEDGED = 10_000  # acknowledgements remembered until a version has learned them


class Feedback:
    """The feedback of one model. Every method may raise an OnlineError, which names its HTTP status.

    acknowledged: (offset, id, monotonic seconds) of feedback that no live version has learned yet.
    """

    def __init__(
        self, settings: Settings, transactions: Transactions, metrics: Metrics, clock: Callable[[], float]
    ) -> None:
        self.settings, self.transactions, self.metrics, self.clock = settings, transactions, metrics, clock
        self.spec, self.name = transactions.spec, transactions.name
        self.acknowledged: deque[tuple[int, str, float]] = deque(maxlen=MAX_ACKNOWLEDGED)

    async def submit(self, items: Sequence[FeedbackItem], slot: tuple[str, int] | None = None) -> list[Receipt]:
        """Store all items or none: an error names the item, and nothing of the request is kept.

        slot: of a single item, the key and the turn of its feedback slot.
        """
        check_items(items, self.spec, self.settings)
        new_id = self.transactions.new_id
        items = [item if item.id else item.model_copy(update={"id": new_id()}) for item in items]
        receipts = await self.transactions.retry_on_encoder_change(lambda config: self._submit(items, config, slot))
        acknowledged_at = self.clock()
        self.acknowledged.extend((receipt.offset, receipt.id, acknowledged_at) for receipt in receipts)
        for item in items:
            self.metrics.feedback.labels(self.name, signal_of(item)).inc()
        return receipts

    async def _submit(
        self, items: Sequence[FeedbackItem], config: EncoderConfig, slot: tuple[str, int] | None
    ) -> list[Receipt]:
        features = [await encode_item(item, config.encoder) for item in items]
        encoders = {config.encoder_name} if any(features) else set[str]()

        def record(connection: Connection) -> list[Receipt]:
            receipts = self._record(connection, items, features, encoders)
            if slot is not None:
                assign_slot(connection, self.name, receipts[0].id, *slot)
            return receipts

        receipts: list[Receipt] = await self.transactions.commit(record)
        return receipts

    def _record(
        self,
        connection: Connection,
        items: Sequence[FeedbackItem],
        features: Sequence[ItemFeatures],
        encoders: Set[str],
    ) -> list[Receipt]:
        """encoders: names of those that computed `features`."""
        self.transactions.hold_encoder(connection)
        self.transactions.check_encoder(connection, encoders)
        known = load_feedback(connection, self.name, [item.id or "" for item in items])
        predictions = load_predictions(
            connection, self.name, [item.prediction_id for item in items if item.prediction_id]
        )
        receipts = []
        for place, (item, encoded) in enumerate(zip(items, features, strict=True)):
            content = item.model_dump_json(exclude_none=True)
            row = known.get(item.id or "")
            if row is None:
                row = self._record_item(connection, place, item, encoded, predictions, content)
                known[row.id] = row
            elif row.content != content:
                raise Conflict(f"feedback {place}: the id {item.id!r} was used before for something else")
            receipts.append(receipt_of(row))
        return receipts

    def _record_item(
        self,
        connection: Connection,
        place: int,
        item: FeedbackItem,
        features: ItemFeatures,
        predictions: Mapping[str, PredictionRow],
        content: str,
    ) -> FeedbackRow:
        prediction = predictions.get(item.prediction_id or "")
        if item.prediction_id is not None and prediction is None:
            raise NotFound(
                f"feedback {place}: {self.name} has no prediction {item.prediction_id!r}{describe_retention(self.settings)}"
            )
        events = build_events(connection, self.spec, place, item, features, prediction)
        # the feedback is new, so the ids of its events are
        offsets = append_events(connection, self.name, events, new=True, feedback_id=item.id)
        for event, offset in zip(events, offsets, strict=True):
            if event.kind == "reply":
                add_reply(connection, self.name, event.label, event.text, offset)
        row = build_row(self.name, item, offsets[-1], content)
        add_feedback(connection, [row.model_dump()])
        return row

    async def load_outcome(self, id: str) -> FeedbackOutcome:
        """What became of one feedback. Raises NotFound."""
        row, open_quarantine = await self.transactions.read(lambda connection: self._read_outcome(connection, id))
        if row is None:
            raise NotFound(f"{self.name} has no feedback {id!r}")
        outcome = describe_outcome(row)
        if open_quarantine is not None and row.retracted_offset is None and row.offset >= open_quarantine.since:
            return outcome.model_copy(update={"status": "quarantined", "reason": open_quarantine.reason})
        return outcome

    def _read_outcome(
        self, connection: Connection, id: str
    ) -> tuple[FeedbackRow | None, quarantine.QuarantineRow | None]:
        rows = load_feedback(connection, self.name, [id])
        return rows.get(id), quarantine.load_open(connection, self.name)

    async def retract(self, id: str) -> Receipt:
        """Take one feedback back. A repeated call returns the same receipt. Raises NotFound."""
        receipt: Receipt = await self.transactions.commit(
            lambda connection: record_retraction(connection, self.transactions, id)
        )
        self.acknowledged.append((receipt.offset, receipt.id, self.clock()))
        return receipt


def describe_retention(settings: Settings) -> str:
    """Why a prediction may be gone; empty where none is ever deleted."""
    if settings.retention_days is not None:
        return f"; one without feedback is deleted after {settings.retention_days:g} days (retention_days)"
    if settings.retention_bytes is not None:
        return f"; the oldest without feedback are deleted beyond {settings.retention_bytes:,} bytes (retention_bytes)"
    return ""


async def encode_item(item: FeedbackItem, encoder: Encoder) -> ItemFeatures:
    own = (await encode(encoder, [item.input]))[0] if item.input is not None else None
    correction = (await encode(encoder, [item.correction]))[0] if item.correction is not None else None
    return ItemFeatures(own, correction)


def build_row(model: str, item: FeedbackItem, offset: int, content: str) -> FeedbackRow:
    return FeedbackRow(
        model=model,
        id=item.id or "",
        offset=offset,
        content=content,
        prediction_id=item.prediction_id,
        input=None if item.input is None else json.dumps(item.input),
        user=item.user,
        created_at=now(),
        retracted_offset=None,
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
