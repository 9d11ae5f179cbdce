"""The middlewares in front of the routes, from the outermost to the innermost.

request --> WidgetAccess --> BrowserHeaders --> ErrorResponses --> BrowserRules --> PathPrefix --> HeadRequests --> Authentication
                                                                                      |
                        ContentDecoding --> FastPath | Compression --> routes of the core and of plugins | pages
"""

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.middleware.cors import CORSMiddleware
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from online.api.auth.authentication import Authentication, CallerMemory
from online.api.http.dispatch import FastPath, list_handlers
from online.api.middleware.browser_rules import BrowserHeaders, BrowserRules
from online.api.middleware.content_codings import ContentDecoding
from online.api.middleware.errors import ErrorResponses
from online.api.middleware.paths import HeadRequests, PathPrefix
from online.api.middleware.widget_access import WidgetAccess
from online.api.routes import RouteTable
from online.api.web.compression import Compression
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
        stack: ASGIApp = AsyncExitStackMiddleware(self.router)
        for middleware in reversed(self.user_middleware):
            stack = middleware.cls(stack, *middleware.args, **middleware.kwargs)
        settings = self.state.runtime.settings
        inner = BrowserHeaders(ErrorResponses(stack, self.exception_handlers), settings)
        return WidgetAccess(inner, settings, self.state.routes.find_widget_methods)


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
