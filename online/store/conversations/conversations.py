"""Conversations: which predictions belong together, so that a user can list, search, open and delete them.

    predict(conversation, user) --one transaction--> prediction row + turn row

A conversation belongs to one user; for other users it does not exist.
"""

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    String,
    and_,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlmodel import Field, SQLModel

from online.errors import BadInput, NotFound
from online.installed import collect
from online.schemas.conversations import SharedConversation, SharedTurn
from online.store.callers.held_feedback import delete_held_about
from online.store.conversations.turns import (
    START,
    TURNS,
    RequestedTurn,
    check_turn,
    extract_question,
    find_parents,
    load_places,
    trace_branch,
)
from online.store.database.tables import table_of
from online.store.database.values import ERASED, NO_TEXT, now
from online.store.feedback import FEEDBACK, FeedbackRow
from online.store.predictions import PREDICTIONS
from online.store.repertoire.replies import REPLIES

TITLE_CHARS = 80
MAX_LISTED = 100
SHARE_SUFFIX = ":share"  # ends the paths that share a conversation


class ConversationRow(SQLModel, table=True):
    """A conversation of one user with a model.

    title: its first question as it was last edited, shortened, until the user renames it. share_id: the permission to read it until shared_at, up to
    the turn shared_turn; see shares.py.
    """

    __tablename__ = "conversation"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    user: str = Field(index=True)
    title: str
    created_at: str
    updated_at: str
    pinned: bool = False
    renamed: bool = False
    share_id: str | None = Field(None, index=True, unique=True)
    shared_at: str | None = None
    shared_turn: str | None = None


CONVERSATIONS = table_of(ConversationRow)
CONVERSATION_TABLES = [CONVERSATIONS, TURNS]


@dataclass(frozen=True, slots=True)
class ListPosition:
    """The position of a conversation in the list: pinned ones come first, then those used last."""

    pinned: bool
    updated_at: str
    id: str


def make_title(question: object) -> str:
    """Return a question on one line, shortened to TITLE_CHARS."""
    text = extract_question(question)
    words = " ".join(text.split()) if isinstance(text, str) else json.dumps(text)
    return words if len(words) <= TITLE_CHARS else f"{words[:TITLE_CHARS].rstrip()}…"


def add_turns(connection: Connection, model: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """rows: predictions, each with its Turn as `turn`.

    Raises NotFound for a conversation of another user, and for a turn to follow that the conversation does not have.
    """
    for row in rows:
        turn: RequestedTurn = row["turn"]
        if turn.conversation is not None:
            _touch_conversation(connection, model, turn, row["user"])
            if turn.after is not None and turn.after != START:
                check_turn(connection, model, turn.conversation, turn.after)
        exclude = json.dumps(turn.exclude)
        values = {"prediction_id": row["id"], "model": model, "conversation": turn.conversation, "exclude": exclude}
        connection.execute(insert(TURNS).values(**values, parent=turn.after))


def _touch_conversation(connection: Connection, model: str, turn: RequestedTurn, user: str) -> None:
    """Create the conversation of a turn, or record that it was used now."""
    id, at = str(turn.conversation), now()
    by_id = _by_id(model, id)
    found = connection.execute(select(CONVERSATIONS.c.user, CONVERSATIONS.c.renamed).where(*by_id)).one_or_none()
    if found is None:
        if id.endswith(SHARE_SUFFIX):
            raise BadInput(f"conversation: an id must not end with {SHARE_SUFFIX!r}, as the paths that share one do")
        row = {"model": model, "id": id, "user": user, "title": turn.title, "created_at": at, "updated_at": at}
        connection.execute(insert(CONVERSATIONS).values(**row))
    elif found.user != user:
        raise NotFound(f"{model} has no conversation {id!r} of this user")
    else:
        is_first_question = turn.after == START and not found.renamed
        values = {"updated_at": at} | ({"title": turn.title} if is_first_question else {})
        connection.execute(update(CONVERSATIONS).where(*by_id).values(**values))


def _by_id(model: str, id: str) -> tuple[ColumnElement[bool], ...]:
    return CONVERSATIONS.c.model == model, CONVERSATIONS.c.id == id


def load_conversations(
    connection: Connection,
    model: str,
    user: str,
    words: str = "",
    limit: int = MAX_LISTED,
    after: ListPosition | None = None,
) -> list[dict[str, Any]]:
    """Return a user's conversations, pinned ones first, then newest first, each with its number of turns.

    words: only conversations with these words in the title, a question or a reply. after: only those behind this place.
    """
    query = _select_with_turns(model, user)
    if words:
        turns = TURNS.join(PREDICTIONS, PREDICTIONS.c.id == TURNS.c.prediction_id)
        answered = turns.outerjoin(
            REPLIES, (REPLIES.c.model == PREDICTIONS.c.model) & (REPLIES.c.id == PREDICTIONS.c.choice)
        )
        as_stored = json.dumps(words)[1:-1]  # questions are stored as JSON with characters beyond ASCII escaped
        found = or_(
            cast(PREDICTIONS.c.input, String).icontains(as_stored, autoescape=True),
            REPLIES.c.text.icontains(words, autoescape=True),
        )
        has_words = select(TURNS.c.prediction_id).select_from(answered).where(_in_conversation(), found).exists()
        query = query.where(or_(CONVERSATIONS.c.title.icontains(words, autoescape=True), has_words))
    if after is not None:
        query = query.where(_is_behind(after))
    order = (CONVERSATIONS.c.pinned.desc(), CONVERSATIONS.c.updated_at.desc(), CONVERSATIONS.c.id)
    return [dict(row) for row in connection.execute(query.order_by(*order).limit(limit)).mappings()]


def _in_conversation() -> ColumnElement[bool]:
    in_it: ColumnElement[bool] = (TURNS.c.model == CONVERSATIONS.c.model) & (TURNS.c.conversation == CONVERSATIONS.c.id)
    return in_it


def _select_with_turns(model: str, user: str) -> Select[Any]:
    """Return the conversations of a user, each with its number of turns as `turns`."""
    count = select(func.count()).select_from(TURNS).where(_in_conversation()).scalar_subquery()
    own = (CONVERSATIONS.c.model == model, CONVERSATIONS.c.user == user)
    return select(CONVERSATIONS, count.label("turns")).where(*own)


def _is_behind(place: ListPosition) -> ColumnElement[bool]:
    """Return whether a conversation stands behind a place in the list."""
    columns = CONVERSATIONS.c
    later = or_(
        columns.updated_at < place.updated_at, and_(columns.updated_at == place.updated_at, columns.id > place.id)
    )
    if place.pinned:
        return or_(columns.pinned.is_(False), and_(columns.pinned.is_(True), later))
    return and_(columns.pinned.is_(False), later)


def load_conversation(connection: Connection, model: str, user: str, id: str) -> dict[str, Any]:
    """Return the row of a conversation, with its number of turns as `turns`. Raises NotFound."""
    query = _select_with_turns(model, user).where(CONVERSATIONS.c.id == id)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"{model} has no conversation {id!r} of this user")
    return dict(row)


def change_conversation(
    connection: Connection, model: str, user: str, id: str, title: str | None, pinned: bool | None
) -> dict[str, Any]:
    """Rename a conversation, or pin it, or no longer; return its row. Its place in time stays. None: no change.

    Raises NotFound.
    """
    values = {} if title is None else {"title": title, "renamed": True}
    if pinned is not None:
        values["pinned"] = pinned
    own = (*_by_id(model, id), CONVERSATIONS.c.user == user)
    connection.execute(update(CONVERSATIONS).where(*own).values(**values))
    return load_conversation(connection, model, user, id)


def load_turns(connection: Connection, model: str, id: str) -> list[dict[str, Any]]:
    """Return the predictions of a conversation in order, each with all that is shown with it.

    Keys beyond the columns: candidates, [id, score] pairs; texts, of all replies listed, by id;
    exclude, JSON; after, the turn that it follows; feedback, rows that are not retracted.
    """
    in_conversation = (TURNS.c.model == model, TURNS.c.conversation == id)
    joined = TURNS.join(PREDICTIONS, PREDICTIONS.c.id == TURNS.c.prediction_id)
    query = select(PREDICTIONS, TURNS.c.exclude, TURNS.c.parent).select_from(joined).where(*in_conversation)
    rows = connection.execute(query.order_by(PREDICTIONS.c.created_at, PREDICTIONS.c.id)).mappings().all()
    about = select(FEEDBACK).join(TURNS, TURNS.c.prediction_id == FEEDBACK.c.prediction_id)
    in_force = (FEEDBACK.c.model == model, FEEDBACK.c.retracted_offset.is_(None))
    feedback = [FeedbackRow(**row) for row in connection.execute(about.where(*in_conversation, *in_force)).mappings()]
    candidates = {row["id"]: json.loads(row["candidates"]) for row in rows}
    texts = load_texts(connection, model, {reply for each in candidates.values() for reply, _ in each})
    parents = find_parents([dict(row) for row in rows])
    return [
        {
            **row,
            "after": parents[row["id"]],
            "candidates": candidates[row["id"]],
            "texts": texts,
            "feedback": sorted(
                (each for each in feedback if each.prediction_id == row["id"]), key=lambda each: each.offset
            ),
        }
        for row in rows
    ]


def load_texts(connection: Connection, model: str, replies: Collection[str]) -> dict[str, str]:
    """Return reply id -> text, for the replies that exist."""
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
    collect("forget_words", connection, model, sorted(asked))
    in_conversation = (TURNS.c.model == model) & (TURNS.c.conversation == id)
    predictions = select(TURNS.c.prediction_id).where(in_conversation).scalar_subquery()
    connection.execute(update(PREDICTIONS).where(PREDICTIONS.c.id.in_(predictions)).values(input=NO_TEXT, user=None))
    about = (FEEDBACK.c.model == model) & FEEDBACK.c.prediction_id.in_(predictions)
    connection.execute(update(FEEDBACK).where(about).values(content=ERASED))
    turns = connection.execute(update(TURNS).where(in_conversation).values(conversation=None, parent=None))
    connection.execute(delete(CONVERSATIONS).where(*_by_id(model, id)))
    return turns.rowcount


# Shared conversations: a branch that every holder of an unguessable id may read.
#
#     share --> share_id, and the last turn that is shared       again: the same id, up to the newest turn now
#     end the share, delete the conversation, erase the user --> the id is unknown
#
# What is read is the title, the questions and the replies: no user, no feedback, no id of a prediction.

ID_BYTES = 24  # 192 random bits
MAX_TURNS = 1_000  # that are shown, the last ones


def share_conversation(
    connection: Connection, model: str, user: str, id: str, until: str | None = None
) -> dict[str, Any]:
    """Share a conversation, and return its row. One that is shared already keeps its share_id.

    until: the last turn that is shared; None: the newest one. Raises NotFound, and BadInput for one without turns.
    """
    load_conversation(connection, model, user, id)
    places = load_places(connection, model, id)
    if not places:
        raise BadInput(f"the conversation {id!r} has no turn that could be shared")
    if until is not None and until not in {row["id"] for row in places}:
        raise NotFound(f"the conversation {id!r} has no turn {until!r} that could be shared")
    new_id = secrets.token_urlsafe(ID_BYTES)
    values = {"share_id": _keep_or(new_id), "shared_at": now(), "shared_turn": until or places[-1]["id"]}
    connection.execute(update(CONVERSATIONS).where(*_own(model, user, id)).values(**values))
    return load_conversation(connection, model, user, id)


def _keep_or(new_id: str) -> ColumnElement[str]:
    """Return the share_id that a row has, or else a new one: in one statement, as two requests may come at once."""
    return func.coalesce(CONVERSATIONS.c.share_id, new_id)


def _own(model: str, user: str, id: str) -> tuple[ColumnElement[bool], ...]:
    return CONVERSATIONS.c.model == model, CONVERSATIONS.c.id == id, CONVERSATIONS.c.user == user


def end_share(connection: Connection, model: str, user: str, id: str) -> dict[str, Any]:
    """Share a conversation no longer, and return its row. Raises NotFound."""
    nothing = {"share_id": None, "shared_at": None, "shared_turn": None}
    connection.execute(update(CONVERSATIONS).where(*_own(model, user, id)).values(**nothing))
    return load_conversation(connection, model, user, id)


def load_shared(connection: Connection, share_id: str) -> SharedConversation | None:
    """Return the branch that is shared under an id; None if there is none."""
    row = connection.execute(select(CONVERSATIONS).where(CONVERSATIONS.c.share_id == share_id)).mappings().first()
    if row is None:
        return None
    places = {each["id"]: each for each in load_places(connection, row["model"], row["id"])}
    last = row["shared_turn"]
    if last not in places:  # it was deleted when its time had come
        last = next((id for id in reversed(places) if places[id]["created_at"] <= row["shared_at"]), START)
    branch = [places[id] for id in trace_branch(find_parents([*places.values()]), last) if id in places][-MAX_TURNS:]
    texts = load_texts(connection, row["model"], {each["choice"] for each in branch if each["choice"] is not None})
    turns = [SharedTurn(question=read_as_text(each["input"]), reply=texts.get(each["choice"])) for each in branch]
    shown = {name: row[name] for name in ("model", "title", "created_at", "shared_at")}
    return SharedConversation(**shown, turns=turns)


def read_as_text(input: str) -> str | None:
    """Return the question of a stored input as text; None if it was erased."""
    question = extract_question(json.loads(input))
    return question if isinstance(question, str) or question is None else json.dumps(question)
