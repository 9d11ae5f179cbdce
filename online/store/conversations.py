"""Conversations: which predictions belong together, so that a user can list, search, open and delete them.

    predict(conversation, user) --one transaction--> prediction row + turn row

A conversation belongs to one user; for other users it does not exist.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, String, cast, delete, func, insert, or_, select, update
from sqlmodel import Field, SQLModel

from online.errors import NotFound
from online.store.callers.held_feedback import delete_held_about
from online.store.database.values import ERASED, NO_TEXT, now
from online.store.feedback import FEEDBACK, FeedbackRow
from online.store.predictions import PREDICTIONS
from online.store.replies import REPLIES

TITLE_CHARS = 80


MAX_LISTED = 100


class ConversationRow(SQLModel, table=True):
    """A conversation of one user with a model. title: its first question, shortened."""

    __tablename__ = "conversation"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    user: str = Field(index=True)
    title: str
    created_at: str
    updated_at: str


class TurnRow(SQLModel, table=True):
    """The place of a prediction in a conversation. exclude: the answers that it was to leave out, as JSON."""

    __tablename__ = "turn"

    prediction_id: str = Field(primary_key=True)
    model: str
    conversation: str | None = Field(index=True)
    exclude: str


CONVERSATIONS: Any = ConversationRow.__table__  # type: ignore[attr-defined]


TURNS: Any = TurnRow.__table__  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Turn:
    """What a prediction request says beyond its instance.

    conversation: the id, if any. title: of the conversation, if it is new. exclude: answers to leave out.
    """

    conversation: str | None
    title: str
    exclude: tuple[str, ...]


def make_title(question: Any) -> str:
    """Return a question on one line, shortened to TITLE_CHARS."""
    text = extract_question(question)
    words = " ".join(text.split()) if isinstance(text, str) else json.dumps(text)
    return words if len(words) <= TITLE_CHARS else f"{words[:TITLE_CHARS].rstrip()}…"


def extract_question(instance: Any) -> Any:
    """What a user typed: a follow-up is stored as an object, with the question before it."""
    return instance["text"] if isinstance(instance, dict) and isinstance(instance.get("text"), str) else instance


def add_turns(connection: Connection, model: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """rows: predictions, each with its Turn as `turn`. Raises NotFound for a conversation of another user."""
    for row in rows:
        turn: Turn = row["turn"]
        if turn.conversation is not None:
            _touch_conversation(connection, model, turn.conversation, row["user"], turn.title)
        exclude = json.dumps(turn.exclude)
        values = {"prediction_id": row["id"], "model": model, "conversation": turn.conversation, "exclude": exclude}
        connection.execute(insert(TURNS).values(**values))


def _touch_conversation(connection: Connection, model: str, id: str, user: str, title: str) -> None:
    """Create a conversation, or record that it was used now."""
    by_id, at = _by_id(model, id), now()
    owner = connection.scalar(select(CONVERSATIONS.c.user).where(*by_id))
    if owner is None:
        row = {"model": model, "id": id, "user": user, "title": title, "created_at": at, "updated_at": at}
        connection.execute(insert(CONVERSATIONS).values(**row))
    elif owner != user:
        raise NotFound(f"{model} has no conversation {id!r} of this user")
    else:
        connection.execute(update(CONVERSATIONS).where(*by_id).values(updated_at=at))


def _by_id(model: str, id: str) -> tuple[ColumnElement[bool], ...]:
    return CONVERSATIONS.c.model == model, CONVERSATIONS.c.id == id


def load_conversations(connection: Connection, model: str, user: str, words: str = "") -> list[dict[str, Any]]:
    """Return a user's conversations, newest first, each with its number of turns.

    words: only conversations with these words in a question or a reply.
    """
    turns = TURNS.join(PREDICTIONS, PREDICTIONS.c.id == TURNS.c.prediction_id)
    in_it = (TURNS.c.model == CONVERSATIONS.c.model) & (TURNS.c.conversation == CONVERSATIONS.c.id)
    count = select(func.count()).select_from(TURNS).where(in_it).scalar_subquery()
    query = select(CONVERSATIONS, count.label("turns")).where(
        CONVERSATIONS.c.model == model, CONVERSATIONS.c.user == user
    )
    if words:
        answered = turns.outerjoin(
            REPLIES, (REPLIES.c.model == PREDICTIONS.c.model) & (REPLIES.c.id == PREDICTIONS.c.choice)
        )
        as_stored = json.dumps(words)[1:-1]  # questions are stored as JSON with characters beyond ASCII escaped
        found = or_(
            cast(PREDICTIONS.c.input, String).icontains(as_stored, autoescape=True),
            REPLIES.c.text.icontains(words, autoescape=True),
        )
        query = query.where(select(TURNS.c.prediction_id).select_from(answered).where(in_it, found).exists())
    newest = query.order_by(CONVERSATIONS.c.updated_at.desc(), CONVERSATIONS.c.id).limit(MAX_LISTED)
    return [dict(row) for row in connection.execute(newest).mappings()]


def load_conversation(connection: Connection, model: str, user: str, id: str) -> dict[str, Any]:
    """Return the row of a conversation. Raises NotFound."""
    query = select(CONVERSATIONS).where(*_by_id(model, id), CONVERSATIONS.c.user == user)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"{model} has no conversation {id!r} of this user")
    return dict(row)


def load_questions(connection: Connection, model: str, user: str, id: str, count: int) -> list[str]:
    """Return the last questions of a user's conversation, in order; those whose text was erased are left out."""
    joined = TURNS.join(PREDICTIONS, PREDICTIONS.c.id == TURNS.c.prediction_id)
    own = (TURNS.c.model == model, TURNS.c.conversation == id, PREDICTIONS.c.user == user)
    query = select(PREDICTIONS.c.input).select_from(joined).where(*own, PREDICTIONS.c.input != NO_TEXT)
    newest = query.order_by(PREDICTIONS.c.created_at.desc(), PREDICTIONS.c.id.desc()).limit(count)
    questions = [extract_question(json.loads(each)) for each in connection.scalars(newest)]
    return [each for each in reversed(questions) if isinstance(each, str)]


def load_turns(connection: Connection, model: str, id: str) -> list[dict[str, Any]]:
    """Return the predictions of a conversation in order, each with all that is shown with it.

    Keys beyond the columns: candidates, [id, score] pairs; texts, of all replies listed, by id;
    exclude, JSON; feedback, rows that are not retracted.
    """
    in_conversation = (TURNS.c.model == model, TURNS.c.conversation == id)
    joined = TURNS.join(PREDICTIONS, PREDICTIONS.c.id == TURNS.c.prediction_id)
    query = select(PREDICTIONS, TURNS.c.exclude).select_from(joined).where(*in_conversation)
    rows = connection.execute(query.order_by(PREDICTIONS.c.created_at, PREDICTIONS.c.id)).mappings().all()
    about = select(FEEDBACK).join(TURNS, TURNS.c.prediction_id == FEEDBACK.c.prediction_id)
    in_force = (FEEDBACK.c.model == model, FEEDBACK.c.retracted_offset.is_(None))
    feedback = [FeedbackRow(**row) for row in connection.execute(about.where(*in_conversation, *in_force)).mappings()]
    candidates = {row["id"]: json.loads(row["candidates"]) for row in rows}
    texts = load_texts(connection, model, {reply for each in candidates.values() for reply, _ in each})
    return [
        {
            **row,
            "candidates": candidates[row["id"]],
            "texts": texts,
            "feedback": sorted(
                (each for each in feedback if each.prediction_id == row["id"]), key=lambda each: each.offset
            ),
        }
        for row in rows
    ]


def load_texts(connection: Connection, model: str, replies: Collection[str]) -> dict[str, str]:
    """Reply id -> text, for the replies that exist."""
    query = select(REPLIES.c.id, REPLIES.c.text).where(REPLIES.c.model == model, REPLIES.c.id.in_(replies))
    return dict(connection.execute(query).all())


def delete_conversation(connection: Connection, model: str, user: str, id: str) -> int:
    """Delete a conversation and blank its words; return the number of its turns.

    What was learned from it stays. Raises NotFound.
    """
    load_conversation(connection, model, user, id)
    asked = set(
        connection.scalars(select(TURNS.c.prediction_id).where(TURNS.c.model == model, TURNS.c.conversation == id))
    )
    delete_held_about(connection, model, user, asked)
    in_conversation = (TURNS.c.model == model) & (TURNS.c.conversation == id)
    predictions = select(TURNS.c.prediction_id).where(in_conversation).scalar_subquery()
    connection.execute(update(PREDICTIONS).where(PREDICTIONS.c.id.in_(predictions)).values(input=NO_TEXT, user=None))
    about = (FEEDBACK.c.model == model) & FEEDBACK.c.prediction_id.in_(predictions)
    connection.execute(update(FEEDBACK).where(about).values(content=ERASED))
    turns = connection.execute(update(TURNS).where(in_conversation).values(conversation=None))
    connection.execute(delete(CONVERSATIONS).where(*_by_id(model, id)))
    return turns.rowcount
