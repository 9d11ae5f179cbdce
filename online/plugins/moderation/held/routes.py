"""Review of held feedback: list it, accept it, reject it."""

import json
from typing import Any, Literal

from fastapi import Response
from pydantic import Field
from sqlalchemy import Connection

from online.api.audit import name_offset, record
from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.plugins.moderation.held import deciding as review
from online.plugins.moderation.held.queries import count_undecided, list_undecided
from online.schemas.feedback import CorrectionScope, FeedbackItem, Receipt
from online.schemas.fields import Wire
from online.store.callers.held_feedback import HeldFeedbackRow

router = Router()

MAX_LISTED = 200


class HeldItem(Wire):
    """One held item: exactly one of reward, label and correction is set."""

    id: str
    question: Any = Field(description="The instance that it is about.")
    reward: float | None = None
    label: str | None = None
    correction: str | None = None
    scope: CorrectionScope | None = None
    caller: str
    user: str | None
    reason: Literal["review", "influence", "quarantine"] = Field(
        description="review: visitors' teaching is reviewed; influence: its caller has said as much as one caller may; "
        "quarantine: its caller is quarantined."
    )
    created_at: str


class HeldAnswer(Wire):
    """Held feedback that waits for a decision."""

    held: list[HeldItem]
    count: int = Field(description="How many wait; the list has the oldest of them.")


@router.get("/v1/models/{model}/held", "curate", response_model=HeldAnswer)
async def list_held(model: ModelDep) -> Response:
    """The feedback that waits for a decision, oldest first."""
    name = model.spec.name

    def load(connection: Connection) -> HeldAnswer:
        rows = list_undecided(connection, name, MAX_LISTED)
        return HeldAnswer(held=[describe_held(row) for row in rows], count=count_undecided(connection, name))

    answer: HeldAnswer = await model.read(load)
    return json_response(answer.model_dump(), headers=live_headers(model))


def describe_held(row: HeldFeedbackRow) -> HeldItem:
    """Return held feedback as the API shows it, with its question."""
    item = FeedbackItem.model_validate_json(row.content)
    return HeldItem(
        id=row.id,
        question=json.loads(row.question),
        **item.model_dump(include={"reward", "label", "correction", "scope"}),
        **row.model_dump(include={"caller", "user", "reason", "created_at"}),
    )


@router.post("/v1/models/{model}/held/{id}:accept", "curate", status_code=202, response_model=Receipt)
async def accept_held(model: ModelDep, runtime: RuntimeDep, caller: CallerDep, id: str) -> Response:
    """Accept one: it becomes feedback of its caller, and is learned."""
    receipt = await review.accept_held(model.feedback, id, caller.id)
    await record(runtime, caller, "accept", model.spec.name, name_offset(receipt.offset))
    return json_response(receipt.model_dump(), 202, live_headers(model))


@router.post("/v1/models/{model}/held/{id}:reject", "curate", status_code=202, response_model=Receipt)
async def reject_held(model: ModelDep, runtime: RuntimeDep, caller: CallerDep, id: str) -> Response:
    """Reject one: it is never learned."""
    receipt = await review.reject_held(model.feedback, id, caller.id)
    await record(runtime, caller, "reject", model.spec.name)
    return json_response(receipt.model_dump(), 202, live_headers(model))
