"""Create the table of bookmarks."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1", None


def upgrade() -> None:
    columns = [sa.Column(name, sa.String, primary_key=True) for name in ("model", "user", "prediction_id")]
    op.create_table("bookmark", *columns)
