"""Values and helpers that several groups of tables share."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import Connection, Table, TextClause, insert, text
from sqlalchemy.exc import DBAPIError

ERASED = "erased"  # the content of feedback whose words were erased
NO_TEXT = "null"  # an input that was erased, as JSON
ROWS_PER_STATEMENT = 1_000  # SQLite takes 32,766 values


class PartialIndex(TypedDict):
    """The options of an index that has entries only for rows that meet a condition."""

    sqlite_where: TextClause
    postgresql_where: TextClause


def index_only_where(condition: str) -> PartialIndex:
    """Return the options of a partial index, which has entries only for rows that meet a condition."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


def now() -> str:
    """Return the current time, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat()


def fold_text(text: str) -> str:
    """Return a text without case and repeated spaces: texts with the same folded text are the same."""
    return " ".join(text.casefold().split())


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows that have every column; on SQLite, many with one statement.

    Between two rows of an `executemany` the writer thread waits for the interpreter lock, which beside a busy event loop
    would take most of its time.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(insert(table), rows)
        return
    names = table.columns.keys()
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        page = rows[start : start + ROWS_PER_STATEMENT]
        statement = insert_statement(table, len(page))
        connection.exec_driver_sql(statement, tuple(row[name] for row in page for name in names))


def copy_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows that have every column, on Postgres, by its COPY command."""
    names = table.columns.keys()
    columns = ", ".join(f'"{name}"' for name in names)
    statement = f"COPY {table.name} ({columns}) FROM STDIN"
    dbapi: Any = connection.dialect.loaded_dbapi
    try:
        with connection.connection.cursor() as cursor, cursor.copy(statement) as copy:  # type: ignore[attr-defined]
            for row in rows:
                copy.write_row([row[name] for name in names])
    except dbapi.Error as error:  # as SQLAlchemy wraps what its own statements raise
        raise DBAPIError.instance(statement, None, error, dbapi.Error) from error


@cache
def insert_statement(table: Table, rows: int) -> str:
    """Return a statement that inserts so many rows; its values are the columns of each row, in order."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    row = f"({', '.join('?' * len(table.c))})"
    return f"INSERT INTO {table.name} ({names}) VALUES {', '.join([row] * rows)}"
