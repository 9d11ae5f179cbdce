"""What the ids KEY.1, KEY.2, ... of feedback encoded: the slot KEY, and the turn within it.

Revision ID: 0003
"""

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

PAGE = 5_000  # rows changed by one statement
SLOT = sa.text("slot IS NOT NULL")
SLOT_ID = re.compile(r"(.+)\.([1-9]\d{0,8})", re.DOTALL)
FEEDBACK = sa.table(
    "feedback",
    sa.column("model", sa.String),
    sa.column("id", sa.String),
    sa.column("slot", sa.String),
    sa.column("slot_turn", sa.Integer),
)


def upgrade() -> None:
    op.add_column("feedback", sa.Column("slot", sa.String(), nullable=True))
    op.add_column("feedback", sa.Column("slot_turn", sa.Integer(), nullable=True))
    fill_columns(op.get_bind())
    op.create_index(
        "feedback_by_slot", "feedback", ["model", "slot", "slot_turn"], sqlite_where=SLOT, postgresql_where=SLOT
    )


def downgrade() -> None:
    op.drop_index("feedback_by_slot", "feedback")
    op.drop_column("feedback", "slot_turn")
    op.drop_column("feedback", "slot")


def fill_columns(connection: sa.Connection) -> None:
    statement = (
        sa.update(FEEDBACK)
        .where(FEEDBACK.c.model == sa.bindparam("at_model"), FEEDBACK.c.id == sa.bindparam("at_id"))
        .values(slot=sa.bindparam("slot"), slot_turn=sa.bindparam("slot_turn"))
    )
    ids = connection.execute(sa.select(FEEDBACK.c.model, FEEDBACK.c.id).where(FEEDBACK.c.id.contains("."))).all()
    rows: list[dict[str, Any]] = [
        {"at_model": model, "at_id": id, "slot": found[1], "slot_turn": int(found[2])}
        for model, id in ids
        if (found := SLOT_ID.fullmatch(id))
    ]
    for start in range(0, len(rows), PAGE):
        connection.execute(statement, rows[start : start + PAGE])
