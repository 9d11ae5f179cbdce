"""Feedback in its transaction: which of it is new, what holds it back, and the rows and events that it becomes.

    items --known ids, predictions, feedback in force: one query each--> checks, item by item --> rows, events
                                                                               |
                                                    held, or refused as a whole <--+--> one insert for each table

It needs neither the live model nor the event feed, so that the store process can run it.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any

import orjson
from sqlalchemy import Connection

from online.errors import Conflict, NotFound
from online.models import can_tune_encoder, spec_of
from online.schemas.access.callers import Caller
from online.schemas.events import Event, is_positive
from online.schemas.feedback import FeedbackItem, FeedbackStatus, Receipt
from online.serving.feedback.admission import admit, charge, holder_of, owns_feedback
from online.serving.feedback.checks import learned_fields
from online.serving.feedback.events import build_events
from online.serving.feedback.feedback_review import Admission, find_review
from online.serving.feedback.held import held_receipt, withdraw
from online.serving.feedback.retraction import record_retraction
from online.serving.processes.store_messages import NewFeedback, RetractFeedback, SubmitFeedback
from online.settings import ModelSettings, Settings
from online.store import now
from online.store.callers.held_feedback import (
    HeldFeedbackRow,
    HoldReason,
    add_held,
    list_waiting_about,
    load_held,
    load_held_of,
)
from online.store.encoder_moves import check_encoder, hold_encoder
from online.store.events import EventBatch, lock_log
from online.store.feedback import (
    FeedbackInForce,
    FeedbackRow,
    add_feedback,
    assign_slot,
    find_subject,
    list_in_force,
    load_feedback,
)
from online.store.journal_copy import JournalCopy, load_predictions_with
from online.store.predictions import PredictionRow
from online.store.repertoire.replies import add_reply


class FeedbackRecorder:
    """Records the feedback of one model. Every method runs within a transaction, and may raise an OnlineError."""

    def __init__(self, settings: Settings, spec: ModelSettings, journal: JournalCopy) -> None:
        self.settings, self.spec, self.name, self.journal = settings, spec, spec.name, journal
        self.review = find_review()
        self.encoder_is_tunable = can_tune_encoder(spec.kind, spec.options)

    def begin(self, connection: Connection, encoders: Set[str]) -> None:
        """Begin a transaction that appends events. encoders: names of those that computed its features."""
        lock_log(connection, self.name)
        if self.encoder_is_tunable:
            hold_encoder(connection, self.name)
            for encoder in sorted(encoders):
                check_encoder(connection, self.name, encoder)

    def submit(self, connection: Connection, work: SubmitFeedback) -> list[Receipt]:
        """Store all items or none."""
        self.begin(connection, {*work.encoders})
        receipts = SubmissionRecording(self, connection, work.items, work.caller, work.may_be_known).record()
        if work.slot is not None:
            assign_slot(connection, self.name, receipts[0].id, *work.slot)
        return receipts

    def retract(self, connection: Connection, work: RetractFeedback) -> Receipt:
        """Take one feedback back. Raises NotFound, also for another caller's."""
        id, caller = work.id, work.caller
        row, held = load_feedback(connection, self.name, [id]).get(id), load_held(connection, self.name, id)
        if row is None and held is not None and owns_feedback(caller, held):
            return withdraw(connection, held, caller.id)
        if row is None or not owns_feedback(caller, row):
            raise unknown_feedback(self.settings, self.name, id)
        return record_retraction(connection, self.spec, id)

    def record_item(
        self,
        connection: Connection,
        item: NewFeedback,
        prediction: PredictionRow | None,
        caller: str,
        holder_number: int,
    ) -> Receipt:
        """Store one item that was admitted before. caller: the id of the one who gave it. holder_number: as in `Event`."""
        recording = SubmissionRecording(self, connection, [item])
        receipt = recording.record_item(0, item, prediction, caller, holder_number)
        recording.write()
        return receipt


class SubmissionRecording:
    """One request in its transaction.

    known, held: what is in the store under the ids of the items. in_force: the feedback about their predictions that is not retracted,
    by the id of the prediction, also those of this request. recorded: id -> content and receipt of what this request adds.
    events, rows: what the next `write` writes.
    """

    def __init__(
        self,
        recorder: FeedbackRecorder,
        connection: Connection,
        items: Sequence[NewFeedback],
        caller: Caller | None = None,
        may_be_known: bool = False,
    ) -> None:
        """caller: None for items that were admitted before. may_be_known: as in `SubmitFeedback`."""
        self.recorder, self.connection, self.items = recorder, connection, items
        self.spec, self.name = recorder.spec, recorder.name
        ids = [item.id for item in items]
        self.known = load_feedback(connection, self.name, ids) if may_be_known else {}
        self.held = load_held_of(connection, self.name, ids) if may_be_known else {}
        self.predictions = {} if caller is None else self._load_predictions(caller)
        self.in_force = self._load_in_force()
        self.recorded = dict[str, tuple[str, Receipt]]()
        self.new = list[tuple[NewFeedback, Admission]]()
        self.events, self.rows = EventBatch(connection, self.name), list[dict[str, Any]]()
        self.caller = caller

    def _load_predictions(self, caller: Caller) -> Mapping[str, PredictionRow]:
        """Return the predictions that items are about, by id, and of those the caller's own. A curator corrects those of others."""
        ids = [item.prediction_id for item in self.items if item.prediction_id]
        rows = load_predictions_with(self.connection, self.recorder.journal, self.name, ids)
        return {id: row for id, row in rows.items() if caller.may("curate") or caller.may_act_for(row.user)}

    def _load_in_force(self) -> defaultdict[str, list[FeedbackInForce]]:
        in_force = defaultdict[str, list[FeedbackInForce]](list)
        ids = {item.prediction_id for item in self.items if item.prediction_id is not None}
        for opinion in list_in_force(self.connection, self.name, sorted(ids)):
            in_force[opinion.prediction_id].append(opinion)
        return in_force

    def record(self) -> list[Receipt]:
        """Record the items; return their receipts in order."""
        assert self.caller is not None, "items that were admitted before are recorded one by one"
        receipts = [self._record(place, item, self.caller) for place, item in enumerate(self.items)]
        self.write()
        charge(self.connection, self.recorder.settings, self.caller, self.new)
        return receipts

    def _record(self, place: int, item: NewFeedback, caller: Caller) -> Receipt:
        row, waiting = self.known.get(item.id), self.held.get(item.id)
        if item.id in self.recorded:
            content, receipt = self.recorded[item.id]
            check_repetition(place, item, content, True)
            return receipt
        if row is not None:
            check_repetition(place, item, row.content, owns_feedback(caller, row))
            return receipt_of(row)
        if waiting is not None:
            check_repetition(place, item, waiting.content, waiting.caller == caller.id)
            return held_receipt(waiting)
        prediction = self._find_prediction(place, item)
        if not item.is_id_chosen and (same := self._find_same(item, caller)) is not None:
            return Receipt(id=same.id, offset=same.offset, status="accepted")
        if not caller.is_trusted:
            self.write()  # what a holder has said before counts
            self._withdraw_replaced(item, caller)
        admission = admit(
            self.connection,
            self.recorder.settings,
            self.spec,
            self.recorder.review,
            caller,
            place,
            item,
            prediction,
        )
        self.new.append((item, admission))
        if admission.hold is not None:
            return self._hold(item, caller, prediction, admission.hold)
        receipt = self.record_item(place, item, prediction, caller.id, admission.holder)
        if not caller.is_trusted:
            choice = None if prediction is None else prediction.choice
            self.recorder.review.note_recorded(self.connection, self.spec, item, choice)
        return receipt

    def _find_prediction(self, place: int, item: NewFeedback) -> PredictionRow | None:
        """Return the prediction that an item is about. Raises NotFound for a prediction that does not exist, or is another caller's."""
        if item.prediction_id is not None and item.prediction_id not in self.predictions:
            retention = describe_retention(self.recorder.settings)
            raise NotFound(f"feedback {place}: {self.name} has no prediction {item.prediction_id!r}{retention}")
        return self.predictions.get(item.prediction_id or "")

    def _find_same(self, item: NewFeedback, caller: Caller) -> FeedbackInForce | None:
        """Return the feedback in force of the same holder about the same prediction, if it says the same."""
        holder = holder_of(caller, item.user)
        in_force = self.in_force[item.prediction_id] if item.prediction_id is not None else ()
        own = (opinion for opinion in in_force if opinion.holder == holder)
        return next((each for each in own if learned_fields(each.content) == learned_fields(item.content)), None)

    def _withdraw_replaced(self, item: NewFeedback, caller: Caller) -> None:
        """Take back what waits of the same holder about the same prediction, where this takes its place."""
        if item.prediction_id is None:
            return
        for row in list_waiting_about(self.connection, self.name, holder_of(caller, item.user), item.prediction_id):
            if replaces(item, row):
                withdraw(self.connection, row, caller.id)
                self.held[row.id] = row

    def _hold(self, item: NewFeedback, caller: Caller, prediction: PredictionRow | None, reason: HoldReason) -> Receipt:
        row = HeldFeedbackRow(
            model=self.name,
            id=item.id,
            content=item.content,
            question=prediction.input if prediction is not None else item.input or "null",
            caller=caller.id,
            user=item.user,
            reason=reason,
            created_at=now(),
        )
        add_held(self.connection, [row])
        self.held[row.id] = row
        return held_receipt(row)

    def record_item(
        self, place: int, item: NewFeedback, prediction: PredictionRow | None, caller: str, holder_number: int
    ) -> Receipt:
        """Record one item with its events. What the same holder said before about the same matter is retracted."""
        holder = item.user if item.user is not None else caller
        if item.prediction_id is not None:
            self._retract_own(item.prediction_id, holder, find_subject(item.content))
        events = build_events(self.connection, self.spec, place, item, prediction, holder_number)
        offsets = self.events.append(events, feedback_id=item.id)
        self._add_replies(events, offsets)
        about = None if spec_of(self.spec.kind).predicts_numbers else events[-1].label or None
        self.rows.append(build_row(self.name, item, offsets[-1], caller, about))
        receipt = Receipt(id=item.id, offset=offsets[-1], status="accepted")
        self.recorded[item.id] = item.content, receipt
        if item.prediction_id is not None:
            opinion = FeedbackInForce(item.prediction_id, holder, item.id, receipt.offset, item.content)
            self.in_force[item.prediction_id].append(opinion)
        return receipt

    def _retract_own(self, prediction_id: str, holder: str, subject: str) -> None:
        own = [each for each in self.in_force[prediction_id] if each.holder == holder]
        replaced = [each for each in own if each.subject == subject]
        if not replaced:
            return
        self.write()
        for opinion in replaced:
            receipt = record_retraction(self.connection, self.spec, opinion.id)
            self.in_force[prediction_id].remove(opinion)
            if opinion.id in self.recorded:
                self.recorded[opinion.id] = opinion.content, receipt

    def _add_replies(self, events: Sequence[Event], offsets: Sequence[int]) -> None:
        for event, offset in zip(events, offsets, strict=True):
            if event.kind == "reply":
                add_reply(self.connection, self.name, event.label, event.text, offset)

    def write(self) -> None:
        """Write what was recorded, so that queries find it."""
        self.events.write()
        if self.rows:
            add_feedback(self.connection, self.rows)
            self.rows = []


def replaces(item: NewFeedback, waiting: HeldFeedbackRow) -> bool:
    """Return whether an item takes the place of one of the same holder that waits. A thumb down leaves a proposal as it is."""
    proposes = json.loads(waiting.content).get("reward") is None
    return item.reward is None or is_positive(item.reward) or not proposes


def build_row(model: str, item: NewFeedback, offset: int, caller: str, about: str | None) -> dict[str, object]:
    """Return the row of the table `feedback`."""
    return {
        "model": model,
        "id": item.id,
        "offset": offset,
        "content": item.content,
        "prediction_id": item.prediction_id,
        "input": item.input,
        "user": item.user,
        "created_at": now(),
        "caller": caller,
        "about": about,
        "example_count": item.example_count or None,
        "answer": item.answer,
        "answered_until": item.answered_until,
    }


def prepare_item(
    item: FeedbackItem, is_id_chosen: bool = True, features: bytes = b"", correction_features: bytes = b""
) -> NewFeedback:
    """Return an item that has an id, as its transaction needs it."""
    return NewFeedback(
        id=item.id or "",
        content=item.model_dump_json(exclude_none=True),
        is_id_chosen=is_id_chosen,
        prediction_id=item.prediction_id,
        input=None if item.input is None else write_json(item.input),
        reward=item.reward,
        label=item.label,
        correction=item.correction,
        user=item.user,
        features=features,
        correction_features=correction_features,
        scope=item.scope or "",
        choice=item.choice,
        signal=item.signal or "",
        outcome=None if item.outcome is None else item.outcome.model_dump_json(exclude_none=True),
    )


def write_json(value: object) -> str:
    """Return a value as JSON."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(value)


def check_repetition(place: int, item: NewFeedback, content: str, is_own: bool) -> None:
    """Raise Conflict for an id that was used before for something else, or by another caller."""
    if not is_own or content != item.content:
        raise Conflict(f"feedback {place}: the id {item.id!r} was used before for something else")


def receipt_of(row: FeedbackRow) -> Receipt:
    """Return the receipt of recorded feedback."""
    status: FeedbackStatus = "accepted" if row.retracted_offset is None else "retracted"
    return Receipt(id=row.id, offset=row.retracted_offset or row.offset, status=status)


def describe_retention(settings: Settings) -> str:
    """Return why a prediction may be gone; empty where none is ever deleted."""
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
    """Return the error about feedback that does not exist, is another caller's, or has expired."""
    expired = ""
    if settings.event_retention_days is not None:
        expired = (
            f"; if it is older than {settings.event_retention_days:g} days (event_retention_days), its contents are no "
            "longer kept, so it cannot be un-learned"
        )
    return NotFound(f"{model} has no feedback {id!r}{expired}")
