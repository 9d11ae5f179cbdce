"""Feedback that is the sums of a device says of how many examples; cohorts of devices; earlier releases know neither.

Revision ID: 0018
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

SUMS = """
SELECT model, "offset" FROM event WHERE kind = 'sums' OR EXISTS (
    SELECT 1 FROM event sums WHERE sums.model = event.model AND sums."offset" = event.target_offset AND sums.kind = 'sums')
"""
VOID = """
UPDATE event SET id = :id, body = :body, label = '', features = :features, kind = 'void', feedback_id = NULL, target_offset = NULL
WHERE model = :model AND "offset" = :offset
"""


def upgrade() -> None:
    op.add_column("feedback", sa.Column("example_count", sa.Integer()))
    op.create_table(
        "cohort",
        sa.Column("model", sa.String(), primary_key=True),
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("parameters", sa.String(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("features", sa.String(), nullable=False),
        sa.Column("member_count", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("deadline", sa.String(), nullable=False),
        sa.Column("reason", sa.String()),
    )
    op.create_table(
        "cohort_message",
        sa.Column("model", sa.String(), primary_key=True),
        sa.Column("cohort", sa.String(), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("round", sa.String(), primary_key=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
    )
    op.create_index("cohort_message_by_round", "cohort_message", ["model", "cohort", "round"])


def downgrade() -> None:
    """Sums become void, with their retractions: an earlier release learns the log without them."""
    op.drop_table("cohort_message")
    op.drop_table("cohort")
    connection = op.get_bind()
    for model, offset in connection.execute(sa.text(SUMS)).all():
        id = f"void#{offset}"
        values = {"id": id, "body": make_void_body(id), "features": b"", "model": model, "offset": offset}
        connection.execute(sa.text(VOID), values)
    op.execute("DELETE FROM feedback WHERE example_count IS NOT NULL")
    op.drop_column("feedback", "example_count")


def make_void_body(id: str) -> str:
    fields = {"id": id, "kind": "void", "label": "", "text": "", "reward": 1.0, "choice": None, "target": None}
    return json.dumps(fields, separators=(",", ":"))
