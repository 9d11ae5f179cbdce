"""What was said with whom, to come back to: the turns of a conversation and what was thought of each.

    predict(conversation, user) --same transaction--> prediction row + turn row --> listed, searched, opened, deleted

Every function takes the transaction's connection. A conversation is its user's alone: to others it is not there.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, String, cast, delete, func, insert, or_, select, update

from online.errors import NotFound
from online.store import CONVERSATIONS, ERASED, FEEDBACK, NO_WORDS, PREDICTIONS, REPLIES, TURNS, FeedbackRow, now

TITLE_CHARS = 80
LISTED = 100


@dataclass(frozen=True, slots=True)
class Turn:
    """conversation: where it is kept, if it is. title: what a new conversation is called. besides: unwanted answers."""

    conversation: str | None
    title: str
    besides: tuple[str, ...]


def title_of(question: Any) -> str:
    words = " ".join(question.split()) if isinstance(question, str) else json.dumps(question)
    return words if len(words) <= TITLE_CHARS else f"{words[:TITLE_CHARS].rstrip()}…"


def add_turns(connection: Connection, model: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """rows: of predictions, each with its `turn`. Raises NotFound for a conversation of somebody else."""
    for row in rows:
        turn: Turn = row["turn"]
        if turn.conversation is not None:
            _keep(connection, model, turn.conversation, row["user"], turn.title)
        besides = json.dumps(turn.besides)
        noted = {"prediction_id": row["id"], "model": model, "conversation": turn.conversation, "besides": besides}
        connection.execute(insert(TURNS).values(**noted))


def _keep(connection: Connection, model: str, id: str, user: str, title: str) -> None:
    mine, at = _mine(model, id), now()
    owner = connection.scalar(select(CONVERSATIONS.c.user).where(*mine))
    if owner is None:
        row = {"model": model, "id": id, "user": user, "title": title, "created_at": at, "updated_at": at}
        connection.execute(insert(CONVERSATIONS).values(**row))
    elif owner != user:
        raise NotFound(f"{model} has no conversation {id!r} of this user")
    else:
        connection.execute(update(CONVERSATIONS).where(*mine).values(updated_at=at))


def _mine(model: str, id: str) -> tuple[ColumnElement[bool], ...]:
    return CONVERSATIONS.c.model == model, CONVERSATIONS.c.id == id


def conversations_of(connection: Connection, model: str, user: str, words: str = "") -> list[dict[str, Any]]:
    """The newest first, with the count of their turns. words: stand in one of its questions or replies."""
    turns = TURNS.join(PREDICTIONS, PREDICTIONS.c.id == TURNS.c.prediction_id)
    in_it = (TURNS.c.model == CONVERSATIONS.c.model) & (TURNS.c.conversation == CONVERSATIONS.c.id)
    count = select(func.count()).select_from(TURNS).where(in_it).scalar_subquery()
    query = select(CONVERSATIONS, count.label("turns")).where(
        CONVERSATIONS.c.model == model, CONVERSATIONS.c.user == user
    )
    if words:
        said = turns.outerjoin(
            REPLIES, (REPLIES.c.model == PREDICTIONS.c.model) & (REPLIES.c.id == PREDICTIONS.c.choice)
        )
        as_stored = json.dumps(words)[1:-1]  # a question is kept as JSON, its letters beyond ASCII escaped
        found = or_(
            cast(PREDICTIONS.c.input, String).icontains(as_stored, autoescape=True),
            REPLIES.c.text.icontains(words, autoescape=True),
        )
        query = query.where(select(TURNS.c.prediction_id).select_from(said).where(in_it, found).exists())
    newest = query.order_by(CONVERSATIONS.c.updated_at.desc(), CONVERSATIONS.c.id).limit(LISTED)
    return [dict(row) for row in connection.execute(newest).mappings()]


def conversation(connection: Connection, model: str, user: str, id: str) -> dict[str, Any]:
    """Its row. Raises NotFound."""
    query = select(CONVERSATIONS).where(*_mine(model, id), CONVERSATIONS.c.user == user)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"{model} has no conversation {id!r} of this user")
    return dict(row)


def turns_of(connection: Connection, model: str, id: str) -> list[dict[str, Any]]:
    """The predictions of a conversation in order, each with what stands beside it.

    candidates: as (id, score); texts: of all replies that are listed, by id; besides: JSON; feedback: that stands.
    """
    mine = (TURNS.c.model == model, TURNS.c.conversation == id)
    joined = TURNS.join(PREDICTIONS, PREDICTIONS.c.id == TURNS.c.prediction_id)
    query = select(PREDICTIONS, TURNS.c.besides).select_from(joined).where(*mine)
    rows = connection.execute(query.order_by(PREDICTIONS.c.created_at, PREDICTIONS.c.id)).mappings().all()
    about = select(FEEDBACK).join(TURNS, TURNS.c.prediction_id == FEEDBACK.c.prediction_id)
    standing = (FEEDBACK.c.model == model, FEEDBACK.c.retracted_offset.is_(None))
    given = [FeedbackRow(**row) for row in connection.execute(about.where(*mine, *standing)).mappings()]
    candidates = {row["id"]: json.loads(row["candidates"]) for row in rows}
    texts = texts_of(connection, model, {reply for each in candidates.values() for reply, _ in each})
    return [
        {
            **row,
            "candidates": candidates[row["id"]],
            "texts": texts,
            "feedback": sorted(
                (each for each in given if each.prediction_id == row["id"]), key=lambda each: each.offset
            ),
        }
        for row in rows
    ]


def texts_of(connection: Connection, model: str, replies: Collection[str]) -> dict[str, str]:
    """Reply id -> its text, of those that are known."""
    query = select(REPLIES.c.id, REPLIES.c.text).where(REPLIES.c.model == model, REPLIES.c.id.in_(replies))
    return dict(connection.execute(query).tuples().all())


def delete_conversation(connection: Connection, model: str, user: str, id: str) -> int:
    """Delete it and blank its words; gives the number of its turns. What was learned from it stays. Raises NotFound."""
    conversation(connection, model, user, id)
    mine = (TURNS.c.model == model) & (TURNS.c.conversation == id)
    asked = select(TURNS.c.prediction_id).where(mine).scalar_subquery()
    connection.execute(update(PREDICTIONS).where(PREDICTIONS.c.id.in_(asked)).values(input=NO_WORDS, user=None))
    about = (FEEDBACK.c.model == model) & FEEDBACK.c.prediction_id.in_(asked)
    connection.execute(update(FEEDBACK).where(about).values(content=ERASED))
    forgotten = connection.execute(update(TURNS).where(mine).values(conversation=None))
    connection.execute(delete(CONVERSATIONS).where(*_mine(model, id)))
    return forgotten.rowcount
