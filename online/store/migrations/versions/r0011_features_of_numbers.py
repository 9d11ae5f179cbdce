"""The features of rows of numbers are their inputs, so a prediction need not repeat them.

Revision ID: 0011
"""

import json
import struct

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

PAGE = 1_000


def upgrade() -> None:
    """Predictions that have both keep both."""


def downgrade() -> None:
    """Earlier releases read the features of every prediction."""
    connection = op.get_bind()
    numbers = "FROM prediction WHERE length(features) = 0 AND input LIKE '[%' AND id > :after ORDER BY id LIMIT :count"
    query, after = sa.text(f"SELECT id, input {numbers}"), ""
    update = sa.text("UPDATE prediction SET features = :features WHERE id = :id")
    while rows := connection.execute(query, {"after": after, "count": PAGE}).all():
        for id, input in rows:
            values = [float(number) for number in json.loads(input)]
            connection.execute(update, {"id": id, "features": struct.pack(f"={len(values)}d", *values)})
        after = rows[-1][0]
