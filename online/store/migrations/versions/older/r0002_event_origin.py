"""What the ids of events encoded: the source of an event, the feedback that brought it, what it retracts.

    id                      source      feedback_id  target_offset
    F                       feedback                                 the feedback F itself
    F#reply, F#restore      feedback    F                            brought along by the correction F
    added:KEY#...           repertoire                               an operator added or changed a reply
    KEY#retire              operator                                 an operator retired or restored a reply or a class
    ...#retraction          as target   F            offset          takes the target back

Revision ID: 0002
"""

import json
from collections.abc import Iterator, Set
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

PAGE = 5_000  # rows changed by one statement
FEEDBACK_ID = sa.text("feedback_id IS NOT NULL")
TARGET = sa.text("target_offset IS NOT NULL")
REPERTOIRE = sa.text("source = 'repertoire'")
EVENTS = sa.table(
    "event",
    sa.column("model", sa.String),
    sa.column("offset", sa.Integer),
    sa.column("id", sa.String),
    sa.column("body", sa.String),
    sa.column("kind", sa.String),
    sa.column("source", sa.String),
    sa.column("feedback_id", sa.String),
    sa.column("target_offset", sa.Integer),
)


def upgrade() -> None:
    op.add_column("event", sa.Column("kind", sa.String(), nullable=False, server_default=""))
    op.add_column("event", sa.Column("source", sa.String(), nullable=False, server_default="feedback"))
    op.add_column("event", sa.Column("feedback_id", sa.String(), nullable=True))
    op.add_column("event", sa.Column("target_offset", sa.Integer(), nullable=True))
    fill_columns(op.get_bind())
    op.create_index(
        "event_by_feedback",
        "event",
        ["model", "feedback_id"],
        sqlite_where=FEEDBACK_ID,
        postgresql_where=FEEDBACK_ID,
    )
    op.create_index(
        "event_by_target", "event", ["model", "target_offset"], sqlite_where=TARGET, postgresql_where=TARGET
    )
    op.create_index(
        "event_of_repertoire", "event", ["model", "label"], sqlite_where=REPERTOIRE, postgresql_where=REPERTOIRE
    )


def downgrade() -> None:
    for index in ("event_by_feedback", "event_by_target", "event_of_repertoire"):
        op.drop_index(index, "event")
    for column in ("kind", "source", "feedback_id", "target_offset"):
        op.drop_column("event", column)


def fill_columns(connection: sa.Connection) -> None:
    """Every event gets its kind; those that are not the event of a feedback get the rest."""
    statement = (
        sa.update(EVENTS)
        .where(EVENTS.c.model == sa.bindparam("at_model"), EVENTS.c.offset == sa.bindparam("at_offset"))
        .values({name: sa.bindparam(name) for name in ("kind", "source", "feedback_id", "target_offset")})
    )
    for page in pages(connection):
        owners = [owner(row.id) for row in page]
        known = sa.select(EVENTS.c.id).where(EVENTS.c.model == page[0].model, EVENTS.c.id.in_(owners))
        existing = set(connection.scalars(known))
        connection.execute(statement, [origin(row.model, row.offset, row.id, row.body, existing) for row in page])


def pages(connection: sa.Connection) -> Iterator[list[Any]]:
    """(model, offset, id, body) of all events, in pages."""
    models = list(connection.scalars(sa.select(EVENTS.c.model).distinct()))
    for model in models:
        after = 0
        query = sa.select(EVENTS.c.model, EVENTS.c.offset, EVENTS.c.id, EVENTS.c.body).order_by(EVENTS.c.offset)
        while page := list(
            connection.execute(query.where(EVENTS.c.model == model, EVENTS.c.offset > after).limit(PAGE))
        ):
            yield page
            after = page[-1].offset


def owner(id: str) -> str:
    """The feedback that an event belongs to, if its id says so: the part before the first #."""
    return id.partition("#")[0]


def origin(model: str, offset: int, id: str, body: str, existing: Set[str]) -> dict[str, Any]:
    """Return the columns of an event. existing: those of the owners that are events themselves."""
    fields = json.loads(body)
    target = fields["target"]
    source, feedback_id = "feedback", None
    if id.startswith("added:") and "#" in id:
        source = "repertoire"
    elif "#" in id and owner(id) in existing:
        feedback_id = owner(id)
    elif "#" in id:
        source = "operator"
    return {
        "at_model": model,
        "at_offset": offset,
        "kind": fields["kind"],
        "source": source,
        "feedback_id": feedback_id,
        "target_offset": None if target is None else target["offset"],
    }
