"""The conversations of a user with a ranker.

They are those of the user on whose behalf the caller acts. For a caller that may act for any user, the header X-User
names one, as `user` does in the requests of the predictions.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response
from sqlalchemy import Connection

from online.api.auth.scopes import CallerDep
from online.api.bodies import parse_as, read_body_as, read_json
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import BadInput, Forbidden, NotFound
from online.schemas.conversations import (
    ConversationAnswer,
    ConversationChange,
    ConversationsAnswer,
    ConversationSummary,
    DeletedConversation,
    ShareAnswer,
    SharedConversation,
    ShareRequest,
)
from online.schemas.feedback import FeedbackOutcome
from online.schemas.fields import Name
from online.serving.feedback.feedback import describe_outcome
from online.serving.feedback.held import held_receipt
from online.store.callers.held_feedback import HeldFeedbackRow, list_held_of_user
from online.store.conversations import conversations as shares
from online.store.conversations import conversations as store
from online.store.conversations.turns import extract_question
from online.store.database.values import ERASED
from online.store.feedback import FeedbackRow

GIVEN = ("reward", "label", "correction", "scope", "reason", "comment")  # fields of feedback that a turn shows
SHARE_ID = re.compile(r"[A-Za-z0-9_-]{22,64}")
SHARED_HEADERS = {
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
}  # a link is passed on: no cache or index keeps it

router = Router(compressed=False)

UserHeader = Annotated[
    Name | None,
    Header(
        alias="X-User", description="The user whose conversations are meant, for callers that may act for any user."
    ),
]
SearchWords = Annotated[
    str, Query(max_length=200, description="Only conversations with these words in the title, a question or a reply.")
]
Limit = Annotated[int, Query(ge=1, le=store.MAX_LISTED, description="The most conversations that are listed.")]
Before = Annotated[str | None, Query(max_length=400, description="The `next` of the list before, for what follows it.")]


async def get_user(caller: CallerDep, named: UserHeader = None) -> str:
    """Return the user whose conversations are meant. Raises BadInput where none is named."""
    user = caller.acts_for(named)
    if user is None:
        raise BadInput("header.X-User: name the user whose conversations are meant")
    return user


UserDep = Annotated[str, Depends(get_user)]


@router.get("/v1/models/{model}/conversations", "predict", response_model=ConversationsAnswer)
async def list_conversations(
    model: ModelDep, user: UserDep, q: SearchWords = "", limit: Limit = store.MAX_LISTED, before: Before = None
) -> Response:
    """The conversations of a user: pinned ones first, then the newest. `next` leads to older ones."""
    name, words, place = model.spec.name, q.strip(), None if before is None else parse_place(before)
    rows = await model.read(
        lambda connection: store.load_conversations(connection, name, user, words, limit + 1, place)
    )
    following = name_place(rows[limit - 1]) if len(rows) > limit else None
    content = {"conversations": [summarise(row) for row in rows[:limit]], "next": following}
    return json_response(content, headers=live_headers(model))


@router.get("/v1/models/{model}/conversations/{id}", "predict", widget=True, response_model=ConversationAnswer)
async def get_conversation(model: ModelDep, id: str, user: UserDep) -> Response:
    """The turns of one conversation, with the feedback about each."""

    def load(connection: Connection) -> tuple[dict[str, Any], list[dict[str, Any]], list[HeldFeedbackRow]]:
        name = model.spec.name
        row = store.load_conversation(connection, name, user, id)
        return row, store.load_turns(connection, name, id), list_held_of_user(connection, name, user)

    row, turns, held = await model.read(load)
    held_about = group_by_prediction(held)
    said = [describe_turn(turn, held_about.get(turn["id"], [])) for turn in turns]
    content = {**summarise(row), "said": said}
    return json_response(content, headers=live_headers(model))


@router.patch(
    "/v1/models/{model}/conversations/{id}",
    "predict",
    response_model=ConversationSummary,
    body=ConversationChange,
)
async def change_conversation(
    request: Request, model: ModelDep, runtime: RuntimeDep, id: str, user: UserDep
) -> Response:
    """Rename a conversation, or pin it to the top of the list, or no longer."""
    change = await read_body_as(request, ConversationChange, runtime.settings)
    row = await model.commit(
        lambda connection: store.change_conversation(connection, model.spec.name, user, id, change.title, change.pinned)
    )
    return json_response(summarise(row), headers=live_headers(model))


@router.post(
    "/v1/models/{model}/conversations/{id}:share",
    "predict",
    response_model=ShareAnswer,
    body=ShareRequest,
    requires_body=False,
)
async def share_conversation(
    request: Request, model: ModelDep, runtime: RuntimeDep, id: str, user: UserDep
) -> Response:
    """Let every holder of the share_id read a conversation, until its newest turn. Called again, it shares later turns too.

    A body is not needed; `{"until": "PREDICTION_ID"}` names the last turn that is shared, of any branch.
    """
    if not runtime.settings.share_conversations:
        raise Forbidden("conversations are not shared here (share_conversations)")
    body = await read_json(request, runtime.settings)
    until = parse_as(body, ShareRequest).until if body.strip() else None
    row = await model.commit(lambda connection: shares.share_conversation(connection, model.spec.name, user, id, until))
    content = {name: row[name] for name in ("share_id", "shared_at")}
    return json_response(content, headers=live_headers(model))


@router.delete("/v1/models/{model}/conversations/{id}:share", "predict", response_model=ConversationSummary)
async def end_share(model: ModelDep, id: str, user: UserDep) -> Response:
    """Share a conversation no longer. Its share_id is never used again."""
    row = await model.commit(
        lambda connection: shares.end_share(connection, model.spec.name, user, id), needs_room=False
    )
    return json_response(summarise(row), headers=live_headers(model))


@router.get("/v1/shared/{share_id}", "share link", response_model=SharedConversation)
async def get_shared_conversation(runtime: RuntimeDep, share_id: str) -> Response:
    """A shared conversation, for every holder of its share_id. It needs no key."""
    shared: SharedConversation | None = None
    if runtime.settings.share_conversations and SHARE_ID.fullmatch(share_id):
        read = partial(runtime.workspace.store.read, partial(shares.load_shared, share_id=share_id))
        shared = await asyncio.to_thread(read)
    if shared is None or shared.model not in runtime.models:
        raise NotFound("there is no such shared conversation: the link is incomplete, or it is shared no longer")
    return json_response(shared.model_dump(), headers=SHARED_HEADERS)


@router.delete("/v1/models/{model}/conversations/{id}", "predict", response_model=DeletedConversation)
async def delete_conversation(model: ModelDep, id: str, user: UserDep) -> Response:
    """Delete a conversation and its texts. What was learned from it stays; retract the feedback or erase the user for that."""
    turns = await model.commit(
        lambda connection: store.delete_conversation(connection, model.spec.name, user, id), needs_room=False
    )
    return json_response({"id": id, "turns": turns}, headers=live_headers(model))


def summarise(row: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a conversation's row that its list shows."""
    return {name: row[name] for name in ConversationSummary.model_fields}


def name_place(row: dict[str, Any]) -> str:
    """Return the value of `before` for what is listed after this conversation."""
    return f"{'pinned' if row['pinned'] else 'newest'} {row['updated_at']} {row['id']}"


def parse_place(before: str) -> store.ListPosition:
    """Parse a place in the list, from `before` or `after`. Raises BadInput."""
    group, _, rest = before.partition(" ")
    at, _, id = rest.partition(" ")
    if group not in ("pinned", "newest") or not id:
        raise BadInput(f"before: {before[:80]!r} is not the `next` of a list of conversations")
    return store.ListPosition(group == "pinned", at, id)


def group_by_prediction(held: Sequence[HeldFeedbackRow]) -> dict[str, list[HeldFeedbackRow]]:
    """Group held feedback by the prediction that it is about; "" for feedback without one."""
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
        "after": turn["after"],
        "question": extract_question(json.loads(turn["input"])),
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
    """Return one feedback about a turn, and what became of it."""
    if isinstance(row, HeldFeedbackRow):
        outcome = FeedbackOutcome(**held_receipt(row).model_dump())
    else:
        outcome = describe_outcome(row)
    item = {} if row.content == ERASED else json.loads(row.content)
    fields = {name: item[name] for name in GIVEN if name in item}
    if isinstance(row, HeldFeedbackRow):
        fields["note"] = row.note
    return {"id": row.id, "status": outcome.status, "version": outcome.version, **fields}
