"""The turns of conversations, and their branches: which turn each question follows.

    hours ── printer ── colour        a question that was edited, or asked from an earlier place, follows the same turn as
         └── wifi                     another one does: it begins a branch. The newest branch ends with the newest turn

A stored turn has a `parent`: the turn that it follows, or "" for the start of the conversation. NULL, where the request named
none, means the newest turn before it. Another reply to a question follows what the question follows.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update
from sqlmodel import Field, SQLModel

from online.errors import NotFound
from online.store.database.tables import table_of
from online.store.database.values import NO_TEXT
from online.store.predictions import PREDICTIONS

START = ""  # what the first question follows


class TurnRow(SQLModel, table=True):
    """The place of a prediction in a conversation.

    exclude: the answers that it was to leave out, as JSON. parent: the turn that it follows; see above.
    """

    __tablename__ = "turn"

    prediction_id: str = Field(primary_key=True)
    model: str
    conversation: str | None = Field(index=True)
    exclude: str
    parent: str | None = None


TURNS = table_of(TurnRow)


@dataclass(frozen=True, slots=True)
class RequestedTurn:
    """The conversation that a prediction request names.

    conversation: the id, if any. title: of the conversation, if it is new. exclude: answers to leave out. after: the turn
    that it follows, or START; None: the newest one.
    """

    conversation: str | None
    title: str
    exclude: tuple[str, ...]
    after: str | None = None


def extract_question(instance: object) -> object:
    """Return what a user typed: a follow-up is stored as an object, with the question before it."""
    return instance["text"] if isinstance(instance, dict) and isinstance(instance.get("text"), str) else instance


def find_parents(turns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Turn id -> the id of the turn that it follows, or START. turns: all of a conversation in order of time, with the keys
    id, parent, exclude and input.
    """
    known = {turn["id"] for turn in turns}
    parents = dict[str, str]()
    before: Mapping[str, Any] | None = None
    for turn in turns:
        parent = turn["parent"]
        if parent is None or (parent != START and parent not in known):
            parent = _follow_in_time(turn, before, parents)
        parents[turn["id"]] = parent
        before = turn
    return parents


def _follow_in_time(turn: Mapping[str, Any], before: Mapping[str, Any] | None, parents: Mapping[str, str]) -> str:
    if before is None:
        return START
    is_other_reply = turn["exclude"] != "[]" and read_question(turn) == read_question(before)
    return parents[before["id"]] if is_other_reply else str(before["id"])


def read_question(turn: Mapping[str, Any]) -> object:
    """Return the question of a turn."""
    return extract_question(json.loads(turn["input"]))


def trace_branch(parents: Mapping[str, str], last: str) -> list[str]:
    """Return the ids of the turns from the start of a conversation to a turn."""
    branch = dict[str, None]()
    while last != START and last not in branch:  # clocks of several machines can make turns follow one another
        branch[last] = None
        last = parents.get(last, START)
    return [*reversed(branch)]


def load_places(connection: Connection, model: str, conversation: str) -> list[dict[str, Any]]:
    """Return the turns of a conversation in order of time: what `find_parents` takes, with user and created_at."""
    joined = TURNS.join(PREDICTIONS, PREDICTIONS.c.id == TURNS.c.prediction_id)
    columns = [PREDICTIONS.c[name] for name in ("id", "user", "input", "choice", "created_at")]
    query = select(*columns, TURNS.c.parent, TURNS.c.exclude).select_from(joined)
    in_it = (TURNS.c.model == model, TURNS.c.conversation == conversation)
    rows = connection.execute(query.where(*in_it).order_by(PREDICTIONS.c.created_at, PREDICTIONS.c.id)).mappings()
    return [dict(row) for row in rows]


def load_questions(
    connection: Connection, model: str, user: str, id: str, count: int, after: str | None = None
) -> list[str]:
    """Return the last questions of a branch of a user's conversation, in order, without those whose text was erased.

    after: the turn that ends the branch, or START; None: the newest one.
    """
    places = [row for row in load_places(connection, model, id) if row["user"] == user]
    if after is None:
        after = places[-1]["id"] if places else START
    kept = {row["id"]: row for row in places if row["input"] != NO_TEXT}
    branch = [kept[turn] for turn in trace_branch(find_parents(places), after) if turn in kept]
    return [each for each in map(read_question, branch[-count:]) if isinstance(each, str)]


def check_turn(connection: Connection, model: str, conversation: str, turn: str) -> None:
    """Raise NotFound unless a turn belongs to a conversation."""
    place = select(TURNS.c.conversation).where(TURNS.c.model == model, TURNS.c.prediction_id == turn)
    if connection.scalar(place) != conversation:
        raise NotFound(f"the conversation {conversation!r} has no turn {turn!r}, which the question is to follow")


def delete_turns(connection: Connection, predictions: Collection[str]) -> None:
    """Delete the turns of predictions. What followed one of them follows what that one followed."""
    rows = connection.execute(
        select(TURNS.c.prediction_id, TURNS.c.conversation, TURNS.c.parent).where(
            TURNS.c.prediction_id.in_(predictions), TURNS.c.conversation.is_not(None)
        )
    ).all()
    parents = {row.prediction_id: row.parent for row in rows}
    if parents:
        conversations = {row.conversation for row in rows}
        children = select(TURNS.c.prediction_id, TURNS.c.parent).where(
            TURNS.c.conversation.in_(conversations), TURNS.c.parent.in_(parents)
        )
        for child, parent in connection.execute(children).all():
            while parent in parents:
                parent = parents[parent]
            connection.execute(update(TURNS).where(TURNS.c.prediction_id == child).values(parent=parent))
    connection.execute(delete(TURNS).where(TURNS.c.prediction_id.in_(predictions)))
