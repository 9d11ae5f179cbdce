"""Branches, pages and shares of conversations, in both databases."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from online.errors import BadInput
from online.store import Store
from online.store.conversations.conversations import (
    CONVERSATIONS,
    ListPosition,
    add_turns,
    change_conversation,
    load_conversations,
    load_shared,
    load_turns,
    share_conversation,
)
from online.store.conversations.turns import TURNS, RequestedTurn, find_parents, load_questions, trace_branch
from online.store.deletion.expired_events import delete_predictions
from online.store.deletion.retention import prune_predictions
from online.store.predictions import add_predictions


def add(connection: Connection, id: str, after: str | None = None, conversation: str = "c", exclude: str = "") -> None:
    """A turn of the user ada whose question is its id, without the mark that tells apart replies to one question."""
    fields: dict[str, Any] = {"id": id, "model": "m", "version": 1, "learned_until": 0, "user": "ada"}
    answered = {"input": f'"{id[:2]}"', "features": b"", "choice": "a", "propensity": 1.0, "candidates": "[]"}
    row = {**fields, **answered, "created_at": f"2026-01-{id[:2]}T12:00:00"}
    add_predictions(connection, [row])
    turn = RequestedTurn(conversation, f"title of {conversation}", (exclude,) if exclude else (), after)
    add_turns(connection, "m", [{**row, "turn": turn}])


def read_parents(connection: Connection) -> dict[str, str]:
    return {turn["id"]: turn["after"] for turn in load_turns(connection, "m", "c")}


def turn(id: str, parent: str | None, exclude: str = "[]", input: str = '"q"') -> dict[str, Any]:
    return {"id": id, "parent": parent, "exclude": exclude, "input": input}


def test_turns_without_a_parent_follow_each_other_in_time() -> None:
    follow_up = '{"text": "q", "previous": "p"}'
    old = [turn("1", None), turn("2", None, '["a"]', follow_up), turn("3", None), turn("4", "1"), turn("5", "gone")]
    assert find_parents(old) == {"1": "", "2": "", "3": "2", "4": "1", "5": "4"}


def test_a_branch_ends_although_clocks_disagree() -> None:
    turns = [turn("1", "2"), turn("2", None)]
    assert trace_branch(find_parents(turns), "2") == ["1", "2"]


def test_what_followed_a_deleted_turn_follows_the_one_before_it(store: Store) -> None:
    def fill(connection: Connection) -> None:
        for id, after in {"01": "", "02": "01", "03": "02", "04": "03", "05": "02", "06": ""}.items():
            add(connection, id, after)

    store.submit(fill).result()
    store.submit(lambda connection: delete_predictions(connection, "m", ["02", "03"])).result()
    assert store.read(read_parents) == {"01": "", "04": "01", "05": "01", "06": ""}
    assert (
        store.submit(lambda connection: prune_predictions(connection, "plain", "2026-01-02", 9)).result().deleted == 1
    )
    assert store.read(read_parents) == {"04": "", "05": "", "06": ""}


def test_the_questions_of_a_branch_are_read(store: Store) -> None:
    def fill(connection: Connection) -> None:
        for id, after in {"01": "", "02": "01", "03": "01", "04": None}.items():
            add(connection, id, after)

    def read(after: str | None, count: int = 9) -> list[str]:
        questions: list[str] = store.read(lambda connection: load_questions(connection, "m", "ada", "c", count, after))
        return questions

    store.submit(fill).result()
    assert (read(None), read("02"), read(""), read("nothing")) == (["01", "03", "04"], ["01", "02"], [], [])
    assert read(None, 2) == ["03", "04"]
    assert store.read(lambda connection: load_questions(connection, "m", "ben", "c", 9)) == []


def test_conversations_of_one_instant_are_listed_once_each(store: Store) -> None:
    def fill(connection: Connection) -> None:
        for n in range(10, 15):
            add(connection, str(n), None, f"c{n}")
        connection.execute(update(CONVERSATIONS).values(updated_at="2026-01-01"))
        for id in ("c11", "c13"):
            change_conversation(connection, "m", "ada", id, None, True)

    store.submit(fill).result()
    listed, place = list[str](), None
    for _ in range(5):
        [row] = store.read(partial(load_conversations, model="m", user="ada", limit=1, after=place))
        listed.append(row["id"])
        place = ListPosition(row["pinned"], row["updated_at"], row["id"])
    assert listed == ["c11", "c13", "c10", "c12", "c14"]
    assert store.read(lambda connection: load_conversations(connection, "m", "ada", "TITLE of c1", 2))[1]["id"] == "c13"


def test_a_title_of_the_user_stays_when_the_first_question_is_deleted(store: Store) -> None:
    def fill(connection: Connection) -> None:
        for id, conversation in {"01": "c", "02": "c", "03": "d", "04": "d"}.items():
            add(connection, id, None, conversation)
        change_conversation(connection, "m", "ada", "c", "Mine", None)

    store.submit(fill).result()
    store.submit(lambda connection: delete_predictions(connection, "m", ["01", "03"])).result()
    titles = store.read(
        lambda connection: dict(connection.execute(select(CONVERSATIONS.c.id, CONVERSATIONS.c.title)).all())
    )
    assert titles == {"c": "Mine", "d": "04"}


def test_a_share_whose_last_turn_was_deleted_ends_before_it(store: Store) -> None:
    def fill(connection: Connection) -> str:
        for id in ("01", "02", "03"):
            add(connection, id)
        return str(share_conversation(connection, "m", "ada", "c")["share_id"])

    def questions() -> list[str | None]:
        shared = store.read(lambda connection: load_shared(connection, share_id))
        assert shared is not None
        return [each.question for each in shared.turns]

    share_id = store.submit(fill).result()
    assert questions() == ["01", "02", "03"]
    store.submit(lambda connection: delete_predictions(connection, "m", ["03"])).result()
    assert questions() == ["01", "02"]
    store.submit(lambda connection: connection.execute(TURNS.delete())).result()
    assert questions() == []
    with pytest.raises(BadInput, match="no turn that could be shared"):
        store.submit(lambda connection: share_conversation(connection, "m", "ada", "c")).result()
