"""Messages of other pages that show our predictions, and the feedback that those pages hold.

A prediction belongs to at most one message. Several predictions may name the same message (a page
that repeats a request after an error); the first one is what its reader saw.
"""

import hashlib
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Select, delete, insert, select
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of

TRACE_DIGITS = 32  # of a trace id; Langfuse's createTraceId makes the same from a seed


class MessageRow(SQLModel, table=True):
    """A message of another page that shows a prediction."""

    __tablename__ = "outside_message"

    prediction_id: str = Field(primary_key=True)
    model: str
    message_id: str = Field(index=True)
    trace_id: str = Field(index=True)


class ExternalFeedbackRow(SQLModel, table=True):
    """Feedback that another page holds, as of the last time it was read.

    model: of the answer that it is about; None if that is not ours. as_of: by the clock of that page.
    gone: whether it was deleted there.
    """

    __tablename__ = "outside_feedback"

    source: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    model: str | None
    as_of: int
    gone: bool = False


MESSAGES = table_of(MessageRow)


EXTERNAL_FEEDBACK = table_of(ExternalFeedbackRow)


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


def load_external_feedback(connection: Connection, source: str, id: str) -> ExternalFeedbackRow | None:
    """Return the feedback that another page holds; None if it was never seen."""
    found = (
        connection.execute(
            select(EXTERNAL_FEEDBACK).where(EXTERNAL_FEEDBACK.c.source == source, EXTERNAL_FEEDBACK.c.id == id)
        )
        .mappings()
        .first()
    )
    return None if found is None else ExternalFeedbackRow(**found)


def load_all_external_feedback(connection: Connection, source: str) -> dict[str, ExternalFeedbackRow]:
    """Return id -> feedback, for all that a page holds."""
    found = connection.execute(select(EXTERNAL_FEEDBACK).where(EXTERNAL_FEEDBACK.c.source == source)).mappings()
    return {row["id"]: ExternalFeedbackRow(**row) for row in found}


def save_external_feedback(connection: Connection, row: ExternalFeedbackRow) -> None:
    """Save the feedback that another page holds."""
    connection.execute(
        delete(EXTERNAL_FEEDBACK).where(EXTERNAL_FEEDBACK.c.source == row.source, EXTERNAL_FEEDBACK.c.id == row.id)
    )
    connection.execute(insert(EXTERNAL_FEEDBACK).values(**row.model_dump()))
