"""Liveness, readiness and metrics."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial

from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST

from online.api.auth.scopes import CallerDep, check_all_models
from online.api.dependencies import RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router
from online.errors import Unavailable
from online.schemas.access.callers import Caller
from online.serving.live import describe_set_aside
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ServicePart
from online.serving.processes.journal_copier import measure_journal
from online.serving.readiness import ModelReadiness
from online.serving.runtime import Runtime
from online.store.refusals import count_refusals

router = Router()


@router.get("/healthz", "anybody", every_worker=True)
async def get_liveness() -> Response:
    """The process answers."""
    return json_response({"live": True})


@router.get("/readyz", "anybody")
async def get_readiness(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """503 with the reasons before the first learning, and while a model cannot predict or record predictions.

    `models` are those from which the caller may ask for predictions; `ready` is about all.

    The learner, the store and its process may be down, and the disk short of space: predictions go on, and it is shown here.
    """
    checks = await runtime.readiness()
    models = {name: describe_health(runtime.models[name], check) for name, check in checks.items()}
    damaged = {
        name: {str(version): reason for version, reason in model.live.damaged.items()}
        for name, model in runtime.models.items()
        if model.live.damaged and shows(caller, name)
    }
    ready = not runtime.stopping and all(model["ready"] for model in models.values())
    shown = {name: health for name, health in models.items() if shows(caller, name)}
    learner = runtime.learner().model_dump(exclude_none=True)
    content: dict[str, object] = {"ready": ready, "learner": learner, "models": shown, "damaged": damaged}
    if runtime.store_process is not None:
        content["store_process"] = runtime.store_process.state.model_dump(exclude_none=True)
    if runtime.disk.reason is not None:
        content["disk"] = f"{runtime.disk.reason}: predictions are not recorded, and feedback is refused"
    if runtime.workers.others:
        content["workers"] = [worker.describe() for worker in runtime.workers.others]
    return json_response(content, 200 if ready else 503)


def shows(caller: Caller, model: str) -> bool:
    """Return whether a caller may see the readiness of a model."""
    return caller.may("predict") and caller.may_use(model)


def describe_health(model: ModelRuntime, check: ModelReadiness) -> dict[str, object]:
    """reason: why the model is not ready. set_aside: versions that were learned from another log. store: its error.

    missing_until: the offset up to which events had expired before this model could learn them. standstill: how many events
    wait, and for how long nothing was learned.
    """
    served = model.live.current
    health: dict[str, object] = {
        "ready": check.is_ready,
        "version": str(served.version),
        "learned_until": served.learned_until,
        "head": check.head,
    }
    if check.reason is not None:
        health["reason"] = check.reason
    if model.live.set_aside is not None:
        health["set_aside"] = describe_set_aside(model.live.set_aside)
    if model.readiness.missing_until:
        health["missing_until"] = model.readiness.missing_until
    health |= model.describe_standstill()
    return health if check.store_error is None else {**health, "store": check.store_error}


@router.get("/metrics", "operate", include_in_schema=False)
async def get_metrics(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Metrics in Prometheus' text format. Raises Forbidden for a caller that may not use all models."""
    check_all_models(caller)
    lags = await asyncio.to_thread(lambda: [*measure_lags(runtime)])
    for part in runtime.parts.list(ServicePart):
        await part.update_metrics()
    runtime.metrics.journal_bytes.set(measure_journal(runtime.workspace.journal))
    refused = dict([each async for each in count_refused(runtime)])
    return Response(runtime.metrics.text(lags, refused), media_type=CONTENT_TYPE_LATEST)


async def count_refused(runtime: Runtime) -> AsyncIterator[tuple[str, int]]:
    """(model, events it could not learn), without the models whose store does not answer."""
    for name, model in runtime.models.items():
        recipe = model.live.encoder_config.recipe
        with suppress(Unavailable):
            yield name, await model.read(partial(count_refusals, model=name, recipe=recipe, after=0))


def measure_lags(runtime: Runtime) -> Iterator[tuple[int, str, int]]:
    """(worker, model, events it has not learned yet), without the models whose store does not answer."""
    learned = [(0, name, model.live.current.learned_until) for name, model in runtime.models.items()]
    for name, model in runtime.models.items():
        with suppress(Unavailable):
            head = model.stream.head()
            for worker, of, until in (*learned, *runtime.workers.learned_offsets()):
                if of == name:
                    yield worker, name, max(0, head - until)
