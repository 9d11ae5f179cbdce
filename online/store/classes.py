"""Classes that a classifier has seen in feedback, and which of them are retired."""

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select
from sqlmodel import Field, SQLModel

from online.errors import NotFound
from online.schemas.events import Event, EventKind
from online.store.events import EVENTS, append_events, derive_event_id


class ClassRow(SQLModel, table=True):
    """A class that was retired or restored, or that expired events have named. A class without a row is active.

    offset: of the event that retired or restored it last, or of the first one that named it.
    """

    __tablename__ = "label"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    offset: int
    active: bool


CLASSES: Any = ClassRow.__table__  # type: ignore[attr-defined]


def load_classes(connection: Connection, model: str) -> list[ClassRow]:
    """Return every class that feedback named, in the order of their first event.

    The offset of a class that was never retired is that of its first event.
    """
    named = select(EVENTS.c.label, func.min(EVENTS.c.offset)).where(EVENTS.c.model == model, EVENTS.c.label != "")
    first: dict[str, int] = dict(connection.execute(named.group_by(EVENTS.c.label)).all())
    changed = connection.execute(select(CLASSES).where(CLASSES.c.model == model)).mappings()
    rows = {row["id"]: ClassRow(**row) for row in changed}
    for label, offset in first.items():
        rows.setdefault(label, ClassRow(model=model, id=label, offset=offset, active=True))
    return sorted(rows.values(), key=lambda row: min(row.offset, first.get(row.id, row.offset)))


def is_known_class(connection: Connection, model: str, label: str) -> bool:
    """Whether feedback has named the class."""
    named = select(EVENTS.c.offset).where(EVENTS.c.model == model, EVENTS.c.label == label).limit(1)
    kept = select(CLASSES.c.offset).where(CLASSES.c.model == model, CLASSES.c.id == label)
    return any(connection.execute(query).first() is not None for query in (named, kept))


def record_class_change(connection: Connection, model: str, label: str, active: bool, change_id: str) -> int:
    """Restore or retire a class, and return the offset of the event that makes the learner do so.

    change_id: a new one for every change. Raises NotFound for a class that no feedback has named.
    """
    if not is_known_class(connection, model, label):
        raise NotFound(f"{model} has no class {label[:200]!r}: no feedback has named it yet")
    kind: EventKind = "restore" if active else "retire"
    event = Event(derive_event_id(change_id, kind), kind, label=label)
    offset = append_events(connection, model, [event], source="operator")[0]
    by_id = (CLASSES.c.model == model, CLASSES.c.id == label)
    connection.execute(delete(CLASSES).where(*by_id))
    connection.execute(insert(CLASSES).values(model=model, id=label, offset=offset, active=active))
    return offset
