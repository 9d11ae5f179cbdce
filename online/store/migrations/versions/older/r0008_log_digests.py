"""Give every event the digest of the log up to it, by which a log is recognised.

The digests are those that `online.store.events.append_events` computes.

Revision ID: 0008
"""

import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

PAGE = 5_000  # rows changed by one statement
META = sa.table("meta", sa.column("key", sa.String), sa.column("value", sa.String))
EVENTS = sa.table(
    "event",
    sa.column("model", sa.String),
    sa.column("offset", sa.Integer),
    sa.column("id", sa.String),
    sa.column("kind", sa.String),
    sa.column("label", sa.String),
    sa.column("body", sa.String),
    sa.column("target_offset", sa.Integer),
    sa.column("digest", sa.String),
)


def upgrade() -> None:
    op.add_column("event", sa.Column("digest", sa.String(), nullable=False, server_default=""))
    connection = op.get_bind()
    models = list(connection.scalars(sa.select(EVENTS.c.model).distinct()))
    instance = load_instance(connection) if models else ""
    for model in models:
        fill_digests(connection, model, hashlib.sha256(f"{instance}/{model}".encode()).hexdigest())


def downgrade() -> None:
    op.drop_column("event", "digest")


def load_instance(connection: sa.Connection) -> str:
    """The name of the store, which its first start gives it."""
    known = connection.scalar(sa.select(META.c.value).where(META.c.key == "instance"))
    if known is None:
        known = uuid.uuid4().hex[:12]
        connection.execute(sa.insert(META).values(key="instance", value=known))
    return str(known)


def fill_digests(connection: sa.Connection, model: str, digest: str) -> None:
    """digest: of the empty log."""
    statement = (
        sa.update(EVENTS)
        .where(EVENTS.c.model == model, EVENTS.c.offset == sa.bindparam("at_offset"))
        .values(digest=sa.bindparam("new_digest"))
    )
    for page in pages(connection, model):
        rows = []
        for row in page:
            digest = chain(digest, row)
            rows.append({"at_offset": row.offset, "new_digest": digest})
        connection.execute(statement, rows)


def pages(connection: sa.Connection, model: str) -> Iterator[list[Any]]:
    after = 0
    query = sa.select(EVENTS).where(EVENTS.c.model == model).order_by(EVENTS.c.offset).limit(PAGE)
    while page := list(connection.execute(query.where(EVENTS.c.offset > after))):
        yield page
        after = page[-1].offset


def chain(previous: str, row: Any) -> str:
    body = json.loads(row.body)
    fields = [previous, row.offset, row.id, row.kind, row.label, body["reward"], body["choice"], row.target_offset]
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()
