"""The web page and its files, as the frontend build wrote them to static/, and the documentation of the API."""

from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse

from online.api.openapi import DocumentRoute, show_docs
from online.api.web.branding import LOGO_PATH, Branding
from online.api.web.built_files import BuiltFiles
from online.api.web.rendered_files import RENDERERS, RenderedBuild, RenderedFile
from online.installed import collect_all

STATIC = Path(__file__).parent / "static"
# One document; it reads the path in the browser.
PAGES = ("", "inbox", "repertoire", "draw", "learning", "reports", "shared")
LOGO_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"  # an SVG could hold scripts


def add_pages(app: FastAPI, branding: Branding) -> None:
    app.add_api_route("/openapi.json", DocumentRoute().show, include_in_schema=False)
    app.add_api_route("/docs", show_docs, include_in_schema=False)
    rendered = {name: RenderedBuild(STATIC / name, branding) for name in RENDERERS}

    async def show_page(request: Request) -> Response:
        return respond(request, rendered["index.html"].render())

    async def show_file(request: Request) -> Response:
        return respond(request, rendered[request.url.path.rpartition("/")[2]].render())

    for name in PAGES:
        app.add_api_route(f"/{name}", show_page, include_in_schema=False)
    for name in rendered:
        app.add_api_route(f"/{name}", show_file, include_in_schema=False)
    for page in collect_all("pages"):
        app.add_api_route(f"/{page.name}", partial(show_plugin_page, page.file), include_in_schema=False)
    if branding.logo:
        logo = RenderedFile(
            branding.logo.content,
            branding.logo.media_type,
            {"Cache-Control": "no-cache", "Content-Security-Policy": LOGO_POLICY, "X-Content-Type-Options": "nosniff"},
        )

        async def show_logo(request: Request) -> Response:
            return logo.respond(request)

        app.add_api_route(f"/{LOGO_PATH}", show_logo, include_in_schema=False)
    if STATIC.exists():
        app.mount("/", BuiltFiles(directory=STATIC), name="static")


async def show_plugin_page(file: Path) -> Response:
    """Send the page of a plugin."""
    return FileResponse(file, media_type="text/html; charset=utf-8", headers={"Cache-Control": "no-cache"})


def respond(request: Request, file: RenderedFile | None) -> Response:
    if file is not None:
        return file.respond(request)
    return HTMLResponse(
        "<h1>online</h1><p>The page is not built: run <code>make page</code>. "
        "The API is documented at <a href='docs'>docs</a>.</p>"
    )
