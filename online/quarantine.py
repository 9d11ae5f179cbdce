"""Feedback that is set apart since the guard took the live version back, until somebody says what it is worth.

the guard sees the loss rise --> begin: since which offset, why, which version answers now
while it is open                 nothing is learned; feedback is taken, and belongs to it
somebody looks               --> end: learned after all, or dropped (taken back, and so un-learned exactly)
"""

from typing import Any, Literal

from sqlalchemy import Connection, insert, select, update
from sqlmodel import Field, SQLModel

Outcome = Literal["learned", "dropped"]


class QuarantineRow(SQLModel, table=True):
    """offset: of the event that showed it. since: the first event that is set apart. until: the last; None while open."""

    __tablename__ = "quarantine"

    model: str = Field(primary_key=True)
    offset: int = Field(primary_key=True)
    since: int
    until: int | None
    reason: str
    rolled_back_to: int | None
    created_at: str
    ended_at: str | None
    outcome: str | None


QUARANTINES: Any = QuarantineRow.__table__  # type: ignore[attr-defined]
TABLES = [QUARANTINES]


def begin(connection: Connection, row: QuarantineRow) -> bool:
    """False where one is open, where this event began one already, or where somebody has said what it is worth."""
    mine = QUARANTINES.c.model == row.model
    judged = (QUARANTINES.c.offset >= row.offset) | (QUARANTINES.c.until >= row.offset)
    same = judged | QUARANTINES.c.ended_at.is_(None)
    if connection.scalar(select(QUARANTINES.c.offset).where(mine, same)) is not None:
        return False
    connection.execute(insert(QUARANTINES), [row.model_dump()])
    return True


def open_of(connection: Connection, model: str) -> QuarantineRow | None:
    mine = (QUARANTINES.c.model == model, QUARANTINES.c.ended_at.is_(None))
    found = connection.execute(select(QUARANTINES).where(*mine)).mappings().first()
    return None if found is None else QuarantineRow(**found)


def quarantines_of(connection: Connection, model: str, count: int) -> list[QuarantineRow]:
    """The newest first."""
    query = select(QUARANTINES).where(QUARANTINES.c.model == model).order_by(QUARANTINES.c.offset.desc())
    return [QuarantineRow(**row) for row in connection.execute(query.limit(count)).mappings()]


def end(connection: Connection, row: QuarantineRow, until: int, outcome: Outcome, at: str) -> None:
    mine = (QUARANTINES.c.model == row.model, QUARANTINES.c.offset == row.offset)
    connection.execute(update(QUARANTINES).where(*mine).values(until=until, outcome=outcome, ended_at=at))
