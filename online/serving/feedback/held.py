"""Receipts and outcomes of held feedback, for its callers."""

from sqlalchemy import Connection

from online.schemas.feedback import FeedbackOutcome, FeedbackStatus, Receipt
from online.store.callers.held_feedback import HeldFeedbackRow, decide

STATUS: dict[str | None, FeedbackStatus] = {
    None: "held",
    "rejected": "rejected",
    "withdrawn": "retracted",
    "expired": "rejected",
}
REASONS = {
    "review": "it waits until a curator has read it",
    "influence": "it waits until others agree, because you have said much about this already",
    "quarantine": "it waits until an operator has decided about it",
}
EXPIRED = "nobody else agreed in time, so it was not learned"


def held_receipt(row: HeldFeedbackRow) -> Receipt:
    """Return the receipt of an item that is not in the log: its offset is 0."""
    return Receipt(id=row.id, offset=0, status=STATUS.get(row.decision, "held"))


def held_outcome(row: HeldFeedbackRow) -> FeedbackOutcome:
    """Return the outcome of held feedback."""
    return FeedbackOutcome(**held_receipt(row).model_dump(), reason=held_reason(row))


def held_reason(row: HeldFeedbackRow) -> str | None:
    """Return why an item is not learned, for its caller; where a person has decided, what that person wrote, if anything."""
    return EXPIRED if row.decision == "expired" else REASONS[row.reason] if row.decision is None else row.note


def withdraw(connection: Connection, row: HeldFeedbackRow, by: str) -> Receipt:
    """Take back an item that is held. One that was decided stays as it is."""
    if row.decision is None:
        decide(connection, row.model, row.id, "withdrawn", by)
        row.decision = "withdrawn"
    return held_receipt(row)
