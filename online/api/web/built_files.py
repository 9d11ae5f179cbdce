"""The files of the frontend's build, compressed where the client accepts it.

The build writes app.js.br and app.js.gz beside app.js. A request for app.js gets the one it prefers, with an ETag of
its own; the compressed files have no addresses of their own.
"""

import mimetypes
import os
from pathlib import Path

from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from online.api.web.negotiation import IDENTITY, pick_encoding

ENDINGS = {"br": ".br", "gzip": ".gz"}  # by encoding, the best first
WIDGET_FILES = ("widget.js", "widget.d.ts")  # which pages of other origins load
OTHER_ORIGINS = {"Cross-Origin-Resource-Policy": "cross-origin", "Access-Control-Allow-Origin": "*"}
FOR_EVER = "public, max-age=31536000, immutable"


class BuiltFiles(StaticFiles):
    """Static files with cache headers.

    Files in assets/ have a hash in their name and may be cached forever. A browser revalidates all others.
    Those of the widget may be loaded by pages of every origin: they are the same for everybody, and let nobody in.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
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
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def content_type(path: str | os.PathLike[str]) -> str:
    """The content type of a text file, as it is sent where the file is not compressed."""
    kind = mimetypes.guess_type(Path(path).name)[0] or "text/plain"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
