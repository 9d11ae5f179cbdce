"""create_app: the whole service as one ASGI application.

request --> WidgetAccess --> BrowserHeaders --> ErrorResponses --> BrowserRules --> PathPrefix --> HeadRequests --> Authentication
                                                                                      |
                        ContentDecoding --> FastPath | Compression --> routes of every protocol | pages
                                                |
                                            Runtime (models, learner, jobs)
"""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.middleware.cors import CORSMiddleware
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from online import __version__
from online.api import openapi, pages, unmatched
from online.api.auth import holder_routes, key_routes, session
from online.api.auth.authentication import Authentication, CallerMemory
from online.api.auth.callers import Callers
from online.api.auth.cookies import Cookies
from online.api.auth.exposure import check_exposure
from online.api.auth.keys import KeyTable
from online.api.http.direct import DirectPredictions
from online.api.http.dispatch import FastPath, list_handlers
from online.api.middleware.browser_rules import BrowserHeaders, BrowserRules, browser_headers
from online.api.middleware.content_codings import ACCEPTED, ContentDecoding
from online.api.middleware.errors import ErrorResponses
from online.api.middleware.paths import HeadRequests, PathPrefix
from online.api.middleware.widget_access import WidgetAccess
from online.api.responses import json_response, live_headers
from online.api.rest import (
    classes,
    conversations,
    explanations,
    feedback,
    feedback_links,
    health,
    jobs,
    models,
    monitoring,
    predict,
    replays,
    replies,
    reports,
    versions,
)
from online.api.rest.curating import inbox, review
from online.api.rest.exchange import cohorts
from online.api.rest.operating import devices, usage
from online.api.routes import RouteTable
from online.api.shared_routes import NATIVE
from online.api.signed_urls import SignedUrls
from online.api.web.branding import load_branding
from online.api.web.compression import Compression
from online.api.web.server_pages import ServerPages, wants_page
from online.errors import AlreadyDecided, OnlineError, QuotaExceeded, TextTooLong
from online.installed import Parts, collect, collect_all
from online.serving.building import build
from online.serving.parts import ServicePart
from online.serving.runtime import Runtime
from online.settings import Settings

MODULES = (
    predict,
    feedback,
    models,
    replies,
    feedback_links,
    conversations,
    explanations,
    classes,
    reports,
    replays,
    versions,
    jobs,
    monitoring,
    health,
    review,
    usage,
    devices,
    inbox,
    cohorts,
    session,
    key_routes,
    holder_routes,
)
ROUTES = RouteTable(
    [
        *(module.router for module in MODULES),
        *collect_all("routers"),
        unmatched.router,  # last: what no other route matches
    ]
)
REFUSAL_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    415: {"Accept-Encoding": ACCEPTED},
    429: {"Retry-After": "1"},
}

NO_FREE_FILES = errno.EMFILE, errno.ENFILE


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
        return WidgetAccess(inner, settings, ROUTES.find_widget_methods)


def create_app(
    settings: Settings,
    with_learner: bool = True,
    is_primary: bool = True,
    with_store_process: bool | None = None,
    worker: int = 0,
) -> FastAPI:
    """Build the application. Raises SetupError where it cannot be opened as configured.

    is_primary: whether this process is the only worker, or the first. with_store_process: whether a process of its own commits
    feedback, and copies predictions into the store; None: if there is a learner. worker: number of this process; the first is 0.
    """
    runtime = build(
        settings, with_learner, is_primary, with_learner if with_store_process is None else with_store_process, worker
    )
    branding = load_branding(settings)
    app = Application(
        title="online",
        version=__version__,
        summary="A model that keeps learning while it serves.",
        lifespan=partial(_lifespan, runtime),
        openapi_url=None,  # DocumentRoute
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Compression, routes=[*ROUTES.list_compressed(), "/openapi.json"])
    app.add_middleware(FastPath, handlers=list_handlers(ROUTES, runtime), runtime=runtime)
    app.add_middleware(ContentDecoding)
    callers = Callers(settings, KeyTable(runtime.workspace.store), Cookies(settings, runtime.workspace.keys))
    check_exposure(settings, callers)
    app.state.callers, app.state.rates, app.state.routes = callers, runtime.rates, ROUTES
    memory = CallerMemory(callers)
    app.add_middleware(Authentication, memory=memory, rates=app.state.rates)
    app.state.direct = DirectPredictions(runtime, memory, app.state.rates, browser_headers(settings), ROUTES)
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
    app.add_middleware(BrowserRules, settings=settings)  # added last: it comes first
    app.state.server_pages = ServerPages(branding, pages.STATIC)
    _compose(app, runtime)
    ROUTES.include_in(app)
    _handle_errors(app, runtime)
    openapi.add_schemas(app, ROUTES.list_bodies())
    pages.add_pages(app, branding)
    return app


@asynccontextmanager
async def _lifespan(runtime: Runtime, app: FastAPI) -> AsyncIterator[None]:
    callers: Callers = app.state.callers
    parts: Parts = app.state.parts
    try:
        await runtime.start()
        runtime.run_until_stop(callers.keys.watch())
        await runtime.start_parts(parts)
        yield
    finally:
        for part in parts.list(ServicePart):
            await part.close()
        await runtime.stop()


def _compose(app: FastAPI, runtime: Runtime) -> None:
    """Set up what handlers find in the application's state."""
    app.state.runtime = runtime
    app.state.dialect = next(iter(collect("dialect")), NATIVE)
    app.state.signed_urls = SignedUrls(runtime.workspace.keys, runtime.settings)
    if runtime.is_primary:
        app.state.signed_urls.warn_if_off()
    app.state.parts = Parts(collect("api_part", app))


def describe_details(error: Exception) -> dict[str, Any]:
    """What a page says in its own words, beside the sentence."""
    if isinstance(error, TextTooLong):
        return {"given": error.given, "limit": error.limit}
    if isinstance(error, AlreadyDecided):
        return {"by": error.by, "action": error.action}
    if isinstance(error, OnlineError) and error.code:
        return {"cause": {"code": error.code, "figures": {**error.figures}}}
    return {}


def _handle_errors(app: FastAPI, runtime: Runtime) -> None:
    """Answer every error, and count it.

    The answer is {"error": "..."}, in the shape of a plugin's protocol on its paths, and a page where a person waits in a browser.
    """
    server_pages: ServerPages = app.state.server_pages

    def refuse(request: Request, status: int, text: str, error: Exception) -> Response:
        runtime.metrics.refused.labels(str(status)).inc()
        model = runtime.models.get(str(request.path_params.get("model", "")))
        headers = {**REFUSAL_HEADERS.get(status, {})}
        headers |= live_headers(model) if model else {}
        if wants_page(request):
            page = server_pages.render_error(request, status, error, text)
            page.headers.update(headers)
            return page
        of_protocol = collect("error_body", request, status, text, error)
        content = of_protocol[0] if of_protocol else {"error": text, **describe_details(error)}
        return json_response(content, status, headers)

    @app.exception_handler(OnlineError)
    async def refuse_ours(request: Request, error: OnlineError) -> Response:
        response = refuse(request, error.status, str(error), error)
        if isinstance(error, QuotaExceeded):
            response.headers["Retry-After"] = str(error.retry_after_s)
        return response

    @app.exception_handler(HTTPException)
    async def refuse_http(request: Request, error: HTTPException) -> Response:
        method = "GET" if request.method == "HEAD" else request.method  # both have the same answer
        response = refuse(request, error.status_code, f"{method} {request.url.path}: {error.detail}", error)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def refuse_invalid(request: Request, error: RequestValidationError) -> Response:
        findings = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return refuse(request, 400, "; ".join(findings), error)

    @app.exception_handler(Exception)
    async def report_failure(request: Request, error: Exception) -> Response:
        if isinstance(error, OSError) and error.errno in NO_FREE_FILES:
            return refuse(request, 503, "the service can open no more files (ulimit -n); try again later", error)
        text = f"internal error: {type(error).__name__}; the log of the service has the details"
        return refuse(request, 500, text, error)
