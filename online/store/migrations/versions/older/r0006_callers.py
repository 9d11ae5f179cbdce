"""Callers: API keys, quotas, held feedback, and which caller gave a feedback.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

ABOUT = sa.text("prediction_id IS NOT NULL")
UNDECIDED = sa.text("decision IS NULL")


def text(name: str, nullable: bool = False, primary_key: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.String(), nullable=nullable, primary_key=primary_key)


def upgrade() -> None:
    op.add_column("feedback", text("caller", nullable=True))
    op.create_index("feedback_by_prediction", "feedback", ["prediction_id"], sqlite_where=ABOUT, postgresql_where=ABOUT)
    op.create_table(
        "api_key",
        text("id", primary_key=True),
        *(text(name) for name in ("name", "digest", "scopes")),
        text("models", nullable=True),
        text("created_at"),
        *(text(name, nullable=True) for name in ("expires_at", "revoked_at")),
    )
    op.create_index("ix_api_key_name", "api_key", ["name"])
    op.create_table(
        "quota_use",
        *(text(name, primary_key=True) for name in ("holder", "kind", "hour")),
        sa.Column("count", sa.Integer(), nullable=False),
    )
    op.create_index("ix_quota_use_hour", "quota_use", ["hour"])
    op.create_table(
        "held_feedback",
        *(text(name, primary_key=True) for name in ("model", "id")),
        *(text(name) for name in ("content", "question", "caller")),
        text("user", nullable=True),
        *(text(name) for name in ("reason", "created_at")),
        *(text(name, nullable=True) for name in ("decision", "decided_by", "decided_at")),
    )
    op.create_index("ix_held_feedback_user", "held_feedback", ["user"])
    op.create_index(
        "held_undecided",
        "held_feedback",
        ["model", "created_at"],
        sqlite_where=UNDECIDED,
        postgresql_where=UNDECIDED,
    )


def downgrade() -> None:
    op.drop_table("held_feedback")
    op.drop_table("quota_use")
    op.drop_table("api_key")
    op.drop_index("feedback_by_prediction", "feedback")
    op.drop_column("feedback", "caller")
