"""The middlewares in front of the routes, from the outermost to the innermost.

request --> WidgetAccess --> BrowserHeaders --> ErrorResponses --> BrowserRules --> PathPrefix --> HeadRequests --> Authentication
                                                                                      |
                        ContentDecoding --> FastPath | Compression --> routes of the core and of plugins | pages
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.middleware.cors import CORSMiddleware
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from online.api.auth.authentication import CALLER, Authentication, CallerMemory
from online.api.auth.scopes import check_scope
from online.api.middleware.browser_rules import BrowserHeaders, BrowserRules, WidgetAccess
from online.api.middleware.content_codings import ContentDecoding
from online.api.middleware.paths import HeadRequests, PathPrefix, route_path
from online.api.routes import FastHandler, Route, RouteTable
from online.api.web.compression import Compression
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime


class Application(FastAPI):
    """FastAPI with a shorter stack in front of its router.

    FastAPI's own telemetry, limit of bodies and error middlewares are left out: `telemetry` counts
    requests, `read_body` limits bodies, and ErrorResponses answers errors. They took a third of the
    time of a small model's prediction.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
        else:
            await Starlette.__call__(self, scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Build the stack: the middlewares of this service in front of the router, without Starlette's own two.

        In front of all are those of `state.outermost`, which see the answers to errors as well.
        """
        stack: ASGIApp = AsyncExitStackMiddleware(self.router)
        for middleware in reversed(self.user_middleware):
            stack = middleware.cls(stack, *middleware.args, **middleware.kwargs)
        settings = self.state.runtime.settings
        inner = BrowserHeaders(ErrorResponses(stack, self.exception_handlers), settings)
        outer: ASGIApp = WidgetAccess(inner, settings, self.state.routes.find_widget_methods)
        for wrap in self.state.outermost:
            outer = wrap(outer)
        return outer


def add_middlewares(app: FastAPI, runtime: Runtime, memory: CallerMemory, routes: RouteTable) -> None:
    """Add them from the innermost to the outermost; those of `Application` are further out."""
    settings = runtime.settings
    app.add_middleware(Compression, routes=[*routes.list_compressed(), "/openapi.json"])
    app.add_middleware(FastPath, handlers=list_handlers(routes, runtime), runtime=runtime)
    app.add_middleware(ContentDecoding)
    app.add_middleware(Authentication, memory=memory, rates=runtime.rates)
    app.add_middleware(HeadRequests)
    app.add_middleware(PathPrefix, settings=settings)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["*"],
        )
    app.add_middleware(BrowserRules, settings=settings)


Handlers = dict[tuple[str, str], tuple[Route, FastHandler, ModelRuntime]]  # by method and path


def list_handlers(routes: Iterable[Route], runtime: Runtime) -> Handlers:
    """Return the fast handlers of every model."""
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


class ErrorResponses:
    """Answers an exception with the handler of its nearest class, wherever it was raised.

    One layer takes the place of Starlette's two, which cost an eighth of a small model's prediction.
    An exception that only the handler of `Exception` knows is answered, and raised again for the
    server to log. So is one that was raised after the response had begun.
    """

    def __init__(self, app: ASGIApp, handlers: Mapping[Any, Any]) -> None:
        """handlers: (request, exception) -> response, by class; one is of `Exception`."""
        self.app, self.handlers = app, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except ClientDisconnect:
            return  # in the middle of its request: nobody is left to answer
        except Exception as error:
            if has_started or scope["type"] != "http":
                raise
            known = next(each for each in type(error).__mro__ if each in self.handlers)
            response = await self.handlers[known](Request(scope, receive, send), error)
            if known is Exception:
                response.headers["Connection"] = "close"  # the server closes it after what is raised here
            await response(scope, receive, send)
            if known is Exception:
                raise
