"""The standing of callers.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import INTEGER, TEXT, columns, keys

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "caller_standing",
        *keys(TEXT, "model", "holder"),
        *columns(INTEGER, "number"),
        *columns(TEXT, "state", "address", "seen_at"),
        *columns(INTEGER, "judged", "agreed"),
        *columns(TEXT, "reason", "decided_by", "decided_at", nullable=True),
    )
    op.create_index("standing_by_state", "caller_standing", ["model", "state", "seen_at"])
