"""Rename the column of answers that a prediction was to leave out: besides becomes exclude.

Revision ID: 0005
"""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute('ALTER TABLE turn RENAME COLUMN besides TO "exclude"')


def downgrade() -> None:
    op.execute('ALTER TABLE turn RENAME COLUMN "exclude" TO besides')
