"""Between the workers of one service: whoever is asked what only the first can answer asks the first.

caller --> another worker --prediction--> answered here
                          --anything else--> the first worker, by a port of this machine --> back, as it comes

The first worker takes the word of the others for who the caller is. That port can be reached from this machine alone, whose
people are trusted with everything anyway.
"""

import json
import re
from collections.abc import Iterable

import httpx
from fastapi import Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

PREDICTIONS = re.compile(
    r"/v1/models/[^/]+(/(versions|labels)/[^/]+)?:(predict|classify|regress)"
    r"|/v2/models/[^/]+(/versions/[^/]+)?/infer"
    r"|/v1/chat/completions"
)
LIVENESS = "/healthz"
CALLER = b"x-online-caller"
OF_ONE_CONNECTION = frozenset(  # `date` among them: whoever sends a message says when
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade expect date".split()
)
KEPT_OPEN_S = 2.0  # less than the first worker keeps it open, so that none is used that it just closed

Headers = Iterable[tuple[bytes, bytes]]


class Handing:
    """What a worker does not answer itself is handed to the first."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        """port: the first worker's, of this machine."""
        self.app, self.port = app, port
        limits = httpx.Limits(max_connections=None, keepalive_expiry=KEPT_OPEN_S)
        self._first = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or answered_here(scope["method"], scope["path"]):
            await self.app(scope, receive, send)
            return
        response = await self._handed(Request(scope, receive))
        await response(scope, receive, send)

    async def _handed(self, request: Request) -> JSONResponse | StreamingResponse:
        scope = request.scope
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        url = httpx.URL(scheme="http", host="127.0.0.1", port=self.port, raw_path=scope["raw_path"] + query)
        headers = [*of_the_message(scope["headers"]), (CALLER, caller_of(scope))]
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        asked = httpx.Request(request.method, url, headers=headers, content=request.stream() if has_body else None)
        try:
            answered = await self._first.handle_async_request(asked)
        except ClientDisconnect:
            return JSONResponse({"error": "the caller went away"}, 400)  # which nobody hears
        except httpx.TransportError as error:
            return JSONResponse({"error": f"the first worker does not answer: {error!r}"}, 503, {"Retry-After": "1"})
        response = StreamingResponse(
            answered.aiter_raw(), answered.status_code, background=BackgroundTask(answered.aclose)
        )
        response.raw_headers = of_the_message(answered.headers.raw)
        return response


class Received:
    """The first worker: who the caller of a request is that another worker handed over."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        """port: to which the others hand what they are asked."""
        self.app, self.port = app, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["server"][1] == self.port:
            told = [value for name, value in scope["headers"] if name == CALLER]
            if told:
                caller, scheme = json.loads(told[-1])
                scope["client"], scope["scheme"] = tuple(caller), scheme
        await self.app(scope, receive, send)


def answered_here(method: str, path: str) -> bool:
    return (method == "POST" and PREDICTIONS.fullmatch(path) is not None) or path == LIVENESS


def of_the_message(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Those that are not about the connection it came by."""
    return [
        (name, value) for name, value in headers if name.lower() not in OF_ONE_CONNECTION and name.lower() != CALLER
    ]


def caller_of(scope: Scope) -> bytes:
    return json.dumps([scope["client"] or ("", 0), scope["scheme"]]).encode()
