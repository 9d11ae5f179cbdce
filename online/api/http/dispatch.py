"""The fast path: predict and feedback, found by one look into a dictionary.

    POST /v1/models/chat:predict   --> FastPath --> the handler
    POST /v1/models/chat:feedback
    any other request              --> the other routes in turn, which takes longer than a small model's prediction

It is the last of the application's middlewares, so it is behind the same middlewares and error handlers
as every other route.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from online.api.auth.authentication import CALLER
from online.api.auth.scopes import check_scope
from online.api.rest import feedback, predict
from online.api.shared_routes import Dialect
from online.schemas.access import callers
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime

Handler = Callable[[Request], Awaitable[Response]]
Handlers = Mapping[str, tuple[str, callers.Scope, Handler]]  # the model's name, the scope and the handler, by path


class FastPath:
    """Calls the handler of a POST request whose path is in the table, and the router for any other request."""

    def __init__(self, app: ASGIApp, handlers: Handlers) -> None:
        self.app, self.handlers = app, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and (found := self.handlers.get(_route_path(scope))):
            name, needed, handler = found
            check_scope(scope[CALLER], needed, name)
            scope["path_params"] = {"model": name}
            response = await handler(Request(scope, receive, send))
            await response(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def _route_path(scope: Scope) -> str:
    """The path without the prefix of a proxy that does not strip it."""
    path: str = scope["path"]
    return path.removeprefix(root_path) if (root_path := scope.get("root_path")) else path


def fast_handlers(runtime: Runtime, dialect: Dialect) -> dict[str, tuple[str, callers.Scope, Handler]]:
    """The handlers of predict and feedback of every model."""
    handlers: dict[str, tuple[str, callers.Scope, Handler]] = {}
    for name, model in runtime.models.items():
        predict_handler = partial(_predict, model=model, runtime=runtime, dialect=dialect)
        feedback_handler = partial(_give_feedback, model=model, runtime=runtime)
        handlers[f"/v1/models/{name}:predict"] = name, "predict", predict_handler
        handlers[f"/v1/models/{name}:feedback"] = name, "feedback", feedback_handler
    return handlers


async def _predict(request: Request, model: ModelRuntime, runtime: Runtime, dialect: Dialect) -> Response:
    caller: Caller = request.scope[CALLER]
    return await predict.predict(request, model, runtime, dialect.select_version(request), dialect, caller)


async def _give_feedback(request: Request, model: ModelRuntime, runtime: Runtime) -> Response:
    return await feedback.give_feedback(request, model, runtime, request.scope[CALLER])
