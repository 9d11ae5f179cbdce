"""Retraction: the events that make the learner un-learn feedback, and the replies it brought."""

from sqlalchemy import Connection

from online.errors import NotFound
from online.models import spec_of
from online.schemas.events import Event
from online.schemas.feedback import Receipt
from online.serving.transactions import Transactions
from online.store.events import (
    append_events,
    build_retraction,
    find_events_of_feedback,
    load_feedback_id,
    read_events,
)
from online.store.feedback import FeedbackRow, load_feedback, mark_retracted
from online.store.replies import delete_reply, find_reply, is_reply_used, set_reply_active


def record_retraction(connection: Connection, transactions: Transactions, id: str) -> Receipt:
    """Retract one feedback in this transaction. A retracted one gives its receipt again.

    Raises NotFound.
    """
    model = transactions.name
    transactions.hold_encoder(connection)
    row = load_feedback(connection, model, [id]).get(id)
    if row is None:
        raise NotFound(f"{model} has no feedback {id!r}")
    if row.retracted_offset is None:
        offsets = [row.offset, *retract_reply(connection, transactions, row)]
        events = [build_retraction(event_at(connection, model, offset), offset) for offset in offsets]
        row.retracted_offset = append_events(connection, model, events, feedback_id=id)[-1]
        mark_retracted(connection, model, id, row.retracted_offset)
    return Receipt(id=id, offset=row.retracted_offset, status="retracted")


def event_at(connection: Connection, model: str, offset: int) -> Event:
    return read_events(connection, model, offset - 1, 1)[0].event


def retract_reply(connection: Connection, transactions: Transactions, row: FeedbackRow) -> list[int]:
    """Offsets of further events to take back with a feedback.

    These are the event by which it restored a retired reply, and the event by which a feedback
    brought a reply that nothing else uses.
    """
    model = transactions.name
    reply = event_at(connection, model, row.offset).label
    restored = find_events_of_feedback(connection, model, row.id, "restore")
    if restored:
        set_reply_active(connection, model, reply, False)
    return [*restored, *drop_unused_reply(connection, transactions, row, reply)]


def drop_unused_reply(connection: Connection, transactions: Transactions, row: FeedbackRow, reply: str) -> list[int]:
    """The offset of the reply's event if the reply is dropped, else nothing.

    A reply is dropped when feedback brought it, that feedback is retracted, and no other uses it.
    """
    model = transactions.name
    known = find_reply(connection, model, reply) if spec_of(transactions.spec.kind).has_repertoire else None
    if known is None:
        return []
    source_id = load_feedback_id(connection, model, known.offset)
    source = load_feedback(connection, model, [source_id]).get(source_id) if source_id is not None else None
    source_is_retracted = source is not None and (source.id == row.id or source.retracted_offset is not None)
    if not source_is_retracted or is_reply_used(connection, model, reply, except_feedback=row.id):
        return []
    delete_reply(connection, model, reply)
    return [known.offset]
