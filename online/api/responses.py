"""Responses: JSON bodies, the headers that name a version, and their descriptions in the OpenAPI document."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import orjson
from fastapi import Request, Response
from pydantic import BaseModel

from online.installed import collect_one
from online.schemas.fields import ErrorAnswer
from online.schemas.json_values import JSONObject
from online.serving.model_runtime import ModelRuntime
from online.serving.predictor import PredictionResult

Responses: TypeAlias = dict[int | str, JSONObject]  # by status, as FastAPI takes them

ERROR_RESPONSES: Responses = {
    400: {"model": ErrorAnswer, "description": "The request is invalid; nothing was changed."},
    404: {
        "model": ErrorAnswer,
        "description": "The model, prediction, feedback, reply, class or version does not exist.",
    },
    413: {"model": ErrorAnswer, "description": "The request exceeds a limit; the message names the setting."},
    503: {"model": ErrorAnswer, "description": "The store cannot be reached now; nothing was changed."},
    507: {"model": ErrorAnswer, "description": "The disk has too little free space; nothing was changed."},
}
IDS_HEADER = "X-Prediction-Ids"
RECORDED_HEADER = (
    "X-Recorded"  # "false": not recorded although it was to be; "journal": not in the store, which is away
)
MAX_IDS_IN_HEADER = 100  # clients accept about 8 KiB of headers; an answer with more ids has no such header


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with JSON, serialised by orjson."""
    return Response(orjson.dumps(content), status, headers=dict(headers or {}), media_type="application/json")


def version_headers(version: int, learned_until: int) -> dict[str, str]:
    """Return the headers that name the version of an answer and what it had learned."""
    return {"X-Model-Version": str(version), "X-Learned-Until": str(learned_until)}


def live_headers(model: ModelRuntime) -> dict[str, str]:
    """Return the headers that name the live version of a model."""
    return version_headers(model.live.current.version, model.live.current.learned_until)


def answer_headers(predicted: PredictionResult) -> dict[str, str]:
    """Return the version that answered, and where the answers are recorded while the disk is nearly full or the store away."""
    recorded = "false" if predicted.lacks_room else "journal" if predicted.awaits_store else None
    headers = version_headers(predicted.served.version, predicted.served.learned_until)
    return headers if recorded is None else headers | {RECORDED_HEADER: recorded}


def prediction_headers(predicted: PredictionResult) -> dict[str, str]:
    """Return the version that answered and the prediction ids, for protocols whose body has no field for them."""
    ids = {IDS_HEADER: ",".join(predicted.ids)} if 0 < len(predicted.ids) <= MAX_IDS_IN_HEADER else {}
    return answer_headers(predicted) | ids


def create_feedback_urls(request: Request, model: str, prediction_ids: Sequence[str]) -> Sequence[str]:
    """Return a URL for each prediction by which its holder may rate it; none where no plugin makes them."""
    nothing: Sequence[str] = ()
    return collect_one("feedback_urls", nothing, request, model, prediction_ids)


def request_body(model: type[BaseModel], is_required: bool = True) -> dict[str, object]:
    """Return the OpenAPI entry of a body that the handler parses itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": is_required, "content": {"application/json": {"schema": schema}}}}
