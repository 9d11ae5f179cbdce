"""Feedback: give it, ask what became of it, retract it, and erase a user."""

from fastapi import APIRouter, Request, Response

from online.api.audit import actor_of, name_offset, record_action, record_corrections
from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import ERROR_RESPONSES, json_response, live_headers, request_body
from online.schemas.feedback import ErasureAnswer, FeedbackAnswer, FeedbackOutcome, FeedbackRequest, Receipt

router = APIRouter(responses=ERROR_RESPONSES)


@router.post(
    "/v1/models/{model}:feedback",
    status_code=202,
    response_model=FeedbackAnswer,
    openapi_extra=request_body(FeedbackRequest),
)
async def give_feedback(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """Give feedback. It is durable before it is acknowledged; a version with `learned_until` >= its offset has learned it."""
    parsed = await read_body_as(request, FeedbackRequest, runtime.settings)
    receipts = await model.feedback.submit(parsed.feedback)
    await record_corrections(runtime, actor_of(request), model.spec.name, parsed.feedback, receipts)
    return json_response({"receipts": [receipt.model_dump() for receipt in receipts]}, 202, live_headers(model))


@router.get("/v1/models/{model}/feedback/{id}", response_model=FeedbackOutcome)
async def get_feedback(model: ModelDep, id: str) -> Response:
    """What became of one feedback: accepted, learned by which version, refused and why, quarantined, or retracted."""
    await model.flush_outcomes()
    outcome = await model.feedback.load_outcome(id)
    return json_response(outcome.model_dump(exclude_none=True), headers=live_headers(model))


@router.delete("/v1/models/{model}/feedback/{id}", status_code=202, response_model=Receipt)
async def retract_feedback(request: Request, model: ModelDep, id: str) -> Response:
    """Retract one feedback. It is un-learned exactly."""
    receipt = await model.feedback.retract(id)
    await record_action(request, "retract", model.spec.name, name_offset(receipt.offset))
    return json_response(receipt.model_dump(), 202, live_headers(model))


@router.delete("/v1/models/{model}/users/{user}", status_code=202, response_model=ErasureAnswer)
async def erase_user(request: Request, model: ModelDep, user: str) -> Response:
    """Erase a user: all their feedback is un-learned exactly, their name and their texts are deleted."""
    erased = await model.erase_user(user)
    details = {"feedback": erased.feedback, "predictions": erased.predictions}
    await record_action(request, "erase", model.spec.name, name_offset(erased.offset), **details)
    return json_response(erased.model_dump(), 202, live_headers(model))
