"""Feedback that is the sums of a device says of how many examples; earlier releases cannot learn such events.

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


def downgrade() -> None:
    """Sums become void, with their retractions: an earlier release learns the log without them."""
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
