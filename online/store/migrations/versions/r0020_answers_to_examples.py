"""Feedback with an input of its own says what was answered to that before it was learned; earlier releases do not judge it.

Revision ID: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("feedback", sa.Column("answer", sa.String()))
    op.add_column("feedback", sa.Column("answered_until", sa.Integer()))


def downgrade() -> None:
    op.drop_column("feedback", "answered_until")
    op.drop_column("feedback", "answer")
