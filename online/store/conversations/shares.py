"""Shared conversations: a branch that its user lets everybody read who knows an unguessable id.

    share --> share_id, and the last turn that is shared       again: the same id, up to the newest turn now
    end the share, delete the conversation, erase the user --> the id is unknown

What is read is the title, the questions and the replies: no user, no feedback, no id of a prediction.
"""

import json
import secrets
from typing import Any

from sqlalchemy import Connection, func, select, update

from online.errors import BadInput, NotFound
from online.schemas.conversations import SharedConversation, SharedTurn
from online.store.conversations.conversations import CONVERSATIONS, load_conversation, load_texts
from online.store.conversations.turns import START, extract_question, find_parents, load_places, trace_branch
from online.store.database.values import now

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


def _keep_or(new_id: str) -> Any:
    """The share_id that a row has, or else a new one: in one statement, as two requests may come at once."""
    return func.coalesce(CONVERSATIONS.c.share_id, new_id)


def _own(model: str, user: str, id: str) -> tuple[Any, ...]:
    return CONVERSATIONS.c.model == model, CONVERSATIONS.c.id == id, CONVERSATIONS.c.user == user


def end_share(connection: Connection, model: str, user: str, id: str) -> dict[str, Any]:
    """Share a conversation no longer, and return its row. Raises NotFound."""
    nothing = {"share_id": None, "shared_at": None, "shared_turn": None}
    connection.execute(update(CONVERSATIONS).where(*_own(model, user, id)).values(**nothing))
    return load_conversation(connection, model, user, id)


def load_shared(connection: Connection, share_id: str) -> SharedConversation | None:
    """The branch that is shared under an id; None if there is none."""
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
    question = extract_question(json.loads(input))
    return question if isinstance(question, str) or question is None else json.dumps(question)
