"""The feedback that other chat pages hold, as it was last read."""

from pathlib import Path

from sqlalchemy import Connection, delete, insert, select
from sqlmodel import Field, SQLModel

from online.store.database.tables import TableGroup, table_of


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


EXTERNAL_FEEDBACK = table_of(ExternalFeedbackRow)
CHAT_PAGE_TABLES = TableGroup(
    "chat_pages", (EXTERNAL_FEEDBACK,), ("1",), Path(__file__).parent / "migrations", was_core=True
)


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
