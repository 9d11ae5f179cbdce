"""Answers of shadow versions, beside those that were given.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import INTEGER, TEXT, columns, keys

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "shadow",
        *keys(TEXT, "prediction_id"),
        *columns(TEXT, "model"),
        *columns(INTEGER, "version"),
        *columns(TEXT, "choice", nullable=True),
    )
    op.create_index("ix_shadow_model", "shadow", ["model"])
