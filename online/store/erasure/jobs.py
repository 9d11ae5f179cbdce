"""Erasures: durable jobs that go on where they stopped, whatever was killed.

    erasure            the user, and the whole
    erasure_model      the step and the counts of each model
    erasure_item       what a later step still has to treat; empty once the erasure has ended

The user's name is kept while the job needs it; then only a keyed digest of it.
"""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Select, delete, insert, select, update
from sqlmodel import Field, SQLModel

from online.schemas.json_values import JSON, JSONObject
from online.store.database.tables import table_of
from online.store.database.values import insert_rows, now


class ErasureRow(SQLModel, table=True):
    """One erasure. step: of what concerns all models. findings: JSON, what was removed from files and the database.

    user: None once the job no longer needs it. statement: JSON, signed, once it has ended.
    """

    __tablename__ = "erasure"

    id: str = Field(primary_key=True)
    user: str | None
    user_digest: str
    step: str
    findings: str = "{}"
    statement: str | None = None
    created_at: str
    ended_at: str | None = None


class ErasureModelRow(SQLModel, table=True):
    """One model of an erasure. counts: JSON, what was removed so far, by name."""

    __tablename__ = "erasure_model"

    erasure: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    step: str
    counts: str = "{}"


class ErasureItemRow(SQLModel, table=True):
    """Something of the user that a later step treats: a feedback, a label."""

    __tablename__ = "erasure_item"

    erasure: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    key: str = Field(primary_key=True)


ERASURES = table_of(ErasureRow)
ERASURE_MODELS = table_of(ErasureModelRow)
ERASURE_ITEMS = table_of(ErasureItemRow)


def add_erasure(connection: Connection, row: ErasureRow, models: Sequence[str], step: str) -> None:
    """Store a new erasure, and its first step for each model."""
    connection.execute(insert(ERASURES), [row.model_dump()])
    rows = [ErasureModelRow(erasure=row.id, model=model, step=step).model_dump() for model in models]
    connection.execute(insert(ERASURE_MODELS), rows)


def load_erasure(connection: Connection, id: str) -> ErasureRow | None:
    """Return an erasure; None if there is none with this id."""
    row = connection.execute(select(ERASURES).where(ERASURES.c.id == id)).mappings().first()
    return None if row is None else ErasureRow(**row)


def load_models(connection: Connection, id: str) -> list[ErasureModelRow]:
    """Return the models of an erasure."""
    query = select(ERASURE_MODELS).where(ERASURE_MODELS.c.erasure == id).order_by(ERASURE_MODELS.c.model)
    return [ErasureModelRow(**row) for row in connection.execute(query).mappings()]


def list_unfinished(connection: Connection) -> list[str]:
    """Return the ids of the erasures that have not ended, oldest first."""
    query = select(ERASURES.c.id).where(ERASURES.c.ended_at.is_(None))
    return list(connection.scalars(query.order_by(ERASURES.c.created_at, ERASURES.c.id)))


def save_step(connection: Connection, id: str, model: str, step: str) -> None:
    """Save the step that comes next."""
    connection.execute(update(ERASURE_MODELS).where(*_of_model(id, model)).values(step=step))


def add_counts(connection: Connection, id: str, model: str, counts: Mapping[str, object]) -> None:
    """Add to the counts of a model: numbers are summed, and lists are joined."""
    saved = load_counts(connection, id, model)
    save_counts(connection, id, model, saved | {name: join(saved.get(name), value) for name, value in counts.items()})


def set_counts(connection: Connection, id: str, model: str, counts: Mapping[str, JSON]) -> None:
    """Set counts of a model, whatever they were."""
    save_counts(connection, id, model, {**load_counts(connection, id, model), **counts})


def load_counts(connection: Connection, id: str, model: str) -> JSONObject:
    """Return the counts of the statement."""
    return dict(json.loads(connection.scalar(select(ERASURE_MODELS.c.counts).where(*_of_model(id, model))) or "{}"))


def save_counts(connection: Connection, id: str, model: str, counts: Mapping[str, object]) -> None:
    """Save the counts of the statement."""
    connection.execute(update(ERASURE_MODELS).where(*_of_model(id, model)).values(counts=json.dumps(counts)))


def join(before: JSON, added: JSON) -> JSON:
    """Return a count that was added to, or the list that was extended."""
    return added if before is None else before + added


def save_findings(connection: Connection, id: str, step: str, findings: Mapping[str, object]) -> None:
    """Save what a step that concerns all models has found, and the step that comes next."""
    saved = json.loads(connection.scalar(select(ERASURES.c.findings).where(ERASURES.c.id == id)) or "{}")
    values = {"step": step, "findings": json.dumps({**saved, **findings})}
    connection.execute(update(ERASURES).where(ERASURES.c.id == id).values(**values))


def forget_name(connection: Connection, id: str, step: str) -> None:
    """Blank the user's name, and drop what is left to treat."""
    connection.execute(update(ERASURES).where(ERASURES.c.id == id).values(user=None, step=step))
    connection.execute(delete(ERASURE_ITEMS).where(ERASURE_ITEMS.c.erasure == id))


def end_erasure(connection: Connection, id: str, step: str, statement: str) -> None:
    """Save the end of an erasure, with its signed statement."""
    values = {"step": step, "statement": statement, "ended_at": now()}
    connection.execute(update(ERASURES).where(ERASURES.c.id == id).values(**values))


def add_items(connection: Connection, id: str, model: str, kind: str, keys: Sequence[str]) -> int:
    """Add items, and return how many are new; those that are there already stay as they are."""
    if not keys:
        return 0
    found = select(ERASURE_ITEMS.c.key).where(*_of_kind(id, model, kind), ERASURE_ITEMS.c.key.in_(keys))
    known = set(connection.scalars(found))
    rows = [
        {"erasure": id, "model": model, "kind": kind, "key": key} for key in dict.fromkeys(keys) if key not in known
    ]
    if rows:
        insert_rows(connection, ERASURE_ITEMS, rows)
    return len(rows)


def load_items(connection: Connection, id: str, model: str, kind: str, count: int | None = None) -> list[str]:
    """Return what is still to do of one kind, at most `count`."""
    query = select_items(id, model, kind).order_by(ERASURE_ITEMS.c.key)
    return list(connection.scalars(query if count is None else query.limit(count)))


def select_items(id: str, model: str, kind: str) -> Select[str]:
    """Return a query for the keys of all items of a kind."""
    return select(ERASURE_ITEMS.c.key).where(*_of_kind(id, model, kind))


def drop_items(connection: Connection, id: str, model: str, kind: str, keys: Sequence[str]) -> None:
    """Delete items that are done."""
    connection.execute(delete(ERASURE_ITEMS).where(*_of_kind(id, model, kind), ERASURE_ITEMS.c.key.in_(keys)))


def _of_model(id: str, model: str) -> tuple[ColumnElement[bool], ...]:
    return ERASURE_MODELS.c.erasure == id, ERASURE_MODELS.c.model == model


def _of_kind(id: str, model: str, kind: str) -> tuple[ColumnElement[bool], ...]:
    return ERASURE_ITEMS.c.erasure == id, ERASURE_ITEMS.c.model == model, ERASURE_ITEMS.c.kind == kind
