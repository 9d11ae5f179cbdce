"""Usage is counted: predictions for each quarter of an hour, and the ratings of each rated prediction.

Revision ID: 0014
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

RATED = ("rated", "good", "bad", "corrected", "helped")


def upgrade() -> None:
    """Count the predictions there are. Ratings are counted from the log once somebody asks for them."""
    counts = [sa.Column(name, sa.Integer(), nullable=False) for name in ("asked", "answered", *RATED)]
    op.create_table(
        "usage_count",
        sa.Column("model", sa.String(), primary_key=True),
        sa.Column("quarter", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("writer", sa.Integer(), primary_key=True, autoincrement=False),
        *counts,
    )
    op.create_table(
        "rating",
        sa.Column("prediction_id", sa.String(), primary_key=True),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("quarter", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in RATED),
    )
    connection = op.get_bind()
    rows = connection.execute(
        sa.text(
            "SELECT model, substr(created_at, 1, 16) AS minute, count(*) AS asked, count(choice) AS answered "
            "FROM prediction GROUP BY model, substr(created_at, 1, 16)"
        )
    )
    sums = dict[tuple[str, int], list[int]]()
    for model, minute, asked, answered in rows:
        quarter = int(datetime.fromisoformat(f"{minute}+00:00").timestamp()) // 900
        sum = sums.setdefault((model, quarter), [0, 0])
        sum[0] += asked
        sum[1] += answered
    values: list[dict[str, Any]] = [
        {
            "model": model,
            "quarter": quarter,
            "writer": 0,
            "asked": asked,
            "answered": answered,
            **dict.fromkeys(RATED, 0),
        }
        for (model, quarter), (asked, answered) in sums.items()
    ]
    if values:
        columns = ("model", "quarter", "writer", "asked", "answered", *RATED)
        table = sa.table("usage_count", *map(sa.column, columns))
        connection.execute(sa.insert(table), values)


def downgrade() -> None:
    op.drop_table("rating")
    op.drop_table("usage_count")
