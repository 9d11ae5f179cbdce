"""Events that a model could not learn, with the reason for each.

    offset 3   the label "a" is not a number   |
    offset 4   the label "b" is not a number   |--> one group: the label "b" is not a number, 2 events, 3 to 4

A refusal belongs to a recipe (a kind with its options): the same event may be learned by another recipe.

And snapshots that the gate rejected: one row for each series of rejections.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update
from sqlmodel import Field, SQLModel

from online.schemas.refusals import RefusedGroup
from online.store.database.tables import table_of
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK

MAX_KEPT = 100  # rows of a model


class RefusalRow(SQLModel, table=True):
    """One event that one recipe could not learn."""

    __tablename__ = "refusal"

    model: str = Field(primary_key=True)
    recipe: str = Field(primary_key=True)
    offset: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    reason: str


VALUES = re.compile(r"""'[^']*'|"[^"]*"|[-+]?[\d][\d.,]*""")  # what is quoted, and numbers
NEWEST_GROUPED = 10_000


REFUSALS = table_of(RefusalRow)


def mark_refused(connection: Connection, model: str, recipe: str, offset: int, reason: str) -> None:
    """Record that a recipe could not learn the event at an offset. The first reason stays."""
    at = (FEEDBACK.c.model == model, FEEDBACK.c.offset == offset)
    connection.execute(update(FEEDBACK).where(*at).values(status="refused", refusal=reason))
    same = (*of_recipe(model, recipe), REFUSALS.c.offset == offset)
    if connection.scalar(select(REFUSALS.c.offset).where(*same)) is None:
        connection.execute(insert(REFUSALS).values(model=model, recipe=recipe, offset=offset, reason=reason))


def load_refusals(connection: Connection, model: str, recipe: str) -> dict[int, str]:
    """Return offset -> reason, of all events that this recipe could not learn."""
    query = select(REFUSALS.c.offset, REFUSALS.c.reason).where(*of_recipe(model, recipe))
    return dict(connection.execute(query).all())


def count_refusals(connection: Connection, model: str, recipe: str, after: int) -> int:
    """Return how many events after an offset this recipe could not learn."""
    query = select(func.count()).select_from(REFUSALS).where(*of_recipe(model, recipe), REFUSALS.c.offset > after)
    return connection.scalar(query) or 0


def group_refusals(connection: Connection, model: str, recipe: str) -> list[RefusedGroup]:
    """Return the newest events that this recipe could not learn, 10,000 at most, by their reasons; the largest group first."""
    query = select(REFUSALS.c.offset, REFUSALS.c.reason).where(*of_recipe(model, recipe))
    newest = query.order_by(REFUSALS.c.offset.desc()).limit(NEWEST_GROUPED)
    return group_reasons((offset, reason) for offset, reason in connection.execute(newest))


def group_reasons(newest: Iterable[tuple[int, str]]) -> list[RefusedGroup]:
    """newest: (offset, reason), the newest first."""
    groups = dict[str, list[tuple[int, str]]]()
    for offset, reason in newest:
        groups.setdefault(mask_values(reason), []).append((offset, reason))
    found = [
        RefusedGroup(reason=each[0][1], count=len(each), first_offset=each[-1][0], last_offset=each[0][0])
        for each in groups.values()
    ]
    return sorted(found, key=lambda group: (-group.count, -group.last_offset))


def mask_values(reason: str) -> str:
    """Return a reason without the values in it, so that those that differ in nothing else are equal."""
    return VALUES.sub("…", reason)


class RefusedEvent(NamedTuple):
    """An event that could not be learned. body: JSON. created_at: when its feedback was given."""

    offset: int
    id: str
    body: str
    created_at: str | None
    reason: str


def load_newest_refusals(connection: Connection, model: str, recipe: str, count: int) -> list[RefusedEvent]:
    """Return the newest events that this recipe could not learn."""
    refused = REFUSALS.join(
        EVENTS, (EVENTS.c.model == REFUSALS.c.model) & (EVENTS.c.offset == REFUSALS.c.offset)
    ).outerjoin(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))
    columns = (EVENTS.c.offset, EVENTS.c.id, EVENTS.c.body, FEEDBACK.c.created_at, REFUSALS.c.reason)
    query = select(*columns).select_from(refused).where(*of_recipe(model, recipe))
    newest = query.order_by(REFUSALS.c.offset.desc()).limit(count)
    return [RefusedEvent(*row) for row in connection.execute(newest)]


def of_recipe(model: str, recipe: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that select the refusals of a recipe."""
    return REFUSALS.c.model == model, REFUSALS.c.recipe == recipe


class RejectedSnapshotRow(SQLModel, table=True):
    """A series of rejections. since, until: the offsets that the first and the last snapshot had learned.

    times: the number of rejections.
    """

    __tablename__ = "refused_candidates"

    model: str = Field(primary_key=True)
    since: int = Field(primary_key=True)
    until: int
    times: int
    reason: str
    created_at: str


REJECTED_SNAPSHOTS = table_of(RejectedSnapshotRow)


def add_rejection(connection: Connection, row: RejectedSnapshotRow) -> None:
    """Add a rejection, or count it with those since the same offset."""
    same = (REJECTED_SNAPSHOTS.c.model == row.model, REJECTED_SNAPSHOTS.c.since == row.since)
    times = connection.scalar(select(REJECTED_SNAPSHOTS.c.times).where(*same))
    if times is not None:
        values = {"until": row.until, "reason": row.reason, "times": times + 1}
        connection.execute(update(REJECTED_SNAPSHOTS).where(*same).values(**values))
        return
    connection.execute(insert(REJECTED_SNAPSHOTS), [row.model_dump()])
    newest = (
        select(REJECTED_SNAPSHOTS.c.since)
        .where(REJECTED_SNAPSHOTS.c.model == row.model)
        .order_by(REJECTED_SNAPSHOTS.c.since.desc())
    )
    oldest = connection.scalars(newest.limit(MAX_KEPT)).all()[-1]
    connection.execute(
        delete(REJECTED_SNAPSHOTS).where(REJECTED_SNAPSHOTS.c.model == row.model, REJECTED_SNAPSHOTS.c.since < oldest)
    )


def load_rejections(connection: Connection, model: str, count: int) -> list[RejectedSnapshotRow]:
    """Return the newest rejections, newest first."""
    query = (
        select(REJECTED_SNAPSHOTS)
        .where(REJECTED_SNAPSHOTS.c.model == model)
        .order_by(REJECTED_SNAPSHOTS.c.since.desc())
    )
    return [RejectedSnapshotRow(**row) for row in connection.execute(query.limit(count)).mappings()]
