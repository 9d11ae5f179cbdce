"""Remove the contents of expired events, a page of the log at a time.

    feedback, its retraction --> kind `void`: the offset and the digest stay, nothing else
    row of the feedback, its prediction, its turn, and what plugins keep of both --> deleted
    replies and changes of the repertoire --> kept: they are what the model answers with, and no feedback

Each page is one transaction, and moves `removed_until`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, insert, select, update

from online.installed import collect
from online.schemas.events import Event
from online.store.callers.held_feedback import HELD, list_undecided_predictions
from online.store.classes import CLASSES
from online.store.conversations.conversations import CONVERSATIONS, make_title
from online.store.conversations.turns import TURNS, delete_turns
from online.store.database.values import NO_TEXT
from online.store.deletion.event_expiry import load_expiry, save_expiry
from online.store.events import EVENTS, GIVEN, derive_event_id, lock_log, void_at
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS
from online.store.refusals import REFUSALS
from online.store.usage.ratings import count_until, forget_ratings

NO_TITLE = "…"  # of a conversation whose first question is gone


@dataclass(frozen=True, slots=True)
class ExpiryCounts:
    """The numbers of deleted rows of one page. until: the offset up to which all is done."""

    until: int
    events: int
    predictions: int


@dataclass(frozen=True, slots=True)
class ExpiryPage:
    """The events of feedback in a span of the log: offset -> label.

    in_force: feedback that was not retracted. retracted: feedback, and replies that it brought, with retractions.
    retractions: their offsets, also beyond the page. kept: replies that feedback brought, and that stay.
    """

    in_force: dict[int, str]
    retracted: dict[int, str]
    retractions: list[int]
    kept: list[int]


def remove_page(connection: Connection, model: str, has_classes: bool, count: int) -> ExpiryCounts | None:
    """Remove the contents of the next `count` events that may be removed; None if there are none.

    has_classes: whether labels are classes, whose names stay known.
    """
    lock_log(connection, model)
    expiry = load_expiry(connection, model)
    after, until = expiry.removed_until, min(expiry.removed_until + count, expiry.removing_until)
    if after >= until:
        return None
    count_until(connection, model, until)
    page = read_page(connection, model, after, until)
    if has_classes:
        keep_classes(connection, model, page.in_force)
    voided = [*page.in_force, *page.retracted, *page.retractions]
    void_at(connection, model, voided)
    connection.execute(delete(REFUSALS).where(REFUSALS.c.model == model, REFUSALS.c.offset.in_(voided)))
    forget_origin(connection, model, page.kept)
    predictions = delete_feedback(connection, model, after, until)
    counts = {
        "event_count": expiry.event_count + len(voided),
        "learned_count": expiry.learned_count + len(page.in_force),
    }
    save_expiry(connection, model, replace(expiry, removed_until=until, **counts))
    return ExpiryCounts(until, len(voided), predictions)


def remove_feedback_events(connection: Connection, model: str, feedback: Sequence[str]) -> tuple[int, list[str]]:
    """Remove the contents of feedback that is closed now, for an erasure; return of how many events, and their labels."""
    lock_log(connection, model)
    expiry = load_expiry(connection, model)
    closed_feedback = select(FEEDBACK.c.offset).where(FEEDBACK.c.model == model, FEEDBACK.c.id.in_(feedback))
    closed = closed_feedback.where(FEEDBACK.c.offset <= expiry.closed_until, FEEDBACK.c.retracted_offset.is_(None))
    own = (EVENTS.c.model == model, EVENTS.c.offset.in_(closed.scalar_subquery()), EVENTS.c.kind.in_(GIVEN))
    rows = connection.execute(select(EVENTS.c.offset, EVENTS.c.label).where(*own)).all()
    named: dict[int, str] = dict(rows)
    if not named:
        return 0, []
    void_at(connection, model, list(named))
    counts = {
        "event_count": expiry.event_count + len(named),
        "learned_count": expiry.learned_count + len(named),
    }
    save_expiry(connection, model, replace(expiry, **counts))
    return len(named), sorted({label for label in named.values() if label})


def read_page(connection: Connection, model: str, after: int, until: int) -> ExpiryPage:
    """Return a page of expired events. Every retraction of one is in the log, because closed events cannot be retracted."""
    retraction = EVENTS.alias()
    taken_back = select(retraction.c.offset).where(
        retraction.c.model == EVENTS.c.model, retraction.c.target_offset == EVENTS.c.offset
    )
    span = (EVENTS.c.model == model, EVENTS.c.offset > after, EVENTS.c.offset <= until)
    columns = (EVENTS.c.offset, EVENTS.c.kind, EVENTS.c.label, taken_back.exists().label("is_retracted"))
    of_feedback = (EVENTS.c.source == "feedback", EVENTS.c.kind.in_([*GIVEN, "reply", "restore"]))
    rows = connection.execute(select(*columns).where(*span, *of_feedback)).all()
    retracted = {row.offset: row.label for row in rows if row.is_retracted}
    about = (retraction.c.model == model, retraction.c.target_offset.in_(list(retracted)))
    return ExpiryPage(
        in_force={row.offset: row.label for row in rows if row.kind in GIVEN and not row.is_retracted},
        retracted=retracted,
        retractions=list(connection.scalars(select(retraction.c.offset).where(*about))),
        kept=[row.offset for row in rows if row.kind not in GIVEN and not row.is_retracted],
    )


def keep_classes(connection: Connection, model: str, named: dict[int, str]) -> None:
    """Remember the classes that events name, in the order in which they appeared. named: offset -> class."""
    known = set(connection.scalars(select(CLASSES.c.id).where(CLASSES.c.model == model)))
    first = {label: offset for offset, label in sorted(named.items(), reverse=True) if label and label not in known}
    rows = [{"model": model, "id": label, "offset": offset, "active": True} for label, offset in first.items()]
    if rows:
        connection.execute(insert(CLASSES), rows)


def forget_origin(connection: Connection, model: str, offsets: Sequence[int]) -> None:
    """Keep replies without the id of the feedback that brought them."""
    query = select(EVENTS.c.offset, EVENTS.c.body, EVENTS.c.features)
    for offset, body, features in connection.execute(
        query.where(EVENTS.c.model == model, EVENTS.c.offset.in_(offsets))
    ).all():
        event = Event.parse(body, features)
        id = derive_event_id("kept", str(offset))
        values = {"id": id, "body": Event(id, event.kind, features, event.label, event.text, scope=event.scope).body()}
        at = (EVENTS.c.model == model, EVENTS.c.offset == offset)
        connection.execute(update(EVENTS).where(*at).values(**values, feedback_id=None))


def delete_feedback(connection: Connection, model: str, after: int, until: int) -> int:
    """Delete the rows of feedback with offsets in (after, until], and of what it is about; return how many predictions.

    A prediction stays as long as held feedback about it waits for a decision. Later feedback about a deleted one stays,
    as feedback about an input of its own: its event has the features.
    """
    span = (FEEDBACK.c.model == model, FEEDBACK.c.offset > after, FEEDBACK.c.offset <= until)
    rows = connection.execute(select(FEEDBACK.c.id, FEEDBACK.c.prediction_id).where(*span)).all()
    ids = [row.id for row in rows]
    connection.execute(delete(FEEDBACK).where(*span))
    collect("forget_records", connection, model, ids)
    decided = (HELD.c.model == model, HELD.c.id.in_(ids), HELD.c.decision.is_not(None))
    connection.execute(delete(HELD).where(*decided))
    about = {row.prediction_id for row in rows if row.prediction_id is not None}
    if about:
        about -= list_undecided_predictions(connection, model)
        delete_predictions(connection, model, sorted(about))
    return len(about)


def delete_predictions(connection: Connection, model: str, ids: Sequence[str]) -> None:
    """Delete predictions and all that belongs to them; a conversation without any turn is deleted too."""
    turns = (TURNS.c.model == model, TURNS.c.prediction_id.in_(ids))
    conversations = set(connection.scalars(select(TURNS.c.conversation).where(*turns).distinct())) - {None}
    forget_ratings(connection, model, ids)
    delete_turns(connection, ids)
    collect("forget_records", connection, model, ids)
    connection.execute(update(FEEDBACK).where(FEEDBACK.c.prediction_id.in_(ids)).values(prediction_id=None))
    connection.execute(delete(PREDICTIONS).where(PREDICTIONS.c.id.in_(ids)))
    for id in sorted(conversations):
        retitle_conversation(connection, model, id)


def retitle_conversation(connection: Connection, model: str, id: str) -> None:
    """Name a conversation after the first question that is left, unless it was renamed; delete it if none is."""
    same = (CONVERSATIONS.c.model == model, CONVERSATIONS.c.id == id)
    left = select(PREDICTIONS.c.input).join(TURNS, TURNS.c.prediction_id == PREDICTIONS.c.id)
    in_it = (TURNS.c.model == model, TURNS.c.conversation == id)
    first = connection.scalar(left.where(*in_it).order_by(PREDICTIONS.c.created_at, PREDICTIONS.c.id).limit(1))
    if first is None:
        connection.execute(delete(CONVERSATIONS).where(*same))
    else:
        title = NO_TITLE if first == NO_TEXT else make_title(json.loads(first))
        own_words = CONVERSATIONS.c.renamed.is_(False)
        connection.execute(update(CONVERSATIONS).where(*same, own_words).values(title=title))
