"""Rules that protect people's browsers, in front of every route.

Host     an address, a name without a dot, or a name of this service: an attacker can point another name
         here and read what a page of that name reads (DNS rebinding)
Origin   of a request that changes something: this service, or one that is listed. A page of another site can
         make the browser of its visitor send such a request, although the page cannot read the answer. Pages with
         the widget may use its routes alone (WidgetAccess)
answers  tell the browser not to run scripts of other sites, not to guess content types, not to tell other sites
         which page a visitor comes from, and not to show this service in a frame of another site
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from online.api.auth.callers import SAFE_METHODS
from online.api.auth.origins import VISITOR_TOKEN, limited_origins, origin_of
from online.api.middleware.paths import ProxyPrefixes
from online.errors import Forbidden, UnknownHost
from online.settings import Settings

POLICY = b"content-security-policy"
KNOWN_HOSTS = 1_024  # verdicts that are remembered


# A text encoder of WebAssembly runs in the chat without a connection. 'wasm-unsafe-eval' lets a script of this origin compile
# one; unlike 'unsafe-eval', it lets no text become a script.
SCRIPTS = "'self' 'wasm-unsafe-eval'"


def page_policy(embedding: Iterable[str], scripts: str = SCRIPTS) -> bytes:
    """Return the Content-Security-Policy of every answer without one of its own. embedding: origins that may frame the page."""
    rules = {
        "default-src": "'self'",
        "script-src": scripts,
        "img-src": "'self' data: blob:",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": " ".join(embedding) or "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items()).encode()


class BrowserRules:
    """Refuses requests to unknown hosts and changes by pages of other origins. Raises UnknownHost and Forbidden."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        own = [settings.public_url] if settings.public_url else []
        names = [urlsplit(url).hostname or "" for url in own]
        self.app = app
        self.hosts = frozenset(host.lower() for host in (*settings.allowed_hosts, *names))
        self.origins = frozenset(origin_of(url).encode() for url in (*settings.cors_origins, *own))
        self.is_known_host = lru_cache(KNOWN_HOSTS)(self._is_known_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.check(scope)
        await self.app(scope, receive, send)

    def check(self, scope: Scope) -> None:
        """Raise UnknownHost or Forbidden for a request that a page of another origin may have caused."""
        host = origin = site = b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
        if not self.is_known_host(host):
            name = host.decode("latin-1")
            raise UnknownHost(
                f"the host {name[:80]!r} is no name of this service; set public_url, or add it to allowed_hosts"
            )
        if scope["method"] in SAFE_METHODS or scope.get(WIDGET, False):
            return
        if (origin or site) and not self.may_change(host, origin, site):
            raise Forbidden(
                f"a page of {origin.decode('latin-1')[:80] or 'another site'} may change nothing here; if it is a page "
                "of this service, set public_url to its address; otherwise add its origin to widget_origins for the widget, "
                "or to cors_origins"
            )

    def may_change(self, host: bytes, origin: bytes, site: bytes) -> bool:
        """Return whether a page may change something. site: how the browser relates it to this service, if it says so."""
        if origin in self.origins or site in (b"same-origin", b"none"):
            return True
        return not site and origin.partition(b"://")[2] == host

    def _is_known_host(self, host: bytes) -> bool:
        try:
            name = urlsplit(f"//{host.decode('ascii')}").hostname or ""
        except ValueError:
            return False
        return is_unclaimed(name) or any(matches(name, allowed) for allowed in self.hosts)


def is_unclaimed(name: str) -> bool:
    """Return whether no attacker can point this name here: an address, a name without a dot, or of this machine."""
    if "." not in name or name.endswith(".localhost"):  # "" too: programs may leave the header out, browsers never do
        return True
    try:
        ip_address(name)
        return True
    except ValueError:
        return False


def matches(name: str, allowed: str) -> bool:
    """Return whether a host is an allowed one. `*.example.com` allows each name that ends with .example.com."""
    return name == allowed or (allowed.startswith("*.") and name.endswith(allowed[1:]))


def browser_headers(settings: Settings) -> dict[bytes, bytes]:
    """Return what is added to every answer that does not say it itself."""
    policy = page_policy(settings.widget_origins)
    headers = {b"x-content-type-options": b"nosniff", b"referrer-policy": b"same-origin", POLICY: policy}
    if settings.tls_certificate is not None:
        headers[b"strict-transport-security"] = b"max-age=31536000"
    return headers


class BrowserHeaders:
    """Adds the headers that protect browsers to every answer, errors included."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.headers = app, browser_headers(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [name for name, _ in message["headers"] if name in self.headers]
                added = self.headers if not own else {name: self.headers[name] for name in self.headers.keys() - own}
                message["headers"] = [*message["headers"], *added.items()]
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def hash_inline(document: str, tag: str) -> str:
    """Return the sources of a policy that allow exactly the inline elements <tag> of an HTML document."""
    inline = (each.partition(f"</{tag}>")[0] for each in document.split(f"<{tag}>")[1:])
    return " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in inline)


# Which pages of other origins may use the routes of the widget (widget.js), and which routes these are.
#
# page of widget_origins --preflight--> its method and its two headers are allowed, on the routes of the widget alone
#                        --request----> marked as the widget's: BrowserRules lets it change something
#                        <--answer----- with Access-Control-Allow-Origin, errors included
# any other page ---------------------> unchanged: BrowserRules refuses its changes, its browser hides the answers
#
# Cookies never count in such a request, and no answer allows them (Access-Control-Allow-Credentials): `Callers` knows a visitor
# of a widget by a token in a header, which browsers send only after a preflight.

WIDGET = "online.widget"  # key of an ASGI scope: whether a page of widget_origins uses a route of the widget
ALLOWED_HEADERS = f"content-type, {VISITOR_TOKEN}"
EXPOSED_HEADERS = "retry-after"
MAX_AGE_S = 7_200  # for which a browser remembers a preflight


class WidgetAccess:
    """Answers preflights of the widget, marks its requests, and lets its page read their answers. It is the outermost layer."""

    def __init__(self, app: ASGIApp, settings: Settings, find_methods: Callable[[str], tuple[str, ...]]) -> None:
        """find_methods: the methods with which the widget uses a path; () for a path that it does not use."""
        self.app, self.find_methods = app, find_methods
        self.origins, self.prefixes = limited_origins(settings), ProxyPrefixes(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_asked = bool(self.origins) and scope["type"] == "http"
        methods = self.find_methods(self.prefixes.route_path(scope)) if is_asked else ()
        if not methods:
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        is_allowed = origin in self.origins
        if is_allowed and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await answer_preflight(origin, methods)(scope, receive, send)
            return
        scope[WIDGET] = is_allowed and scope["method"] in methods

        async def send_with_origin(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                answered.add_vary_header("Origin")
                if scope[WIDGET]:
                    answered["Access-Control-Allow-Origin"] = origin
                    answered["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
            await send(message)

        await self.app(scope, receive, send_with_origin)


def answer_preflight(origin: str, methods: tuple[str, ...]) -> Response:
    """Answer a CORS preflight of the widget for these methods."""
    headers = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": ", ".join(methods),
        "Access-Control-Allow-Headers": ALLOWED_HEADERS,
        "Access-Control-Max-Age": str(MAX_AGE_S),
        "Vary": "Origin",
    }
    return Response(status_code=204, headers=headers)
