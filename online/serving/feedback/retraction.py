"""Retraction: the events that make the learner un-learn feedback, and the replies it brought."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from online.errors import NotFound, PreconditionFailed
from online.models import can_tune_encoder, spec_of
from online.schemas.events import Event
from online.schemas.feedback import Receipt
from online.serving.feedback.feedback_review import find_review
from online.settings import ModelSettings
from online.store.deletion.event_expiry import load_expiry
from online.store.encoder_moves import hold_encoder
from online.store.events import (
    append_events,
    build_retraction,
    find_events_of_feedback,
    list_feedback_with_events,
    load_events,
    load_feedback_id,
    lock_log,
    read_events,
    select_retraction,
)
from online.store.feedback import (
    FEEDBACK,
    FeedbackRow,
    list_unretracted,
    load_feedback,
    mark_all_retracted,
    mark_retracted,
)
from online.store.repertoire.replies import (
    delete_reply,
    find_reply,
    is_reply_used,
    list_taught_replies,
    set_reply_active,
)


def record_retractions(connection: Connection, spec: ModelSettings, ids: Sequence[str]) -> int:
    """Retract feedback in this transaction, with few queries however many; return the offset of the last retraction.

    Feedback that is retracted, has expired, or does not exist, is passed over. 0: there was nothing to retract.
    """
    model = spec.name
    hold_features(connection, spec)
    closed_until = find_closed_until(connection, model)
    unretracted = [(offset, id) for offset, id in list_unretracted(connection, model, ids) if offset > closed_until]
    events = load_events(connection, model, [offset for offset, _ in unretracted])
    concern_replies = find_feedback_on_replies(connection, spec, unretracted, events)
    last = [record_retraction(connection, spec, id).offset for _, id in unretracted if id in concern_replies]
    alone = [(offset, id) for offset, id in unretracted if id not in concern_replies]
    retractions = [build_retraction(events[offset], offset) for offset, _ in alone]
    offsets = append_events(connection, model, retractions, feedback_id=[id for _, id in alone])
    find_review().note_retracted(connection, model, [id for _, id in unretracted])
    if alone:
        retraction = select_retraction(FEEDBACK.c.model, FEEDBACK.c.offset)
        mark_all_retracted(connection, model, [id for _, id in alone], retraction)
    return max([*last, *offsets], default=0)


def find_feedback_on_replies(
    connection: Connection, spec: ModelSettings, feedback: Sequence[tuple[int, str]], events: Mapping[int, Event]
) -> set[str]:
    """Return the ids of the feedback whose retraction may take a reply back, or retire it again.

    feedback: pairs of an offset and an id.
    """
    if not spec_of(spec.kind).has_repertoire:
        return set()
    taught = list_taught_replies(connection, spec.name, {events[offset].label for offset, _ in feedback})
    restored = list_feedback_with_events(connection, spec.name, [id for _, id in feedback], "restore")
    return restored | {id for offset, id in feedback if events[offset].label in taught}


def hold_features(connection: Connection, spec: ModelSettings) -> None:
    """Keep the encoder of the features that a retraction copies until the transaction ends."""
    if can_tune_encoder(spec.kind, spec.options):
        hold_encoder(connection, spec.name)


def record_retraction(connection: Connection, spec: ModelSettings, id: str) -> Receipt:
    """Retract one feedback in this transaction. A retracted one gives its receipt again.

    Raises NotFound, and PreconditionFailed for one that has expired.
    """
    model = spec.name
    hold_features(connection, spec)
    row = load_feedback(connection, model, [id]).get(id)
    if row is None:
        raise NotFound(f"{model} has no feedback {id!r}")
    if row.retracted_offset is None:
        check_not_expired(connection, model, row.offset, f"the feedback {id!r}")
        offsets = [row.offset, *retract_reply(connection, spec, row)]
        events = [build_retraction(event_at(connection, model, offset), offset) for offset in offsets]
        row.retracted_offset = append_events(connection, model, events, feedback_id=id)[-1]
        mark_retracted(connection, model, id, row.retracted_offset)
        find_review().note_retracted(connection, model, [id])
    return Receipt(id=id, offset=row.retracted_offset, status="retracted")


def find_closed_until(connection: Connection, model: str) -> int:
    """Return the offset up to which no event is retracted any more, in a transaction that may retract others."""
    lock_log(connection, model)
    return load_expiry(connection, model).closed_until


def check_not_expired(connection: Connection, model: str, offset: int, what: str) -> None:
    """Raise PreconditionFailed for an event that may not be retracted any more."""
    if offset <= find_closed_until(connection, model):
        raise PreconditionFailed(
            f"{what} is older than event_retention_days: its contents are no longer kept, so it cannot be un-learned"
        )


def event_at(connection: Connection, model: str, offset: int) -> Event:
    """Return the event at an offset."""
    return read_events(connection, model, offset - 1, 1)[0]


def retract_reply(connection: Connection, spec: ModelSettings, row: FeedbackRow) -> list[int]:
    """Return offsets of further events to take back with a feedback.

    These are the event by which it restored a retired reply, and the event by which a feedback
    brought a reply that nothing else uses.
    """
    model = spec.name
    reply = event_at(connection, model, row.offset).label
    restored = find_events_of_feedback(connection, model, row.id, "restore")
    if restored:
        set_reply_active(connection, model, reply, False)
    return [*restored, *drop_unused_reply(connection, spec, row, reply)]


def drop_unused_reply(connection: Connection, spec: ModelSettings, row: FeedbackRow, reply: str) -> list[int]:
    """Return the offset of the reply's event if the reply is dropped, else nothing.

    A reply is dropped when feedback brought it, that feedback is retracted, and no other uses it. One that has expired
    stays.
    """
    model = spec.name
    known = find_reply(connection, model, reply) if spec_of(spec.kind).has_repertoire else None
    if known is None or known.offset <= find_closed_until(connection, model):
        return []
    source_id = load_feedback_id(connection, model, known.offset)
    source = load_feedback(connection, model, [source_id]).get(source_id) if source_id is not None else None
    source_is_retracted = source is not None and (source.id == row.id or source.retracted_offset is not None)
    if not source_is_retracted or is_reply_used(connection, model, reply, except_feedback=row.id):
        return []
    delete_reply(connection, model, reply)
    return [known.offset]
