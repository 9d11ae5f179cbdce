"""The inbox of curators: what callers said that a curator should look at, and what curators decided.

    feedback of a caller that is not trusted --> an open item --decided--> an outcome of a decision --undone--> an open item
    held feedback without a decision         --> is open as it is  --+
    replies that such a caller has added     --> a decision of that caller, which curators can undo

No table here holds words of users: an item is the id of a feedback, a held feedback, or an unanswered prediction.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Index, delete, func, insert, or_, select, update
from sqlmodel import Field, SQLModel

from online.store.callers.held_feedback import HELD
from online.store.database.tables import table_of
from online.store.database.values import ERASED, NO_TEXT, now
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS, restore_features

Action = Literal["approve", "merge", "reject", "reply", "dismiss", "add"]
Role = Literal["held", "learned", "given", "replaced", "question", "added_reply", "added_example"]


class InboxItemRow(SQLModel, table=True):
    """One feedback that is in force and that no curator has looked at. created_at: when it was given."""

    __tablename__ = "inbox_item"
    __table_args__ = (Index("inbox_by_time", "model", "created_at"),)

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    created_at: str


class InboxAssignmentRow(SQLModel, table=True):
    """The assignment of an open item. assignee, assigned_by: ids of callers."""

    __tablename__ = "inbox_assignment"

    model: str = Field(primary_key=True)
    item: str = Field(primary_key=True)
    assignee: str
    assigned_by: str
    assigned_at: str


class InboxDecisionRow(SQLModel, table=True):
    """A decision of a curator about some items at once, or (`add`) an addition by a caller that is no curator.

    request: a digest of what was asked for, to tell a repetition from a conflict. last_offset, undo_offset: of the last event
    of the decision, and of taking it back; None where there was none. reason: the reason that the callers of the items read.
    """

    __tablename__ = "inbox_decision"
    __table_args__ = (Index("inbox_decision_by_time", "model", "decided_at"),)

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    action: str
    request: str
    decided_by: str
    decided_at: str
    reason: str | None = None
    last_offset: int | None = None
    undone_by: str | None = None
    undone_at: str | None = None
    undo_offset: int | None = None


class InboxOutcomeRow(SQLModel, table=True):
    """The effect of a decision on one item.

    role: held or learned, for an item; given, for a curator's feedback that the decision brought; replaced, for one that
    this took the place of; question, for a prediction whose question was dismissed; added_reply, for the id of a new reply;
    added_example, for the id of the event of an example question. is_retracted: whether the decision has
    retracted it. created_at, assignee: of the item while it was open.
    """

    __tablename__ = "inbox_outcome"
    __table_args__ = (Index("inbox_outcome_by_item", "item", "model"),)

    model: str = Field(primary_key=True)
    decision: str = Field(primary_key=True)
    item: str = Field(primary_key=True)
    role: str
    created_at: str
    is_retracted: bool = False
    assignee: str | None = None


ITEMS = table_of(InboxItemRow)
ASSIGNMENTS = table_of(InboxAssignmentRow)
DECISIONS = table_of(InboxDecisionRow)
OUTCOMES = table_of(InboxOutcomeRow)


@dataclass(frozen=True, slots=True)
class OpenItem:
    """One item as it is stored. hold: why it is held; None if it is in force. content: the feedback as it was given, as JSON.

    question: the instance, as JSON. features: of the question; empty where none are stored. choice: the reply that was given.
    about: the reply that feedback in force is about. offset: of feedback in force.
    """

    id: str
    hold: str | None
    content: str
    question: str
    features: bytes
    prediction_id: str | None
    choice: str | None
    asked_at: str | None
    caller: str | None
    user: str | None
    created_at: str
    status: str
    about: str | None = None
    offset: int = 0
    assignee: str | None = None


# open items


def add_open_items(connection: Connection, model: str, items: Mapping[str, str]) -> None:
    """items: id -> when it was given."""
    if items:
        connection.execute(insert(ITEMS), [{"model": model, "id": id, "created_at": at} for id, at in items.items()])


def close_items(connection: Connection, model: str, ids: Collection[str]) -> None:
    """Take feedback off the list: it was decided, or retracted."""
    connection.execute(delete(ITEMS).where(ITEMS.c.model == model, ITEMS.c.id.in_(ids)))


def list_open_ids(connection: Connection, model: str, count: int) -> list[str]:
    """Return the ids of the newest open items of each of the two kinds, at most `count` of each."""
    learned = select(ITEMS.c.id).where(ITEMS.c.model == model).order_by(ITEMS.c.created_at.desc(), ITEMS.c.id)
    held = select(HELD.c.id).where(HELD.c.model == model, HELD.c.decision.is_(None))
    newest_held = held.order_by(HELD.c.created_at.desc(), HELD.c.id).limit(count)
    return [*connection.scalars(learned.limit(count)), *connection.scalars(newest_held)]


def load_open_items(connection: Connection, model: str, ids: Sequence[str]) -> dict[str, OpenItem]:
    """Return id -> item, for those of the ids that are open."""
    assignees = load_assignees(connection, model, ids)
    found = [*read_learned(connection, model, ids), *read_held(connection, model, ids)]
    return {row["id"]: OpenItem(**row, assignee=assignees.get(row["id"])) for row in found}


def read_learned(connection: Connection, model: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the open items whose feedback is learned already."""
    joined = ITEMS.join(FEEDBACK, (FEEDBACK.c.model == ITEMS.c.model) & (FEEDBACK.c.id == ITEMS.c.id)).outerjoin(
        PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id
    )
    given = (FEEDBACK.c[name] for name in ("content", "prediction_id", "caller", "user", "status", "about", "offset"))
    question = func.coalesce(PREDICTIONS.c.input, FEEDBACK.c.input, "null").label("question")
    asked = (PREDICTIONS.c.features, PREDICTIONS.c.choice, PREDICTIONS.c.created_at.label("asked_at"))
    query = select(ITEMS.c.id, ITEMS.c.created_at, *given, question, *asked).select_from(joined)
    in_force = (ITEMS.c.model == model, ITEMS.c.id.in_(ids), FEEDBACK.c.retracted_offset.is_(None))
    rows = connection.execute(query.where(*in_force, FEEDBACK.c.content != ERASED)).mappings()
    return [{**row, "features": row["features"] or b"", "hold": None} for row in rows]


def read_held(connection: Connection, model: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return open items whose feedback is held. Predictions are not joined: the id of an item's prediction is in its content."""
    names = ("id", "content", "question", "caller", "user", "created_at")
    query = select(*(HELD.c[name] for name in names), HELD.c.reason.label("hold"))
    rows = connection.execute(query.where(HELD.c.model == model, HELD.c.id.in_(ids), HELD.c.decision.is_(None)))
    unknown = {"features": b"", "prediction_id": None, "choice": None, "asked_at": None, "status": "held"}
    return [{**row, **unknown} for row in rows.mappings()]


# who looks after them


def load_assignees(connection: Connection, model: str, items: Collection[str]) -> dict[str, str]:
    """Item -> who looks after it, for those that somebody does."""
    query = select(ASSIGNMENTS.c.item, ASSIGNMENTS.c.assignee)
    return dict(connection.execute(query.where(ASSIGNMENTS.c.model == model, ASSIGNMENTS.c.item.in_(items))).all())


def assign_items(connection: Connection, model: str, items: Sequence[str], assignee: str | None, by: str) -> None:
    """assignee: None for nobody."""
    connection.execute(delete(ASSIGNMENTS).where(ASSIGNMENTS.c.model == model, ASSIGNMENTS.c.item.in_(items)))
    values = {"model": model, "assignee": assignee, "assigned_by": by, "assigned_at": now()}
    if assignee is not None and items:
        connection.execute(insert(ASSIGNMENTS), [{**values, "item": item} for item in items])


# decisions


def add_decision(connection: Connection, row: InboxDecisionRow, outcomes: Sequence[InboxOutcomeRow]) -> None:
    """Store a decision and what it did to each item."""
    connection.execute(insert(DECISIONS).values(**row.model_dump()))
    if outcomes:
        connection.execute(insert(OUTCOMES), [outcome.model_dump() for outcome in outcomes])
        decided = [outcome.item for outcome in outcomes]
        connection.execute(delete(ASSIGNMENTS).where(ASSIGNMENTS.c.model == row.model, ASSIGNMENTS.c.item.in_(decided)))


def load_decision(connection: Connection, model: str, id: str) -> InboxDecisionRow | None:
    """Return a decision; None if there is none with this id."""
    query = select(DECISIONS).where(DECISIONS.c.model == model, DECISIONS.c.id == id)
    row = connection.execute(query).mappings().first()
    return None if row is None else InboxDecisionRow(**row)


def load_outcomes_of(connection: Connection, model: str, decisions: Sequence[str]) -> list[InboxOutcomeRow]:
    """Return what decisions did to each item."""
    query = select(OUTCOMES).where(OUTCOMES.c.model == model, OUTCOMES.c.decision.in_(decisions))
    found = connection.execute(query.order_by(OUTCOMES.c.created_at, OUTCOMES.c.item)).mappings()
    return [InboxOutcomeRow(**row) for row in found]


def list_decisions(connection: Connection, model: str, count: int) -> list[InboxDecisionRow]:
    """Return the newest decisions that were not undone, newest first."""
    in_force = select(DECISIONS).where(DECISIONS.c.model == model, DECISIONS.c.undone_at.is_(None))
    newest = in_force.order_by(DECISIONS.c.decided_at.desc(), DECISIONS.c.id).limit(count)
    return [InboxDecisionRow(**row) for row in connection.execute(newest).mappings()]


def mark_undone(connection: Connection, model: str, id: str, by: str, offset: int | None) -> None:
    """Note that a decision was undone."""
    values = {"undone_by": by, "undone_at": now(), "undo_offset": offset}
    connection.execute(update(DECISIONS).where(DECISIONS.c.model == model, DECISIONS.c.id == id).values(**values))


def find_decision_about(connection: Connection, model: str, items: Collection[str]) -> InboxDecisionRow | None:
    """Return the newest decision about one of the items that was not undone."""
    joined = DECISIONS.join(OUTCOMES, (OUTCOMES.c.model == DECISIONS.c.model) & (OUTCOMES.c.decision == DECISIONS.c.id))
    about = (OUTCOMES.c.model == model, OUTCOMES.c.item.in_(items), OUTCOMES.c.role.in_(("held", "learned")))
    query = select(DECISIONS).select_from(joined).where(*about, DECISIONS.c.undone_at.is_(None))
    row = connection.execute(query.order_by(DECISIONS.c.decided_at.desc()).limit(1)).mappings().first()
    return None if row is None else InboxDecisionRow(**row)


def load_dismissals(connection: Connection, model: str, predictions: Collection[str] | None = None) -> dict[str, str]:
    """Prediction -> when its question was dismissed, of dismissals that were not undone. predictions: None for all."""
    joined = OUTCOMES.join(DECISIONS, (OUTCOMES.c.model == DECISIONS.c.model) & (OUTCOMES.c.decision == DECISIONS.c.id))
    in_force = (OUTCOMES.c.model == model, OUTCOMES.c.role == "question", DECISIONS.c.undone_at.is_(None))
    query = select(OUTCOMES.c.item, func.max(DECISIONS.c.decided_at)).select_from(joined).where(*in_force)
    if predictions is not None:
        query = query.where(OUTCOMES.c.item.in_(predictions))
    return dict(connection.execute(query.group_by(OUTCOMES.c.item)).all())


# unanswered questions


class UnansweredPrediction(NamedTuple):
    """A prediction without an answer. input: JSON."""

    id: str
    input: str
    features: bytes
    user: str | None
    created_at: str


def load_unanswered(connection: Connection, model: str, newest: int) -> list[UnansweredPrediction]:
    """Return the abstentions among the `newest` predictions, newest first.

    There is no index by time. New ids sort after older ones of the same kind, so each of the two kinds, ids that begin
    with a digit and ids with a prefix, is read from its end.
    """
    rows: list[UnansweredPrediction] = []
    for of_kind in (PREDICTIONS.c.id < ":", PREDICTIONS.c.id >= ":"):
        recent = select(PREDICTIONS).where(of_kind).order_by(PREDICTIONS.c.id.desc()).limit(newest).subquery()
        query = select(recent.c.id, recent.c.input, recent.c.features, recent.c.user, recent.c.created_at)
        unanswered = (recent.c.model == model, recent.c.choice.is_(None), recent.c.input != NO_TEXT)
        found = connection.execute(query.where(*unanswered)).mappings()
        rows += [UnansweredPrediction(**restore_features(row)) for row in found]
    return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)


# deletion


def forget_items(connection: Connection, model: str, ids: Collection[str]) -> None:
    """Delete all that names these feedbacks, held feedbacks or predictions; the reasons for their callers as well."""
    close_items(connection, model, ids)
    connection.execute(delete(ASSIGNMENTS).where(ASSIGNMENTS.c.model == model, ASSIGNMENTS.c.item.in_(ids)))
    of_items = (OUTCOMES.c.model == model, OUTCOMES.c.item.in_(ids))
    decisions = list(connection.scalars(select(OUTCOMES.c.decision).where(*of_items).distinct()))
    if decisions:
        connection.execute(delete(OUTCOMES).where(*of_items))
        about = (DECISIONS.c.model == model, DECISIONS.c.id.in_(decisions))
        connection.execute(update(DECISIONS).where(*about).values(reason=None))


def forget_curator(connection: Connection, model: str, user: str) -> None:
    """Delete the name of a curator who is erased as a user; what was decided stays."""
    names = (user, f"user:{user}")
    connection.execute(
        delete(ASSIGNMENTS).where(
            ASSIGNMENTS.c.model == model,
            or_(ASSIGNMENTS.c.assignee.in_(names), ASSIGNMENTS.c.assigned_by.in_(names)),
        )
    )
    of_assignee = (OUTCOMES.c.model == model, OUTCOMES.c.assignee.in_(names))
    connection.execute(update(OUTCOMES).where(*of_assignee).values(assignee=None))
    for column in (DECISIONS.c.decided_by, DECISIONS.c.undone_by):
        by = (DECISIONS.c.model == model, column.in_(names))
        connection.execute(update(DECISIONS).where(*by).values({column.name: ERASED}))
