"""Delete what is older than its retention, in small steps that go on where the last one ended.

    predictions, oldest first --with feedback--> kept: they are part of the log, and expire with it (expired_events.py)
                              --without--------> deleted, with their turn and what plugins keep of them

New ids sort after older ones of the same kind (ids that begin with a digit, and ids with a prefix), so a cursor of each kind
says how far the predictions have been looked through. It moves in the transaction of the deletion.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from sqlalchemy import ColumnElement, Connection, Row, delete, func, select

from online.installed import collect
from online.store.conversations.conversations import CONVERSATIONS, delete_conversation
from online.store.conversations.turns import delete_turns
from online.store.database.meta import META, save_value
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS

IdKind = Literal["plain", "prefixed"]
ID_KINDS: tuple[IdKind, ...] = ("plain", "prefixed")
AFTER_DIGITS = ":"
END_OF_TIME = "9999"  # sorts after every time
SAMPLED = 500  # newest rows of each kind whose size is measured
ROW_BYTES = 200  # of the columns that are not measured, and of the indexes


@dataclass(frozen=True, slots=True)
class DeletionStep:
    """seen: predictions that were looked at. deleted: of these, the ones without feedback."""

    seen: int
    deleted: int


@dataclass(frozen=True, slots=True)
class StoredPredictions:
    """The number of stored predictions, and the bytes that one takes, estimated."""

    rows: int
    row_bytes: float

    @property
    def total_bytes(self) -> int:
        """The estimated size of all predictions."""
        return round(self.rows * self.row_bytes)


def is_of_kind(kind: IdKind) -> ColumnElement[bool]:
    """Return the condition that selects ids of a kind."""
    of_kind: ColumnElement[bool] = (
        PREDICTIONS.c.id < AFTER_DIGITS if kind == "plain" else PREDICTIONS.c.id >= AFTER_DIGITS
    )
    return of_kind


def cursor_key(kind: IdKind) -> str:
    """Return the key under which the position of the deletion is kept."""
    return f"retention/{kind}"


def load_next(connection: Connection, kind: IdKind, count: int) -> Sequence[Row[str, str, str]]:
    """Return the oldest predictions that were not looked at yet: (id, model, created_at)."""
    cursor = connection.scalar(select(META.c.value).where(META.c.key == cursor_key(kind))) or ""
    query = select(PREDICTIONS.c.id, PREDICTIONS.c.model, PREDICTIONS.c.created_at).where(
        is_of_kind(kind), PREDICTIONS.c.id > cursor
    )
    return connection.execute(query.order_by(PREDICTIONS.c.id).limit(count)).all()


def look_again_from(connection: Connection, ids: Sequence[str]) -> None:
    """Let the next pruning look at predictions that were stored late, behind where it has been."""
    for kind in ID_KINDS:
        of_kind = [id for id in ids if (id < AFTER_DIGITS) == (kind == "plain")]
        cursor = connection.scalar(select(META.c.value).where(META.c.key == cursor_key(kind))) if of_kind else None
        if cursor is not None and (first := min(of_kind)) <= cursor:
            save_value(connection, cursor_key(kind), first[:-1])


def prune_predictions(connection: Connection, kind: IdKind, before: str, count: int) -> DeletionStep:
    """Look at the next `count` predictions of before this time, and delete those without feedback."""
    rows = load_next(connection, kind, count)
    old = list(takewhile(lambda row: bool(row.created_at < before), rows))
    ids = [row.id for row in old]
    if not ids:
        return DeletionStep(0, 0)
    rated = set(connection.scalars(select(FEEDBACK.c.prediction_id).where(FEEDBACK.c.prediction_id.in_(ids))))
    unrated = [id for id in ids if id not in rated]
    delete_turns(connection, unrated)
    for model in {row.model for row in old if row.id not in rated}:
        of_model = [row.id for row in old if row.model == model and row.id not in rated]
        collect("forget_records", connection, model, of_model)
    connection.execute(delete(PREDICTIONS).where(PREDICTIONS.c.id.in_(unrated)))
    save_value(connection, cursor_key(kind), ids[-1])
    return DeletionStep(len(ids), len(unrated))


def prune_oldest(connection: Connection, count: int) -> DeletionStep:
    """Look at the oldest predictions, at most `count`, and delete those without feedback."""
    oldest = [(rows[0].created_at, kind) for kind in ID_KINDS if (rows := load_next(connection, kind, 1))]
    if not oldest:
        return DeletionStep(0, 0)
    return prune_predictions(connection, min(oldest)[1], END_OF_TIME, count)


def prune_conversations(connection: Connection, before: str, count: int) -> int:
    """Delete at most `count` conversations that were last used before this time, as their users would."""
    names = (CONVERSATIONS.c.model, CONVERSATIONS.c.user, CONVERSATIONS.c.id)
    found = connection.execute(select(*names).where(CONVERSATIONS.c.updated_at < before).limit(count)).all()
    for model, user, id in found:
        delete_conversation(connection, model, user, id)
    return len(found)


def measure_predictions(connection: Connection) -> StoredPredictions:
    """Count the predictions, and measure the newest ones."""
    rows = connection.scalar(select(func.count()).select_from(PREDICTIONS)) or 0
    columns = PREDICTIONS.c
    size = func.length(columns.input) + func.length(columns.features) + func.length(columns.candidates)
    sizes = list[int]()
    for kind in ID_KINDS:
        newest = select(size).where(is_of_kind(kind)).order_by(PREDICTIONS.c.id.desc()).limit(SAMPLED)
        sizes += connection.scalars(newest)
    return StoredPredictions(rows, ROW_BYTES + sum(sizes) / max(len(sizes), 1))
