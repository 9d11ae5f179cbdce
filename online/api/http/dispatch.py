"""The fast path: predict and feedback, found by one look into a dictionary.

    POST /v1/models/chat:predict   --> FastPath --> the handler
    POST /v1/models/chat:feedback
    any other request              --> the other routes in turn, which takes longer than a small model's prediction

It is the last of the application's middlewares, so it is behind the same middlewares and error handlers
as every other route.
"""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from online.api.auth.authentication import CALLER
from online.api.auth.scopes import check_scope
from online.api.middleware.paths import route_path
from online.api.routes import FastHandler, Route
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime

Handlers = dict[tuple[str, str], tuple[Route, FastHandler, ModelRuntime]]  # by method and path


def list_handlers(routes: Iterable[Route], runtime: Runtime) -> Handlers:
    """The fast handlers of every model."""
    return {
        (route.method, route.path.format(model=name)): (route, route.fast, model)
        for route in routes
        if route.fast is not None
        for name, model in runtime.models.items()
    }


class FastPath:
    """Calls the fast handler of a request whose path is in its table, and the router for any other request."""

    def __init__(self, app: ASGIApp, handlers: Handlers, runtime: Runtime) -> None:
        self.app, self.handlers, self.runtime = app, handlers, runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self.handlers.get((scope["method"], route_path(scope))) if scope["type"] == "http" else None
        if found is None:
            await self.app(scope, receive, send)
            return
        route, handler, model = found
        caller, name = scope[CALLER], model.spec.name
        check_scope(caller, route.access, name)
        scope["path_params"] = {route.model_parameter: name}
        response = await handler(Request(scope, receive, send), model, self.runtime, caller)
        await response(scope, receive, send)
