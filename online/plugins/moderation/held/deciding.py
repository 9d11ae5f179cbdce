"""Carries out a curator's decision about held feedback.

held_feedback --accept_held--> feedback, learned as any other
              --reject_held--> never learned; its caller is sent the event `rejected`
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from online.errors import Conflict, NotFound
from online.plugins.moderation.callers.standing import load_number
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.event_feed import FeedEvent
from online.serving.feedback.feedback import Feedback, prepare_items
from online.serving.feedback.held import held_outcome, held_receipt
from online.serving.versions import EncoderConfig
from online.store.callers.held_feedback import HeldFeedbackRow, decide, load_held
from online.store.predictions import load_predictions


async def accept_held(feedback: Feedback, id: str, by: str) -> Receipt:
    """Make a held item feedback of its caller. by: the id of the curator. Raises NotFound and Conflict."""
    receipt = await feedback.transactions.retry_on_encoder_change(lambda config: _accept(feedback, id, by, config))
    feedback.note_acknowledged([receipt])
    return receipt


async def _accept(feedback: Feedback, id: str, by: str, config: EncoderConfig) -> Receipt:
    row: HeldFeedbackRow = await feedback.transactions.read(
        lambda connection: load_waiting(connection, feedback.name, id)
    )
    item = FeedbackItem.model_validate_json(row.content)
    prepared = (await prepare_items([item], [True], config.encoder))[0]
    has_features = prepared.features or prepared.correction_features

    def record(connection: Connection) -> Receipt:
        feedback.recorder.begin(connection, {config.encoder_name} if has_features else set())
        load_waiting(connection, feedback.name, id)
        predictions = load_predictions(connection, feedback.name, [item.prediction_id] if item.prediction_id else [])
        prediction = predictions.get(item.prediction_id or "")
        if item.prediction_id is not None and prediction is None:
            raise NotFound(f"{feedback.name} has no prediction {item.prediction_id!r} any more; reject the item")
        decide(connection, feedback.name, id, "accepted", by)
        holder = load_number(connection, feedback.name, row.user if row.user is not None else row.caller)
        return feedback.recorder.record_item(connection, prepared, prediction, row.caller, holder)

    receipt: Receipt = await feedback.transactions.commit(record)
    return receipt


async def reject_held(feedback: Feedback, id: str, by: str) -> Receipt:
    """Decide that a held item is never learned. Raises NotFound and Conflict."""

    def record(connection: Connection) -> HeldFeedbackRow:
        return reject(connection, load_waiting(connection, feedback.name, id), by)

    row: HeldFeedbackRow = await feedback.transactions.commit(record)
    note_rejected(feedback, [row])
    return held_receipt(row)


def reject(connection: Connection, row: HeldFeedbackRow, by: str, note: str | None = None) -> HeldFeedbackRow:
    """Write the decision; return the row with it. note: for the caller of the item."""
    decide(connection, row.model, row.id, "rejected", by, note)
    row.decision, row.note = "rejected", note
    return row


def load_waiting(connection: Connection, model: str, id: str) -> HeldFeedbackRow:
    """Return held feedback that waits. Raises NotFound, and Conflict for an item that was decided."""
    row = load_held(connection, model, id)
    if row is None:
        raise NotFound(f"{model} holds no feedback {id!r}")
    if row.decision is not None:
        raise Conflict(f"the feedback {id!r} was {row.decision} by {row.decided_by} before")
    return row


def note_rejected(feedback: Feedback, rows: Sequence[HeldFeedbackRow]) -> None:
    """Send each item's caller that it is not learned. The decision is in the store, and in the row."""
    for row in rows:
        data = held_outcome(row).model_dump(exclude_none=True)
        feedback.feed.send_everywhere(FeedEvent("rejected", data, row.user if row.user is not None else row.caller))
