"""Which scope each route and each RPC needs: one table, which every request passes.

A route that is not in the table cannot be served: `check_table` raises when the application is built.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from fastapi import Depends, Request
from starlette.routing import BaseRoute

from online.api.auth.authentication import CALLER
from online.errors import Forbidden, Unauthorized
from online.schemas.access.callers import SCOPES, Caller, Scope

Public = Literal["anybody", "signed URL", "share link", "own keys"]
Access = Scope | Public
Route = tuple[str, str]

MODEL = "/v1/models/{model}"
V2_MODEL = "/v2/models/{name}"


def table(access: Access, *routes: str) -> dict[Route, Access]:
    """The entries of routes that need the same. routes: METHOD PATH."""
    return {(method, path): access for method, _, path in (route.partition(" ") for route in routes)}


def with_versions(route: str, base: str = MODEL, labels: bool = True) -> list[str]:
    """A route of a model, and the same of one of its versions. route: METHOD, and what follows the model."""
    method, _, rest = route.partition(" ")
    places = ["", "/versions/{version}", *(["/labels/{label}"] if labels else [])]
    return [f"{method} {base}{place}{rest}" for place in places]


ROUTES: dict[Route, Access] = {
    **table(
        "anybody",
        "GET /healthz",
        "GET /readyz",
        "GET /v2",
        "GET /v2/health/live",
        "GET /v2/health/ready",
        "GET /v1/session",
        "POST /v1/session",
        "DELETE /v1/session",
        *(f"{method} /v1/{{path:path}}" for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")),
        "POST /integrations/open-webui",  # what an event says is read from the configured Open WebUI itself
    ),
    **table("signed URL", *(f"{method} {MODEL}/feedback" for method in ("GET", "POST", "DELETE"))),
    **table("share link", "GET /v1/shared/{share_id}"),
    **table(
        "own keys",  # langfuse_public_key and langfuse_secret_key
        "POST /api/public/scores",
        "DELETE /api/public/scores/{id}",
        "POST /api/public/otel/v1/traces",
        "POST /api/public/ingestion",
        "GET /api/public/projects",
        *(f"{method} /api/public/{{path:path}}" for method in ("GET", "POST", "PUT", "PATCH", "DELETE")),
    ),
    **table(
        "predict",
        "POST /v1/chat/completions",
        *with_versions("POST :predict"),
        *with_versions("POST :classify"),
        *with_versions("POST :regress"),
        *with_versions("POST /infer", V2_MODEL, labels=False),
        "GET /v1/models",
        *with_versions("GET "),
        *with_versions("GET /metadata"),
        *(
            f"GET {MODEL}/{name}"
            for name in (
                "versions",
                "drift",
                "curve",
                "curve/judged",
                "health",
                "events",
                "classes",
                "labels",
                "replies",
            )
        ),
        f"GET {MODEL}/replies/{{id}}",
        f"GET {MODEL}/encoder",
        f"GET {MODEL}/encoder/{{name}}",
        f"GET {MODEL}/replies:offline",
        f"GET {MODEL}/conversations",
        f"GET {MODEL}/conversations/{{id}}",
        f"PATCH {MODEL}/conversations/{{id}}",
        f"DELETE {MODEL}/conversations/{{id}}",
        f"GET {MODEL}/examples",  # those of everybody: curate
        f"GET {MODEL}/versions/{{version}}/export",  # in formats that hold what others sent: curate
        f"GET {MODEL}/versions/{{version}}/export/manifest",
        f"GET {MODEL}/versions/{{version}}/delta",  # of sums: curate
        f"POST {MODEL}/conversations/{{id}}:share",
        f"DELETE {MODEL}/conversations/{{id}}:share",
        f"GET {MODEL}/predictions/{{id}}/why",
        "GET /v2/models",
        "GET /v2/models/stats",
        *(
            route
            for rest in ("", "/config", "/ready", "/stats")
            for route in with_versions(f"GET {rest}", V2_MODEL, False)
        ),
        "POST /v2/repository/index",
        "POST /v2/repository/models/{name}/load",  # with the parameter `label`: operate
        "POST /v2/repository/models/{name}/unload",  # always refused
    ),
    **table(
        "feedback",
        f"POST {MODEL}:feedback",  # with new replies, new classes and inputs of its own: teach
        f"POST {MODEL}:merge",  # and teach
        f"GET {MODEL}/cohorts/{{id}}",
        f"POST {MODEL}/cohorts/{{id}}/members",  # and teach
        f"GET {MODEL}/cohorts/{{id}}/members/{{number}}",
        *(f"PUT {MODEL}/cohorts/{{id}}/members/{{number}}/{name}" for name in ("shares", "values", "unmasking")),
        f"GET {MODEL}/feedback/{{id}}",
        f"DELETE {MODEL}/feedback/{{id}}",
        f"DELETE {MODEL}/examples",
    ),
    **table("teach", f"POST {MODEL}/replies", f"POST {MODEL}/replies:import"),
    **table(
        "curate",
        f"PUT {MODEL}/replies/{{id}}",
        f"DELETE {MODEL}/replies/{{id}}",
        f"DELETE {MODEL}/replies/{{id}}/examples/{{offset}}",
        f"GET {MODEL}/replies:export",
        f"GET {MODEL}/unanswered",
        f"GET {MODEL}/held",
        f"GET {MODEL}/versions/{{version}}/changes",  # it shows the questions of others
        f"GET {MODEL}/usage",
        f"GET {MODEL}/usage/questions",
        f"POST {MODEL}/held/{{id}}:accept",
        f"POST {MODEL}/held/{{id}}:reject",
        f"POST {MODEL}/unanswered:dismiss",
        f"POST {MODEL}/cohorts",
        *(f"GET {MODEL}/inbox{name}" for name in ("", ":count")),
        *(f"POST {MODEL}/inbox:{name}" for name in ("decide", "undo", "assign")),
        *(f"{method} {MODEL}/{name}/{{name:path}}" for method in ("PUT", "DELETE") for name in ("classes", "labels")),
    ),
    **table(
        "operate",
        "GET /metrics",  # of all models: not for a caller that is limited to some
        "GET /v1/devices",
        *(f"POST {MODEL}{name}" for name in (":rollback", ":freeze", ":thaw", "/quarantine:end")),
        *(f"GET {MODEL}/{name}" for name in ("quarantine", "shadow", "refused", "report", "report/state", "jobs")),
        f"GET {MODEL}/alerts",
        f"POST {MODEL}/alerts:test",
        f"GET {MODEL}/callers",
        f"POST {MODEL}/callers/{{holder}}:release",
        f"POST {MODEL}/callers/{{holder}}:drop",
        f"PUT {MODEL}/version_labels/{{label}}",
        f"DELETE {MODEL}/version_labels/{{label}}",
        f"POST {MODEL}/report",
        f"DELETE {MODEL}/report",
        f"POST {MODEL}:batchPredict",
        f"GET {MODEL}/jobs/{{id}}",
        f"POST {MODEL}/jobs/{{id}}:cancel",
        "GET /v1/replays",
        "POST /v1/replays",
        "POST /v1/replays:columns",
        "GET /v1/replays/{id}",
        "GET /v1/replays/{id}/report",
        "DELETE /v1/replays/{id}",
    ),
    **table("erase", "DELETE /v1/users/{user}", f"DELETE {MODEL}/users/{{user}}", "GET /v1/erasures/{id}"),
    **table("keys", "GET /v1/keys", "POST /v1/keys", "DELETE /v1/keys/{id}", "POST /v1/keys/{id}:rotate"),
}

RPCS: dict[str, Access] = {
    "online.v1.Feedback/Give": "feedback",
    "online.v1.Feedback/Retract": "feedback",
    "online.v1.Feedback/GetFate": "feedback",
    "online.v1.Feedback/WaitLearned": "predict",
    **{
        f"tensorflow.serving.PredictionService/{name}": "predict"
        for name in ("Classify", "Regress", "Predict", "MultiInference", "GetModelMetadata")
    },
    "tensorflow.serving.ModelService/GetModelStatus": "predict",
    "tensorflow.serving.ModelService/HandleReloadConfigRequest": "operate",
    **{
        f"inference.GRPCInferenceService/{name}": "predict"
        for name in [
            "ModelMetadata",
            "ModelInfer",
            "ModelStreamInfer",
            "ModelConfig",
            "ModelStatistics",
            "ModelReady",
            "RepositoryIndex",
            "RepositoryModelLoad",
            "RepositoryModelUnload",
        ]
    },
    **{f"inference.GRPCInferenceService/{name}": "anybody" for name in ("ServerLive", "ServerReady", "ServerMetadata")},
}


def check_scope(caller: Caller, access: Access, model: str | None = None) -> None:
    """Raises Unauthorized for a caller that is not known, and Forbidden for one that may not do this.

    model: the model that the request is about.
    """
    if access in SCOPES and access not in caller.scopes:
        if caller.id == "anonymous":
            raise Unauthorized(
                f"{caller.problem or 'this service needs a key'}: send 'Authorization: Bearer KEY' or 'X-API-Key: KEY' "
                f"with a key that has the scope {access!r} (online keys create)"
            )
        raise Forbidden(f"the caller {caller.id!r} lacks the scope {access!r}")
    if model is not None and not caller.may_use(model):
        raise Forbidden(f"the caller {caller.id!r} may not use the model {model[:80]!r}")


def check_all_models(caller: Caller) -> None:
    """Raises Forbidden for a caller that may not use all models: what it asks for is about all of them."""
    if caller.models is not None:
        raise Forbidden(
            f"this is about all models, and the caller {caller.id!r} may use only {', '.join(sorted(caller.models))}"
        )


def check_table(routes: Iterable[BaseRoute]) -> None:
    """Raises AssertionError for a route of the API that is not in the table, or stands there in vain."""
    served = {
        (method, path)
        for route in routes
        for path in [getattr(route, "path", "")]
        for method in getattr(route, "methods", None) or ()
        if path.startswith(("/v1", "/v2", "/api", "/integrations", "/metrics", "/healthz", "/readyz"))
    }
    assert served == set(ROUTES), f"routes and scopes differ: {sorted(served ^ set(ROUTES))}"


async def get_caller(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


CallerDep = Annotated[Caller, Depends(get_caller)]


async def require_scope(request: Request) -> None:
    """The dependency of every route. Raises Unauthorized and Forbidden."""
    path = request.scope["route"].path
    params = request.path_params
    model = params.get("name" if path.startswith("/v2") else "model")
    check_scope(request.scope[CALLER], ROUTES[request.method, path], model)
