"""Feedback that is held: stored, and learned only once a curator accepts it.

held --accept--> it becomes feedback, and is learned
     --reject, withdrawn by its caller, or expired--> it is never learned
"""

import json
from collections.abc import Collection, Sequence
from typing import Any, Literal

from sqlalchemy import Connection, Index, delete, func, insert, select, update
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import index_only_where, now

Decision = Literal["accepted", "rejected", "withdrawn", "expired"]
HoldReason = Literal["review", "influence", "quarantine"]


class HeldFeedbackRow(SQLModel, table=True):
    """One held item. content: the item, as JSON. question: the instance that it is about, as JSON.

    reason: why it is held. caller: the id of its caller. decision, decided_by, decided_at: None while it is held. note: what
    a curator who rejected it wants its caller to know.
    """

    __tablename__ = "held_feedback"
    __table_args__ = (Index("held_undecided", "model", "created_at", **index_only_where("decision IS NULL")),)

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    content: str
    question: str
    caller: str
    user: str | None = Field(index=True)
    reason: str
    created_at: str
    decision: str | None = None
    decided_by: str | None = None
    decided_at: str | None = None
    note: str | None = None


HELD = table_of(HeldFeedbackRow)
held_by: Any = func.coalesce(HELD.c.user, HELD.c.caller)
Index("held_by_holder", HELD.c.model, held_by, **index_only_where("decision IS NULL"))


def add_held(connection: Connection, rows: Sequence[HeldFeedbackRow]) -> None:
    """Store held feedback."""
    connection.execute(insert(HELD), [row.model_dump() for row in rows])


def load_held(connection: Connection, model: str, id: str) -> HeldFeedbackRow | None:
    """Return held feedback; None if there is none with this id."""
    query = select(HELD).where(HELD.c.model == model, HELD.c.id == id)
    row = connection.execute(query).mappings().first()
    return None if row is None else HeldFeedbackRow(**row)


def load_held_of(connection: Connection, model: str, ids: Sequence[str]) -> dict[str, HeldFeedbackRow]:
    """Return id -> held item, for the ids that exist."""
    found = connection.execute(select(HELD).where(HELD.c.model == model, HELD.c.id.in_(ids)))
    return {row["id"]: HeldFeedbackRow(**row) for row in found.mappings()}


def list_held_of_user(connection: Connection, model: str, user: str) -> list[HeldFeedbackRow]:
    """Return the items of a user that wait for a decision or were rejected, oldest first."""
    undecided_or_rejected = HELD.c.decision.is_(None) | (HELD.c.decision == "rejected")
    query = select(HELD).where(HELD.c.model == model, HELD.c.user == user, undecided_or_rejected)
    found = connection.execute(query.order_by(HELD.c.created_at, HELD.c.id))
    return [HeldFeedbackRow(**row) for row in found.mappings()]


def list_waiting_about(connection: Connection, model: str, holder: str, prediction_id: str) -> list[HeldFeedbackRow]:
    """Return the items of a holder about a prediction that wait for a decision, oldest first."""
    query = select(HELD).where(HELD.c.model == model, HELD.c.decision.is_(None), held_by == holder)
    found = connection.execute(query.order_by(HELD.c.created_at, HELD.c.id)).mappings()
    return [HeldFeedbackRow(**row) for row in found if json.loads(row["content"]).get("prediction_id") == prediction_id]


def list_undecided_predictions(connection: Connection, model: str) -> set[str]:
    """Return the ids of the predictions that items which wait for a decision are about."""
    contents = connection.scalars(select(HELD.c.content).where(HELD.c.model == model, HELD.c.decision.is_(None)))
    return {id for content in contents if (id := json.loads(content).get("prediction_id")) is not None}


def list_held_ids_of(connection: Connection, model: str, user: str) -> list[str]:
    """Return the ids of all items of a user."""
    of_user = (HELD.c.model == model, (HELD.c.user == user) | (HELD.c.caller == user))
    return list(connection.scalars(select(HELD.c.id).where(*of_user)))


def delete_held_of(connection: Connection, model: str, user: str) -> int:
    """Delete the items of a user; return how many."""
    of_user = (HELD.c.model == model, (HELD.c.user == user) | (HELD.c.caller == user))
    return int(connection.execute(delete(HELD).where(*of_user)).rowcount)


def delete_held_about(connection: Connection, model: str, user: str, predictions: Collection[str]) -> None:
    """Delete the items of a user about predictions."""
    query = select(HELD.c.id, HELD.c.content).where(HELD.c.model == model, HELD.c.user == user)
    ids = [id for id, content in connection.execute(query) if json.loads(content).get("prediction_id") in predictions]
    connection.execute(delete(HELD).where(HELD.c.model == model, HELD.c.id.in_(ids)))


def decide(connection: Connection, model: str, id: str, decision: Decision, by: str, note: str | None = None) -> None:
    """Note a decision about held feedback."""
    at = (HELD.c.model == model, HELD.c.id == id)
    values = {"decision": decision, "decided_by": by, "decided_at": now(), "note": note}
    connection.execute(update(HELD).where(*at).values(**values))
