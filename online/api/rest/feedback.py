"""Feedback: give it, ask what became of it, retract it, and erase a user."""

from typing import Annotated

from fastapi import Query, Request, Response

from online.api.audit import name_offset, record_action, record_corrections
from online.api.auth.scopes import CallerDep, check_all_models
from online.api.bodies import read_body_as, read_bytes
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.rest.forwarding import find_owner
from online.api.routes import Router
from online.schemas.feedback import (
    ErasureAnswer,
    ErasureStarted,
    ErasureStatus,
    FeedbackAnswer,
    FeedbackOutcome,
    FeedbackRequest,
    Receipt,
)
from online.schemas.fields import Id, Name
from online.schemas.json_values import JSONObject
from online.serving.feedback.sums.submission import submit_sums
from online.serving.model_runtime import ModelRuntime

SUMS_BODY: JSONObject = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}

router = Router()


@router.post(
    "/v1/models/{model}:feedback",
    "feedback",
    status_code=202,
    response_model=FeedbackAnswer,
    body=FeedbackRequest,
    fast=True,
    widget=True,
)
async def give_feedback(request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Give feedback. It is durable before it is acknowledged; a version with `learned_until` >= its offset has learned it.

    Feedback on an answer of the model's fallback is the fallback's.
    """
    parsed = await read_body_as(request, FeedbackRequest, runtime.settings)
    model, receipts = await find_owner(
        model, runtime.models, lambda each: each.feedback.submit(parsed.feedback, caller)
    )
    await record_corrections(runtime, caller, model.spec.name, parsed.feedback, receipts)
    return json_response({"receipts": [receipt.model_dump() for receipt in receipts]}, 202, live_headers(model))


@router.post("/v1/models/{model}:merge", "feedback", status_code=202, response_model=Receipt, openapi_extra=SUMS_BODY)
async def merge_sums(
    request: Request,
    model: ModelDep,
    runtime: RuntimeDep,
    caller: CallerDep,
    id: Annotated[
        Id | None, Query(description="An idempotency key: the same sums with the same id have no second effect.")
    ] = None,
    user: Annotated[Name | None, Query()] = None,
) -> Response:
    """Add the sums of what a device has learned by itself, in place of its examples. `DELETE .../feedback/{id}` subtracts them.

    The body is a file of sums. It is learned as a whole, or refused if the model would answer worse with it.
    """
    data = await read_bytes(request, runtime.settings.max_merge_bytes, "max_merge_bytes")
    receipt = await submit_sums(model.feedback, data, id, user, caller)
    return json_response(receipt.model_dump(), 202, live_headers(model))


@router.get("/v1/models/{model}/feedback/{id}", "feedback", widget=True, response_model=FeedbackOutcome)
async def get_feedback(model: ModelDep, runtime: RuntimeDep, caller: CallerDep, id: str) -> Response:
    """What became of one feedback: accepted, learned by which version, refused and why, quarantined, or retracted."""

    async def load(model: ModelRuntime) -> FeedbackOutcome:
        await model.outcomes.flush()
        return await model.feedback.load_outcome(id, caller)

    model, outcome = await find_owner(model, runtime.models, load)
    return json_response(outcome.model_dump(exclude_none=True), headers=live_headers(model))


@router.delete("/v1/models/{model}/feedback/{id}", "feedback", widget=True, status_code=202, response_model=Receipt)
async def retract_feedback(
    request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep, id: str
) -> Response:
    """Retract one feedback. It is un-learned exactly."""
    model, receipt = await find_owner(model, runtime.models, lambda each: each.feedback.retract(id, caller))
    await record_action(request, "retract", model.spec.name, name_offset(receipt.offset))
    return json_response(receipt.model_dump(), 202, live_headers(model))


@router.delete("/v1/users/{user}", "erase", status_code=202, response_model=ErasureStarted)
async def erase_user_everywhere(request: Request, runtime: RuntimeDep, caller: CallerDep, user: str) -> Response:
    """Erase a user from every model: all that they taught is un-learned exactly, and nothing of them is left.

    Raises Forbidden for a caller that may not use all models.
    """
    check_all_models(caller)
    begun = await runtime.erasures.begin(user, list(runtime.models))
    await record_action(request, "erase", None, f"erasure {begun.id}")
    return json_response(begun.model_dump(), 202)


@router.delete("/v1/models/{model}/users/{user}", "erase", status_code=202, response_model=ErasureAnswer)
async def erase_user(request: Request, runtime: RuntimeDep, model: ModelDep, user: str) -> Response:
    """Erase a user from one model: all that they taught it is un-learned exactly, and nothing of them is left in it."""
    begun = await runtime.erasures.begin(user, [model.spec.name])
    await record_action(request, "erase", model.spec.name, f"erasure {begun.id}")
    answer = ErasureAnswer(**begun.model_dump(exclude={"offsets"}), offset=begun.offsets[model.spec.name])
    return json_response(answer.model_dump(), 202, live_headers(model))


@router.get("/v1/erasures/{id}", "erase", response_model=ErasureStatus)
async def get_erasure(runtime: RuntimeDep, caller: CallerDep, id: str) -> Response:
    """How far an erasure is and, once it is done, its signed statement. `online erase --verify` checks one."""
    status = await runtime.erasures.load(id)
    if not all(map(caller.may_use, status.models)):
        check_all_models(caller)
    return json_response(status.model_dump())
