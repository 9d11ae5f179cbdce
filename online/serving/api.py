"""HTTP: predict, feedback, status, in the shapes TensorFlow Serving's clients know.

Bodies are read as bytes whatever their content type says; errors are always {"error": "..."}.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ValidationError

from online.errors import BadInput, TooLarge
from online.models import Answer
from online.schemas import (
    Erased,
    ErrorAnswer,
    FeedbackAnswer,
    FeedbackFate,
    FeedbackRequest,
    PredictAnswer,
    PredictRequest,
    Receipt,
)
from online.serving.parts import ModelParts, Parts
from online.settings import describe

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "the request cannot be meant; nothing changed"},
    404: {"model": ErrorAnswer, "description": "no such model, prediction, feedback, reply, label or version"},
    413: {"model": ErrorAnswer, "description": "more than a limit allows"},
    503: {"model": ErrorAnswer, "description": "the store cannot be reached now; nothing changed"},
}
T = TypeVar("T", bound=BaseModel)
router = APIRouter(responses=ERRORS)


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI entry for a body that is read raw."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


# async, or every request would hop through a thread for them
async def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def model_of(request: Request, model: str) -> ModelParts:
    return (await parts_of(request)).model(model)


PartsHere = Annotated[Parts, Depends(parts_of)]
ModelHere = Annotated[ModelParts, Depends(model_of)]


async def body_as(request: Request, kind: type[T], limit: int) -> T:
    """The body as `kind`. Raises TooLarge or BadInput; never reads more than `limit` bytes."""
    told = request.headers.get("content-length", "0")
    if told.isdigit() and int(told) > limit:
        raise TooLarge(f"the body has {told} bytes; at most {limit} are read (max_body_bytes)")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the body has more than {limit} bytes (max_body_bytes)")
    try:
        return kind.model_validate_json(bytes(body))
    except ValidationError as error:
        raise BadInput(describe(error)) from None


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers=dict(headers or {}), media_type="application/json")


def stamp(version: int, learned_until: int) -> dict[str, str]:
    return {"X-Model-Version": str(version), "X-Learned-Until": str(learned_until)}


def live_stamp(model: ModelParts) -> dict[str, str]:
    return stamp(model.live.current.version, model.live.current.learned_until)


@router.post("/v1/models/{model}:predict", response_model=PredictAnswer, openapi_extra=body_of(PredictRequest))
async def predict(request: Request, model: ModelHere, parts: PartsHere) -> Response:
    """Answer instances. Each answer is remembered and may be given feedback."""
    started = time.perf_counter()
    asked = await body_as(request, PredictRequest, parts.settings.max_body_bytes)
    predicted = await model.predictor.predict(asked)
    served = predicted.served
    content = {
        "predictions": [shown(model.spec.kind, each) for each in predicted.answers],
        "prediction_ids": predicted.ids,
        "model_version": str(served.version),
        "learned_until": served.learned_until,
    }
    response = answer(content, headers=stamp(served.version, served.learned_until))
    parts.metrics.prediction_seconds.labels(model.spec.name).observe(time.perf_counter() - started)
    return response


def shown(kind: str, each: Answer) -> dict[str, Any]:
    """A prediction as the kind of model shows it."""
    if kind == "regressor":
        low, high = each.interval or (None, None)
        return {"value": None if each.choice is None else float(each.choice), "low": low, "high": high}
    if kind != "ranker":
        return {"label": each.choice, "probabilities": {candidate.id: candidate.score for candidate in each.candidates}}
    candidates = [
        {"id": candidate.id, "text": candidate.text, "score": candidate.score} for candidate in each.candidates
    ]
    chosen = next(({"id": c.id, "text": c.text} for c in each.candidates if c.id == each.choice), None)
    return {
        "reply": chosen,
        "score": each.score,
        "propensity": each.propensity,
        "candidates": candidates,
        "abstained": each.abstained,
    }


@router.post(
    "/v1/models/{model}:feedback",
    status_code=202,
    response_model=FeedbackAnswer,
    openapi_extra=body_of(FeedbackRequest),
)
async def feedback(request: Request, model: ModelHere, parts: PartsHere) -> Response:
    """Say what you thought. Acknowledged means durable; its offset tells when it is learned."""
    given = await body_as(request, FeedbackRequest, parts.settings.max_body_bytes)
    receipts = await model.predictor.feedback(given.feedback)
    return answer({"receipts": [receipt.model_dump() for receipt in receipts]}, 202, live_stamp(model))


@router.get("/v1/models/{model}/feedback/{id}", response_model=FeedbackFate)
async def fate(model: ModelHere, id: str) -> Response:
    """What became of one feedback: accepted, learned in which version, refused and why, or retracted."""
    await model.flush_fates()
    return answer((await model.predictor.fate(id)).model_dump(exclude_none=True), headers=live_stamp(model))


@router.delete("/v1/models/{model}/feedback/{id}", status_code=202, response_model=Receipt)
async def retract(model: ModelHere, id: str) -> Response:
    """Take one feedback back; it is un-learned exactly."""
    receipt = await model.predictor.retract(id)
    return answer(receipt.model_dump(), 202, live_stamp(model))


@router.delete("/v1/models/{model}/users/{user}", status_code=202, response_model=Erased)
async def erase(model: ModelHere, user: str) -> Response:
    """Forget a user: everything they said is un-learned exactly, their name and their words are blanked."""
    return answer((await model.predictor.erase(user)).model_dump(), 202, live_stamp(model))


@router.get("/v1/models")
async def models(parts: PartsHere) -> Response:
    """Every model, in a list that OpenAI's and KServe's clients read too."""
    data = [
        {"id": name, "object": "model", "owned_by": "online", "kind": model.spec.kind}
        for name, model in parts.models.items()
    ]
    return answer({"object": "list", "data": data, "models": list(parts.models)})


@router.get("/v1/models/{model}")
async def status(model: ModelHere) -> Response:
    """TensorFlow Serving's model status, and what KServe's and OpenAI's clients look for beside it.

    Of a model that reads texts also its tuned encoder, and what became of the last attempt to tune one.
    """
    served = model.live.current
    state = {"version": str(served.version), "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    name = model.spec.name
    extra = {"name": name, "ready": True, "id": name, "object": "model", "owned_by": "online", "kind": model.spec.kind}
    offsets = {
        "learned_until": served.learned_until,
        "head": await asyncio.to_thread(model.stream.head),
        "weights_sha256": served.weights_sha256,
    }
    adapted = await model.predictor.read(model.adapted) if model.predictor.adapts else {}
    return answer({"model_version_status": [state], **extra, **offsets, **adapted}, headers=live_stamp(model))
