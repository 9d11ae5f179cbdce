"""The schema of release 0.1, which had no migrations.

Every statement skips what exists: a store of that release is brought to this revision by running it.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

RETRACTED = sa.text("retracted_offset IS NOT NULL")
TABLES = (
    "turn",
    "shadow",
    "reply",
    "refused_candidates",
    "quarantine",
    "prediction",
    "outside_message",
    "outside_feedback",
    "meta",
    "label",
    "feedback",
    "event",
    "drift",
    "conversation",
)


def upgrade() -> None:
    op.create_table(
        "conversation",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("updated_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("model", "id"),
        if_not_exists=True,
    )
    op.create_index("ix_conversation_user", "conversation", ["user"], if_not_exists=True)
    op.create_table(
        "drift",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=True),
        sa.Column("projection", sa.Integer(), nullable=True),
        sa.Column("since", sa.Integer(), nullable=False),
        sa.Column("before", sa.Float(), nullable=False),
        sa.Column("after", sa.Float(), nullable=False),
        sa.Column("size", sa.Float(), nullable=False),
        sa.Column("window", sa.Integer(), nullable=False),
        sa.Column("noted_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("model", "offset", "what"),
        if_not_exists=True,
    )
    op.create_table(
        "event",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("features", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("model", "offset"),
        sa.UniqueConstraint("model", "id"),
        if_not_exists=True,
    )
    op.create_index("ix_event_label", "event", ["label"], if_not_exists=True)
    op.create_table(
        "feedback",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("prediction_id", sa.String(), nullable=True),
        sa.Column("input", sa.String(), nullable=True),
        sa.Column("user", sa.String(), nullable=True),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("learned_at", sa.String(), nullable=True),
        sa.Column("refusal", sa.String(), nullable=True),
        sa.Column("retracted_offset", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("model", "id"),
        if_not_exists=True,
    )
    op.create_index("feedback_by_offset", "feedback", ["model", "offset"], if_not_exists=True)
    op.create_index(
        "feedback_taken_back",
        "feedback",
        ["model", "retracted_offset"],
        sqlite_where=RETRACTED,
        postgresql_where=RETRACTED,
        if_not_exists=True,
    )
    op.create_index("ix_feedback_user", "feedback", ["user"], if_not_exists=True)
    op.create_table(
        "label",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("model", "id"),
        if_not_exists=True,
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        if_not_exists=True,
    )
    op.create_table(
        "outside_feedback",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("as_of", sa.Integer(), nullable=False),
        sa.Column("gone", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("source", "id"),
        if_not_exists=True,
    )
    op.create_table(
        "outside_message",
        sa.Column("prediction_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("message_id", sa.String(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("prediction_id"),
        if_not_exists=True,
    )
    op.create_index("ix_outside_message_message_id", "outside_message", ["message_id"], if_not_exists=True)
    op.create_index("ix_outside_message_trace_id", "outside_message", ["trace_id"], if_not_exists=True)
    op.create_table(
        "prediction",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("learned_until", sa.Integer(), nullable=False),
        sa.Column("user", sa.String(), nullable=True),
        sa.Column("input", sa.String(), nullable=False),
        sa.Column("features", sa.LargeBinary(), nullable=False),
        sa.Column("choice", sa.String(), nullable=True),
        sa.Column("propensity", sa.Float(), nullable=False),
        sa.Column("candidates", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
    op.create_table(
        "quarantine",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("since", sa.Integer(), nullable=False),
        sa.Column("until", sa.Integer(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("rolled_back_to", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("ended_at", sa.String(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("model", "offset"),
        if_not_exists=True,
    )
    op.create_table(
        "refused_candidates",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("since", sa.Integer(), nullable=False),
        sa.Column("until", sa.Integer(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("model", "since"),
        if_not_exists=True,
    )
    op.create_table(
        "reply",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("folded", sa.String(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("model", "id"),
        if_not_exists=True,
    )
    op.create_index("ix_reply_folded", "reply", ["folded"], if_not_exists=True)
    op.create_table(
        "shadow",
        sa.Column("prediction_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("choice", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("prediction_id"),
        if_not_exists=True,
    )
    op.create_index("ix_shadow_model", "shadow", ["model"], if_not_exists=True)
    op.create_table(
        "turn",
        sa.Column("prediction_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=True),
        sa.Column("besides", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("prediction_id"),
        if_not_exists=True,
    )
    op.create_index("ix_turn_conversation", "turn", ["conversation"], if_not_exists=True)


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
