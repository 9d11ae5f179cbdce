"""Candidates that the gate did not let go live, and why: a row for each time it began to refuse, not for each refusal."""

from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlmodel import Field, SQLModel

KEPT = 100  # newest of a model


class CandidateRow(SQLModel, table=True):
    """since: what the first one refused had learned until. until: the last one. times: how many there were."""

    __tablename__ = "refused_candidates"

    model: str = Field(primary_key=True)
    since: int = Field(primary_key=True)
    until: int
    times: int
    reason: str
    created_at: str


CANDIDATES: Any = CandidateRow.__table__  # type: ignore[attr-defined]
TABLES = [CANDIDATES]


def add_refusal(connection: Connection, row: CandidateRow) -> None:
    """Another one of those since the same offset is counted with them."""
    mine = (CANDIDATES.c.model == row.model, CANDIDATES.c.since == row.since)
    times = connection.scalar(select(CANDIDATES.c.times).where(*mine))
    if times is not None:
        told = {"until": row.until, "reason": row.reason, "times": times + 1}
        connection.execute(update(CANDIDATES).where(*mine).values(**told))
        return
    connection.execute(insert(CANDIDATES), [row.model_dump()])
    newest = select(CANDIDATES.c.since).where(CANDIDATES.c.model == row.model).order_by(CANDIDATES.c.since.desc())
    oldest = connection.scalars(newest.limit(KEPT)).all()[-1]
    connection.execute(delete(CANDIDATES).where(CANDIDATES.c.model == row.model, CANDIDATES.c.since < oldest))


def refused_candidates(connection: Connection, model: str, count: int) -> list[CandidateRow]:
    """The newest first."""
    query = select(CANDIDATES).where(CANDIDATES.c.model == model).order_by(CANDIDATES.c.since.desc())
    return [CandidateRow(**row) for row in connection.execute(query.limit(count)).mappings()]
