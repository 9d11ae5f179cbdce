"""The web page and its files, as the frontend build wrote them to static/, and the documentation of the API."""

import mimetypes
import os
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from online.api.openapi import DocumentRoute, show_docs
from online.api.web.branding import LOGO_PATH, Branding
from online.api.web.negotiation import IDENTITY, pick_encoding
from online.api.web.rendered_files import RENDERERS, RenderedBuild, RenderedFile
from online.installed import collect_all

STATIC = Path(__file__).parent / "static"
# One document; it reads the path in the browser.
PAGES = ("", "inbox", "repertoire", "draw", "learning", "reports", "cluster", "routes", "shared")
LOGO_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"  # an SVG could hold scripts


def add_pages(app: FastAPI, branding: Branding) -> None:
    """Add the page, its files and the documentation of the API to the application."""
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
    """Answer with a file of the page, or explain how to build the page where there is none."""
    if file is not None:
        return file.respond(request)
    return HTMLResponse(
        "<h1>online</h1><p>The page is not built: run <code>make page</code>. "
        "The API is documented at <a href='docs'>docs</a>.</p>"
    )


# The files of the frontend's build, compressed where the client accepts it.
#
# The build writes app.js.br and app.js.gz beside app.js. A request for app.js gets the one it prefers, with an ETag of
# its own; the compressed files have no addresses of their own.

ENDINGS = {"br": ".br", "gzip": ".gz"}  # by encoding, the best first
WIDGET_FILES = ("widget.js", "widget.d.ts")  # which pages of other origins load
OTHER_ORIGINS = {"Cross-Origin-Resource-Policy": "cross-origin", "Access-Control-Allow-Origin": "*"}
FOR_EVER = "public, max-age=31536000, immutable"


class BuiltFiles(StaticFiles):
    """Static files with cache headers.

    Files in assets/ have a hash in their name and may be cached forever. A browser revalidates all others.
    Those of the widget may be loaded by pages of every origin: they are the same for every caller, and give no access.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer with a file of the build; compressed copies cannot be requested by name."""
        if path.endswith(tuple(ENDINGS.values())):
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = FOR_EVER if path.startswith("assets/") else "no-cache"
        if path in WIDGET_FILES:
            response.headers.update(OTHER_ORIGINS)
        return response

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Answer with the smallest copy that the client accepts: as it is, or compressed by the build."""
        sizes = {name: stat_file(f"{full_path}{ending}") for name, ending in ENDINGS.items()}
        found = {name: stat for name, stat in sizes.items() if stat is not None}
        encoding = pick_encoding(Headers(scope=scope).get("accept-encoding", ""), [*found])
        if encoding == IDENTITY:
            response = super().file_response(full_path, stat_result, scope, status_code)
        else:
            encoded = f"{full_path}{ENDINGS[encoding]}"
            response = super().file_response(encoded, found[encoding], scope, status_code)
            if response.status_code != 304:
                response.headers["Content-Encoding"] = encoding
                response.headers["Content-Type"] = content_type(full_path)
        if found:
            response.headers["Vary"] = "Accept-Encoding"
        return response


def stat_file(path: str) -> os.stat_result | None:
    """Return the status of a file; None if there is none."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def content_type(path: str | os.PathLike[str]) -> str:
    """Return the content type of a text file, as it is sent where the file is not compressed."""
    kind = mimetypes.guess_type(Path(path).name)[0] or "text/plain"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
