"""The content of events, to show which feedback a reply rests on."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from online.schemas.events import Event
from online.schemas.json_values import JSON
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS


class EventSummary(NamedTuple):
    """The content of an event. said: correction, thumb or example. feedback_id, user: of its feedback."""

    question: JSON
    said: str
    feedback_id: str | None
    user: str | None


def load_event_summaries(connection: Connection, model: str, offsets: Sequence[int]) -> dict[int, EventSummary]:
    """Return offset -> the content of its event."""
    joined = FEEDBACK.outerjoin(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    input = func.coalesce(PREDICTIONS.c.input, FEEDBACK.c.input).label("input")
    query = select(FEEDBACK.c.offset, FEEDBACK.c.id, FEEDBACK.c.user, input).select_from(joined)
    about = query.where(FEEDBACK.c.model == model, FEEDBACK.c.offset.in_(offsets))
    feedback = {row.offset: (row.id, row.user, row.input) for row in connection.execute(about)}
    events = select(EVENTS).where(EVENTS.c.model == model, EVENTS.c.offset.in_(offsets))
    summaries = dict[int, EventSummary]()
    for row in connection.execute(events).mappings():
        event = Event.parse(row["body"], b"")
        id, user, question = feedback.get(row["offset"], (None, None, None))
        words = json.loads(question) if question is not None else event.text or None
        kind = {"correction": "correction", "reward": "thumb"}.get(event.kind, "example")
        summaries[row["offset"]] = EventSummary(words, kind, id, user)
    return summaries
