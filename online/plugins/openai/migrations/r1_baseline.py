"""Messages of other chat pages that show predictions.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import TEXT, columns, keys

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table("outside_message", *keys(TEXT, "prediction_id"), *columns(TEXT, "model", "message_id", "trace_id"))
    op.create_index("ix_outside_message_message_id", "outside_message", ["message_id"])
    op.create_index("ix_outside_message_trace_id", "outside_message", ["trace_id"])
