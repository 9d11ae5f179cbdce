"""The expiry of a model's events: which of them cannot be taken back, and whose contents are gone.

    offset 1 ............. removed_until ........ removing_until ......... closed_until ............ head
    contents are gone      being removed          learned, and may no longer be retracted

Events expire from the beginning of the log, never in between. What the model has learned from them is kept in its base
(online/state/base_snapshot.py).
"""

import json
from dataclasses import asdict, dataclass, replace

from sqlalchemy import Connection, func, select

from online.store import quarantine
from online.store.database.meta import META, save_value
from online.store.events import EVENTS, head_of, lock_log
from online.store.feedback import FEEDBACK


@dataclass(frozen=True, slots=True)
class EventExpiry:
    """The progress of one model. An offset is 0 as long as there is nothing.

    closed_until: feedback up to here is not retracted any more. closed_at: the last offset of the log when that began.
    removing_until, removing_at: the same of the events whose contents are being removed. removed_until: those before it
    are done. copied_until: those before it are removed in the copy in Redis too. event_count: events whose contents were
    removed. learned_count: of these, the feedback that was not retracted before.
    """

    closed_until: int = 0
    closed_at: int = 0
    removing_until: int = 0
    removing_at: int = 0
    removed_until: int = 0
    copied_until: int = 0
    event_count: int = 0
    learned_count: int = 0


def load_expiry(connection: Connection, model: str) -> EventExpiry:
    """Return how far the events of a model have expired."""
    saved = connection.scalar(select(META.c.value).where(META.c.key == expiry_key(model)))
    return EventExpiry() if saved is None else EventExpiry(**json.loads(saved))


def save_expiry(connection: Connection, model: str, expiry: EventExpiry) -> None:
    """Save the expiry. The caller holds the lock of the log."""
    save_value(connection, expiry_key(model), json.dumps(asdict(expiry)))


def expiry_key(model: str) -> str:
    """Return the key under which the expiry is kept."""
    return f"expiry/{model}"


def find_expired_until(connection: Connection, model: str, after: int, until: int, before: str) -> int:
    """Return the last offset up to which all feedback was given before an instant; `after` if there is none.

    until: the last offset that may expire. Feedback in quarantine does not expire. An offset is always that of a
    feedback's own event, which is the last one that the feedback brings along.
    """
    span = (FEEDBACK.c.model == model, FEEDBACK.c.offset > after, FEEDBACK.c.offset <= until)
    young = select(FEEDBACK.c.offset).where(*span, FEEDBACK.c.created_at >= before)
    first_young = connection.scalar(young.order_by(FEEDBACK.c.offset).limit(1))
    apart = quarantine.load_open(connection, model)
    ends = [offset for offset in (first_young, apart and apart.since) if offset]
    old = select(func.max(FEEDBACK.c.offset)).where(*span, FEEDBACK.c.offset < min(ends, default=until + 1))
    return connection.scalar(old) or after


def close_events(connection: Connection, model: str, until: int) -> EventExpiry:
    """From this transaction on, no event up to an offset is retracted any more."""
    lock_log(connection, model)
    expiry = load_expiry(connection, model)
    closed = replace(expiry, closed_until=max(until, expiry.closed_until), closed_at=head_of(connection, model))
    save_expiry(connection, model, closed)
    return closed


def list_retracted(connection: Connection, model: str, after: int, until: int) -> list[int]:
    """Return the offsets of the events that retractions with offsets in (after, until] take back."""
    retractions = (EVENTS.c.model == model, EVENTS.c.offset > after, EVENTS.c.offset <= until)
    query = select(EVENTS.c.target_offset).where(*retractions, EVENTS.c.target_offset.is_not(None))
    return list(connection.scalars(query))


def begin_removal(connection: Connection, model: str, until: int, closed_at: int) -> EventExpiry:
    """Record that the contents of events up to an offset may be gone from now on."""
    lock_log(connection, model)
    expiry = load_expiry(connection, model)
    if until > expiry.removing_until:
        begun = replace(expiry, removing_until=until, removing_at=max(closed_at, expiry.removing_at))
        save_expiry(connection, model, begun)
        return begun
    return expiry


def mark_copied(connection: Connection, model: str, until: int) -> None:
    """Record that the copy of the log in Redis was written again after contents up to an offset were removed."""
    lock_log(connection, model)
    save_expiry(connection, model, replace(load_expiry(connection, model), copied_until=until))
