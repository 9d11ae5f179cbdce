"""The web page and its files, as the frontend build wrote them to static/, and the documentation of the API."""

from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from online.api.openapi import DocumentRoute, show_docs

STATIC = Path(__file__).parent / "static"
PAGES = ("", "repertoire", "draw", "learning", "reports", "shared")  # one document; it reads the path in the browser


def add_pages(app: FastAPI) -> None:
    app.add_api_route("/openapi.json", DocumentRoute(app).show, include_in_schema=False)
    app.add_api_route("/docs", show_docs, include_in_schema=False)
    for name in PAGES:
        app.add_api_route(f"/{name}", show_page, include_in_schema=False)
    if STATIC.exists():
        app.mount("/", BuiltFiles(directory=STATIC), name="static")


async def show_page() -> Response:
    built = STATIC / "index.html"
    if built.exists():
        return FileResponse(built, headers={"Cache-Control": "no-cache"})
    return HTMLResponse(
        "<h1>online</h1><p>The page is not built: run <code>make page</code>. "
        "The API is documented at <a href='docs'>docs</a>.</p>"
    )


class BuiltFiles(StaticFiles):
    """Static files with cache headers.

    Files in assets/ have a hash in their name and may be cached forever. A browser revalidates all others, the
    service worker above all.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        is_hashed = path.startswith("assets/")
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
        if path.endswith(".webmanifest"):
            response.headers["Content-Type"] = "application/manifest+json"
        return response
