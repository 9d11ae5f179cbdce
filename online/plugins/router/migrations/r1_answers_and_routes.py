"""Texts that language models have answered, routes that were added at run time, and those of conversations.

Revision ID: 1
"""

from alembic import op

from online.store.migrations.definitions import TEXT, columns, keys

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "generated_answer",
        *keys(TEXT, "prediction_id"),
        *columns(TEXT, "model", "question_id", "route", "text", "created_at"),
    )
    op.create_index("ix_generated_answer_question_id", "generated_answer", ["question_id"])
    op.create_table(
        "added_route",
        *keys(TEXT, "model", "name"),
        *columns(TEXT, "settings", "created_at"),
    )
    op.create_table(
        "held_route",
        *keys(TEXT, "model", "conversation"),
        *columns(TEXT, "route", "created_at"),
    )
    op.create_index("ix_held_route_created_at", "held_route", ["created_at"])
