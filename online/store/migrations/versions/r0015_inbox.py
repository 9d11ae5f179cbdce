"""The inbox of curators, what they tell callers of held feedback, and when a repertoire was changed.

Revision ID: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def text(name: str, nullable: bool = False, primary_key: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.String(), nullable=nullable, primary_key=primary_key)


def key(*names: str) -> list["sa.Column[str]"]:
    return [text(name, primary_key=True) for name in names]


def upgrade() -> None:
    op.add_column("held_feedback", text("note", nullable=True))
    op.add_column("event", text("created_at", nullable=True))
    op.create_table("inbox_item", *key("model", "id"), text("created_at"))
    op.create_index("inbox_by_time", "inbox_item", ["model", "created_at"])
    op.create_table(
        "inbox_assignment",
        *key("model", "item"),
        *(text(name) for name in ("assignee", "assigned_by", "assigned_at")),
    )
    op.create_table(
        "inbox_decision",
        *key("model", "id"),
        *(text(name) for name in ("action", "request", "decided_by", "decided_at")),
        text("reason", nullable=True),
        sa.Column("last_offset", sa.Integer(), nullable=True),
        *(text(name, nullable=True) for name in ("undone_by", "undone_at")),
        sa.Column("undo_offset", sa.Integer(), nullable=True),
    )
    op.create_index("inbox_decision_by_time", "inbox_decision", ["model", "decided_at"])
    op.create_table(
        "inbox_outcome",
        *key("model", "decision", "item"),
        *(text(name) for name in ("role", "created_at")),
        sa.Column("is_retracted", sa.Boolean(), nullable=False),
        text("assignee", nullable=True),
    )
    op.create_index("inbox_outcome_by_item", "inbox_outcome", ["item", "model"])


def downgrade() -> None:
    for table in ("inbox_outcome", "inbox_decision", "inbox_assignment", "inbox_item"):
        op.drop_table(table)
    op.drop_column("event", "created_at")
    op.drop_column("held_feedback", "note")
