"""An index of feedback by its prediction: retention asks which of many predictions have feedback.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

RATED = sa.text("prediction_id IS NOT NULL")


def upgrade() -> None:
    op.create_index("feedback_by_prediction", "feedback", ["prediction_id"], sqlite_where=RATED, postgresql_where=RATED)


def downgrade() -> None:
    op.drop_index("feedback_by_prediction", "feedback")
