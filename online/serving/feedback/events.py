"""Feedback items as events of the stream.

reward, label, sums,
outcome                  -> one event
correction, known reply  -> the event; before it the reply is restored if it was retired
correction, new reply    -> the reply's event, then the correction's
"""

from msgspec.structs import replace
from sqlalchemy import Connection

from online.errors import BadInput, NotFound
from online.models import spec_of
from online.schemas.events import Event
from online.serving.processes.store_messages import NewFeedback
from online.settings import ModelSettings
from online.store.events import derive_event_id
from online.store.predictions import PredictionRow
from online.store.repertoire.replies import (
    count_replies,
    find_reply,
    find_reply_by_text,
    normalize_text,
    set_reply_active,
)

MAX_ID_IN_REPLY_ID = 40  # characters of a feedback's id that go into the id of its reply


def build_events(
    connection: Connection,
    model: ModelSettings,
    place: int,
    item: NewFeedback,
    prediction: PredictionRow | None,
    holder: int = 0,
) -> list[Event]:
    """Return the events of one item, in the order in which they are appended.

    place: of the item in its request, for errors. holder: as in `Event`. Raises what `find_subject` does.
    """
    if item.example_count:
        return [Event(item.id, "sums", item.features, holder=holder)]
    question = prediction.features if prediction is not None else item.features
    choice = prediction.choice if prediction is not None else None
    id, subject = item.id, find_subject(connection, model, place, item, prediction) or ""
    if item.reward is not None:
        return [
            Event(id, "reward", question, subject, reward=item.reward, choice=choice, holder=holder, signal=item.signal)
        ]
    if item.outcome is not None:
        return [Event(id, "outcome", question, subject, item.outcome, choice=choice)]
    if item.label is not None:
        return [Event(id, "label", question, subject, choice=choice, holder=holder)]
    *others, own = build_correction(connection, model.name, item, question, choice)
    return [*others, replace(own, holder=holder)]


def find_subject(
    connection: Connection, model: ModelSettings, place: int, item: NewFeedback, prediction: PredictionRow | None
) -> str | None:
    """Return the reply, class or number that an item is about; None for a reply that it would bring along.

    Raises BadInput for a reward of an abstention, and NotFound for a label or a choice that names no reply.
    """
    judges = item.reward is not None or item.outcome is not None
    if judges and prediction is not None:
        if prediction.choice is None:
            raise BadInput(
                f"feedback {place}: prediction {item.prediction_id!r} abstained, so there is no answer to reward; "
                "send a label or a correction"
            )
        return prediction.choice
    named = item.choice if judges else item.label
    if named is not None:
        if spec_of(model.kind).has_repertoire and find_reply(connection, model.name, named) is None:
            raise NotFound(f"feedback {place}: {model.name} has no reply {named!r}")
        return named
    reply = find_reply_by_text(connection, model.name, normalize_text(item.correction or ""))
    return None if reply is None else reply.id


def build_correction(
    connection: Connection, model: str, item: NewFeedback, question: bytes, choice: str | None
) -> list[Event]:
    """question: its features."""
    id, text = item.id, normalize_text(item.correction or "")
    reply = find_reply_by_text(connection, model, text)
    if reply is not None:
        restore_id = derive_event_id(id, "restore")
        restored = [] if reply.active else [change_reply(connection, model, reply.id, True, restore_id)]
        return [*restored, Event(id, "correction", question, reply.id, choice=choice, scope=item.scope)]
    new = f"r{count_replies(connection, model) + 1}-{id[:MAX_ID_IN_REPLY_ID]}"
    return [
        Event(derive_event_id(id, "reply"), "reply", item.correction_features, new, text, scope=item.scope),
        Event(id, "correction", question, new, choice=choice, scope=item.scope),
    ]


def change_reply(connection: Connection, model: str, reply: str, active: bool, id: str) -> Event:
    """Restore or retire a reply in the store, and return the event that makes the learner do so."""
    set_reply_active(connection, model, reply, active)
    return Event(id, "restore" if active else "retire", label=reply)
