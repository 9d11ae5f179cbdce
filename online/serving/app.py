"""create_app(settings): builds the parts, joins them, owns start and stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import Scope

from online import __version__
from online.errors import NotFound, OnlineError
from online.schemas import (
    BatchPredictRequest,
    ChatRequest,
    EditReply,
    EndQuarantine,
    FeedbackRequest,
    FreezeRequest,
    LabelRequest,
    LinkedFeedback,
    NewReply,
    OutsideEvent,
    PredictRequest,
    RollbackRequest,
    Score,
)
from online.serving import (
    admin,
    api,
    chat,
    completions,
    conversations,
    inference_rest,
    integrations,
    jobs_rest,
    labels,
    linked,
    reporting,
    tensorflow_rest,
    versions,
    why,
)
from online.serving.parts import Parts, build
from online.settings import Settings

if TYPE_CHECKING:
    from online.serving.rpc import Rpc

STATIC = Path(__file__).parent / "static"
PAGES = ("", "repertoire", "draw", "learning", "reports")  # one document; which page it shows is its own matter
RAW_BODIES = (
    PredictRequest,
    BatchPredictRequest,
    EditReply,
    FeedbackRequest,
    EndQuarantine,
    FreezeRequest,
    LabelRequest,
    NewReply,
    RollbackRequest,
    ChatRequest,
    LinkedFeedback,
    OutsideEvent,
    Score,
)


def create_app(settings: Settings, with_learner: bool = True, leads: bool = True) -> FastAPI:
    """The whole service as an ASGI application. leads: as the only worker does, or the first.

    Raises SetupError when it cannot be opened as configured.
    """
    parts = build(settings, with_learner, leads)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        rpc = rpc_of(parts)
        try:
            await parts.start()
            if rpc is not None:
                await rpc.start()
            yield
        finally:
            if rpc is not None:
                await rpc.stop()
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
    own = (
        api,
        chat,
        completions,
        linked,
        conversations,
        why,
        labels,
        integrations,
        reporting,
        versions,
        jobs_rest,
        admin,
    )
    for door in (tensorflow_rest, inference_rest, *own):
        app.include_router(door.router)
    app.include_router(tensorflow_rest.rest)
    _answer_errors(app, parts)
    _describe_raw_bodies(app)
    _serve_pages(app)
    return app


def rpc_of(parts: Parts) -> "Rpc | None":
    """The server of gRPC; none where there is no port for it, and then its library is not loaded either."""
    if parts.settings.grpc_port is None or not parts.leads:
        return None
    from online.serving.rpc import Rpc

    return Rpc(parts, parts.settings.grpc_port)


def _answer_errors(app: FastAPI, parts: Parts) -> None:
    """Every error as {"error": "..."}, or as OpenAI's clients read it where they ask; counted."""

    def refuse(request: Request, status: int, text: str, missing: bool = False) -> Response:
        parts.metrics.refused.labels(str(status)).inc()
        model = parts.models.get(str(request.path_params.get("model", "")))
        chat = request.url.path == completions.PATH
        content = completions.error_content(status, text, missing) if chat else {"error": text}
        headers = {"Retry-After": "1"} if status == 429 else {}
        return api.answer(content, status, headers | (api.live_stamp(model) if model else {}))

    @app.exception_handler(OnlineError)
    async def ours(request: Request, error: OnlineError) -> Response:
        return refuse(request, error.status, str(error), isinstance(error, NotFound))

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

    async def page() -> Response:
        built = STATIC / "index.html"
        if built.exists():
            return FileResponse(built, headers={"Cache-Control": "no-cache"})
        return HTMLResponse(
            "<h1>online</h1><p>The page is not built: run <code>make page</code>. "
            "The API is described at <a href='/docs'>/docs</a>.</p>"
        )

    for name in PAGES:
        app.add_api_route(f"/{name}", page, include_in_schema=False)
    if STATIC.exists():
        app.mount("/", BuiltFiles(directory=STATIC), name="static")


class BuiltFiles(StaticFiles):
    """What is named by what it holds may be kept for good; of the rest, the service worker foremost, a browser asks again."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        named = path.startswith("assets/")
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if named else "no-cache"
        if path.endswith(".webmanifest"):
            response.headers["Content-Type"] = "application/manifest+json"
        return response
