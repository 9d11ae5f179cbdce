"""HTTP: versions, roll back, drift, events, health, metrics."""

import asyncio
import re
from collections.abc import AsyncIterator

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from online.errors import BadInput, Unavailable
from online.schemas import DriftAnswer, RollbackAnswer, RollbackRequest, VersionsAnswer
from online.serving.api import ERRORS, ModelHere, PartsHere, answer, body_as, body_of, live_stamp, stamp
from online.serving.parts import ModelParts, Parts, status_of
from online.snapshots import as_shown
from online.store import drift_of

router = APIRouter(responses=ERRORS)

KEEP_ALIVE_S = 15.0
DRIFT_SHOWN = 200


@router.get("/v1/models/{model}/versions", response_model=VersionsAnswer)
async def versions(model: ModelHere) -> Response:
    """The versions that are kept, newest first."""
    manifests = await asyncio.to_thread(model.snapshots.manifests)
    live = model.live.current.version
    return answer(
        {"versions": [as_shown(manifest, manifest.version == live) for manifest in manifests]},
        headers=live_stamp(model),
    )


@router.post("/v1/models/{model}:rollback", response_model=RollbackAnswer, openapi_extra=body_of(RollbackRequest))
async def rollback(request: Request, model: ModelHere, parts: PartsHere) -> Response:
    """Make an older version live. What is learned from now on goes live again, in a new version."""
    wanted = await body_as(request, RollbackRequest, parts.settings.max_body_bytes)
    if not re.fullmatch(r"[0-9]{1,18}", str(wanted.version)):
        raise BadInput(f"version must be a number such as 12, not {str(wanted.version)[:40]!r}")
    manifest = await asyncio.to_thread(model.snapshots.roll_back, int(wanted.version), model.live.made.recipe)
    await model.live.refresh()
    content = {"version": str(manifest.version), "learned_until": manifest.learned_until}
    return answer(content, headers=stamp(manifest.version, manifest.learned_until))


@router.get("/v1/models/{model}/drift", response_model=DriftAnswer)
async def drift(model: ModelHere) -> Response:
    """The newest alarms of the drift detectors, newest first."""
    rows = await model.predictor.read(lambda connection: drift_of(connection, model.spec.name, DRIFT_SHOWN))
    return answer({"drift": [row.model_dump(exclude={"model"}) for row in rows]}, headers=live_stamp(model))


@router.get("/v1/models/{model}/events")
async def events(model: ModelHere, parts: PartsHere) -> StreamingResponse:
    """Server-sent events: status, published, learned, refused, retracted, rolled_back, adapted."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **live_stamp(model)}
    return StreamingResponse(follow(model, parts), media_type="text/event-stream", headers=headers)


async def follow(model: ModelParts, parts: Parts) -> AsyncIterator[bytes]:
    listener = model.feed.listen()
    try:
        yield sse("status", status_of(model, parts.learner()))
        while not parts.stopping:
            try:
                told = await asyncio.wait_for(listener.get(), KEEP_ALIVE_S)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if told is None:
                return
            yield sse(*told)
    finally:
        model.feed.leave(listener)


def sse(name: str, data: dict[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


@router.get("/healthz")
async def healthz() -> Response:
    """The process answers."""
    return answer({"live": True})


@router.get("/readyz")
async def readyz(parts: PartsHere) -> Response:
    """Every model can predict. The learner may be down meanwhile: answers go on, and this says so."""
    learner = parts.learner().model_dump(exclude_none=True)
    models = {name: await asyncio.to_thread(health_of, model) for name, model in parts.models.items()}
    damaged = {
        name: {str(v): why for v, why in model.live.damaged.items()}
        for name, model in parts.models.items()
        if model.live.damaged
    }
    ready = not parts.stopping and all(model["ready"] for model in models.values())
    content = {"ready": ready, "learner": learner, "models": models, "damaged": damaged}
    return answer(content, 200 if ready else 503)


def health_of(model: ModelParts) -> dict[str, object]:
    """Not ready: there are versions, and none of them could be loaded."""
    served = model.live.current
    ready = served.version > 0 or not model.snapshots.versions()
    told: dict[str, object] = {"ready": ready, "version": str(served.version), "learned_until": served.learned_until}
    try:
        return {**told, "head": model.stream.head()}
    except Unavailable as error:
        return {**told, "head": None, "store": str(error)}


@router.get("/metrics", include_in_schema=False)
async def metrics(parts: PartsHere) -> Response:
    """Prometheus text."""
    return Response(generate_latest(parts.metrics.registry), media_type=CONTENT_TYPE_LATEST)
