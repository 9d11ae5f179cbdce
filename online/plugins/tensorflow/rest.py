"""TensorFlow Serving's REST API: classify, regress, status, metadata, and its shape of predict.

Predict and the status of a model share their routes with the native API; `DIALECT` is what TensorFlow Serving contributes to
them (api/shared_routes.py). Its answers are equal to TensorFlow Serving's to the letter. What they have no field for is in
headers: X-Model-Version, X-Learned-Until, X-Prediction-Ids.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from fastapi import Request, Response

from online.api.auth.scopes import CallerDep
from online.api.bodies import read_json
from online.api.dependencies import RuntimeDep
from online.api.responses import json_response, prediction_headers, version_headers
from online.api.routes import Router
from online.api.shared_routes import Dialect, Document, PredictModelDep, SelectorDep, StatusModelDep
from online.errors import BadInput
from online.models import Answer
from online.plugins.tensorflow.errors import VersionErrors, malformed, unknown_model, unknown_servable
from online.plugins.tensorflow.request_bodies import (
    check_instances,
    parse_object,
    read_examples,
    read_instances,
    read_signature_name,
)
from online.plugins.tensorflow.signatures import CLASSIFY, PREDICT, REGRESS, find_signature, metadata_of
from online.plugins.tensorflow.tensor_signatures import Tensors, output_tensors, rank_candidates, regression_values
from online.plugins.tensorflow.version_status import find_version, version_statuses
from online.schemas.access.callers import Caller
from online.schemas.predict import PredictRequest
from online.serving.model_runtime import ModelRuntime
from online.serving.predictor import PredictionResult
from online.serving.runtime import Runtime
from online.serving.versions import VersionSelector

FIELDS = ("inputs", "signature_name")  # a predict body with one of these is TensorFlow Serving's

router = Router()


# what the shared routes ask for


def parse_predict(body: bytes) -> tuple[Document, bool]:
    """Return the JSON object in a body, and whether it is in the native shape. Raises BadInput."""
    document = parse_object(body)
    if any(field in document for field in FIELDS):
        return document, False
    check_instances(document)
    return document, True


async def predict_tensors(
    model: ModelRuntime, selector: VersionSelector, document: Document, caller: Caller
) -> Response:
    """Predict for `instances` or `inputs`; the answer has `predictions` or `outputs`."""
    find_signature(model.spec, read_signature_name(document), PREDICT)
    predicted = await model.predictor.predict(
        _request(read_instances(model.spec, document), caller), caller, selector=selector
    )
    outputs = output_tensors(model.spec.kind, predicted.answers)
    write = write_columns if "inputs" in document else write_rows
    return _tensor_response(predicted, write(outputs))


DIALECT = Dialect(
    fields=tuple(f'"{field}"'.encode() for field in FIELDS),
    parse=parse_predict,
    predict=predict_tensors,
    version_statuses=version_statuses,
    unknown_predict_model=unknown_servable,
    unknown_status_model=unknown_model,
    version_errors=VersionErrors,
    malformed=malformed,
)


def _request(instances: list[object], caller: Caller) -> PredictRequest:
    if not instances:
        raise BadInput("there are no instances: every input is empty")
    return PredictRequest(instances=instances, user=caller.user)


def _tensor_response(predicted: PredictionResult, content: bytes) -> Response:
    return Response(content, headers=prediction_headers(predicted), media_type="application/json")


# classify, regress


@router.post("/v1/models/{model}:classify", "predict", every_worker=True, include_in_schema=False)
@router.post("/v1/models/{model}/versions/{version}:classify", "predict", every_worker=True, include_in_schema=False)
@router.post("/v1/models/{model}/labels/{label}:classify", "predict", every_worker=True, include_in_schema=False)
async def classify(
    request: Request, model: PredictModelDep, runtime: RuntimeDep, selector: SelectorDep, caller: CallerDep
) -> Response:
    """Give every class of each example with its score, best first."""
    return await _predict_examples(request, model, runtime, selector, caller, CLASSIFY, write_classifications)


@router.post("/v1/models/{model}:regress", "predict", every_worker=True, include_in_schema=False)
@router.post("/v1/models/{model}/versions/{version}:regress", "predict", every_worker=True, include_in_schema=False)
@router.post("/v1/models/{model}/labels/{label}:regress", "predict", every_worker=True, include_in_schema=False)
async def regress(
    request: Request, model: PredictModelDep, runtime: RuntimeDep, selector: SelectorDep, caller: CallerDep
) -> Response:
    """Give a number for each example."""
    return await _predict_examples(request, model, runtime, selector, caller, REGRESS, write_regressions)


async def _predict_examples(
    request: Request,
    model: ModelRuntime,
    runtime: Runtime,
    selector: VersionSelector,
    caller: Caller,
    method: str,
    write: Callable[[list[Answer]], bytes],
) -> Response:
    started = time.perf_counter()
    document = parse_object(await read_json(request, runtime.settings))
    find_signature(model.spec, read_signature_name(document), method)
    with VersionErrors():
        examples = _request(read_examples(model.spec, document), caller)
        predicted = await model.predictor.predict(examples, caller, selector=selector)
    response = _tensor_response(predicted, write(predicted.answers))
    model.predictor.seconds.observe(time.perf_counter() - started)
    return response


# status, metadata


@router.get("/v1/models/{model}/versions/{version}", "predict", include_in_schema=False)
@router.get("/v1/models/{model}/labels/{label}", "predict", include_in_schema=False)
async def get_version_status(model: StatusModelDep, selector: SelectorDep) -> Response:
    """The status of one version; GET /v1/models/{model} has that of all."""
    version = selector.version if selector.version is not None else find_version(model.live, selector).version
    return json_response({"model_version_status": version_statuses(model.live, version)})


@router.get("/v1/models/{model}/metadata", "predict", include_in_schema=False)
@router.get("/v1/models/{model}/versions/{version}/metadata", "predict", include_in_schema=False)
@router.get("/v1/models/{model}/labels/{label}/metadata", "predict", include_in_schema=False)
async def get_metadata(model: StatusModelDep, selector: SelectorDep) -> Response:
    """The signatures of a model."""
    served = find_version(model.live, selector)
    headers = version_headers(served.version, served.learned_until)
    return json_response(metadata_of(model.spec, served), headers=headers)


# answers, byte for byte: spaces, the shortest float32, NaN as a number


def write_rows(outputs: Tensors) -> bytes:
    """`predictions`: a value for each instance where there is one output, otherwise an object for each."""
    if len(outputs) == 1:
        (array,) = outputs.values()
        return b'{"predictions": ' + _write_array(array) + b"}"
    count = len(next(iter(outputs.values())))
    rows = (_write_object({name: array[at] for name, array in outputs.items()}) for at in range(count))
    return b'{"predictions": [' + b", ".join(rows) + b"]}"


def write_columns(outputs: Tensors) -> bytes:
    """`outputs`: a tensor where there is one output, otherwise an object of tensors."""
    if len(outputs) == 1:
        (array,) = outputs.values()
        return b'{"outputs": ' + _write_array(array) + b"}"
    return b'{"outputs": ' + _write_object(outputs) + b"}"


def write_classifications(answers: Sequence[Answer]) -> bytes:
    """`results` of classify: for each example its [class, score] pairs, best first."""
    return b'{"results": [' + b", ".join(map(_write_pairs, answers)) + b"]}"


def _write_pairs(answer: Answer) -> bytes:
    pairs = (b"[" + orjson.dumps(name) + b", " + write_number(score) + b"]" for name, score in rank_candidates(answer))
    return b"[" + b", ".join(pairs) + b"]"


def write_regressions(answers: Sequence[Answer]) -> bytes:
    """`results` of regress: a number for each example."""
    return b'{"results": ' + _write_array(regression_values(answers)) + b"}"


def _write_object(arrays: Mapping[str, object]) -> bytes:
    return b"{" + b", ".join(orjson.dumps(name) + b": " + _write_array(each) for name, each in arrays.items()) + b"}"


def _write_array(array: Any) -> bytes:
    """Return an array, or one element of it."""
    if isinstance(array, np.ndarray):
        return b"[" + b", ".join(map(_write_array, array)) + b"]"
    return orjson.dumps(array) if isinstance(array, str) else write_number(array)


def write_number(value: float) -> bytes:
    """Return a float32 in its shortest form: 0.2, 1.0, NaN, Infinity."""
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        return b"NaN" if np.isnan(number) else b"Infinity" if number > 0 else b"-Infinity"
    return str(number).encode()
