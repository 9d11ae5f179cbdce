"""Tables of erasures: the jobs, what they still have to treat, and what was learned again after them.

Revision ID: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

TEXT = sa.String()


def upgrade() -> None:
    op.create_table(
        "erasure",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("user", TEXT, nullable=True),
        sa.Column("user_digest", TEXT, nullable=False),
        sa.Column("step", TEXT, nullable=False),
        sa.Column("findings", TEXT, nullable=False),
        sa.Column("statement", TEXT, nullable=True),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("ended_at", TEXT, nullable=True),
    )
    op.create_table(
        "erasure_model",
        sa.Column("erasure", TEXT, primary_key=True),
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("step", TEXT, nullable=False),
        sa.Column("counts", TEXT, nullable=False),
    )
    op.create_table(
        "erasure_item", *(sa.Column(name, TEXT, primary_key=True) for name in ("erasure", "model", "kind", "key"))
    )
    op.create_table(
        "relearning",
        sa.Column("model", TEXT, primary_key=True),
        sa.Column("offset", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("learned_until", sa.Integer(), nullable=False),
        sa.Column("subtracted_sha256", TEXT, nullable=False),
        sa.Column("relearned_sha256", TEXT, nullable=False),
        sa.Column("ended_at", TEXT, nullable=False),
    )


def downgrade() -> None:
    for table in ("relearning", "erasure_item", "erasure_model", "erasure"):
        op.drop_table(table)
