"""HTTP: the Open Inference Protocol v2, as KServe's and Triton's clients speak it: health, metadata, infer, repository, stats.

Tensors may come as bytes behind the JSON; they go back so where that is asked for. Models are those of the configuration:
`load` answers that one is there, or gives a version a label; `unload` is refused, since a model that learns is always there.
"""

import time

import orjson
from fastapi import APIRouter, Request, Response

from online import __version__
from online.errors import BadInput
from online.schemas import PredictRequest
from online.serving import inference
from online.serving.api import ERRORS, ROUTE, PartsHere, answer, headers_of, parts_of
from online.serving.bodies import checked_depth, read_body, read_json
from online.serving.keys import admin
from online.serving.live import Which
from online.serving.parts import ModelParts, Parts
from online.serving.tensorflow import instances_of, known_versions, parsed

router = APIRouter(responses=ERRORS, include_in_schema=False)

JSON_BYTES = "Inference-Header-Content-Length"


async def versioned(request: Request, name: str, version: str = "") -> tuple[ModelParts, Which]:
    return inference.find(await parts_of(request), name, version, request.headers.get(ROUTE))


# health, metadata


@router.get("/v2")
async def server() -> Response:
    return answer({"name": "online", "version": __version__, "extensions": inference.EXTENSIONS})


@router.get("/v2/health/live")
async def live() -> Response:
    return answer({"live": True})


@router.get("/v2/health/ready")
async def ready(parts: PartsHere) -> Response:
    is_ready = inference.is_ready(parts)
    return answer({"ready": is_ready, "live": True}, 200 if is_ready else 503)


@router.get("/v2/models")
async def models(parts: PartsHere) -> Response:
    return answer({"models": list(parts.models)})


@router.get("/v2/models/stats")
async def all_stats(parts: PartsHere) -> Response:
    return answer({"model_stats": [inference.stats_of(parts, model) for model in parts.models.values()]})


@router.get("/v2/models/{name}")
@router.get("/v2/models/{name}/versions/{version}")
async def metadata(request: Request, name: str, version: str = "") -> Response:
    model, _ = await versioned(request, name, version)
    return answer(inference.described(model.spec, known_versions(model.live)))


@router.get("/v2/models/{name}/config")
@router.get("/v2/models/{name}/versions/{version}/config")
async def config(request: Request, parts: PartsHere, name: str, version: str = "") -> Response:
    model, _ = await versioned(request, name, version)
    return answer(inference.config_of(model.spec, parts.settings.max_batch))


@router.get("/v2/models/{name}/ready")
@router.get("/v2/models/{name}/versions/{version}/ready")
async def model_ready(request: Request, name: str, version: str = "") -> Response:
    model, _ = await versioned(request, name, version)
    return answer({"name": name, "ready": model.ready}, 200 if model.ready else 503)


# infer


@router.post("/v2/models/{name}/infer")
@router.post("/v2/models/{name}/versions/{version}/infer")
async def infer(request: Request, parts: PartsHere, name: str, version: str = "") -> Response:
    started = time.perf_counter()
    model, which = await versioned(request, name, version)
    asked = await asked_in(request, model, parts)
    inference.check_wanted(model.spec, asked.outputs)
    instances = inference.some(instances_of(model.spec, asked.inputs, parts.settings.max_instances))
    told = await model.predictor.predict(PredictRequest(instances=instances), which=which)
    outputs, behind = inference.answer_of(model.spec, asked, told.answers)
    content = {
        "model_name": name,
        "model_version": str(told.served.version),
        **({} if asked.id is None else {"id": asked.id}),
        "parameters": {"prediction_ids": ",".join(told.ids)},
        "outputs": outputs,
    }
    parts.metrics.prediction_seconds.labels(name).observe(time.perf_counter() - started)
    header = orjson.dumps(content)
    if not behind:
        return Response(header, headers=headers_of(told), media_type="application/json")
    headers = {**headers_of(told), JSON_BYTES: str(len(header))}
    return Response(header + b"".join(behind), headers=headers, media_type="application/octet-stream")


async def asked_in(request: Request, model: ModelParts, parts: Parts) -> inference.Asked:
    settings = parts.settings
    most = settings.max_tensor_elements
    body = await read_body(request, settings)
    length = request.headers.get(JSON_BYTES)
    if length is None:
        return inference.asked_of(parsed(checked_depth(body, settings)), b"", most)
    if not length.isdecimal() or len(length) > 18 or int(length) > len(body):
        raise BadInput(f"{JSON_BYTES} is {length[:20]}; the body has {len(body)} bytes")
    if length == "0":
        return inference.raw_body(model.spec, body, most)
    header, behind = body[: int(length)], body[int(length) :]
    return inference.asked_of(parsed(checked_depth(header, settings)), behind, most)


# repository


@router.post("/v2/repository/index")
async def index(parts: PartsHere) -> Response:
    return answer(inference.index_of(parts))


@router.post("/v2/repository/models/{name}/load")
async def load(request: Request, parts: PartsHere, name: str) -> Response:
    """With the parameters `version` and `label`: that version gets that label, and is kept at hand."""
    body = await read_json(request, parts.settings)
    given = inference.parameters_of(parsed(body)) if body.strip() else {}
    if "label" in given:
        await admin(request)
    await inference.load(parts, name, given)
    return answer({"name": name, "load": True})


@router.post("/v2/repository/models/{name}/unload")
async def unload(parts: PartsHere, name: str) -> Response:
    raise inference.always_served(parts, name)


# statistics


@router.get("/v2/models/{name}/stats")
@router.get("/v2/models/{name}/versions/{version}/stats")
async def stats(request: Request, parts: PartsHere, name: str, version: str = "") -> Response:
    model, _ = await versioned(request, name, version)
    return answer({"model_stats": [inference.stats_of(parts, model)]})
