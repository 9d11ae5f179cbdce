"""The Open Inference Protocol v2 over HTTP, as the clients of KServe and Triton use it."""

import time

import orjson
from fastapi import Request, Response

from online import __version__
from online.api.audit import record_action
from online.api.auth.scopes import CallerDep, check_scope
from online.api.bodies import check_json, read_body, read_json
from online.api.dependencies import ROUTE_HEADER, RuntimeDep
from online.api.responses import json_response, prediction_headers
from online.api.routes import Router
from online.errors import BadInput
from online.plugins.open_inference.infer_request import (
    InferRequest,
    check_inputs,
    check_not_empty,
    parse_infer_request,
    parse_object,
    parse_raw_request,
    read_parameters,
)
from online.plugins.open_inference.infer_response import check_outputs, write_outputs
from online.plugins.open_inference.models import (
    EXTENSIONS,
    describe_model,
    find_model,
    list_names,
    list_versions,
    load_model,
    model_config,
    model_statistics,
    refuse_unload,
)
from online.plugins.tensorflow.tensor_signatures import instances_from_tensors
from online.schemas.predict import PredictRequest
from online.serving.model_runtime import ModelRuntime
from online.serving.predictor import PredictionResult
from online.serving.runtime import Runtime

router = Router(model_parameter="name", include_in_schema=False)

JSON_BYTES_HEADER = "Inference-Header-Content-Length"


# health, metadata


@router.get("/v2", "anybody")
async def server_metadata() -> Response:
    """Return the server's name, version and extensions."""
    return json_response({"name": "online", "version": __version__, "extensions": EXTENSIONS})


@router.get("/v2/health/live", "anybody")
async def server_live() -> Response:
    """Answer that the server lives."""
    return json_response({"live": True})


@router.get("/v2/health/ready", "anybody")
async def server_ready(runtime: RuntimeDep) -> Response:
    """Answer 200 if every model can answer, else 503."""
    ready = await runtime.is_ready()
    return json_response({"ready": ready, "live": True}, 200 if ready else 503)


@router.get("/v2/models", "predict")
async def list_models(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """List the models that the caller may use."""
    return json_response({"models": list_names(runtime, caller)})


@router.get("/v2/models/stats", "predict")
async def all_statistics(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Return statistics of all models since this server started."""
    models = [runtime.models[name] for name in list_names(runtime, caller)]
    return json_response({"model_stats": [model_statistics(runtime, model) for model in models]})


@router.get("/v2/models/{name}", "predict")
@router.get("/v2/models/{name}/versions/{version}", "predict")
async def model_metadata(runtime: RuntimeDep, name: str, version: str = "") -> Response:
    """Return the inputs and outputs of a model, and its versions."""
    model, _ = find_model(runtime, name, version)
    return json_response(describe_model(model.spec, model.live.known_versions()))


@router.get("/v2/models/{name}/config", "predict")
@router.get("/v2/models/{name}/versions/{version}/config", "predict")
async def config(runtime: RuntimeDep, name: str, version: str = "") -> Response:
    """Return the configuration of a model as Triton describes one."""
    model, _ = find_model(runtime, name, version)
    return json_response(model_config(model.spec, runtime.settings.max_batch))


@router.get("/v2/models/{name}/ready", "predict")
@router.get("/v2/models/{name}/versions/{version}/ready", "predict")
async def model_ready(runtime: RuntimeDep, name: str, version: str = "") -> Response:
    """Answer 200 if a model can answer, else 503."""
    model, _ = find_model(runtime, name, version)
    ready = (await model.readiness.check()).is_ready
    return json_response({"name": name, "ready": ready}, 200 if ready else 503)


# infer


@router.post("/v2/models/{name}/infer", "predict", every_worker=True)
@router.post("/v2/models/{name}/versions/{version}/infer", "predict", every_worker=True)
async def infer(request: Request, runtime: RuntimeDep, caller: CallerDep, name: str, version: str = "") -> Response:
    """Predict from tensors, as JSON or as bytes."""
    started = time.perf_counter()
    model, selector = find_model(runtime, name, version, request.headers.get(ROUTE_HEADER))
    infer_request = await _read_infer_request(request, model, runtime)
    check_inputs(model.spec, infer_request.inputs)
    check_outputs(model.spec, infer_request.outputs)
    instances = instances_from_tensors(model.spec, infer_request.inputs, runtime.settings.max_instances)
    prediction = PredictRequest(instances=check_not_empty(instances), user=caller.user)
    predicted = await model.predictor.predict(prediction, caller, selector=selector)
    response = _infer_response(model, infer_request, predicted)
    model.predictor.seconds.observe(time.perf_counter() - started)
    return response


async def _read_infer_request(request: Request, model: ModelRuntime, runtime: Runtime) -> InferRequest:
    settings = runtime.settings
    most = settings.max_tensor_elements
    body = await read_body(request, settings)
    json_bytes = request.headers.get(JSON_BYTES_HEADER)
    if json_bytes is None:
        return parse_infer_request(parse_object(await check_json(body, settings)), b"", most)
    if not json_bytes.isdecimal() or len(json_bytes) > 18 or int(json_bytes) > len(body):
        raise BadInput(f"{JSON_BYTES_HEADER} is {json_bytes[:20]}; the body has {len(body)} bytes")
    if json_bytes == "0":
        return parse_raw_request(model.spec, body, most)
    header, data = body[: int(json_bytes)], body[int(json_bytes) :]
    return parse_infer_request(parse_object(await check_json(header, settings)), data, most)


def _infer_response(model: ModelRuntime, request: InferRequest, predicted: PredictionResult) -> Response:
    outputs, data = write_outputs(model.spec, request, predicted.answers)
    content = {
        "model_name": model.spec.name,
        "model_version": str(predicted.served.version),
        **({} if request.id is None else {"id": request.id}),
        "parameters": {"prediction_ids": ",".join(predicted.ids)},
        "outputs": outputs,
    }
    document, headers = orjson.dumps(content), prediction_headers(predicted)
    if not data:
        return Response(document, headers=headers, media_type="application/json")
    headers |= {JSON_BYTES_HEADER: str(len(document))}
    return Response(document + b"".join(data), headers=headers, media_type="application/octet-stream")


# repository


@router.post("/v2/repository/index", "predict")
async def repository_index(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """List the versions of the models that the caller may use."""
    return json_response(list_versions(runtime, caller))


@router.post("/v2/repository/models/{name}/load", "predict")
async def load(request: Request, runtime: RuntimeDep, caller: CallerDep, name: str) -> Response:
    """With the parameters `version` and `label`: give the version this label, so that it is kept and can be requested."""
    body = await read_json(request, runtime.settings)
    parameters = read_parameters(parse_object(body)) if body.strip() else {}
    if "label" in parameters:
        check_scope(caller, "operate", name)
    await load_model(runtime, name, parameters)
    if "label" in parameters:
        await record_action(request, "label_version", name, label=str(parameters["label"]))
    return json_response({"name": name, "load": True})


@router.post("/v2/repository/models/{name}/unload", "predict")
async def unload(runtime: RuntimeDep, name: str) -> Response:
    """Refuse to unload: the service decides what it keeps."""
    raise refuse_unload(runtime, name)


# statistics


@router.get("/v2/models/{name}/stats", "predict")
@router.get("/v2/models/{name}/versions/{version}/stats", "predict")
async def statistics(runtime: RuntimeDep, name: str, version: str = "") -> Response:
    """Return statistics of a model since this server started."""
    model, _ = find_model(runtime, name, version)
    return json_response({"model_stats": [model_statistics(runtime, model)]})
