"""The tables of moderation, in two groups of the store, and what is forgotten of them."""

from pathlib import Path

from online.plugins.moderation.callers.standing import STANDING, delete_standing_of
from online.plugins.moderation.inbox.tables import ASSIGNMENTS, DECISIONS, ITEMS, OUTCOMES, forget_curator, forget_items
from online.store.database.tables import TableGroup

__all__ = ["CALLER_TABLES", "INBOX_TABLES", "delete_standing_of", "forget_curator", "forget_items"]

FOLDER = Path(__file__).parent
INBOX_TABLES = TableGroup("inbox", (ITEMS, ASSIGNMENTS, DECISIONS, OUTCOMES), ("1",), FOLDER / "inbox" / "migrations")
CALLER_TABLES = TableGroup("callers", (STANDING,), ("1",), FOLDER / "callers" / "migrations", was_core=True)
