"""Compressed answers of the API: what the pages load, such as curves, versions and reports.

    GET --route in the table, 1 kB or more, client accepts it--> gzip
    any other request, such as predict, and event streams------> unchanged

The table leaves out the answers that hold a secret, such as sessions and keys, and the words of users. The length of a compressed
answer tells something about its content to those who can add text to it (the attack BREACH).
"""

import asyncio
import gzip
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from online.api.web.negotiation import pick_encoding

MIN_BYTES = 1_000
MAX_BYTES = 16_000_000  # a longer answer is sent as it is: it is held in memory while it is compressed
BLOCKING_BYTES = 32_000  # what the event loop compresses itself, in about half a millisecond
LEVEL = 5
TYPES = ("application/json", "application/x-ndjson", "text/html", "text/csv", "text/plain")


class Compression:
    """Compresses the answers of listed routes. It is the middleware next to the router."""

    def __init__(self, app: ASGIApp, routes: Collection[str]) -> None:
        """routes: paths as the router names them."""
        self.app, self.routes = app, frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            await self.app(scope, receive, CompressedAnswer(self.routes, scope, send).send)
        else:
            await self.app(scope, receive, send)


class CompressedAnswer:
    """One answer on its way to the client."""

    def __init__(self, routes: frozenset[str], scope: Scope, send: Send) -> None:
        self.routes, self.scope, self.forward = routes, scope, send
        self._start: Message | None = None  # of an answer that is compressed
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        """Pass a message on, compressing the body if it is large enough."""
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif self._start is None:
            await self.forward(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _begin(self, start: Message) -> None:
        if is_compressible(start) and getattr(self.scope.get("route"), "path", None) in self.routes:
            MutableHeaders(scope=start).add_vary_header("Accept-Encoding")
            if pick_encoding(Headers(scope=self.scope).get("accept-encoding", ""), ("gzip",)) == "gzip":
                self._start = start
                return
        await self.forward(start)

    async def _finish(self, start: Message) -> None:
        whole = bytes(self._body)
        if len(whole) <= BLOCKING_BYTES:
            body = compress(whole)
        else:
            body = await asyncio.to_thread(compress, whole)
        headers = MutableHeaders(scope=start)
        headers["Content-Encoding"], headers["Content-Length"] = "gzip", str(len(body))
        if (tag := headers.get("etag", "")).startswith('"'):
            headers["ETag"] = f"W/{tag}"  # the same content in other bytes
        await self.forward(start)
        await self.forward({"type": "http.response.body", "body": body})


def is_compressible(start: Message) -> bool:
    """Return whether it is a whole text of a length that is worth it. An event stream has no length."""
    headers = Headers(raw=start["headers"])
    length = headers.get("content-length", "")
    return (
        start["status"] == 200
        and length.isdigit()
        and MIN_BYTES <= int(length) <= MAX_BYTES
        and "content-encoding" not in headers
        and headers.get("content-type", "").partition(";")[0] in TYPES
    )


def compress(body: bytes) -> bytes:
    """Compress with gzip, to the same bytes for the same body."""
    return gzip.compress(body, LEVEL, mtime=0)
