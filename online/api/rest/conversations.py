"""The conversations of a user with a ranker.

They are those of the user on whose behalf the caller acts. For a caller that may act for any user, the header X-User
names one, as `user` does in the requests of the predictions.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Response
from sqlalchemy import Connection

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep
from online.api.responses import ERROR_RESPONSES, json_response, live_headers
from online.errors import BadInput
from online.schemas.conversations import ConversationAnswer, ConversationsAnswer, DeletedConversation
from online.schemas.feedback import FeedbackOutcome
from online.schemas.fields import Name
from online.serving.feedback.feedback import describe_outcome
from online.serving.feedback.held import held_receipt
from online.store import conversations as store
from online.store.callers.held_feedback import HeldFeedbackRow, list_held_of_user
from online.store.database.values import ERASED
from online.store.feedback import FeedbackRow

GIVEN = ("reward", "label", "correction", "scope", "reason", "comment")  # fields of feedback that a turn shows

router = APIRouter(responses=ERROR_RESPONSES)

UserHeader = Annotated[
    Name | None,
    Header(
        alias="X-User", description="The user whose conversations are meant, for callers that may act for any user."
    ),
]
SearchWords = Annotated[
    str, Query(max_length=200, description="Only conversations with these words in a question or a reply.")
]


async def get_user(caller: CallerDep, named: UserHeader = None) -> str:
    """The user whose conversations are meant. Raises BadInput where none is named."""
    user = caller.acts_for(named)
    if user is None:
        raise BadInput("header.X-User: name the user whose conversations are meant")
    return user


UserDep = Annotated[str, Depends(get_user)]


@router.get("/v1/models/{model}/conversations", response_model=ConversationsAnswer)
async def list_conversations(model: ModelDep, user: UserDep, q: SearchWords = "") -> Response:
    """The newest 100 conversations of a user."""
    rows = await model.read(lambda connection: store.load_conversations(connection, model.spec.name, user, q.strip()))
    summaries = [summarise(row, row["turns"]) for row in rows]
    return json_response({"conversations": summaries}, headers=live_headers(model))


@router.get("/v1/models/{model}/conversations/{id}", response_model=ConversationAnswer)
async def get_conversation(model: ModelDep, id: str, user: UserDep) -> Response:
    """The turns of one conversation, with the feedback about each."""

    def load(connection: Connection) -> tuple[dict[str, Any], list[dict[str, Any]], list[HeldFeedbackRow]]:
        name = model.spec.name
        row = store.load_conversation(connection, name, user, id)
        return row, store.load_turns(connection, name, id), list_held_of_user(connection, name, user)

    row, turns, held = await model.read(load)
    held_about = group_by_prediction(held)
    said = [describe_turn(turn, held_about.get(turn["id"], [])) for turn in turns]
    content = {**summarise(row, len(turns)), "said": said}
    return json_response(content, headers=live_headers(model))


@router.delete("/v1/models/{model}/conversations/{id}", response_model=DeletedConversation)
async def delete_conversation(model: ModelDep, id: str, user: UserDep) -> Response:
    """Delete a conversation and its texts. What was learned from it stays; retract the feedback or erase the user for that."""
    turns = await model.commit(
        lambda connection: store.delete_conversation(connection, model.spec.name, user, id), needs_room=False
    )
    return json_response({"id": id, "turns": turns}, headers=live_headers(model))


def summarise(row: dict[str, Any], turns: int) -> dict[str, Any]:
    return {**{name: row[name] for name in ("id", "title", "created_at", "updated_at")}, "turns": turns}


def group_by_prediction(held: Sequence[HeldFeedbackRow]) -> dict[str, list[HeldFeedbackRow]]:
    groups = dict[str, list[HeldFeedbackRow]]()
    for row in held:
        groups.setdefault(json.loads(row.content).get("prediction_id", ""), []).append(row)
    return groups


def describe_turn(turn: dict[str, Any], held: Sequence[HeldFeedbackRow]) -> dict[str, Any]:
    """held: the feedback about it that waits for a decision or was rejected."""
    candidates = [{"id": id, "text": turn["texts"].get(id, id), "score": score} for id, score in turn["candidates"]]
    reply = None if turn["choice"] is None else {"id": turn["choice"], "text": turn["texts"].get(turn["choice"], "")}
    return {
        "prediction_id": turn["id"],
        "question": store.extract_question(json.loads(turn["input"])),
        "reply": reply,
        "candidates": candidates,
        "besides": json.loads(turn["exclude"]),
        "model_version": str(turn["version"]),
        "created_at": turn["created_at"],
        "feedback": [
            describe_feedback(row) for row in sorted([*turn["feedback"], *held], key=lambda row: row.created_at)
        ],
    }


def describe_feedback(row: FeedbackRow | HeldFeedbackRow) -> dict[str, Any]:
    """One feedback about a turn, and what became of it."""
    if isinstance(row, HeldFeedbackRow):
        outcome = FeedbackOutcome(**held_receipt(row).model_dump())
    else:
        outcome = describe_outcome(row)
    item = {} if row.content == ERASED else json.loads(row.content)
    fields = {name: item[name] for name in GIVEN if name in item}
    return {"id": row.id, "status": outcome.status, "version": outcome.version, **fields}
