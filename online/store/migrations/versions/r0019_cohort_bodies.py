"""Messages of cohorts are stored in places of a fixed length: cohorts that were under way have failed.

Revision ID: 0019
"""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    end_cohorts()


def downgrade() -> None:
    end_cohorts()


def end_cohorts() -> None:
    """Neither release reads the messages of the other. A device sends its sums in the next cohort."""
    op.execute("DELETE FROM cohort_message")
    op.execute(
        "UPDATE cohort SET state = 'failed', reason = 'the service was updated' WHERE state NOT IN ('done', 'failed')"
    )
