"""What other pages call our answers, and what was heard of the feedback they keep.

A prediction belongs to one message of another page at most. Several may claim the same message (a page that asks again
after an error, a task that nobody recognised); the first one is what its reader saw.
"""

import hashlib
from typing import Any

from sqlalchemy import Connection, delete, insert, select
from sqlmodel import Field, SQLModel

TRACE_DIGITS = 32  # of a trace id, as Langfuse's createTraceId makes it from a seed


class MessageRow(SQLModel, table=True):
    """A message of another page that shows a prediction."""

    __tablename__ = "outside_message"

    prediction_id: str = Field(primary_key=True)  # begins with the time, whatever its prefix
    model: str
    message_id: str = Field(index=True)
    trace_id: str = Field(index=True)


class HeardRow(SQLModel, table=True):
    """Feedback that another page keeps, as it was when we last looked."""

    __tablename__ = "outside_feedback"

    source: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    model: str | None  # whose answer it is about; none for what is not ours
    as_of: int  # by that page's own clock
    gone: bool = False  # deleted there


MESSAGES: Any = MessageRow.__table__  # type: ignore[attr-defined]
HEARD: Any = HeardRow.__table__  # type: ignore[attr-defined]
TABLES = [MESSAGES, HEARD]


def trace_of(message_id: str) -> str:
    """The id under which Langfuse's clients trace what made a message."""
    return hashlib.sha256(message_id.encode()).hexdigest()[:TRACE_DIGITS]


def add_message(connection: Connection, model: str, prediction_id: str, message_id: str) -> None:
    row = MessageRow(prediction_id=prediction_id, model=model, message_id=message_id, trace_id=trace_of(message_id))
    connection.execute(insert(MESSAGES).values(**row.model_dump()))


def shown_in(connection: Connection, message_id: str) -> MessageRow | None:
    """The prediction that a message shows."""
    return first(connection, MESSAGES.c.message_id == message_id)


def traced_as(connection: Connection, trace_id: str) -> MessageRow | None:
    """The prediction that the message of a trace shows."""
    return first(connection, MESSAGES.c.trace_id == trace_id)


def first(connection: Connection, where: Any) -> MessageRow | None:
    found = connection.execute(select(MESSAGES).where(where).order_by(MESSAGES.c.prediction_id).limit(1))
    row = found.mappings().first()
    return None if row is None else MessageRow(**row)


def forget_messages(connection: Connection, predictions: Any) -> None:
    """predictions: the query for the ids of those whose messages are forgotten."""
    connection.execute(delete(MESSAGES).where(MESSAGES.c.prediction_id.in_(predictions)))


def heard_of(connection: Connection, source: str, id: str) -> HeardRow | None:
    found = connection.execute(select(HEARD).where(HEARD.c.source == source, HEARD.c.id == id)).mappings().first()
    return None if found is None else HeardRow(**found)


def all_heard(connection: Connection, source: str) -> dict[str, HeardRow]:
    """By id."""
    found = connection.execute(select(HEARD).where(HEARD.c.source == source)).mappings()
    return {row["id"]: HeardRow(**row) for row in found}


def hear(connection: Connection, row: HeardRow) -> None:
    connection.execute(delete(HEARD).where(HEARD.c.source == row.source, HEARD.c.id == row.id))
    connection.execute(insert(HEARD).values(**row.model_dump()))
