"""Paths and methods: the prefix of a reverse proxy, paths that no store can look up, and HEAD requests."""

import asyncio
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from online.api.auth.proxies import TrustedProxies
from online.errors import BadInput
from online.settings import Settings

PREFIX_HEADER, SCHEME_HEADER = b"x-forwarded-prefix", b"x-forwarded-proto"
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


class PathPrefix:
    """Sets the `root_path` of a request that reached the service behind a path prefix, and the scheme that its client used.

    The prefix comes from the setting `root_path`, or from the header X-Forwarded-Prefix of a trusted proxy. /docs, the
    servers entry of the OpenAPI document and signed URLs begin with it. The proxy may strip the
    prefix from the path or leave it there. Raises BadInput for a NUL: Postgres takes no text with one.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.prefixes = app, ProxyPrefixes(settings)
        self.proxies = self.prefixes.proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
                raise BadInput("the path or the query has a NUL character (%00); leave it out")
            if prefix := self.prefixes.find(scope):
                scope["root_path"] = prefix
            if self.proxies.networks:
                scheme = find_header(scope, SCHEME_HEADER)
                scope["scheme"] = self.proxies.find_scheme(client_host(scope), scheme, scope["scheme"])
        await self.app(scope, receive, send)


class ProxyPrefixes:
    """Finds the path prefix behind which a reverse proxy shows the service."""

    def __init__(self, settings: Settings) -> None:
        self.root_path = settings.root_path.rstrip("/")
        self.proxies = TrustedProxies(settings.trusted_proxies)

    def find(self, scope: Scope) -> str:
        """Return the setting `root_path`, or the prefix that a trusted proxy names; "" for none."""
        return self.root_path or forwarded_prefix(scope, self.proxies)

    def route_path(self, scope: Scope) -> str:
        """Return the path without the prefix of a proxy that does not strip it, also in front of `PathPrefix`."""
        path: str = scope["path"]
        return path.removeprefix(self.find(scope))


def route_path(scope: Scope) -> str:
    """Return the path without the prefix of a proxy that does not strip it, behind `PathPrefix`."""
    path: str = scope["path"]
    return path.removeprefix(root_path) if (root_path := scope.get("root_path")) else path


def forwarded_prefix(scope: Scope, proxies: TrustedProxies) -> str:
    """Return the prefix in the header of a trusted proxy, or "" for none and for anything that is not a plain path."""
    if not proxies.networks or not proxies.trusts(client_host(scope)):
        return ""
    prefix = find_header(scope, PREFIX_HEADER).rstrip("/")
    return prefix if PREFIX.fullmatch(prefix) else ""


def client_host(scope: Scope) -> str:
    """Return the address that the connection comes from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def find_header(scope: Scope, wanted: bytes) -> str:
    """Return the last value of a header: the proxy nearest to the service has written it; "" for none."""
    return next((value.decode("latin-1") for name, value in reversed(scope["headers"]) if name == wanted), "")


class HeadRequests:
    """Answers HEAD wherever GET is answered: with the same status and headers, and without a body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        has_started = asyncio.Event()

        async def send_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                has_started.set()

        get = asyncio.ensure_future(self.app({**scope, "method": "GET"}, receive, send_headers))
        headers = asyncio.ensure_future(has_started.wait())
        try:
            await asyncio.wait((get, headers), return_when=asyncio.FIRST_COMPLETED)
            if get.done():
                get.result()  # raises what the application raised
        finally:
            get.cancel()  # an event stream would never end
            headers.cancel()
