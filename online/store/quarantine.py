"""Quarantines: feedback that is not learned after the guard rolled the live version back, until an operator decides.

the guard sees the loss rise --> begin   since which offset, why, and which version answers now
while it is open                         nothing is learned; feedback is stored, and belongs to the quarantine
an operator decides          --> end     the feedback is learned, or dropped (retracted)
"""

from typing import Literal

from sqlalchemy import Connection, insert, select, update
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of

Outcome = Literal["learned", "dropped"]


class QuarantineRow(SQLModel, table=True):
    """offset: of the event that raised the alarm. since, until: the first and the last quarantined event.

    until, ended_at, outcome: None while the quarantine is open.
    """

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


QUARANTINES = table_of(QuarantineRow)


def begin(connection: Connection, row: QuarantineRow) -> bool:
    """Begin a quarantine; return False if one is open, or if one has covered this event before."""
    of_model = QUARANTINES.c.model == row.model
    covered = (QUARANTINES.c.offset >= row.offset) | (QUARANTINES.c.until >= row.offset)
    known = covered | QUARANTINES.c.ended_at.is_(None)
    if connection.scalar(select(QUARANTINES.c.offset).where(of_model, known)) is not None:
        return False
    connection.execute(insert(QUARANTINES), [row.model_dump()])
    return True


def load_open(connection: Connection, model: str) -> QuarantineRow | None:
    """Return the open quarantine of a model."""
    is_open = (QUARANTINES.c.model == model, QUARANTINES.c.ended_at.is_(None))
    found = connection.execute(select(QUARANTINES).where(*is_open)).mappings().first()
    return None if found is None else QuarantineRow(**found)


def load_quarantines(connection: Connection, model: str, count: int) -> list[QuarantineRow]:
    """Return the newest quarantines, newest first."""
    query = select(QUARANTINES).where(QUARANTINES.c.model == model).order_by(QUARANTINES.c.offset.desc())
    return [QuarantineRow(**row) for row in connection.execute(query.limit(count)).mappings()]


def end(connection: Connection, row: QuarantineRow, until: int, outcome: Outcome, at: str) -> None:
    """End a quarantine."""
    same = (QUARANTINES.c.model == row.model, QUARANTINES.c.offset == row.offset)
    connection.execute(update(QUARANTINES).where(*same).values(until=until, outcome=outcome, ended_at=at))
