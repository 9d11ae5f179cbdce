"""The list of models, and the status of one of them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import Query, Response

from online.api.auth.scopes import CallerDep
from online.api.dependencies import RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.api.shared_routes import DialectDep, StatusModelDep
from online.models import input_options, spec_of
from online.schemas.models import ModelsAnswer
from online.serving.live import describe_set_aside
from online.serving.model_runtime import ModelRuntime
from online.store.encoder_moves import load_encoder_status

router = Router()

MinOffset = Annotated[
    int | None, Query(ge=0, description="Answer when a version that has learned this offset is live.")
]
TimeoutMs = Annotated[int, Query(ge=0, le=60_000, description="How long `min_offset` may wait, in ms.")]


@router.get("/v1/models", "predict", response_model=ModelsAnswer)
async def list_models(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """List every model, in a shape that the clients of OpenAI and KServe can read too."""
    names = [name for name in runtime.models if caller.may_use(name)]
    data = [_model_card(runtime.models[name]) for name in names]
    return json_response({"object": "list", "data": data, "models": names})


def _model_card(model: ModelRuntime) -> dict[str, object]:
    spec = model.spec
    return {
        "id": spec.name,
        "object": "model",
        "created": _created_s(model),
        "owned_by": "online",
        "kind": spec.kind,
        "task": spec_of(spec.kind).task,
        **input_options(spec.kind, spec.options),
        "fallback": spec.fallback,
        "share_sums": spec.share_sums,
    }


def _created_s(model: ModelRuntime) -> int:
    """Return when the live version was created, in s since 1970; 0 before there is one."""
    loaded = model.live.current.loaded
    return 0 if loaded is None else int(datetime.fromisoformat(loaded.manifest.created_at).timestamp())


@router.get("/v1/models/{model}", "predict")
async def get_status(
    model: StatusModelDep, dialect: DialectDep, min_offset: MinOffset = None, timeout_ms: TimeoutMs = 2_000
) -> Response:
    """The status of a model and of its versions, the live version first.

    It includes what the clients of TensorFlow Serving, KServe and OpenAI expect; for a model of texts also its tuned encoder and
    the result of the last attempt to tune one. `freshness_ms` is the time from feedback to the version that has learned it,
    for the newest feedback since the server started. `missing_until`: the offset up to which events had expired before this model
    could learn them (`event_retention_days`).
    """
    if min_offset is not None:
        await model.live.wait_until(min_offset, timeout_ms / 1000)
    head = await asyncio.to_thread(model.stream.head)
    tuning = (
        await model.read(partial(load_encoder_status, model=model.spec.name))
        if model.transactions.encoder_is_tunable
        else {}
    )
    served = model.live.current  # no await from here on, so that every field is about this version
    content = {
        "model_version_status": dialect.version_statuses(model.live),
        "name": model.spec.name,
        "ready": model.readiness.unready_reason is None,
        "id": model.spec.name,
        "object": "model",
        "owned_by": "online",
        "kind": model.spec.kind,
        "created": _created_s(model),
        "learned_until": served.learned_until,
        "head": max(head, served.learned_until),
        "weights_sha256": served.weights_sha256,
        "freshness_ms": _quantiles(model.outcomes.freshness_ms),
        **tuning,
        **({"missing_until": model.readiness.missing_until} if model.readiness.missing_until else {}),
        **model.describe_standstill(),
        **({} if model.live.set_aside is None else {"set_aside": describe_set_aside(model.live.set_aside)}),
    }
    return json_response(content, headers=live_headers(model))


def _quantiles(values: Sequence[float]) -> dict[str, float | None]:
    """Return the last value, the median and the 95th percentile."""
    ordered = sorted(values)
    shares = {"p50": 0.5, "p95": 0.95}
    found = {name: ordered[round(share * (len(ordered) - 1))] if ordered else None for name, share in shares.items()}
    return {"last": values[-1] if values else None, **found}
