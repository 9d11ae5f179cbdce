"""Counts of predictions and ratings for each quarter of an hour, the ratings of each prediction and of each answer.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import INTEGER, TEXT, columns, keys

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "usage_count",
        *keys(TEXT, "model"),
        *keys(INTEGER, "quarter", "writer"),
        *columns(INTEGER, "asked", "answered", "rated", "good", "bad", "corrected", "helped"),
    )
    op.create_table(
        "rating",
        *keys(TEXT, "prediction_id"),
        *columns(TEXT, "model"),
        *columns(INTEGER, "quarter"),
        *columns(TEXT, "choice", nullable=True),
        *columns(INTEGER, "rated", "good", "bad", "corrected", "helped"),
    )
    op.create_table("answer_rating", *keys(TEXT, "model", "answer"), *columns(INTEGER, "good", "bad"))
