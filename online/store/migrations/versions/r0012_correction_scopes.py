"""How far a correction reaches is in its event; earlier releases cannot read events that say it.

Revision ID: 0012
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Corrections of earlier releases have no scope."""


def downgrade() -> None:
    """Corrections stay, as examples of the right reply."""
    connection = op.get_bind()
    found = connection.execute(sa.text("""SELECT model, "offset", body FROM event WHERE body LIKE '%scope%'""")).all()
    update = sa.text('UPDATE event SET body = :body WHERE model = :model AND "offset" = :offset')
    for model, offset, body in found:
        connection.execute(update, {"model": model, "offset": offset, "body": without_scope(body)})
    held = connection.execute(sa.text("SELECT model, id, content FROM held_feedback WHERE content LIKE '{%scope%'"))
    change = sa.text("UPDATE held_feedback SET content = :content WHERE model = :model AND id = :id")
    for model, id, content in held.all():
        item = {name: value for name, value in json.loads(content).items() if name != "scope"}
        connection.execute(change, {"model": model, "id": id, "content": json.dumps(item, separators=(",", ":"))})


def without_scope(body: str) -> str:
    fields = json.loads(body)
    fields.pop("scope", None)
    if fields["target"] is not None:
        fields["target"]["event"] = without_scope(fields["target"]["event"])
    return json.dumps(fields, separators=(",", ":"))
