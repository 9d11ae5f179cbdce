"""The repertoire of a ranker: its replies, their wording and their example questions."""

import re
import unicodedata
from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import fold_text
from online.store.events import EVENTS, head_of
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS
from online.store.repertoire.examples import EXAMPLES


class ReplyRow(SQLModel, table=True):
    """One reply of a ranker's repertoire, as it was last requested; snapshots hold what is learned about it.

    folded: the text for comparison, without case and repeated spaces. sort_key: its beginning, to sort by. offset: of the event
    that added it.
    """

    __tablename__ = "reply"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    text: str
    folded: str = Field(index=True)
    sort_key: str = ""
    offset: int
    active: bool = True


REPLIES = table_of(ReplyRow)


SORT_CHARS = 100  # of a text, by which replies are sorted


def make_sort_key(text: str) -> str:
    """Return the beginning of a text without case, accents and spaces around: "Öffnungszeiten" stands at O."""
    letters = unicodedata.normalize("NFKD", fold_text(text[: 2 * SORT_CHARS]))
    return "".join(each for each in letters if not unicodedata.combining(each))[:SORT_CHARS]


def text_columns(text: str) -> dict[str, str]:
    """Return the columns that depend on the text."""
    return {"text": text, "folded": fold_text(text), "sort_key": make_sort_key(text)}


def normalize_text(text: str) -> str:
    """Return a reply's text as it is stored: lines, paragraphs and indentation stay, other repeated spaces do not."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    indents = (line[: len(line) - len(line.lstrip(" \t"))] for line in lines)
    normalized = ((indent + " ".join(line.split())).rstrip() for indent, line in zip(indents, lines, strict=True))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(normalized)).strip()


def add_reply(connection: Connection, model: str, id: str, text: str, offset: int, active: bool = True) -> None:
    """Store a new reply."""
    values = {"model": model, "id": id, "offset": offset, "active": active}
    connection.execute(insert(REPLIES).values(**values, **text_columns(text)))


def update_reply_text(connection: Connection, model: str, id: str, text: str) -> None:
    """Replace the text of a reply."""
    by_id = (REPLIES.c.model == model, REPLIES.c.id == id)
    connection.execute(update(REPLIES).where(*by_id).values(**text_columns(text)))


def find_reply_by_text(connection: Connection, model: str, text: str) -> ReplyRow | None:
    """Return the reply with this text; an active one is preferred."""
    query = select(REPLIES).where(REPLIES.c.model == model, REPLIES.c.folded == fold_text(text))
    return parse_row(connection.execute(query.order_by(REPLIES.c.active.desc(), REPLIES.c.offset)).mappings().first())


def find_reply(connection: Connection, model: str, id: str) -> ReplyRow | None:
    """Return a reply; None if there is none with this id."""
    query = select(REPLIES).where(REPLIES.c.model == model, REPLIES.c.id == id)
    return parse_row(connection.execute(query).mappings().first())


def parse_row(row: RowMapping | None) -> ReplyRow | None:
    """Return the reply of a row."""
    return None if row is None else ReplyRow(**row)


def set_reply_active(connection: Connection, model: str, id: str, active: bool) -> None:
    """Retire or restore a reply."""
    connection.execute(update(REPLIES).where(REPLIES.c.model == model, REPLIES.c.id == id).values(active=active))


def list_taught_replies(connection: Connection, model: str, replies: Collection[str]) -> set[str]:
    """Return those of the replies that feedback brought."""
    events = REPLIES.join(EVENTS, (EVENTS.c.model == REPLIES.c.model) & (EVENTS.c.offset == REPLIES.c.offset))
    brought = (REPLIES.c.model == model, REPLIES.c.id.in_(replies), EVENTS.c.feedback_id.is_not(None))
    return set(connection.scalars(select(REPLIES.c.id).select_from(events).where(*brought)))


def is_reply_used(connection: Connection, model: str, reply: str, except_feedback: str) -> bool:
    """Return whether anything else in force is about the reply: other feedback, or an operator who added it."""
    joined = EVENTS.outerjoin(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))
    in_force = (FEEDBACK.c.id.is_not(None), FEEDBACK.c.retracted_offset.is_(None), FEEDBACK.c.id != except_feedback)
    query = select(EVENTS.c.offset).select_from(joined)
    given = query.where(EVENTS.c.model == model, EVENTS.c.label == reply, *in_force).limit(1)
    return connection.execute(given).first() is not None or is_reply_added(connection, model, reply)


def is_reply_added(connection: Connection, model: str, reply: str) -> bool:
    """Return whether an operator added the reply or changed it, rather than a correction alone."""
    query = select(EVENTS.c.offset).where(*of_repertoire(model), EVENTS.c.label == reply)
    return connection.execute(query.limit(1)).first() is not None


def of_repertoire(model: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that select events of the repertoire."""
    return EVENTS.c.model == model, EVENTS.c.source == literal_column("'repertoire'")


def delete_reply(connection: Connection, model: str, id: str) -> None:
    """Delete a reply."""
    connection.execute(delete(REPLIES).where(REPLIES.c.model == model, REPLIES.c.id == id))


def load_replies(connection: Connection, model: str) -> list[ReplyRow]:
    """Return all replies, the oldest first."""
    found = connection.execute(select(REPLIES).where(REPLIES.c.model == model).order_by(REPLIES.c.offset))
    return [ReplyRow(**row) for row in found.mappings()]


def load_reply_texts(connection: Connection, model: str, ids: Collection[str]) -> dict[str, str]:
    """Return id -> text, for those of the replies that exist."""
    query = select(REPLIES.c.id, REPLIES.c.text).where(REPLIES.c.model == model, REPLIES.c.id.in_(ids))
    return dict(connection.execute(query).all())


def count_replies(connection: Connection, model: str) -> int:
    """Return the number of replies, also retired ones."""
    return connection.scalar(select(func.count()).select_from(REPLIES).where(REPLIES.c.model == model)) or 0


def load_dated_examples(connection: Connection, model: str, reply: str) -> list[dict[str, Any]]:
    """Return the example questions of a reply that are not retracted, in order: offset, text, created_at.

    created_at: None for those of releases that did not note it.
    """
    query = select_examples(model, EXAMPLES.c.offset, EXAMPLES.c.text, EVENTS.c.created_at)
    of_reply = query.where(EXAMPLES.c.reply == reply).order_by(EXAMPLES.c.offset)
    return [dict(row) for row in connection.execute(of_reply).mappings()]


def select_examples(model: str, *columns: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Return columns of the example questions that are not retracted, and of their events."""
    joined = EXAMPLES.join(EVENTS, (EVENTS.c.model == EXAMPLES.c.model) & (EVENTS.c.offset == EXAMPLES.c.offset))
    return select(*columns).select_from(joined).where(EXAMPLES.c.model == model)


def load_example_features(connection: Connection, model: str, reply: str) -> list[bytes]:
    """Return the features of the example questions of a reply."""
    return list(connection.scalars(select_examples(model, EVENTS.c.features).where(EXAMPLES.c.reply == reply)))


def find_replies_with_example(connection: Connection, model: str, features: bytes) -> set[str]:
    """Return the replies that have an example question with exactly these features.

    It reads all example questions of the model, because features have no index: 50 ms where there are 50,000.
    """
    return set(connection.scalars(select_examples(model, EXAMPLES.c.reply).where(EVENTS.c.features == features)))


def is_example(connection: Connection, model: str, reply: str, offset: int) -> bool:
    """Return whether the event at an offset is an example question of a reply."""
    if not 0 < offset <= head_of(connection, model):  # a number that the database may not take
        return False
    at = (EVENTS.c.offset == offset, EVENTS.c.kind == "label", EVENTS.c.label == reply)
    return connection.execute(select(EVENTS.c.offset).where(*of_repertoire(model), *at)).first() is not None


class FeedbackAbout(NamedTuple):
    """Feedback about a reply. body: of its event. question: JSON."""

    offset: int
    id: str
    body: str
    user: str | None
    created_at: str
    question: str | None


def load_feedback_about(connection: Connection, model: str, reply: str, count: int) -> list[FeedbackAbout]:
    """Return the newest feedback about a reply that is not retracted, newest first."""
    feedback = EVENTS.join(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))
    joined = feedback.outerjoin(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    question = func.coalesce(PREDICTIONS.c.input, FEEDBACK.c.input)
    given = (FEEDBACK.c.user, FEEDBACK.c.created_at, question)
    query = select(EVENTS.c.offset, EVENTS.c.id, EVENTS.c.body, *given).select_from(joined)
    about = (EVENTS.c.model == model, EVENTS.c.label == reply, FEEDBACK.c.retracted_offset.is_(None))
    found = connection.execute(query.where(*about).order_by(EVENTS.c.offset.desc()).limit(count))
    return [FeedbackAbout(*row) for row in found]
