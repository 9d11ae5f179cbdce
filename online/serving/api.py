"""HTTP: what predict answers in our own shape; feedback, models, status.

Bodies are read as bytes whatever their content type says; errors are always {"error": "..."}.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from online.errors import BadInput, NotFound
from online.models.encoder import reads
from online.schemas import (
    Erased,
    ErrorAnswer,
    FeedbackAnswer,
    FeedbackFate,
    FeedbackRequest,
    ModelsAnswer,
    PredictRequest,
    Receipt,
)
from online.serving.bodies import body_as
from online.serving.live import Which
from online.serving.parts import ModelParts, Parts
from online.serving.predictor import Predicted, shown
from online.serving.tensorflow import statuses

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "the request cannot be meant; nothing changed"},
    404: {"model": ErrorAnswer, "description": "no such model, prediction, feedback, reply, label or version"},
    413: {"model": ErrorAnswer, "description": "more than a limit allows"},
    503: {"model": ErrorAnswer, "description": "the store cannot be reached now; nothing changed"},
}
ROUTE = "x-route"  # callers with the same one get the same version, where a canary has a share
IDS = "X-Prediction-Ids"
IDS_TOLD = 100  # ids told in a header; of more none: clients take some 8 KiB of headers
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


async def told_of(request: Request, model: str) -> ModelParts:
    """The model to be told of. Raises NotFound in the words that TensorFlow Serving's clients look for."""
    if ":" in model:
        raise malformed(request)
    parts = await parts_of(request)
    if model not in parts.models:
        raise NotFound(f"Could not find any versions of model {model[:80]}")
    return parts.models[model]


def malformed(request: Request) -> BadInput:
    """A path under /v1 that is nobody's, in the words that TensorFlow Serving's clients look for."""
    return BadInput(f"Malformed request: {request.method} {request.url.path[:200]}")


MinOffset = Annotated[int | None, Query(ge=0, description="tell of a version that has learned this offset")]
TimeoutMs = Annotated[int, Query(ge=0, le=60_000, description="how long min_offset may wait, in ms")]
PartsHere = Annotated[Parts, Depends(parts_of)]
ModelHere = Annotated[ModelParts, Depends(model_of)]
ToldHere = Annotated[ModelParts, Depends(told_of)]


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers=dict(headers or {}), media_type="application/json")


def stamp(version: int, learned_until: int) -> dict[str, str]:
    return {"X-Model-Version": str(version), "X-Learned-Until": str(learned_until)}


def headers_of(told: Predicted) -> dict[str, str]:
    """Which version answered, and the ids that feedback refers to: for answers whose body has no place for them."""
    ids = {IDS: ",".join(told.ids)} if 0 < len(told.ids) <= IDS_TOLD else {}
    return stamp(told.served.version, told.served.learned_until) | ids


def live_stamp(model: ModelParts) -> dict[str, str]:
    return stamp(model.live.current.version, model.live.current.learned_until)


async def predicted(request: Request, model: ModelParts, parts: Parts, which: Which, asked: PredictRequest) -> Response:
    told = await model.predictor.predict(asked, which=which)
    served = told.served
    content = {
        "predictions": [shown(model.spec.kind, each) for each in told.answers],
        "prediction_ids": told.ids,
        "feedback_urls": parts.links.urls(request, model.spec.name, told.ids),
        "model_version": str(served.version),
        "learned_until": served.learned_until,
    }
    return answer(content, headers=stamp(served.version, served.learned_until))


@router.post(
    "/v1/models/{model}:feedback",
    status_code=202,
    response_model=FeedbackAnswer,
    openapi_extra=body_of(FeedbackRequest),
)
async def feedback(request: Request, model: ModelHere, parts: PartsHere) -> Response:
    """Say what you thought. Acknowledged means durable; its offset tells when it is learned."""
    given = await body_as(request, FeedbackRequest, parts.settings)
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


@router.get("/v1/models", response_model=ModelsAnswer)
async def models(parts: PartsHere) -> Response:
    """Every model, in a list that OpenAI's and KServe's clients read too."""
    data = [
        {
            "id": name,
            "object": "model",
            "created": created(model),
            "owned_by": "online",
            "kind": model.spec.kind,
            **reads(model.spec.kind, model.spec.options),
        }
        for name, model in parts.models.items()
    ]
    return answer({"object": "list", "data": data, "models": list(parts.models)})


def created(model: ModelParts) -> int:
    """When the version that answers was made, in s since 1970; 0 before there is one."""
    loaded = model.live.current.loaded
    return 0 if loaded is None else int(datetime.fromisoformat(loaded.manifest.created_at).timestamp())


@router.get("/v1/models/{model}")
async def status(model: ToldHere, min_offset: MinOffset = None, timeout_ms: TimeoutMs = 2_000) -> Response:
    """TensorFlow Serving's status of every version at hand, the live one first, and what KServe's and OpenAI's clients
    look for beside it.

    Of a model that reads texts also its tuned encoder, and what became of the last attempt to tune one. With min_offset:
    of a version that has learned this offset, as soon as there is one. freshness_ms: how soon the newest feedback was
    live, of what came since this server started.
    """
    if min_offset is not None:
        await model.live.wait_until(min_offset, timeout_ms / 1000)
    head = await asyncio.to_thread(model.stream.head)
    adapted = await model.predictor.read(model.adapted) if model.predictor.adapts else {}
    served = model.live.current  # nothing is awaited from here on: all of it is of this version
    name = model.spec.name
    extra = {
        "name": name,
        "ready": model.ready,
        "id": name,
        "object": "model",
        "owned_by": "online",
        "kind": model.spec.kind,
    }
    extra |= {"created": created(model)}
    offsets = {
        "learned_until": served.learned_until,
        "head": max(head, served.learned_until),
        "weights_sha256": served.weights_sha256,
        "freshness_ms": quantiles(model.freshness_ms),
    }
    content = {"model_version_status": statuses(model.live, None), **extra, **offsets, **adapted}
    return answer(content, headers=live_stamp(model))


def quantiles(values: Sequence[float]) -> dict[str, float | None]:
    """The last, the median and the 95th percentile."""
    ordered = sorted(values)
    at = {"p50": 0.5, "p95": 0.95}
    found = {name: ordered[round(share * (len(ordered) - 1))] if ordered else None for name, share in at.items()}
    return {"last": values[-1] if values else None, **found}
