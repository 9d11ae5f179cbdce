"""Alerts for webhooks, what was last noticed, and their deliveries.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import INTEGER, TEXT, columns, keys, where

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table("alert_state", *keys(TEXT, "model", "event"), *columns(TEXT, "state", "alerted_at"))
    op.create_table("alert", *keys(TEXT, "id"), *columns(TEXT, "model", "event", "created_at", "body"))
    op.create_index("alert_by_model", "alert", ["model", "created_at"])
    op.create_table(
        "alert_delivery",
        *keys(TEXT, "alert_id", "endpoint"),
        *columns(TEXT, "status"),
        *columns(INTEGER, "attempts"),
        *columns(TEXT, "due_at"),
        *columns(TEXT, "error", "ended_at", nullable=True),
    )
    op.create_index(
        "alert_delivery_due",
        "alert_delivery",
        ["endpoint", "due_at"],
        **where("status = 'waiting'"),
    )
