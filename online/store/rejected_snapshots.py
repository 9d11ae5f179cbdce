"""Proposed snapshots that the gate rejected, and why: one row for each series of rejections."""

from sqlalchemy import Connection, delete, insert, select, update
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of

MAX_KEPT = 100  # rows of a model


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
