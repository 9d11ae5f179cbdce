"""Counts of predictions and of their ratings, for each quarter of an hour.

    predictions --as they are stored--> counts: asked, answered
    feedback ----as the log grows-----> ratings (ratings.py) --what is new--> counts: rated, good, bad, corrected, helped

Counts stay when retention deletes the predictions. A quarter of an hour is the largest unit of which every time zone's
hours and days consist. Everything is counted at the moment of the question, so ratings belong to their questions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Integer, cast, column, func, select, text, values
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of

QUARTER_S = 900
Span = tuple[int, int]  # the quarters in [first, end)


class UsageCountRow(SQLModel, table=True):
    """The counts of one writer for the questions of one quarter of an hour.

    quarter: since 1970. writer: on Postgres the number of the connection, so that no transaction waits for another one's
    row; on SQLite 0. The counts are those of `UsageCounts`; a part of them may be negative.
    """

    __tablename__ = "usage_count"

    model: str = Field(primary_key=True)
    quarter: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    writer: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    asked: int
    answered: int
    rated: int
    good: int
    bad: int
    corrected: int
    helped: int


USAGE_COUNTS = table_of(UsageCountRow)
NAMES = ("asked", "answered", "rated", "good", "bad", "corrected", "helped")


class UsageCounts(NamedTuple):
    """asked: questions. answered: those that got an answer. rated: ratings, good and bad ones, and numbers that are
    neither. corrected: questions for which somebody gave another answer. helped: answered questions whose answer
    somebody called wrong.
    """

    asked: int = 0
    answered: int = 0
    rated: int = 0
    good: int = 0
    bad: int = 0
    corrected: int = 0
    helped: int = 0

    def plus(self, other: "UsageCounts") -> "UsageCounts":
        """Return the sums of two counts."""
        return UsageCounts(*map(sum, zip(self, other, strict=True)))


ADD = """
INSERT INTO usage_count (model, quarter, writer, asked, answered, rated, good, bad, corrected, helped)
VALUES (:model, :quarter, {writer}, :asked, :answered, :rated, :good, :bad, :corrected, :helped)
ON CONFLICT (model, quarter, writer) DO UPDATE SET
""" + ", ".join(f"{name} = usage_count.{name} + excluded.{name}" for name in NAMES)
ADD_BY_DIALECT = {
    "sqlite": text(ADD.format(writer="0")),
    "postgresql": text(ADD.format(writer="pg_backend_pid()")),
}


@lru_cache(maxsize=1_024)  # the predictions of one batch share their time
def quarter_of(at: str) -> int:
    """at: an instant, ISO 8601."""
    return int(datetime.fromisoformat(at).timestamp()) // QUARTER_S


def time_of(quarter: int) -> datetime:
    """Return when a quarter of an hour begins."""
    return datetime.fromtimestamp(quarter * QUARTER_S, UTC)


def count_predictions(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Count new predictions, in the transaction that adds them."""
    asked, answered = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for row in rows:
        key = row["model"], quarter_of(row["created_at"])
        asked[key] += 1
        answered[key] += row["choice"] is not None
    add_counts(connection, {key: UsageCounts(asked[key], answered[key]) for key in asked})


def add_counts(connection: Connection, counts: Mapping[tuple[str, int], UsageCounts]) -> None:
    """counts: by model and quarter."""
    rows = [{"model": model, "quarter": at, **counts[model, at]._asdict()} for model, at in sorted(counts)]
    if rows:
        connection.execute(ADD_BY_DIALECT[connection.dialect.name], rows)


def load_counts(connection: Connection, model: str, spans: Sequence[Span]) -> list[tuple[int, UsageCounts]]:
    """Return (place, counts) of the spans in which questions were asked. spans: of quarters, in order."""
    columns = [column(name, Integer) for name in ("place", "first_quarter", "end_quarter")]
    rows = [(place, first, end) for place, (first, end) in enumerate(spans)]
    span = values(*columns, name="span").data(rows).cte()
    in_span = (USAGE_COUNTS.c.quarter >= span.c.first_quarter) & (USAGE_COUNTS.c.quarter < span.c.end_quarter)
    joined = span.join(USAGE_COUNTS, (USAGE_COUNTS.c.model == model) & in_span)
    sums = [cast(func.sum(USAGE_COUNTS.c[name]), BigInteger) for name in NAMES]
    query = select(span.c.place, *sums).select_from(joined).group_by(span.c.place)
    return [(place, UsageCounts(*counts)) for place, *counts in connection.execute(query)]


def load_totals(connection: Connection, model: str) -> UsageCounts:
    """Return the counts of all questions there were."""
    sums = [func.coalesce(cast(func.sum(USAGE_COUNTS.c[name]), BigInteger), 0) for name in NAMES]
    row = connection.execute(select(*sums).where(USAGE_COUNTS.c.model == model)).one()
    return UsageCounts(*map(int, row))


def find_first_quarter(connection: Connection, model: str) -> int | None:
    """Return the quarter of an hour of the first question that was counted."""
    first = select(func.min(USAGE_COUNTS.c.quarter)).where(USAGE_COUNTS.c.model == model)
    found: int | None = connection.scalar(first)
    return found
