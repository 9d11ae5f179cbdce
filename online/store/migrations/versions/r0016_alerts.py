"""Alerts for webhooks, what was last noticed, and their deliveries.

Revision ID: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

IS_WAITING = sa.text("status = 'waiting'")


def upgrade() -> None:
    op.create_table(
        "alert_state",
        sa.Column("model", sa.String(), primary_key=True),
        sa.Column("event", sa.String(), primary_key=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("alerted_at", sa.String(), nullable=False),
    )
    op.create_table(
        "alert",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
    )
    op.create_index("alert_by_model", "alert", ["model", "created_at"])
    op.create_table(
        "alert_delivery",
        sa.Column("alert_id", sa.String(), primary_key=True),
        sa.Column("endpoint", sa.String(), primary_key=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.String(), nullable=False),
        sa.Column("error", sa.String()),
        sa.Column("ended_at", sa.String()),
    )
    op.create_index(
        "alert_delivery_due",
        "alert_delivery",
        ["endpoint", "due_at"],
        sqlite_where=IS_WAITING,
        postgresql_where=IS_WAITING,
    )


def downgrade() -> None:
    for table in ("alert_delivery", "alert", "alert_state"):
        op.drop_table(table)
