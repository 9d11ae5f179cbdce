"""Messages of other chat pages that show our predictions. The page names its message in a header; its feedback names it again.

A prediction belongs to at most one message. Several predictions may name the same message (a page
that repeats a request after an error); the first one is what its reader saw.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, Select, delete, insert, select
from sqlmodel import Field, SQLModel

from online.store.database.tables import TableGroup, table_of

TRACE_DIGITS = 32  # of a trace id; Langfuse's createTraceId makes the same from a seed


class MessageRow(SQLModel, table=True):
    """A message of another page that shows a prediction."""

    __tablename__ = "outside_message"

    prediction_id: str = Field(primary_key=True)
    model: str
    message_id: str = Field(index=True)
    trace_id: str = Field(index=True)


MESSAGES = table_of(MessageRow)
MESSAGE_TABLES = TableGroup("openai", (MESSAGES,), ("1",), Path(__file__).parent / "migrations", was_core=True)


def trace_id_of(message_id: str) -> str:
    """Return the trace id that clients of Langfuse give to a message."""
    return hashlib.sha256(message_id.encode()).hexdigest()[:TRACE_DIGITS]


def add_message(connection: Connection, model: str, prediction_id: str, message_id: str) -> None:
    """Store the message that shows a prediction."""
    row = MessageRow(prediction_id=prediction_id, model=model, message_id=message_id, trace_id=trace_id_of(message_id))
    connection.execute(insert(MESSAGES).values(**row.model_dump()))


def find_by_message(connection: Connection, message_id: str) -> MessageRow | None:
    """Return the prediction that a message shows."""
    return _load_first(connection, MESSAGES.c.message_id == message_id)


def find_by_trace(connection: Connection, trace_id: str) -> MessageRow | None:
    """Return the prediction that the message of a trace shows."""
    return _load_first(connection, MESSAGES.c.trace_id == trace_id)


def _load_first(connection: Connection, where: ColumnElement[bool]) -> MessageRow | None:
    found = connection.execute(select(MESSAGES).where(where).order_by(MESSAGES.c.prediction_id).limit(1))
    row = found.mappings().first()
    return None if row is None else MessageRow(**row)


def delete_messages(connection: Connection, predictions: Sequence[str] | Select[str]) -> None:
    """Delete the messages of predictions. predictions: their ids, or a query for them."""
    connection.execute(delete(MESSAGES).where(MESSAGES.c.prediction_id.in_(predictions)))
