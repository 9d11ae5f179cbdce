"""create_app(settings): builds the parts, joins them, owns start and stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from online import __version__
from online.errors import OnlineError
from online.schemas import FeedbackRequest, NewReply, PredictRequest, RollbackRequest
from online.serving import admin, api, chat, labels
from online.serving.parts import Parts, build
from online.settings import Settings

STATIC = Path(__file__).parent / "static"
RAW_BODIES = (PredictRequest, FeedbackRequest, NewReply, RollbackRequest)


def create_app(settings: Settings, with_learner: bool = True) -> FastAPI:
    """The whole service as an ASGI application. Raises SetupError when it cannot be opened as configured."""
    parts = build(settings, with_learner)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await parts.start()
            yield
        finally:
            await parts.stop()

    app = FastAPI(
        title="online",
        version=__version__,
        summary="a model that keeps learning while it serves",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.parts = parts
    for router in (api.router, chat.router, labels.router, admin.router):
        app.include_router(router)
    _answer_errors(app, parts)
    _describe_raw_bodies(app)
    _serve_pages(app)
    return app


def _answer_errors(app: FastAPI, parts: Parts) -> None:
    """Every error as {"error": "..."}, counted."""

    def refuse(request: Request, status: int, text: str) -> Response:
        parts.metrics.refused.labels(str(status)).inc()
        model = parts.models.get(str(request.path_params.get("model", "")))
        return api.answer({"error": text}, status, api.live_stamp(model) if model else None)

    @app.exception_handler(OnlineError)
    async def ours(request: Request, error: OnlineError) -> Response:
        return refuse(request, error.status, str(error))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return refuse(request, error.status_code, f"{request.method} {request.url.path}: {error.detail}")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return refuse(
            request, 400, "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        )

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        return refuse(
            request, 500, f"something failed inside: {type(error).__name__}; the service's log has the details"
        )


def _describe_raw_bodies(app: FastAPI) -> None:
    """Bodies are read raw, so their schemas are added to the OpenAPI document by hand."""
    generate = app.openapi

    def openapi() -> dict[str, object]:
        document = generate()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for model in RAW_BODIES:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas[model.__name__] = schema
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _serve_pages(app: FastAPI) -> None:
    """The page and the API's documentation, from this origin alone."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="online",
            swagger_js_url="/docs/swagger-ui-bundle.js",
            swagger_css_url="/docs/swagger-ui.css",
            swagger_favicon_url="/favicon.svg",
        )

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        built = STATIC / "index.html"
        if built.exists():
            return FileResponse(built, headers={"Cache-Control": "no-cache"})
        return HTMLResponse(
            "<h1>online</h1><p>The page is not built: run <code>make page</code>. "
            "The API is described at <a href='/docs'>/docs</a>.</p>"
        )

    if STATIC.exists():
        app.mount("/", StaticFiles(directory=STATIC), name="static")
