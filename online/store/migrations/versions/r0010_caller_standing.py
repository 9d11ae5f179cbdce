"""How far each holder is trusted, and the reply or class that each feedback is about.

Revision ID: 0010
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

UNDECIDED = sa.text("decision IS NULL")
HOLDER = sa.text('coalesce("user", caller)')


def text(name: str, nullable: bool = False, primary_key: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.String(), nullable=nullable, primary_key=primary_key)


def upgrade() -> None:
    op.add_column("feedback", text("about", nullable=True))
    op.create_index("feedback_by_holder", "feedback", ["model", HOLDER, "about", "created_at"])
    op.create_index(
        "held_by_holder", "held_feedback", ["model", HOLDER], sqlite_where=UNDECIDED, postgresql_where=UNDECIDED
    )
    op.create_table(
        "caller_standing",
        *(text(name, primary_key=True) for name in ("model", "holder")),
        sa.Column("number", sa.Integer(), nullable=False),
        *(text(name) for name in ("state", "address", "seen_at")),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("judged", "agreed")),
        *(text(name, nullable=True) for name in ("reason", "decided_by", "decided_at")),
    )
    op.create_index("standing_by_state", "caller_standing", ["model", "state", "seen_at"])


def downgrade() -> None:
    remove_holders(op.get_bind())
    op.drop_table("caller_standing")
    op.drop_index("held_by_holder", "held_feedback")
    op.drop_index("feedback_by_holder", "feedback")
    op.drop_column("feedback", "about")


def remove_holders(connection: sa.Connection) -> None:
    """Earlier releases cannot read events that name their holder."""
    found = connection.execute(sa.text("""SELECT model, "offset", body FROM event WHERE body LIKE '%holder%'""")).all()
    update = sa.text('UPDATE event SET body = :body WHERE model = :model AND "offset" = :offset')
    for model, offset, body in found:
        connection.execute(update, {"model": model, "offset": offset, "body": without_holder(body)})


def without_holder(body: str) -> str:
    fields = json.loads(body)
    fields.pop("holder", None)
    if fields["target"] is not None:
        fields["target"]["event"] = without_holder(fields["target"]["event"])
    return json.dumps(fields, separators=(",", ":"))
