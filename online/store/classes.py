"""Classes that a classifier has seen in feedback, which of them are retired, and the examples that count now.

    feedback (a label, not retracted, not refused) --its prediction, or its own input--> examples of each class

An erased user, or an erased prediction, leaves no example here: both are blanked in the tables that this reads.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, case, delete, func, insert, select
from sqlmodel import Field, SQLModel

from online.errors import NotFound
from online.schemas.events import Event, EventKind
from online.schemas.feedback import FeedbackStatus
from online.store.database.tables import table_of
from online.store.database.values import NO_TEXT
from online.store.events import EVENTS, GIVEN, append_events, derive_event_id
from online.store.feedback import FEEDBACK, given_by
from online.store.predictions import PREDICTIONS
from online.store.refusals import REFUSALS


class ClassRow(SQLModel, table=True):
    """A class that was retired or restored, or that expired events have named. A class without a row is active.

    offset: of the event that retired or restored it last, or of the first one that named it.
    """

    __tablename__ = "label"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    offset: int
    active: bool


CLASSES = table_of(ClassRow)


class ListedClass(NamedTuple):
    """A class that feedback named. offset: as of a `ClassRow`. active: whether it can be predicted.

    refusal: why the model learned none of the feedback that named it, None where it learned some or has not read it yet.
    """

    id: str
    offset: int
    active: bool
    refusal: str | None


class ExampleRow(NamedTuple):
    """One example. id: of its feedback. input: JSON, None where it is not kept. of_class: how many its class has."""

    label: str
    of_class: int
    id: str
    prediction_id: str | None
    input: str | None
    status: FeedbackStatus
    offset: int
    created_at: str


def load_classes(connection: Connection, model: str, recipe: str) -> list[ListedClass]:
    """Return every class that feedback named, in the order of their first event. recipe: of the model that serves.

    The offset of a class that was never retired is that of its first event.
    """
    named = select(EVENTS.c.label, func.min(EVENTS.c.offset)).where(EVENTS.c.model == model, EVENTS.c.label != "")
    first: dict[str, int] = dict(connection.execute(named.group_by(EVENTS.c.label)).all())
    changed = connection.execute(select(CLASSES).where(CLASSES.c.model == model)).mappings()
    rows = {row["id"]: ClassRow(**row) for row in changed}
    for label, offset in first.items():
        rows.setdefault(label, ClassRow(model=model, id=label, offset=offset, active=True))
    refused = find_refused_classes(connection, model, recipe)
    ordered = sorted(rows.values(), key=lambda row: min(row.offset, first.get(row.id, row.offset)))
    return [
        ListedClass(row.id, row.offset, row.active and row.id not in refused, refused.get(row.id)) for row in ordered
    ]


def find_refused_classes(connection: Connection, model: str, recipe: str) -> dict[str, str]:
    """Class -> reason, of classes that a recipe could learn nothing of, such as those past its limit."""
    at = (REFUSALS.c.model == EVENTS.c.model) & (REFUSALS.c.offset == EVENTS.c.offset) & (REFUSALS.c.recipe == recipe)
    naming = (EVENTS.c.model == model, EVENTS.c.label != "", EVENTS.c.kind.in_(GIVEN))
    refused = select(EVENTS.c.label, func.max(REFUSALS.c.reason)).join(REFUSALS, at).where(*naming)
    reasons: dict[str, str] = dict(connection.execute(refused.group_by(EVENTS.c.label)).all())
    if not reasons:
        return {}
    others = select(EVENTS.c.label).outerjoin(REFUSALS, at).where(*naming, REFUSALS.c.offset.is_(None)).distinct()
    for label in connection.scalars(others):
        reasons.pop(label, None)
    return reasons


def list_retired_classes(connection: Connection, model: str) -> set[str]:
    """Return the classes that are retired."""
    retired = (CLASSES.c.model == model, CLASSES.c.active.is_(False))
    return set(connection.scalars(select(CLASSES.c.id).where(*retired)))


def is_known_class(connection: Connection, model: str, label: str) -> bool:
    """Return whether feedback has named the class."""
    return is_named_in(connection, model, label, select(EVENTS.c.offset))


def is_taught_class(connection: Connection, model: str, label: str) -> bool:
    """Return whether feedback that was not retracted has named the class: a name of which all was taken back is new again."""
    retractions = EVENTS.alias()
    retracted = (retractions.c.model == EVENTS.c.model) & (retractions.c.target_offset == EVENTS.c.offset)
    in_force = ~select(retractions.c.offset).where(retracted).exists()
    return is_named_in(connection, model, label, select(EVENTS.c.offset).where(EVENTS.c.kind == "label", in_force))


def is_named_in(connection: Connection, model: str, label: str, events: Select[tuple[int]]) -> bool:
    """Return whether one of the events names the class, or its own row keeps that an expired one did."""
    named = events.where(EVENTS.c.model == model, EVENTS.c.label == label).limit(1)
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


# examples


def load_newest_examples(
    connection: Connection, model: str, holder: str | None, of_each: int, in_all: int
) -> list[ExampleRow]:
    """Return the newest examples of each class: first the newest one of every class, then the second of each, and so on.

    holder: who taught them; None: every user. of_each, in_all: how many at most.
    """
    feedback = FEEDBACK.c
    place = func.row_number().over(partition_by=feedback.about, order_by=feedback.offset.desc()).label("place")
    count = func.count().over(partition_by=feedback.about).label("of_class")
    ranked = select(feedback.id, count, place).where(*in_force(model, holder)).subquery()
    kept_input = case((PREDICTIONS.c.input != NO_TEXT, PREDICTIONS.c.input), else_=feedback.input)
    query = (
        select(feedback.about, ranked.c.of_class, feedback.id, feedback.prediction_id, kept_input)
        .add_columns(feedback.status, feedback.offset, feedback.created_at)
        .join(ranked, (feedback.id == ranked.c.id) & (feedback.model == model))
        .outerjoin(PREDICTIONS, PREDICTIONS.c.id == feedback.prediction_id)
        .where(ranked.c.place <= of_each)
        .order_by(ranked.c.place, feedback.offset.desc())
    )
    return [ExampleRow(*row) for row in connection.execute(query.limit(in_all))]


def in_force(model: str, holder: str | None) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that feedback names a class and counts."""
    feedback = FEEDBACK.c
    is_label = feedback.content.like('%"label":%')  # in a text the quotes would be escaped
    counts = (feedback.retracted_offset.is_(None), feedback.status != "refused", feedback.about.is_not(None), is_label)
    of_holder = () if holder is None else (given_by == holder,)
    return (feedback.model == model, *of_holder, *counts)


def list_examples_of_class(
    connection: Connection, model: str, holder: str, label: str, after: int, count: int
) -> list[tuple[int, str]]:
    """Return (offset, feedback id) of the oldest examples of a class by a holder after an offset."""
    of_class = (*in_force(model, holder), FEEDBACK.c.about == label, FEEDBACK.c.offset > after)
    query = select(FEEDBACK.c.offset, FEEDBACK.c.id).where(*of_class).order_by(FEEDBACK.c.offset).limit(count)
    return [(offset, id) for offset, id in connection.execute(query)]
