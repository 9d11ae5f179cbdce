"""Values and helpers that several groups of tables share."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import text

ERASED = "erased"  # the content of feedback whose words were erased
NO_TEXT = "null"  # an input that was erased, as JSON


def index_only_where(condition: str) -> dict[str, Any]:
    """Return the options of a partial index, which has entries only for rows that meet a condition."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


def now() -> str:
    """Return the current time, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat()
