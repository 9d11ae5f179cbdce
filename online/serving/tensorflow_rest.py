"""HTTP: the routes that TensorFlow Serving has: predict, classify, regress, status, metadata; of any version or label.

Predict is asked by two kinds of clients, and the body says which. With `inputs`, or with a `signature_name`, it is
TensorFlow Serving's, and so is the answer, to the letter: no more than `predictions` or `outputs`. With `instances` alone it
is ours, PredictRequest and PredictAnswer: row format too, where each prediction is an object that says more. Classify
and regress are always TensorFlow Serving's. What its answers have no place for is in headers: X-Model-Version,
X-Learned-Until, X-Prediction-Ids.

Bodies are read as bytes whatever their content type says. Any other path under /v1 that is nobody's is a malformed request.
"""

import re
import time
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError

from online.errors import BadInput, NotFound
from online.models import Answer
from online.schemas import PredictAnswer, PredictRequest
from online.serving import tensorflow
from online.serving.api import (
    ERRORS,
    ROUTE,
    PartsHere,
    ToldHere,
    answer,
    body_of,
    headers_of,
    malformed,
    parts_of,
    predicted,
    stamp,
)
from online.serving.bodies import read_json, rows_of
from online.serving.live import Which
from online.serving.parts import ModelParts
from online.serving.predictor import Predicted
from online.serving.tensorflow import CLASSIFY, PREDICT, REGRESS
from online.settings import describe

INT64 = 2**63 - 1
ANY = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]

router = APIRouter(responses=ERRORS)


async def which_of(request: Request) -> Which:
    """The version that the path names. Raises BadInput for a number that is none."""
    version, label = (request.path_params.get(name) for name in ("version", "label"))
    number = None if version is None else version_number(request, version)
    route = request.headers.get(ROUTE) if version is None and label is None else None
    return Which(number, label, route)


def version_number(request: Request, text: str) -> int:
    if not re.fullmatch("[0-9]+", text):
        raise malformed(request)
    if len(text) > len(str(INT64)) or int(text) > INT64:
        raise BadInput(f"Failed to convert version: {text[:40]} to numeric.")
    return int(text)


WhichHere = Annotated[Which, Depends(which_of)]


async def servable_of(request: Request, model: str, which: WhichHere) -> ModelParts:
    """The model to be asked. Raises NotFound in TensorFlow Serving's words."""
    parts = await parts_of(request)
    if model not in parts.models:
        version = "Latest(%s)" if which.version is None else f"Specific(%s, {which.version})"
        raise NotFound(f"Servable not found for request: {version % model[:80]}")
    return parts.models[model]


ServableHere = Annotated[ModelParts, Depends(servable_of)]


# predict


@router.post("/v1/models/{model}:predict", response_model=PredictAnswer, openapi_extra=body_of(PredictRequest))
async def predict(request: Request, model: ServableHere, parts: PartsHere, which: WhichHere) -> Response:
    """Answer instances. Each answer is remembered and may be given feedback.

    With `inputs`, or with a `signature_name`, the answer is as TensorFlow Serving gives it.
    """
    started = time.perf_counter()
    body = await read_json(request, parts.settings)
    numbers = model.spec.options.get("input") == "vector"
    asked = (rows_of(body) if numbers else None) or ours(body)
    response = await (predicted(request, model, parts, which, asked) if asked else of_tensors(model, which, body))
    parts.metrics.prediction_seconds.labels(model.spec.name).observe(time.perf_counter() - started)
    return response


@router.post(
    "/v1/models/{model}/versions/{version}:predict",
    response_model=PredictAnswer,
    openapi_extra=body_of(PredictRequest),
)
async def predict_by_version(
    request: Request, model: ServableHere, parts: PartsHere, which: WhichHere, version: str
) -> Response:
    """Answer by this version, if it is at hand: the live one, the one before, or one that has a label."""
    return await predict(request, model, parts, which)


@router.post(
    "/v1/models/{model}/labels/{label}:predict", response_model=PredictAnswer, openapi_extra=body_of(PredictRequest)
)
async def predict_by_label(
    request: Request, model: ServableHere, parts: PartsHere, which: WhichHere, label: str
) -> Response:
    """Answer by the version that has this label: latest, previous, or one that was given."""
    return await predict(request, model, parts, which)


def ours(body: bytes) -> PredictRequest | None:
    """The request, where it is one of our own; None where it is TensorFlow Serving's. Raises BadInput for what is neither."""
    if b'"inputs"' not in body and b'"signature_name"' not in body:
        try:
            return PredictRequest.model_validate_json(body)
        except ValidationError:
            pass  # there may be something behind it; if not, what is wrong is said below
    document = tensorflow.parsed(body)
    if "inputs" in document or "signature_name" in document:
        return None
    tensorflow.check_instances(document)
    try:
        return PredictRequest.model_validate(document)
    except ValidationError as error:
        raise BadInput(describe(error)) from None


async def of_tensors(model: ModelParts, which: Which, body: bytes) -> Response:
    document = tensorflow.parsed(body)
    tensorflow.signature_named(model.spec, tensorflow.signature_name(document), PREDICT)
    told = await model.predictor.predict(asking(tensorflow.predict_body(model.spec, document)), which=which)
    outputs = tensorflow.outputs_of(model.spec.kind, told.answers)
    written = tensorflow.columns_json if "inputs" in document else tensorflow.rows_json
    return shown(told, written(outputs))


def asking(instances: list[object]) -> PredictRequest:
    if not instances:
        raise BadInput("there are no instances: every input is empty")
    return PredictRequest(instances=instances)


def shown(told: Predicted, content: bytes) -> Response:
    return Response(content, headers=headers_of(told), media_type="application/json")


# classify, regress


@router.post("/v1/models/{model}:classify", include_in_schema=False)
@router.post("/v1/models/{model}/versions/{version}:classify", include_in_schema=False)
@router.post("/v1/models/{model}/labels/{label}:classify", include_in_schema=False)
async def classify(request: Request, model: ServableHere, parts: PartsHere, which: WhichHere) -> Response:
    """Examples, and of each every label with its score, the best first."""
    return await of_examples(request, model, parts, which, CLASSIFY, tensorflow.classes_json)


@router.post("/v1/models/{model}:regress", include_in_schema=False)
@router.post("/v1/models/{model}/versions/{version}:regress", include_in_schema=False)
@router.post("/v1/models/{model}/labels/{label}:regress", include_in_schema=False)
async def regress(request: Request, model: ServableHere, parts: PartsHere, which: WhichHere) -> Response:
    """Examples, and of each a number."""
    return await of_examples(request, model, parts, which, REGRESS, tensorflow.numbers_json)


async def of_examples(
    request: Request,
    model: ModelParts,
    parts: PartsHere,
    which: Which,
    method: str,
    written: Callable[[list[Answer]], bytes],
) -> Response:
    started = time.perf_counter()
    document = tensorflow.parsed(await read_json(request, parts.settings))
    tensorflow.signature_named(model.spec, tensorflow.signature_name(document), method)
    told = await model.predictor.predict(asking(tensorflow.examples_body(model.spec, document)), which=which)
    response = shown(told, written(told.answers))
    parts.metrics.prediction_seconds.labels(model.spec.name).observe(time.perf_counter() - started)
    return response


# status, metadata


@router.get("/v1/models/{model}/versions/{version}", include_in_schema=False)
@router.get("/v1/models/{model}/labels/{label}", include_in_schema=False)
async def status(model: ToldHere, which: WhichHere) -> Response:
    """Of one version; of all of them: GET /v1/models/{model}."""
    served = model.live.find(which) if which.label is not None else None
    version = which.version if which.version is not None else (served or model.live.current).version
    return answer({"model_version_status": tensorflow.statuses(model.live, version)})


@router.get("/v1/models/{model}/metadata", include_in_schema=False)
@router.get("/v1/models/{model}/versions/{version}/metadata", include_in_schema=False)
@router.get("/v1/models/{model}/labels/{label}/metadata", include_in_schema=False)
async def metadata(model: ToldHere, which: WhichHere) -> Response:
    """The signatures: what goes in, what comes out."""
    served = model.live.find(which) or model.live.current
    return answer(tensorflow.metadata(model.spec, served), headers=stamp(served.version, served.learned_until))


# what is nobody's: to be included behind every other door

rest = APIRouter()


@rest.api_route("/v1/{path:path}", methods=ANY, include_in_schema=False)
async def nobodys(request: Request) -> Response:
    raise malformed(request)
