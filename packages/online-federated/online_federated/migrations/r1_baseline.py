"""Cohorts of devices, and the messages of their rounds.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import BYTES, INTEGER, TEXT, columns, keys

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "cohort",
        *keys(TEXT, "model", "id"),
        *columns(TEXT, "state", "parameters"),
        *columns(INTEGER, "width"),
        *columns(TEXT, "features"),
        *columns(INTEGER, "member_count"),
        *columns(TEXT, "created_at", "deadline"),
        *columns(TEXT, "reason", nullable=True),
    )
    op.create_table(
        "cohort_message",
        *keys(TEXT, "model", "cohort"),
        *keys(INTEGER, "number"),
        *keys(TEXT, "round"),
        *columns(BYTES, "body"),
        *columns(TEXT, "holder", "token"),
    )
    op.create_index("cohort_message_by_round", "cohort_message", ["model", "cohort", "round"])
