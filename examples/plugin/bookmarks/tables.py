"""The table of bookmarks. All SQL of the plugin is here."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, Connection, String, Table, delete, insert, select
from sqlmodel import SQLModel

from online.store.database.tables import TableGroup

BOOKMARKS = Table(
    "bookmark",
    SQLModel.metadata,
    Column("model", String, primary_key=True),
    Column("user", String, primary_key=True),
    Column("prediction_id", String, primary_key=True),
)
BOOKMARK_TABLES = TableGroup("bookmarks", [BOOKMARKS], ("1",), Path(__file__).parent / "migrations")


def add_bookmark(connection: Connection, model: str, user: str, prediction_id: str) -> None:
    """Add a bookmark; a second one of the same answer changes nothing."""
    row = {"model": model, "user": user, "prediction_id": prediction_id}
    if prediction_id not in load_bookmarks(connection, model, user):
        connection.execute(insert(BOOKMARKS).values(row))


def load_bookmarks(connection: Connection, model: str, user: str, most: int | None = None) -> list[str]:
    """Return the predictions that a user has bookmarked, at most so many."""
    mine = (BOOKMARKS.c.model == model, BOOKMARKS.c.user == user)
    return list(connection.scalars(select(BOOKMARKS.c.prediction_id).where(*mine).limit(most)))


def delete_bookmarks(connection: Connection, model: str, users: Sequence[str]) -> int:
    return connection.execute(delete(BOOKMARKS).where(BOOKMARKS.c.model == model, BOOKMARKS.c.user.in_(users))).rowcount
