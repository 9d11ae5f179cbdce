"""The feedback that other chat pages hold.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import FLAG, INTEGER, TEXT, columns, keys

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "outside_feedback",
        *keys(TEXT, "source", "id"),
        *columns(TEXT, "model", nullable=True),
        *columns(INTEGER, "as_of"),
        *columns(FLAG, "gone"),
    )
