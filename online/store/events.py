"""The log of each model: events with their offsets, in the order in which they are learned.

Offsets count from 1 within a model and have no gaps. Appending an event whose id is in the log
already changes nothing.

    "instance/model" --sha256--> digest 0 --event 1--> digest 1 --event 2--> digest 2 ...

Each row has the digest of the log up to it. It is computed once, and is the identity of the log: a log
that was replaced by another, or that went back in time and went on, has another digest at the same offset. A version whose manifest
has another one than the row at its offset was not learned from this log.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from sqlalchemy import (
    Connection,
    CursorResult,
    Index,
    Row,
    String,
    UniqueConstraint,
    bindparam,
    cast,
    func,
    literal,
    select,
    text,
    update,
)
from sqlmodel import Field, SQLModel

from online.errors import LogReplaced, NewerRelease
from online.schemas.events import Event, chain_digest
from online.snapshots.manifest import Manifest
from online.store.database.meta import load_instance
from online.store.database.tables import table_of
from online.store.database.values import index_only_where, insert_rows, now
from online.store.repertoire.examples import add_examples, delete_examples

CHANNEL = "online"  # of Postgres, on which replicas hear of changes
GIVEN = ("label", "reward", "correction", "sums", "outcome")  # kinds of a feedback's own event
ROWS_AT_ONCE = 64  # that are fetched: features may take megabytes each
MAX_PAGE_BYTES = 1 << 26  # of the features of one page: sums of devices may take megabytes each
PageRow = Row[int, str, bytes, str]  # offset, body, features, digest
EventSource = Literal["feedback", "repertoire", "operator"]


class EventRow(SQLModel, table=True):
    """One event at its place in the log.

    label: the class or reply that the event is about. source: feedback; a change of the repertoire; or
    an operator who retired or restored a reply or a class. feedback_id: the feedback that brought the
    event along, for a reply, a restore or a retraction; None for the feedback's own event, which has
    the feedback's id. target_offset: the event that a retraction takes back. digest: of the log up to here.
    created_at: of a change of the repertoire; None for feedback, which has its own.
    """

    __tablename__ = "event"
    __table_args__ = (
        UniqueConstraint("model", "id"),
        Index("event_by_feedback", "model", "feedback_id", **index_only_where("feedback_id IS NOT NULL")),
        Index("event_by_target", "model", "target_offset", **index_only_where("target_offset IS NOT NULL")),
        Index("event_of_repertoire", "model", "label", **index_only_where("source = 'repertoire'")),
        Index("event_of_control", "model", "offset", **index_only_where("kind = 'control'")),
    )

    model: str = Field(primary_key=True)
    offset: int = Field(primary_key=True)
    id: str
    label: str = Field(index=True)
    features: bytes
    body: str
    kind: str
    source: str
    feedback_id: str | None = None
    target_offset: int | None = None
    digest: str
    created_at: str | None = None


EVENTS = table_of(EventRow)

# built once: to build a query takes several times as long as to run it
OF_MODEL = EVENTS.c.model == bindparam("model")
# a range and no limit: with statistics that are older than the rows, Postgres sorts all that follows for each page with a limit
PAGE = (
    select(EVENTS.c.offset, EVENTS.c.body, EVENTS.c.features, EVENTS.c.digest)
    .where(OF_MODEL, EVENTS.c.offset.between(bindparam("after"), bindparam("until")))
    .order_by(EVENTS.c.offset)
)
END = select(EVENTS.c.offset, EVENTS.c.digest).where(OF_MODEL).order_by(EVENTS.c.offset.desc()).limit(1)


def append_events(
    connection: Connection,
    model: str,
    events: Sequence[Event],
    new: bool = False,
    source: EventSource = "feedback",
    feedback_id: str | Sequence[str | None] | None = None,
) -> list[int]:
    """Append events of one source; return the offset of each.

    new: the caller knows that no event is in the log yet. feedback_id: of the feedback that all of
    the events belong to, or that each of them belongs to.
    """
    lock_log(connection, model)
    known = {} if new else find_offsets(connection, model, [event.id for event in events])
    owners = [feedback_id] * len(events) if feedback_id is None or isinstance(feedback_id, str) else feedback_id
    batch = EventBatch(connection, model, source)
    for event, owner in zip(events, owners, strict=True):
        if event.id not in known:
            known[event.id] = batch.append([event], owner)[0]
    batch.write()
    return [known[event.id] for event in events]


class EventBatch:
    """New events of one source, which get their offsets at once, and are written together. The log is locked."""

    def __init__(self, connection: Connection, model: str, source: EventSource = "feedback") -> None:
        self.connection, self.model, self.source = connection, model, source
        self._end: tuple[int, str] | None = None  # offset and digest of the last event, also of those not written yet
        self._rows = list[dict[str, Any]]()
        self._examples = list[tuple[int, str, str]]()  # offset, reply, text
        self._retracted = list[int]()

    def append(self, events: Sequence[Event], feedback_id: str | None) -> list[int]:
        """Return the offset of each. No event is in the log yet. feedback_id: of the feedback that they belong to."""
        last, digest = load_end(self.connection, self.model) if self._end is None else self._end
        offsets = range(last + 1, last + 1 + len(events))
        for event, offset in zip(events, offsets, strict=True):
            digest = chain_digest(digest, offset, event)
            self._rows.append(self._row(event, offset, digest, feedback_id))
            self._note(event, offset)
        self._end = offsets.stop - 1, digest
        return [*offsets]

    def write(self) -> None:
        """Write what was appended. Afterwards others may append to the log in this transaction."""
        if self._rows:
            insert_rows(self.connection, EVENTS, self._rows)
            notify_replicas(self.connection, self.model)
        if self._examples:
            add_examples(self.connection, self.model, self._examples)
        if self._retracted:
            delete_examples(self.connection, self.model, self._retracted)
        self._rows, self._examples, self._retracted, self._end = [], [], [], None

    def _note(self, event: Event, offset: int) -> None:
        """Note what changes the example questions of replies."""
        if self.source == "repertoire" and event.kind == "label":
            self._examples.append((offset, event.label, event.text))
        if event.target is not None:
            self._retracted.append(event.target.offset)

    def _row(self, event: Event, offset: int, digest: str, feedback_id: str | None) -> dict[str, object]:
        return {
            "model": self.model,
            "offset": offset,
            "id": event.id,
            "label": event.label,
            "features": event.features,
            "body": event.body(),
            "kind": event.kind,
            "source": self.source,
            "feedback_id": None if event.id == feedback_id else feedback_id,
            "target_offset": None if event.target is None else event.target.offset,
            "digest": digest,
            "created_at": None if self.source == "feedback" else now(),
        }


def lock_log(connection: Connection, model: str) -> None:
    """Let one transaction append to the log of a model at a time. On SQLite the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:model))"), {"model": f"online/{model}"})


def notify_replicas(connection: Connection, model: str) -> None:
    """Wake the replicas that wait for a change of a model, once this transaction is committed."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_notify(:channel, :model)"), {"channel": CHANNEL, "model": model})


def find_offsets(connection: Connection, model: str, ids: Sequence[str]) -> dict[str, int]:
    """Event id -> offset, for those that are in the log."""
    query = select(EVENTS.c.id, EVENTS.c.offset).where(EVENTS.c.model == model, EVENTS.c.id.in_(ids))
    return dict(connection.execute(query).all())


def find_events_of_feedback(connection: Connection, model: str, feedback_id: str, kind: str) -> list[int]:
    """Return the offsets of the events of a kind that a feedback brought along."""
    of_feedback = (EVENTS.c.model == model, EVENTS.c.feedback_id == feedback_id, EVENTS.c.kind == kind)
    return list(connection.scalars(select(EVENTS.c.offset).where(*of_feedback).order_by(EVENTS.c.offset)))


def load_events(connection: Connection, model: str, offsets: Sequence[int]) -> dict[int, Event]:
    """Return offset -> event, for the offsets that exist."""
    query = select(EVENTS.c.offset, EVENTS.c.body, EVENTS.c.features)
    rows = connection.execute(query.where(EVENTS.c.model == model, EVENTS.c.offset.in_(offsets)))
    return {offset: Event.parse(body, features, offset) for offset, body, features in rows}


def list_feedback_with_events(connection: Connection, model: str, ids: Sequence[str], kind: str) -> set[str]:
    """Return those of the feedback ids that brought along an event of a kind."""
    of_kind = (EVENTS.c.model == model, EVENTS.c.feedback_id.in_(ids), EVENTS.c.kind == kind)
    return set(connection.scalars(select(EVENTS.c.feedback_id).where(*of_kind)))


def count_feedback_of_callers(connection: Connection, model: str, since: int, until: int) -> tuple[int, int]:
    """Return how many events of feedback there are from one offset to another, and how many of them no trusted caller gave."""
    of_callers = EVENTS.c.body.like('%,"holder":%')  # within a string of the body, the quotes would be escaped
    counts = select(func.count(), func.count().filter(of_callers)).where(
        EVENTS.c.model == model, EVENTS.c.offset.between(since, until), EVENTS.c.source == "feedback"
    )
    total, untrusted = connection.execute(counts).one()
    return total, untrusted


def load_feedback_id(connection: Connection, model: str, offset: int) -> str | None:
    """Return the id of the feedback that brought an event along; None if no feedback did."""
    at = (EVENTS.c.model == model, EVENTS.c.offset == offset)
    return connection.scalar(select(EVENTS.c.feedback_id).where(*at))


def read_events(connection: Connection, model: str, after: int, count: int, digest: str = "") -> list[Event]:
    """Return up to `count` events after an offset, in order; fewer if these hold more than MAX_PAGE_BYTES.

    digest: of the log up to `after`; "" if it is not known. They end before an event that a newer release has written. Raises
    NewerRelease if that is the first of all, and LogReplaced if the log is another one, or shorter.
    """
    rows = read_page(connection.execute(PAGE, {"model": model, "after": after, "until": after + count}), after)
    if rows and rows[0][0] == after:
        check_digest(model, after, digest, rows[0][3])
        del rows[0]
    elif not rows:
        check_log(connection, model, after, digest)
    events = list[Event]()
    for offset, body, features, own in rows:
        try:
            events.append(Event.parse(body, features, offset, own))
        except NewerRelease:
            if events:
                break
            raise
    return events


def read_page(result: CursorResult[int, str, bytes, str], after: int) -> list[PageRow]:
    """Return the rows of a page, up to the first event after the offset with which they hold more than MAX_PAGE_BYTES.

    They end before a gap: offsets have none, so that an earlier event is on its way, and learning must not pass it.
    """
    rows, size, last = list[PageRow](), 0, after
    for row in chain.from_iterable(result.partitions(ROWS_AT_ONCE)):
        offset, _, features, _ = row
        if offset > last + 1:
            break
        rows.append(row)
        last, size = offset, size + len(features) * (offset > after)
        if size > MAX_PAGE_BYTES:
            break
    result.close()
    return rows


def void_at(connection: Connection, model: str, offsets: Sequence[int]) -> None:
    """Make events void: their offsets and digests stay, so that the log is the same one; nothing else of them does."""
    before, after = Event(derive_event_id("void", "@"), "void").body().split("@")
    at = cast(EVENTS.c.offset, String)
    nothing = {"label": "", "features": b"", "kind": "void", "feedback_id": None, "target_offset": None}
    values = {"id": derive_event_id("void", "") + at, "body": literal(before) + at + after, **nothing}
    connection.execute(update(EVENTS).where(EVENTS.c.model == model, EVENTS.c.offset.in_(offsets)).values(**values))


def load_end(connection: Connection, model: str) -> tuple[int, str]:
    """Return the last offset and the digest there; for an empty log 0 and a digest that differs between stores."""
    found = connection.execute(END, {"model": model}).one_or_none()
    if found is not None:
        return found.offset, found.digest
    return 0, hashlib.sha256(f"{load_instance(connection)}/{model}".encode()).hexdigest()


def load_digests(connection: Connection, model: str, offsets: Sequence[int]) -> dict[int, str]:
    """Return offset -> the digest of the log up to there, for those that are in the log."""
    query = select(EVENTS.c.offset, EVENTS.c.digest).where(EVENTS.c.model == model, EVENTS.c.offset.in_(offsets))
    return dict(connection.execute(query).all())


def list_foreign(connection: Connection, model: str, manifests: Sequence[Manifest]) -> tuple[list[Manifest], int]:
    """Return the manifests of another log, newest first, and the last offset of the log."""
    offsets = sorted({manifest.learned_until for manifest in manifests} - {0})
    head = head_of(connection, model)
    return find_foreign(manifests, head, load_digests(connection, model, offsets)), head


def find_foreign(manifests: Sequence[Manifest], head: int, digests: Mapping[int, str]) -> list[Manifest]:
    """Return the manifests of another log, newest first. digests: of the log at their offsets."""
    learned = [manifest for manifest in manifests if manifest.learned_until]
    foreign = [
        each for each in learned if each.learned_until > head or digests.get(each.learned_until) != each.log_digest
    ]
    return sorted(foreign, key=lambda each: each.version, reverse=True)


def check_log(connection: Connection, model: str, offset: int, digest: str) -> None:
    """Raise LogReplaced unless the log up to an offset is the one with this digest; "": any that is long enough."""
    if not offset:
        return
    at = (EVENTS.c.model == model, EVENTS.c.offset == offset)
    found = connection.scalar(select(EVENTS.c.digest).where(*at))
    if found is not None:
        check_digest(model, offset, digest, found)
    elif (head := head_of(connection, model)) < offset:
        raise LogReplaced(f"the log of {model} ends at offset {head}, but was learned until {offset}")


def check_digest(model: str, offset: int, digest: str, found: str) -> None:
    """Raise LogReplaced if the log has another digest than the one that was learned."""
    if digest and found != digest:
        raise LogReplaced(f"the log of {model} until offset {offset} is not the one that was learned")


def head_of(connection: Connection, model: str) -> int:
    """Return the last offset; 0 for an empty log."""
    return connection.scalar(select(func.max(EVENTS.c.offset)).where(EVENTS.c.model == model)) or 0


def select_retraction(model: object, offset: object) -> object:
    """Return the query for the offset of the retraction of an event. model, offset: columns of the statement around it."""
    return select(EVENTS.c.offset).where(EVENTS.c.model == model, EVENTS.c.target_offset == offset).scalar_subquery()


def derive_event_id(id: str, name: str) -> str:
    """Return the id of a further event of a feedback or a change.

    It differs from every id of a client: those have no '#'. Nothing reads it: columns hold what it means.
    """
    return f"{id}#{name}"


def build_retraction(event: Event, offset: int) -> Event:
    """Return the event that takes back the event at an offset."""
    return Event(derive_event_id(event.id, "retraction"), "retraction", event.features, target=event.at(offset))
