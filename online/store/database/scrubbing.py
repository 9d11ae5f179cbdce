"""Leave nothing of deleted rows in the files of a database.

SQLite: `secure_delete` overwrites what is deleted, in every connection, so that only the write-ahead log holds it until
it is copied and emptied.
Postgres: VACUUM lets the space of dead rows be used again; its own log and its backups keep them until they are recycled.
"""

import sqlite3
from contextlib import closing

from sqlalchemy import text
from sqlalchemy.engine import make_url

from online.store.database.engine import create_engine_for, is_sqlite, limit_answers
from online.store.database.schema import list_groups
from online.store.database.store import Store

WAIT_S = 0.05  # the longest that writers wait while a reader still uses the beginning of the log


def scrub(store: Store) -> dict[str, object] | None:
    """Leave nothing of deleted rows; return what was done, or None if a reader is in the way: try again later."""
    return scrub_sqlite(store) if is_sqlite(store.url) else vacuum_postgres(store)


def scrub_sqlite(store: Store) -> dict[str, object] | None:
    """Overwrite free pages, so that nothing erased can be read from the file; return what is still in use."""
    path = str(make_url(store.url).database)
    with closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as raw:
        is_busy, frames, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return None if is_busy or frames > 0 else {"kind": "sqlite", "secure_delete": True, "write_ahead_log": "emptied"}


def vacuum_postgres(store: Store) -> dict[str, object]:
    """Vacuum every table of PostgreSQL, also those of plugins, so that nothing erased stays in them."""
    tables = [table for group in list_groups() for table in group.tables]
    engine = create_engine_for(store.url, "FULL", "IMMEDIATE").execution_options(isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            limit_answers(connection, None)
            connection.execute(text("SET statement_timeout = 0"))
            for table in tables:
                connection.execute(text(f"VACUUM {engine.dialect.identifier_preparer.format_table(table)}"))
    finally:
        engine.dispose()
    return {"kind": engine.dialect.name, "vacuumed": [table.name for table in tables]}
