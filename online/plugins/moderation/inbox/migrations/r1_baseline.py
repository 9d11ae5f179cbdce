"""What is in the inbox of curators, for whom, what they decided, and what became of it.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import FLAG, INTEGER, TEXT, columns, keys

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table("inbox_item", *keys(TEXT, "model", "id"), *columns(TEXT, "created_at"))
    op.create_index("inbox_by_time", "inbox_item", ["model", "created_at"])
    op.create_table(
        "inbox_assignment", *keys(TEXT, "model", "item"), *columns(TEXT, "assignee", "assigned_by", "assigned_at")
    )
    op.create_table(
        "inbox_decision",
        *keys(TEXT, "model", "id"),
        *columns(TEXT, "action", "request", "decided_by", "decided_at"),
        *columns(TEXT, "reason", nullable=True),
        *columns(INTEGER, "last_offset", nullable=True),
        *columns(TEXT, "undone_by", "undone_at", nullable=True),
        *columns(INTEGER, "undo_offset", nullable=True),
    )
    op.create_index("inbox_decision_by_time", "inbox_decision", ["model", "decided_at"])
    op.create_table(
        "inbox_outcome",
        *keys(TEXT, "model", "decision", "item"),
        *columns(TEXT, "role", "created_at"),
        *columns(FLAG, "is_retracted"),
        *columns(TEXT, "assignee", nullable=True),
    )
    op.create_index("inbox_outcome_by_item", "inbox_outcome", ["item", "model"])
