"""GET /v1/cluster: the state of the cluster, for operators and the page."""

import asyncio

from fastapi import Response

from online.api.auth.scopes import CallerDep
from online.api.dependencies import RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router
from online.plugins.cluster.schemas import ClusterAnswer
from online.plugins.cluster.status import read_status
from online.serving.runtime import Runtime

router = Router()


@router.get("/v1/cluster", "operate", response_model=ClusterAnswer)
async def get_cluster(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """The replicas of the service, what each answers from and has learned, and what the store says.

    Every replica gives the same answer. A service on SQLite lists no replicas.
    """
    answer = await asyncio.to_thread(read_cluster_status, runtime)
    models = [each for each in answer.models if caller.may_use(each.model)]
    replicas = [
        each.model_copy(update={"models": [model for model in each.models if caller.may_use(model.model)]})
        for each in answer.replicas
    ]
    return json_response(answer.model_copy(update={"models": models, "replicas": replicas}).model_dump())


def read_cluster_status(runtime: Runtime) -> ClusterAnswer:
    """Return the state of the cluster that a service belongs to. Raises Unavailable."""
    return read_status(runtime.workspace.store, runtime.models, lambda name: runtime.models[name].snapshots)
