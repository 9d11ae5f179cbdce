"""Forwarding between the workers of one service.

    caller --> another worker --predictions-----> answered by that worker
                              --all other paths--> the first worker, through a loopback port --> back, unchanged

The first worker trusts the other workers about who the caller is. Its port is reachable from this
machine only, whose users are trusted anyway (auth/locality.py).
"""

import json
from collections.abc import Iterable

import httpx
from fastapi import Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from online.api.middleware.paths import ProxyPrefixes
from online.api.routes import RouteTable
from online.settings import Settings

CALLER_HEADER = b"x-online-caller"
CONNECTION_HEADERS = frozenset(  # they belong to one connection; every sender sets its own `date`
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade expect date".split()
)
KEEP_ALIVE_S = 2.0  # less than the first worker's, so that no connection is used that it is just closing

Headers = Iterable[tuple[bytes, bytes]]


class Forwarder:
    """Middleware of the other workers: forwards what only the first worker can answer."""

    def __init__(self, app: ASGIApp, port: int, routes: RouteTable, settings: Settings) -> None:
        """port: the loopback port of the first worker."""
        self.app, self.port, self.routes, self.prefixes = app, port, routes, ProxyPrefixes(settings)
        limits = httpx.Limits(max_connections=None, keepalive_expiry=KEEP_ALIVE_S)
        self._transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self.is_answered_here(scope):
            await self.app(scope, receive, send)
            return
        response = await self._forward(Request(scope, receive))
        await response(scope, receive, send)

    def is_answered_here(self, scope: Scope) -> bool:
        """Return whether this worker answers a request itself instead of forwarding it to the first one."""
        return self.routes.is_answered_by_every_worker(scope["method"], self.prefixes.route_path(scope))

    async def _forward(self, request: Request) -> JSONResponse | StreamingResponse:
        try:
            answer = await self._transport.handle_async_request(self._outgoing(request))
        except ClientDisconnect:
            return JSONResponse({"error": "the caller disconnected"}, 400)  # it is sent to a closed connection
        except httpx.TransportError as error:
            return JSONResponse({"error": f"the first worker does not answer: {error!r}"}, 503, {"Retry-After": "1"})
        response = StreamingResponse(answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose))
        response.raw_headers = end_to_end_headers(answer.headers.raw)
        return response

    def _outgoing(self, request: Request) -> httpx.Request:
        scope = request.scope
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        url = httpx.URL(scheme="http", host="127.0.0.1", port=self.port, raw_path=scope["raw_path"] + query)
        headers = [*end_to_end_headers(scope["headers"]), (CALLER_HEADER, describe_caller(scope))]
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        return httpx.Request(request.method, url, headers=headers, content=request.stream() if has_body else None)


class ForwardedCaller:
    """Middleware of the first worker: restores the caller of a forwarded request."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        """port: where the other workers forward requests to."""
        self.app, self.port = app, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["server"][1] == self.port:
            callers = [value for name, value in scope["headers"] if name == CALLER_HEADER]
            if callers:
                client, scheme = json.loads(callers[-1])
                scope["client"], scope["scheme"] = tuple(client), scheme
        await self.app(scope, receive, send)


def end_to_end_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers that are not about one connection."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in CONNECTION_HEADERS and name.lower() != CALLER_HEADER
    ]


def describe_caller(scope: Scope) -> bytes:
    """Return the client's address and scheme as JSON, to be sent ahead of a forwarded request."""
    return json.dumps([scope["client"] or ("", 0), scope["scheme"]]).encode()
