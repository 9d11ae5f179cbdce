"""HTTP: drift, the curve, events, health, metrics."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST

from online.errors import Unavailable
from online.prequential import MOST
from online.schemas import CurveAnswer, DriftAnswer, Event, RefusedAnswer
from online.serving.api import ERRORS, ModelHere, PartsHere, answer, live_stamp
from online.serving.curve import Counts, per_minute
from online.serving.parts import ModelParts, Parts, status_of
from online.store import drift_of, refused_of

router = APIRouter(responses=ERRORS)

KEEP_ALIVE_S = 15.0
DRIFT_SHOWN = 200
REFUSED_SHOWN = 100


@router.get("/v1/models/{model}/drift", response_model=DriftAnswer)
async def drift(model: ModelHere) -> Response:
    """The newest alarms of the drift detectors, newest first."""
    rows = await model.predictor.read(lambda connection: drift_of(connection, model.spec.name, DRIFT_SHOWN))
    return answer({"drift": [row.model_dump(exclude={"model"}) for row in rows]}, headers=live_stamp(model))


@router.get("/v1/models/{model}/curve", response_model=CurveAnswer)
async def curve(model: ModelHere, points: Annotated[int, Query(ge=8, le=MOST)] = 256) -> Response:
    """The prequential curve, in at most so many points. Of a long log that is yet to be counted, as far as that is; the
    event `counted` says when it is done.
    """
    head = await asyncio.to_thread(model.stream.head)
    shown = await model.curve.shown(lambda counts: curve_of(counts, points))
    return answer({**shown, "head": max(head, shown["counted_until"])}, headers=live_stamp(model))


@router.get("/v1/models/{model}/refused", response_model=RefusedAnswer)
async def refused(model: ModelHere) -> Response:
    """The newest feedback that could not be learned and why, newest first."""
    name, recipe = model.spec.name, model.live.made.recipe
    rows = await model.predictor.read(lambda connection: refused_of(connection, name, recipe, REFUSED_SHOWN))
    return answer({"refused": [refusal_of(row) for row in rows]}, headers=live_stamp(model))


def refusal_of(row: Mapping[str, Any]) -> dict[str, object]:
    event = Event.parse(row["body"], b"")
    told = {name: row[name] for name in ("offset", "id", "reason", "created_at")}
    return {**told, "kind": event.kind, "label": event.label}


def curve_of(counts: Counts, points: int) -> dict[str, object]:
    return {
        "measure": "error" if counts.numbers else "right",
        "counted_until": counts.until,
        "rated": counts.served.judged,
        "right": counts.served.right,
        "feedback": counts.feedback,
        "feedback_per_minute": per_minute(counts.times, datetime.now(UTC)),
        "tallies": {name: asdict(tally) for name, tally in counts.tallies.items()},
        "points": [asdict(stretch) for stretch in counts.curve.stretches(points)],
    }


@router.get("/v1/models/{model}/events")
async def events(model: ModelHere, parts: PartsHere) -> StreamingResponse:
    """Server-sent events: status, published, learned, refused, retracted, rolled_back, frozen, labelled, adapted, counted."""
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
    content: dict[str, object] = {"ready": ready, "learner": learner, "models": models, "damaged": damaged}
    if parts.workers.others:
        content["workers"] = [worker.shown() for worker in parts.workers.others]
    return answer(content, 200 if ready else 503)


def health_of(model: ModelParts) -> dict[str, object]:
    served = model.live.current
    told: dict[str, object] = {
        "ready": model.ready,
        "version": str(served.version),
        "learned_until": served.learned_until,
    }
    try:
        return {**told, "head": model.stream.head()}
    except Unavailable as error:
        return {**told, "head": None, "store": str(error)}


@router.get("/metrics", include_in_schema=False)
async def metrics(parts: PartsHere) -> Response:
    """Prometheus text."""
    lags = await asyncio.to_thread(lambda: [*lags_of(parts)])
    return Response(parts.metrics.text(lags), media_type=CONTENT_TYPE_LATEST)


def lags_of(parts: Parts) -> Iterator[tuple[int, str, int]]:
    """(worker, model, events that it has yet to learn); of no model whose store does not answer."""
    learned = [(0, name, model.live.current.learned_until) for name, model in parts.models.items()]
    for name, model in parts.models.items():
        with suppress(Unavailable):
            head = model.stream.head()
            for worker, of, until in (*learned, *parts.workers.standing()):
                if of == name:
                    yield worker, name, max(0, head - until)
