"""Statements of holders about questions, for the review of callers: the newest feedback in force, and held feedback."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from online.schemas.events import Event, is_positive
from online.store.callers.held_feedback import HELD, HoldReason, held_by
from online.store.database.values import ERASED
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK, given_by
from online.store.predictions import load_predictions
from online.store.repertoire.replies import find_reply_by_text


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a holder about a question: that the answer `label` is right (or that it is wrong).

    features: of the question. choice: what the holder was answered. is_trusted: whether a trusted caller said it. hold: why
    it is held; None if it stands.
    """

    id: str
    holder: str
    features: bytes
    label: str
    is_for: bool
    choice: str | None
    created_at: str
    is_trusted: bool = False
    hold: HoldReason | None = None


def load_unretracted_statements(connection: Connection, model: str, count: int) -> list[Statement]:
    """Return the newest feedback that is not retracted, oldest first. Feedback of releases that had no callers has no holder."""
    same = (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.offset == EVENTS.c.offset)
    columns = (FEEDBACK.c.id, given_by.label("holder"), FEEDBACK.c.created_at, EVENTS.c.features, EVENTS.c.body)
    stands = (FEEDBACK.c.model == model, FEEDBACK.c.retracted_offset.is_(None), given_by.is_not(None))
    is_about_one = FEEDBACK.c.example_count.is_(None)  # sums are about many questions
    newest = (
        select(*columns).join(EVENTS, same).where(*stands, is_about_one).order_by(FEEDBACK.c.offset.desc()).limit(count)
    )
    rows = connection.execute(newest).mappings().all()
    return [stated(row, Event.parse(row["body"], row["features"])) for row in reversed(rows)]


def stated(row: Mapping[Any, Any], event: Event) -> Statement:
    """Return the statement that an event makes."""
    is_for = event.kind != "reward" or is_positive(event.reward)
    about = row["id"], row["holder"], event.features, event.label, is_for, event.choice, row["created_at"]
    return Statement(*about, is_trusted=event.holder == 0)


def load_held_statements(
    connection: Connection, model: str, reasons: Sequence[HoldReason], count: int
) -> list[Statement]:
    """Return what is held for these reasons, oldest first, where it is about a prediction and names what there is."""
    waits = (HELD.c.model == model, HELD.c.decision.is_(None), HELD.c.reason.in_(reasons), HELD.c.content != ERASED)
    query = select(HELD, held_by.label("holder")).where(*waits).order_by(HELD.c.created_at, HELD.c.id).limit(count)
    rows = connection.execute(query).mappings().all()
    items = [json.loads(row["content"]) for row in rows]
    predictions = load_predictions(connection, model, [id for item in items if (id := item.get("prediction_id"))])
    found = []
    for row, item in zip(rows, items, strict=True):
        prediction = predictions.get(item.get("prediction_id", ""))
        if prediction is None:
            continue
        reward = item.get("reward")
        label = prediction.choice if reward is not None else item.get("label")
        if "correction" in item:
            reply = find_reply_by_text(connection, model, item["correction"])
            label = None if reply is None else reply.id
        if label is not None:
            is_for = reward is None or is_positive(reward)
            about = row["id"], row["holder"], prediction.features, label, is_for, prediction.choice, row["created_at"]
            found.append(Statement(*about, hold=row["reason"]))
    return found


def count_statements(connection: Connection, model: str) -> tuple[int, int]:
    """Return numbers that change whenever somebody says something new: the newest offset, and how much is held."""
    newest = select(func.max(FEEDBACK.c.offset)).where(FEEDBACK.c.model == model)
    waits = select(func.count()).select_from(HELD).where(HELD.c.model == model, HELD.c.decision.is_(None))
    return connection.scalar(newest) or 0, connection.scalar(waits) or 0
