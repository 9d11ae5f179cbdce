"""What happened: SQLModel tables, the few queries on them, and the one thread that writes.

    submit(work) --queue--> writer thread: BEGIN; work, work, work; COMMIT --> every future resolves

Whatever is waiting when the writer is free goes into one transaction (group commit). Groups that carry feedback are
fsynced before their futures resolve (SQLite: synchronous=FULL); groups of predictions alone are committed to the WAL.
Each work has a savepoint: one that fails leaves no trace and does not disturb the others.
"""

import json
import queue
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    case,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlmodel import Field, SQLModel

from online import candidates, outside, quarantine, shadow
from online.errors import EncoderMoved, SetupError, Unavailable
from online.schemas import Event, Target
from online.stream import EVENTS
from online.wal import FULL, Checkpointer

BUSY_TIMEOUT_S = 10  # SQLite waits this long for another process's commit
CONNECT_S, STATEMENT_S = 5, 10  # what Postgres is given before it counts as not answering
MAX_GROUP = 512
ROWS_AT_ONCE = 1_000  # in one statement; SQLite takes 32,766 values
WAL_ROOM_BYTES = 6_000_000  # a little more than SQLite lets the WAL grow to before it starts over
ERASED, NO_WORDS = "erased", "null"  # instead of what a feedback said, and of what was asked, as JSON
ADDED = "added"  # begins the ids of events by which replies are added; "#" is in no feedback's id


def only_where(condition: str) -> dict[str, Any]:
    """Of an index that has no entry for other rows, on either database."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


class PredictionRow(SQLModel, table=True):
    """One answered instance. features: what was learned from it if feedback comes; choice: what was answered."""

    __tablename__ = "prediction"

    id: str = Field(primary_key=True)
    model: str
    version: int
    learned_until: int
    user: str | None
    input: str  # JSON
    features: bytes
    choice: str | None
    propensity: float
    candidates: str  # JSON: [[id, score], ...]
    created_at: str  # ISO 8601, UTC


class FeedbackRow(SQLModel, table=True):
    """One acknowledged feedback and its fate. offset: of its event. version: the first to have learned it."""

    __tablename__ = "feedback"
    __table_args__ = (  # with the model in front, or SQLite walks all of a model's to find a few offsets
        Index("feedback_by_offset", "model", "offset"),
        Index("feedback_taken_back", "model", "retracted_offset", **only_where("retracted_offset IS NOT NULL")),
    )

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    offset: int
    content: str  # JSON of the item as it came, to tell a repetition from a conflict
    prediction_id: str | None
    input: str | None  # JSON
    user: str | None = Field(index=True)
    created_at: str
    status: str = "accepted"
    version: int | None = None
    learned_at: str | None = None
    refusal: str | None = None
    retracted_offset: int | None = None


class ReplyRow(SQLModel, table=True):
    """A ranker's repertoire as it was asked for; the live snapshot holds what is learned of it."""

    __tablename__ = "reply"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    text: str
    folded: str = Field(index=True)  # the text for comparison: case and spaces do not make another reply
    offset: int
    active: bool = True


class LabelRow(SQLModel, table=True):
    """A label that somebody retired or restored, as it was asked for; one without a row is given. offset: of that."""

    __tablename__ = "label"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    offset: int
    active: bool


class ConversationRow(SQLModel, table=True):
    """What one user talks about with a model. title: the first question."""

    __tablename__ = "conversation"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    user: str = Field(index=True)
    title: str
    created_at: str
    updated_at: str


class TurnRow(SQLModel, table=True):
    """What is known of a prediction beside its answer. besides: JSON of the answers that were not wanted."""

    __tablename__ = "turn"

    prediction_id: str = Field(primary_key=True)
    model: str
    conversation: str | None = Field(index=True)
    besides: str


class DriftRow(SQLModel, table=True):
    """An alarm of a drift detector: what changed, where, by how much (online/learning/drift.py)."""

    __tablename__ = "drift"

    model: str = Field(primary_key=True)
    offset: int = Field(primary_key=True)
    what: str = Field(primary_key=True)
    label: str | None
    projection: int | None
    since: int
    before: float
    after: float
    size: float
    window: int
    noted_at: str


class MetaRow(SQLModel, table=True):
    __tablename__ = "meta"

    key: str = Field(primary_key=True)
    value: str


PREDICTIONS: Any = PredictionRow.__table__  # type: ignore[attr-defined]
FEEDBACK: Any = FeedbackRow.__table__  # type: ignore[attr-defined]
REPLIES: Any = ReplyRow.__table__  # type: ignore[attr-defined]
LABELS: Any = LabelRow.__table__  # type: ignore[attr-defined]
CONVERSATIONS: Any = ConversationRow.__table__  # type: ignore[attr-defined]
TURNS: Any = TurnRow.__table__  # type: ignore[attr-defined]
DRIFT: Any = DriftRow.__table__  # type: ignore[attr-defined]
META: Any = MetaRow.__table__  # type: ignore[attr-defined]
TABLES = [
    PREDICTIONS,
    FEEDBACK,
    REPLIES,
    LABELS,
    CONVERSATIONS,
    TURNS,
    DRIFT,
    META,
    EVENTS,
    *outside.TABLES,
    *quarantine.TABLES,
    *candidates.TABLES,
    *shadow.TABLES,
]

# another encoder's features, made beforehand: of one connection, gone with it, and no write to the database
TEMPORARY = ["TEMPORARY"]
MOVED_EVENTS = Table(
    "moved_event",
    MetaData(),
    Column("offset", Integer, primary_key=True),
    Column("features", LargeBinary),
    prefixes=TEMPORARY,
)
MOVED_PREDICTIONS = Table(
    "moved_prediction",
    MetaData(),
    Column("id", String, primary_key=True),
    Column("features", LargeBinary),
    prefixes=TEMPORARY,
)


def now() -> str:
    return datetime.now(UTC).isoformat()


def folded(text: str) -> str:
    return " ".join(text.casefold().split())


def laid_out(text: str) -> str:
    """A reply's text as it is kept: lines, paragraphs and indentation stay, for lists and code; other blanks are one."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    indents = (line[: len(line) - len(line.lstrip(" \t"))] for line in lines)
    kept = ((indent + " ".join(line.split())).rstrip() for indent, line in zip(indents, lines, strict=True))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


# questions and statements; each takes the transaction's connection


def add_predictions(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """SQLite takes many rows in one statement: between two statements a thread that writes waits for the interpreter, and
    beside a busy event loop that is most of its time.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(insert(PREDICTIONS), rows)
        return
    names = PREDICTIONS.columns.keys()
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        statement = insertion_of(PREDICTIONS, len(some))
        connection.exec_driver_sql(statement, tuple(row[name] for row in some for name in names))


@cache
def insertion_of(table: Table, rows: int) -> str:
    """One statement for so many rows, each given as its columns in order."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    row = f"({', '.join('?' * len(table.c))})"
    return f"INSERT INTO {table.name} ({names}) VALUES {', '.join([row] * rows)}"


def predictions_of(connection: Connection, model: str, ids: Sequence[str]) -> dict[str, PredictionRow]:
    if not ids:
        return {}
    found = connection.execute(select(PREDICTIONS).where(PREDICTIONS.c.id.in_(ids), PREDICTIONS.c.model == model))
    return {row["id"]: PredictionRow(**row) for row in found.mappings()}


def add_feedback(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    connection.execute(insert(FEEDBACK), rows)


def feedback_of(connection: Connection, model: str, ids: Sequence[str]) -> dict[str, FeedbackRow]:
    found = connection.execute(select(FEEDBACK).where(FEEDBACK.c.model == model, FEEDBACK.c.id.in_(ids)))
    return {row["id"]: FeedbackRow(**row) for row in found.mappings()}


def turns_of(connection: Connection, model: str, key: str) -> list[FeedbackRow]:
    """The feedback with the ids KEY.1, KEY.2, ..., as far as there is any, in order."""
    turns: list[FeedbackRow] = []
    while True:
        ids = [f"{key}.{turn}" for turn in range(len(turns) + 1, 2 * len(turns) + 9)]
        found = feedback_of(connection, model, ids)
        turns += [found[id] for id in ids if id in found]
        if len(found) < len(ids):
            return turns


def reword(connection: Connection, model: str, id: str, content: str) -> None:
    """What somebody said beside their feedback is another; nothing that is learned changes."""
    connection.execute(update(FEEDBACK).where(FEEDBACK.c.model == model, FEEDBACK.c.id == id).values(content=content))


def mark_learned(connection: Connection, model: str, after: int, until: int, version: int, at: str) -> None:
    """What was accepted or taken back with offsets in (after, until] is answered for by `version` from now on."""
    for status, offset, then in (
        ("accepted", FEEDBACK.c.offset, "learned"),
        ("retracted", FEEDBACK.c.retracted_offset, "retracted"),
    ):
        due = (FEEDBACK.c.model == model, FEEDBACK.c.status == status, FEEDBACK.c.version.is_(None))
        span = (offset > after, offset <= until)
        connection.execute(update(FEEDBACK).where(*due, *span).values(status=then, version=version, learned_at=at))


def mark_spans(connection: Connection, model: str, spans: Sequence[tuple[int, int, int, str]]) -> None:
    for after, until, version, at in spans:
        mark_learned(connection, model, after, until, version, at)


def mark_refused(connection: Connection, model: str, recipe: str, offset: int, reason: str) -> None:
    """Remember what a recipe could not learn; another recipe may."""
    mine = (FEEDBACK.c.model == model, FEEDBACK.c.offset == offset)
    connection.execute(update(FEEDBACK).where(*mine).values(status="refused", refusal=reason))
    key = f"refused/{model}/{recipe}/{offset}"
    if connection.scalar(select(META.c.key).where(META.c.key == key)) is None:
        connection.execute(insert(META).values(key=key, value=reason))


def refused_offsets(connection: Connection, model: str, recipe: str) -> dict[int, str]:
    """Events that were set aside, whatever brought them."""
    prefix = f"refused/{model}/{recipe}/"
    found = connection.execute(select(META.c.key, META.c.value).where(META.c.key.startswith(prefix, autoescape=True)))
    return {int(key.rpartition("/")[2]): reason for key, reason in found}


def refused_of(connection: Connection, model: str, recipe: str, count: int) -> list[dict[str, Any]]:
    """The newest events that this recipe could not learn, newest first: offset, reason, id, body, created_at."""
    prefix = f"refused/{model}/{recipe}/"
    mine = (META.c.key > prefix, META.c.key < f"{prefix}:")  # ":" follows the digits; a range is found by the index
    newest = select(META.c.key, META.c.value).where(*mine).order_by(func.length(META.c.key).desc(), META.c.key.desc())
    reasons = {int(key.rpartition("/")[2]): reason for key, reason in connection.execute(newest.limit(count))}
    told = EVENTS.outerjoin(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))
    query = select(EVENTS.c.offset, EVENTS.c.id, EVENTS.c.body, FEEDBACK.c.created_at).select_from(told)
    found = connection.execute(query.where(EVENTS.c.model == model, EVENTS.c.offset.in_(reasons)))
    rows = [{**row, "reason": reasons[row["offset"]]} for row in found.mappings()]
    return sorted(rows, key=lambda row: -row["offset"])


def mark_retracted(connection: Connection, model: str, id: str, offset: int) -> None:
    mine = (FEEDBACK.c.model == model, FEEDBACK.c.id == id)
    connection.execute(
        update(FEEDBACK).where(*mine).values(status="retracted", retracted_offset=offset, version=None, learned_at=None)
    )


def standing_between(connection: Connection, model: str, since: int, until: int) -> list[str]:
    """Ids of the feedback with offsets in [since, until] that was not taken back, in order."""
    span = (FEEDBACK.c.offset >= since, FEEDBACK.c.offset <= until, FEEDBACK.c.retracted_offset.is_(None))
    query = select(FEEDBACK.c.id).where(FEEDBACK.c.model == model, *span)
    return list(connection.scalars(query.order_by(FEEDBACK.c.offset)))


def standing_of(connection: Connection, model: str, user: str) -> list[str]:
    """Ids of the feedback of one user that was not taken back, in order."""
    mine = (FEEDBACK.c.model == model, FEEDBACK.c.user == user, FEEDBACK.c.retracted_offset.is_(None))
    return list(connection.scalars(select(FEEDBACK.c.id).where(*mine).order_by(FEEDBACK.c.offset)))


def erase_user(connection: Connection, model: str, user: str) -> tuple[int, int]:
    """Blank the name and the words of one user in (feedback, predictions), whose numbers it gives.

    What other pages call their predictions is forgotten.
    """
    said = (FEEDBACK.c.model == model) & (FEEDBACK.c.user == user)
    ids = list(connection.scalars(select(FEEDBACK.c.id).where(said)))
    for id in ids:
        blank_text(connection, model, id)
    words = case((FEEDBACK.c.input.is_not(None), NO_WORDS), else_=None)
    connection.execute(update(FEEDBACK).where(said).values(user=None, input=words, content=ERASED))
    asked = (PREDICTIONS.c.model == model) & (PREDICTIONS.c.user == user)
    mine = (CONVERSATIONS.c.model == model) & (CONVERSATIONS.c.user == user)
    theirs = select(CONVERSATIONS.c.id).where(mine).scalar_subquery()
    kept = (TURNS.c.model == model) & TURNS.c.conversation.in_(theirs)
    connection.execute(update(TURNS).where(kept).values(conversation=None))
    connection.execute(delete(CONVERSATIONS).where(mine))
    outside.forget_messages(connection, select(PREDICTIONS.c.id).where(asked))
    found = connection.execute(update(PREDICTIONS).where(asked).values(user=None, input=NO_WORDS))
    return len(ids), found.rowcount


def blank_text(connection: Connection, model: str, id: str) -> None:
    """Empty the text that a feedback brought as a reply, in the event and in what took it back."""
    taken_back = EVENTS.c.id == f"{id}#reply#retraction"
    for row in connection.execute(select(EVENTS).where(EVENTS.c.model == model, taken_back)).mappings().all():
        target = Event.parse(row["body"], b"").target
        assert target is not None, "a retraction has its target"
        emptied = replace(target.event, text="")
        for offset, said in ((target.offset, emptied), (row["offset"], retraction(emptied, target.offset))):
            mine = (EVENTS.c.model == model, EVENTS.c.offset == offset)
            connection.execute(update(EVENTS).where(*mine).values(body=said.body()))


def retraction(event: Event, offset: int) -> Event:
    """What takes back an event that was appended at an offset."""
    return Event(f"{event.id}#retraction", "retraction", event.features, target=Target(offset, event))


def add_reply(connection: Connection, model: str, id: str, text: str, offset: int, active: bool = True) -> None:
    connection.execute(
        insert(REPLIES).values(model=model, id=id, text=text, folded=folded(text), offset=offset, active=active)
    )


def reword_reply(connection: Connection, model: str, id: str, text: str) -> None:
    mine = (REPLIES.c.model == model, REPLIES.c.id == id)
    connection.execute(update(REPLIES).where(*mine).values(text=text, folded=folded(text)))


def reply_with_text(connection: Connection, model: str, text: str) -> ReplyRow | None:
    query = select(REPLIES).where(REPLIES.c.model == model, REPLIES.c.folded == folded(text))
    return reply_or_none(
        connection.execute(query.order_by(REPLIES.c.active.desc(), REPLIES.c.offset)).mappings().first()
    )


def reply_with_id(connection: Connection, model: str, id: str) -> ReplyRow | None:
    query = select(REPLIES).where(REPLIES.c.model == model, REPLIES.c.id == id)
    return reply_or_none(connection.execute(query).mappings().first())


def reply_or_none(row: Any) -> ReplyRow | None:
    return None if row is None else ReplyRow(**row)


def set_reply_active(connection: Connection, model: str, id: str, active: bool) -> None:
    connection.execute(update(REPLIES).where(REPLIES.c.model == model, REPLIES.c.id == id).values(active=active))


def reply_is_used(connection: Connection, model: str, reply: str, besides: str) -> bool:
    """Whether anything that still stands is about the reply: feedback other than `besides`, or somebody's own adding."""
    query = select(EVENTS.c.id, FEEDBACK.c.id, FEEDBACK.c.retracted_offset).select_from(
        EVENTS.outerjoin(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))
    )
    about = connection.execute(query.where(EVENTS.c.model == model, EVENTS.c.label == reply))
    given = any(feedback is not None and retracted is None and feedback != besides for _, feedback, retracted in about)
    return given or reply_is_added(connection, model, reply)


def reply_is_added(connection: Connection, model: str, reply: str) -> bool:
    """Whether somebody added the reply as such, rather than by correcting an answer."""
    added = EVENTS.c.id.startswith(f"{ADDED}:") & EVENTS.c.id.contains("#")
    query = select(EVENTS.c.id).where(EVENTS.c.model == model, EVENTS.c.label == reply, added)
    return connection.execute(query.limit(1)).first() is not None


def drop_reply(connection: Connection, model: str, id: str) -> None:
    connection.execute(delete(REPLIES).where(REPLIES.c.model == model, REPLIES.c.id == id))


def replies_of(connection: Connection, model: str) -> list[ReplyRow]:
    found = connection.execute(select(REPLIES).where(REPLIES.c.model == model).order_by(REPLIES.c.offset))
    return [ReplyRow(**row) for row in found.mappings()]


def examples_of(connection: Connection, model: str, reply: str | None = None) -> list[tuple[str, int, str]]:
    """(reply, offset, text) of the example questions that were added with replies and not taken back, in order."""
    added = (EVENTS.c.model == model, EVENTS.c.id >= f"{ADDED}:", EVENTS.c.id < f"{ADDED};")  # ";" follows ":"
    rows = connection.execute(select(EVENTS.c.id, EVENTS.c.offset, EVENTS.c.body).where(*added)).all()
    gone = {id.removesuffix("#retraction") for id, _, _ in rows if id.endswith("#retraction")}
    found = []
    for id, offset, body in rows:
        if id not in gone and id.rpartition("#")[2].isdigit():
            event = Event.parse(body, b"")
            if reply is None or event.label == reply:
                found.append((event.label, offset, event.text))
    return sorted(found, key=lambda each: each[1])


def taught_to(connection: Connection, model: str, reply: str, count: int) -> list[dict[str, Any]]:
    """The newest feedback that stands and is about a reply, newest first: offset, id, body, and the question as JSON."""
    told = EVENTS.join(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))
    joined = told.outerjoin(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    asked = func.coalesce(PREDICTIONS.c.input, FEEDBACK.c.input).label("asked")
    query = select(EVENTS.c.offset, EVENTS.c.id, EVENTS.c.body, asked).select_from(joined)
    mine = (EVENTS.c.model == model, EVENTS.c.label == reply, FEEDBACK.c.retracted_offset.is_(None))
    found = connection.execute(query.where(*mine).order_by(EVENTS.c.offset.desc()).limit(count))
    return [dict(row) for row in found.mappings()]


def abstained(connection: Connection, model: str, newest: int) -> list[dict[str, Any]]:
    """Of the newest predictions those that answered nothing, the newest first: id, input, features, created_at.

    Ids begin with the time, some behind a prefix; those with and those without are looked at apart.
    """
    rows: list[dict[str, Any]] = []
    for mine in (PREDICTIONS.c.id < ":", PREDICTIONS.c.id >= ":"):
        recent = select(PREDICTIONS).where(mine).order_by(PREDICTIONS.c.id.desc()).limit(newest).subquery()
        query = select(recent.c.id, recent.c.input, recent.c.features, recent.c.created_at)
        unanswered = (recent.c.model == model, recent.c.choice.is_(None), recent.c.input != NO_WORDS)
        rows += [dict(row) for row in connection.execute(query.where(*unanswered)).mappings()]
    return sorted(rows, key=lambda row: (row["created_at"], row["id"]), reverse=True)


def reply_count(connection: Connection, model: str) -> int:
    return connection.scalar(select(func.count()).select_from(REPLIES).where(REPLIES.c.model == model)) or 0


def labels_of(connection: Connection, model: str) -> list[LabelRow]:
    """Every label that was ever told, in the order they came. offset: of its last change, or of when it came."""
    joined = EVENTS.outerjoin(LABELS, (LABELS.c.model == EVENTS.c.model) & (LABELS.c.id == EVENTS.c.label))
    first = func.min(EVENTS.c.offset)
    query = select(EVENTS.c.label, first, LABELS.c.offset, LABELS.c.active).select_from(joined)
    told = query.where(EVENTS.c.model == model, EVENTS.c.label != "")
    found = connection.execute(told.group_by(EVENTS.c.label, LABELS.c.offset, LABELS.c.active).order_by(first))
    return [
        LabelRow(model=model, id=label, offset=came if changed is None else changed, active=active is not False)
        for label, came, changed, active in found
    ]


def label_is_told(connection: Connection, model: str, label: str) -> bool:
    query = select(EVENTS.c.offset).where(EVENTS.c.model == model, EVENTS.c.label == label)
    return connection.execute(query.limit(1)).first() is not None


def set_label_active(connection: Connection, model: str, label: str, active: bool, offset: int) -> None:
    mine = (LABELS.c.model == model, LABELS.c.id == label)
    connection.execute(delete(LABELS).where(*mine))
    connection.execute(insert(LABELS).values(model=model, id=label, offset=offset, active=active))


def add_drift(connection: Connection, model: str, alarms: Sequence[dict[str, Any]]) -> None:
    """Note alarms. One entry raises one alarm of a kind: what is noted already stays as it is."""
    for alarm in alarms:
        same = (DRIFT.c.model == model, DRIFT.c.offset == alarm["offset"], DRIFT.c.what == alarm["what"])
        if connection.scalar(select(DRIFT.c.offset).where(*same)) is None:
            connection.execute(insert(DRIFT).values(model=model, noted_at=now(), **alarm))


def drift_of(connection: Connection, model: str, count: int) -> list[DriftRow]:
    """The newest alarms, newest first."""
    query = select(DRIFT).where(DRIFT.c.model == model).order_by(DRIFT.c.offset.desc(), DRIFT.c.what)
    return [DriftRow(**row) for row in connection.execute(query.limit(count)).mappings()]


def encoder_of(connection: Connection, model: str) -> str:
    """sha256 of the tuned encoder that made every feature of this model's texts; "" for the frozen one."""
    return connection.scalar(select(META.c.value).where(META.c.key == f"encoder/{model}")) or ""


def check_encoder(connection: Connection, model: str, encoder: str) -> None:
    """Raises EncoderMoved unless `encoder` made every feature of this model's texts."""
    if encoder_of(connection, model) != encoder:
        raise EncoderMoved(f"{model} has another encoder by now, nothing was changed; try again")


def hold_encoder(connection: Connection, model: str) -> None:
    """Nobody puts another encoder's features in until the transaction ends; to be called before it reads any."""
    lock_encoder(connection, model, "pg_advisory_xact_lock_shared")


def lock_encoder(connection: Connection, model: str, lock: str) -> None:
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        connection.execute(text(f"SELECT {lock}(hashtext(:key))"), {"key": f"online/encoder/{model}"})


def encoder_since(connection: Connection, model: str) -> int:
    """The offset until which the encoder was tuned; 0 where nobody told."""
    return int(connection.scalar(select(META.c.value).where(META.c.key == f"encoder_since/{model}")) or 0)


def begin_move(connection: Connection, model: str, encoder: str, since: int) -> None:
    """From here until the commit no other transaction writes features; then they are all `encoder`'s.

    To be followed by `finish_move` in the same transaction, or by a rollback.
    """
    lock_encoder(connection, model, "pg_advisory_xact_lock")
    put_meta(connection, f"encoder/{model}", encoder)
    put_meta(connection, f"encoder_since/{model}", str(since))


def finish_move(connection: Connection, model: str) -> None:
    """Put what lies in MOVED_EVENTS and MOVED_PREDICTIONS in the places of what there is, by offset and by id."""
    mine = (EVENTS.c.model == model, EVENTS.c.offset == MOVED_EVENTS.c.offset)
    connection.execute(update(EVENTS).where(*mine).values(features=MOVED_EVENTS.c.features))
    theirs = PREDICTIONS.c.id == MOVED_PREDICTIONS.c.id
    connection.execute(update(PREDICTIONS).where(theirs).values(features=MOVED_PREDICTIONS.c.features))


def put_meta(connection: Connection, key: str, value: str) -> None:
    connection.execute(delete(META).where(META.c.key == key))
    connection.execute(insert(META).values(key=key, value=value))


def predictions_to_move(connection: Connection, model: str, after: str, count: int) -> list[tuple[str, str]]:
    """(id, input) of predictions that are not in MOVED_PREDICTIONS, by id."""
    moved = PREDICTIONS.outerjoin(MOVED_PREDICTIONS, PREDICTIONS.c.id == MOVED_PREDICTIONS.c.id)
    query = select(PREDICTIONS.c.id, PREDICTIONS.c.input).select_from(moved)
    rest = (PREDICTIONS.c.id > after, MOVED_PREDICTIONS.c.id.is_(None), PREDICTIONS.c.input != NO_WORDS)
    query = query.where(PREDICTIONS.c.model == model, *rest)
    return [(id, asked) for id, asked in connection.execute(query.order_by(PREDICTIONS.c.id).limit(count))]


def adaptation_of(connection: Connection, model: str) -> dict[str, Any] | None:
    """What became of the last attempt to tune the encoder."""
    told = connection.scalar(select(META.c.value).where(META.c.key == f"adaptation/{model}"))
    return None if told is None else dict(json.loads(told))


def note_adaptation(connection: Connection, model: str, told: Mapping[str, Any]) -> None:
    put_meta(connection, f"adaptation/{model}", json.dumps(told))


def log_rows(connection: Connection, model: str, after: int, count: int) -> list[dict[str, Any]]:
    """Events joined with what was asked and answered, in order: what an exported log is made of."""
    feedback, prediction = FEEDBACK.alias(), PREDICTIONS.alias()
    joined = EVENTS.outerjoin(
        feedback, (feedback.c.model == EVENTS.c.model) & (feedback.c.id == EVENTS.c.id)
    ).outerjoin(prediction, prediction.c.id == feedback.c.prediction_id)
    asked = [feedback.c[name] for name in ("user", "created_at", "learned_at", "prediction_id")]
    asked.append(feedback.c.input.label("own_input"))
    answered = [prediction.c[name] for name in ("input", "version", "choice", "propensity", "candidates")]
    query = select(EVENTS.c.offset, EVENTS.c.body, EVENTS.c.features, *asked, *answered).select_from(joined)
    page = query.where(EVENTS.c.model == model, EVENTS.c.offset > after).order_by(EVENTS.c.offset).limit(count)
    return [dict(row) for row in connection.execute(page).mappings()]


def asked_order(model: str, head: int) -> Any:
    """The query for (id, learned_until, told) of every prediction a log up to the offset `head` holds, in its order.

    told: how many feedbacks up to there are about it.
    """
    about = (FEEDBACK.c.model == model, FEEDBACK.c.offset <= head, FEEDBACK.c.prediction_id.is_not(None))
    counts = select(FEEDBACK.c.prediction_id, func.count().label("told")).where(*about)
    counted = counts.group_by(FEEDBACK.c.prediction_id).subquery()
    joined = PREDICTIONS.outerjoin(counted, counted.c.prediction_id == PREDICTIONS.c.id)
    told = func.coalesce(counted.c.told, 0).label("told")
    query = select(PREDICTIONS.c.id, PREDICTIONS.c.learned_until, told).select_from(joined)
    mine = (PREDICTIONS.c.model == model, PREDICTIONS.c.learned_until <= head)
    return query.where(*mine).order_by(PREDICTIONS.c.learned_until, PREDICTIONS.c.id)


def asked_rows(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Predictions by id, whole, with the answers that were not wanted."""
    joined = PREDICTIONS.outerjoin(TURNS, TURNS.c.prediction_id == PREDICTIONS.c.id)
    query = select(PREDICTIONS, TURNS.c.besides).select_from(joined)
    found = connection.execute(query.where(PREDICTIONS.c.id.in_(ids))).mappings()
    return {row["id"]: dict(row) for row in found}


def outcomes(connection: Connection, model: str, after: int, until: int) -> list[dict[str, Any]]:
    """What feedback with offsets in (after, until] said, and what it was about: what had been answered, by a version that
    had learned how much. In order.
    """
    told = EVENTS.join(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))
    joined = told.outerjoin(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    said = (EVENTS.c.offset, EVENTS.c.body, FEEDBACK.c.created_at, FEEDBACK.c.prediction_id)
    query = select(*said, PREDICTIONS.c.choice, PREDICTIONS.c.learned_until).select_from(joined)
    span = (EVENTS.c.model == model, EVENTS.c.offset > after, EVENTS.c.offset <= until)
    return [dict(row) for row in connection.execute(query.where(*span).order_by(EVENTS.c.offset)).mappings()]


def compared(connection: Connection, model: str, version: int) -> shadow.Comparison:
    """How often a version that answered in the shadow would have been right, where feedback says what was, and how often
    what was answered was. A reward says so only of an answer that both gave.
    """
    shadows = shadow.SHADOWS
    told = FEEDBACK.join(EVENTS, (EVENTS.c.model == FEEDBACK.c.model) & (EVENTS.c.id == FEEDBACK.c.id))
    about = told.join(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    joined = about.join(shadows, shadows.c.prediction_id == PREDICTIONS.c.id)
    query = select(EVENTS.c.body, PREDICTIONS.c.choice, shadows.c.choice.label("shadow")).select_from(joined)
    mine = (FEEDBACK.c.model == model, shadows.c.version == version, FEEDBACK.c.retracted_offset.is_(None))
    outcomes = list[tuple[bool, bool]]()
    for row in connection.execute(query.where(*mine)).mappings():
        event = Event.parse(row["body"], b"")
        if event.kind != "reward":
            outcomes.append((row["shadow"] == event.label, row["choice"] == event.label))
        elif row["shadow"] == row["choice"]:
            outcomes.append((event.reward >= 0.5, event.reward >= 0.5))
    right = [sum(each) for each in zip(*outcomes, strict=True)] or [0, 0]
    return shadow.Comparison(shadow.answered_by(connection, model, version), len(outcomes), right[0], right[1])


def saw_before(connection: Connection, model: str, offset: int, count: int) -> list[dict[str, Any]]:
    """The newest feedback with offsets up to one, newest first, as `outcomes` has it."""
    told = EVENTS.join(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))
    query = select(EVENTS.c.offset, EVENTS.c.body, FEEDBACK.c.prediction_id).select_from(told)
    mine = query.where(EVENTS.c.model == model, EVENTS.c.offset <= offset).order_by(EVENTS.c.offset.desc())
    return [dict(row) for row in connection.execute(mine.limit(count)).mappings()]


def kept_counts(connection: Connection, key: str) -> str | None:
    return connection.scalar(select(META.c.value).where(META.c.key == f"counts/{key}"))


def keep_counts(connection: Connection, key: str, counts: str) -> None:
    put_meta(connection, f"counts/{key}", counts)


def input_at(connection: Connection, model: str, offset: int) -> str | None:
    """What the event at an offset is about, as JSON: what was asked, or what came with the feedback itself."""
    mine = (FEEDBACK.c.model == model, FEEDBACK.c.offset == offset)
    joined = FEEDBACK.outerjoin(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    found = func.coalesce(PREDICTIONS.c.input, FEEDBACK.c.input)
    return connection.scalar(select(found).select_from(joined).where(*mine))


def said_at(connection: Connection, model: str, offsets: Sequence[int]) -> dict[int, dict[str, Any]]:
    """offset -> its question, whether a correction, a thumb or an example was said about it, and the feedback's id."""
    joined = FEEDBACK.outerjoin(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    asked = func.coalesce(PREDICTIONS.c.input, FEEDBACK.c.input).label("asked")
    query = select(FEEDBACK.c.offset, FEEDBACK.c.id, asked).select_from(joined)
    mine = (FEEDBACK.c.model == model, FEEDBACK.c.offset.in_(offsets))
    given = {row.offset: (row.id, row.asked) for row in connection.execute(query.where(*mine))}
    events = select(EVENTS).where(EVENTS.c.model == model, EVENTS.c.offset.in_(offsets))
    found = dict[int, dict[str, Any]]()
    for row in connection.execute(events).mappings():
        event = Event.parse(row["body"], b"")
        id, question = given.get(row["offset"], (None, None))
        words = json.loads(question) if question is not None else event.text or None
        said = {"correction": "correction", "reward": "thumb"}.get(event.kind, "example")
        found[row["offset"]] = {"question": words, "said": said, "feedback_id": id}
    return found


# the engine room


@dataclass(slots=True)
class Work:
    run: Callable[[Connection], Any]
    durable: bool
    done: "Future[Any]"


class Store:
    """One database. Reads go through `reader`; writes through `submit`, from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self.writer = engine(url, "NORMAL", "IMMEDIATE")
            self.durable_writer = engine(url, "FULL", "IMMEDIATE") if is_sqlite(url) else self.writer
            self.reader = engine(url, "NORMAL", "DEFERRED").execution_options(**one_view(url))
            SQLModel.metadata.create_all(self.durable_writer, tables=TABLES)
            with self.durable_writer.begin() as connection:
                for index in [index for table in TABLES for index in table.indexes]:
                    index.create(connection, checkfirst=True)  # an older store may lack it
                self.instance = instance_of(connection)
        except (SQLAlchemyError, ImportError, ValueError) as error:
            raise SetupError(f"the store {shown(url)} cannot be opened: {first_line(error)}") from error
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._checkpointer = Checkpointer(str(make_url(url).database)) if is_sqlite(url) else None
        self._thread = threading.Thread(target=self._write, name="store-writer", daemon=True)
        self._thread.start()

    def make_room(self) -> None:
        """Let SQLite's WAL grow to its full size before anybody waits for it, and start it over.

        A commit that lengthens the file syncs the file system's journal as well, with every snapshot being written
        just then in it; one that overwrites syncs its own few pages. Without the room, all is as right and slower.
        """
        if is_sqlite(self.url):
            with suppress(DBAPIError), self.durable_writer.begin() as connection:
                connection.execute(insert(META).values(key="room", value="." * WAL_ROOM_BYTES))
                connection.execute(delete(META).where(META.c.key == "room"))
            with suppress(DBAPIError), self.durable_writer.connect() as connection:
                connection.connection.cursor().execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def submit(self, run: Callable[[Connection], Any], durable: bool = True) -> "Future[Any]":
        """Run `run` inside the next transaction. Its result comes once that is committed."""
        work = Work(run, durable, Future())
        self._queue.put(work)
        return work.done

    def read(self, run: Callable[[Connection], Any]) -> Any:
        try:
            with self.reader.connect() as connection:
                return run(connection)
        except SQLAlchemyError as error:
            raise Unavailable(f"the store does not answer: {first_line(error)}") from error

    def walk(self, query: Any, page: int) -> Iterator[Sequence[Any]]:
        """The rows of a query in pages, from one moment of the store, whatever is written meanwhile."""
        try:
            with self.reader.connect() as connection:
                yield from connection.execution_options(yield_per=page).execute(query).partitions()
        except SQLAlchemyError as error:
            raise Unavailable(f"the store does not answer: {first_line(error)}") from error

    @contextmanager
    def aside(self) -> Iterator[Connection]:
        """A connection of one's own, with the temporary tables; whoever has it begins and ends its transactions."""
        own = engine(self.url, "FULL", "DEFERRED")
        try:
            with own.connect() as connection:
                MOVED_EVENTS.create(connection)
                MOVED_PREDICTIONS.create(connection)
                connection.commit()
                yield connection
        except DBAPIError as error:
            raise unavailable(error) from error
        finally:
            own.dispose()

    def close(self) -> None:
        """Finish what was submitted, then let go."""
        self._queue.put(None)
        self._thread.join()
        if self._checkpointer is not None:
            self._checkpointer.close()
        for each in {self.writer, self.durable_writer, self.reader}:
            each.dispose()

    def _write(self) -> None:
        while (first := self._queue.get()) is not None:
            group, last = self._group(first)
            self._commit([work for work in group if work.done.set_running_or_notify_cancel()])
            if last:
                return

    def _group(self, first: Work) -> tuple[list[Work], bool]:
        """Everything that waits, and whether the end was among it."""
        group = [first]
        while len(group) < MAX_GROUP:
            try:
                work = self._queue.get_nowait()
            except queue.Empty:
                return group, False
            if work is None:
                return group, True
            group.append(work)
        return group, False

    def _commit(self, group: list[Work]) -> None:
        if not group:
            return
        chosen = self.durable_writer if any(work.durable for work in group) else self.writer
        outcomes: list[tuple[Work, Any, BaseException | None]] = []
        try:
            with chosen.begin() as connection:
                outcomes = [(work, *self._attempt(connection, work, alone=len(group) == 1)) for work in group]
            if self._checkpointer is not None:
                self._checkpointer.wrote()
        except Exception as error:  # the transaction as a whole failed: nobody's work is in the store
            failure = error if not isinstance(error, DBAPIError) else unavailable(error)
            outcomes = [(work, None, failure) for work in group]
        for work, result, failure_or_none in outcomes:
            if failure_or_none is not None:
                work.done.set_exception(failure_or_none)
            else:
                work.done.set_result(result)

    @staticmethod
    def _attempt(connection: Connection, work: Work, alone: bool) -> tuple[Any, BaseException | None]:
        if alone:
            return work.run(connection), None
        try:
            with connection.begin_nested():
                return work.run(connection), None
        except DBAPIError as error:
            return None, unavailable(error)
        except Exception as error:  # belongs to whoever submitted the work, and is raised there
            return None, error


def unavailable(error: DBAPIError) -> Unavailable:
    return Unavailable(f"the store did not take it, nothing was changed: {first_line(error)}")


def engine(url: str, synchronous: str, begin: str) -> Engine:
    if not is_sqlite(url):
        patience = {"connect_timeout": CONNECT_S, "options": f"-c statement_timeout={STATEMENT_S}s"}
        return create_engine(url, pool_pre_ping=True, connect_args=patience if url.startswith("postgresql") else {})
    made = create_engine(url, connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_S})

    @event.listens_for(made, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions are ours to begin
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint={2 * FULL}")  # sooner, a thread sees to it

    @event.listens_for(made, "begin")
    def begin_as_told(connection: Connection) -> None:
        connection.exec_driver_sql(f"BEGIN {begin}")

    return made


def one_view(url: str) -> dict[str, str]:
    """What makes all questions of one read see the store at one moment, as SQLite's do."""
    return {} if is_sqlite(url) else {"isolation_level": "REPEATABLE READ"}


def instance_of(connection: Connection) -> str:
    """A name that only this store has; keeps two services apart on one Redis."""
    known = connection.scalar(select(META.c.value).where(META.c.key == "instance"))
    if known is None:
        known = uuid.uuid4().hex[:12]
        connection.execute(insert(META).values(key="instance", value=known))
    return str(known)


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite")


def shown(url: str) -> str:
    """A URL without its password, wherever it was put."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def first_line(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
