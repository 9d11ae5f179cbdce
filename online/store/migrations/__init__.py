"""The history of the database schema, as Alembic revisions; `online/store/database/schema.py` runs them.

To change a table: change its class, add a module to versions/, append its revision here, and add rows
of the table to tests/store/test_migrations.py, which upgrades and downgrades them.
"""

REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
    "0015",
    "0016",
    "0017",
    "0018",
    "0019",
    "0020",
)  # oldest first
HEAD = REVISIONS[-1]
