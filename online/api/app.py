"""create_app: the whole service as one ASGI application.

request --> middlewares (middleware/stack.py) --> routes of the core (core_routers.py) and of plugins | pages
                                                    |
                                                 Runtime (models, learner, jobs)
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI

from online import __version__
from online.api import openapi, pages
from online.api.auth.authentication import CallerMemory
from online.api.auth.callers import Callers
from online.api.auth.cookies import Cookies
from online.api.auth.keys import KeyTable
from online.api.core_routers import ROUTES
from online.api.error_answers import handle_errors
from online.api.http.direct import DirectPredictions
from online.api.middleware.browser_rules import browser_headers
from online.api.middleware.stack import Application, add_middlewares
from online.api.shared_routes import NATIVE
from online.api.web.branding import load_branding
from online.api.web.server_pages import ServerPages
from online.errors import SetupError
from online.installed import ContributedParts, collect, collect_one
from online.serving.building import build
from online.serving.parts import ServicePart
from online.serving.runtime import Runtime
from online.settings import Settings
from online.telemetry import log_event

log = logging.getLogger("online.access")


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
    callers = Callers(settings, KeyTable(runtime.workspace.store), Cookies(settings, runtime.workspace.keys))
    check_exposure(settings, callers)
    memory = CallerMemory(callers)
    app.state.callers, app.state.rates, app.state.routes = callers, runtime.rates, ROUTES
    app.state.outermost = []  # of plugins: each wraps the whole application
    app.state.direct = DirectPredictions(runtime, memory, runtime.rates, browser_headers(settings), ROUTES)
    add_middlewares(app, runtime, memory, ROUTES)
    app.state.server_pages = ServerPages(branding, pages.STATIC)
    _compose(app, runtime)
    ROUTES.include_in(app)
    handle_errors(app, runtime)
    openapi.add_schemas(app, ROUTES.list_bodies())
    pages.add_pages(app, branding)
    return app


@asynccontextmanager
async def _lifespan(runtime: Runtime, app: FastAPI) -> AsyncIterator[None]:
    callers: Callers = app.state.callers
    parts: ContributedParts = app.state.parts
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
    app.state.dialect = collect_one("dialect", NATIVE)
    app.state.parts = ContributedParts(collect("api_part", app))


def check_exposure(settings: Settings, callers: Callers) -> None:
    """Say who may do what without a key. Raises SetupError where other machines would find the service open."""
    if not callers.is_on_loopback and not callers.needs_keys and not settings.open:
        raise SetupError(
            f"the service would listen on {settings.host}, where other machines reach it, and there is no key: create one with "
            "`online keys create`, or set open = true to let every caller predict, teach and curate"
        )
    if settings.open:
        log_event(log, "open: every caller may predict, teach and curate", logging.WARNING, host=settings.host)
    elif callers.is_open_to_this_machine:
        log_event(log, "open to this machine: every program on it may do everything without a key")
