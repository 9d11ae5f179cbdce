"""HTTP: what a user talked about with a model, to come back to.

Whose conversations they are is said by the header X-User: the name that their predictions were asked under.
"""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from online import conversations as kept
from online.schemas import ConversationAnswer, ConversationsAnswer, Forgotten, Name
from online.serving.api import ERRORS, ModelHere, answer, live_stamp
from online.serving.predictor import shown_fate
from online.store import ERASED

router = APIRouter(responses=ERRORS)
UserHere = Annotated[Name, Header(alias="X-User", description="the user that the predictions were asked for")]
Words = Annotated[str, Query(max_length=200, description="stand in one of its questions or replies")]


@router.get("/v1/models/{model}/conversations", response_model=ConversationsAnswer)
async def conversations(model: ModelHere, user: UserHere, q: Words = "") -> Response:
    """The newest hundred of a user's conversations that have these words in them."""
    rows = await model.predictor.read(
        lambda connection: kept.conversations_of(connection, model.spec.name, user, q.strip())
    )
    return answer({"conversations": [listed(row, row["turns"]) for row in rows]}, headers=live_stamp(model))


@router.get("/v1/models/{model}/conversations/{id}", response_model=ConversationAnswer)
async def conversation(model: ModelHere, id: str, user: UserHere) -> Response:
    """All that was said in one, and what was thought of it."""

    def asked(connection: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        row = kept.conversation(connection, model.spec.name, user, id)
        return row, kept.turns_of(connection, model.spec.name, id)

    row, turns = await model.predictor.read(asked)
    return answer({**listed(row, len(turns)), "said": [said(turn) for turn in turns]}, headers=live_stamp(model))


@router.delete("/v1/models/{model}/conversations/{id}", response_model=Forgotten)
async def forget(model: ModelHere, id: str, user: UserHere) -> Response:
    """Delete one, and blank its words. What was learned from it stays: take the feedback back, or erase the user."""
    turns = await model.predictor.commit(
        lambda connection: kept.delete_conversation(connection, model.spec.name, user, id)
    )
    return answer({"id": id, "turns": turns}, headers=live_stamp(model))


def listed(row: dict[str, Any], turns: int) -> dict[str, Any]:
    return {**{name: row[name] for name in ("id", "title", "created_at", "updated_at")}, "turns": turns}


def said(turn: dict[str, Any]) -> dict[str, Any]:
    candidates = [{"id": id, "text": turn["texts"].get(id, id), "score": score} for id, score in turn["candidates"]]
    reply = None if turn["choice"] is None else {"id": turn["choice"], "text": turn["texts"].get(turn["choice"], "")}
    return {
        "prediction_id": turn["id"],
        "question": json.loads(turn["input"]),
        "reply": reply,
        "candidates": candidates,
        "besides": json.loads(turn["besides"]),
        "model_version": str(turn["version"]),
        "created_at": turn["created_at"],
        "feedback": [opinion(row) for row in turn["feedback"]],
    }


def opinion(row: Any) -> dict[str, Any]:
    """What was said, and what became of it."""
    fate = shown_fate(row)
    item = {} if row.content == ERASED else json.loads(row.content)
    shown = {name: item[name] for name in ("reward", "label", "correction", "reason", "comment") if name in item}
    return {"id": row.id, "status": fate.status, "version": fate.version, **shown}
