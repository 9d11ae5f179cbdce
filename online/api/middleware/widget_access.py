"""Which pages of other origins may use the routes of the widget (widget.js), and which routes these are.

page of widget_origins --preflight--> its method and its two headers are allowed, on the routes of the widget alone
                       --request----> marked as the widget's: BrowserRules lets it change something
                       <--answer----- with Access-Control-Allow-Origin, errors included
any other page ---------------------> unchanged: BrowserRules refuses its changes, its browser hides the answers

Cookies never count in such a request, and no answer allows them (Access-Control-Allow-Credentials): `Callers` knows a visitor
of a widget by a token in a header, which browsers send only after a preflight.
"""

from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from online.api.auth.origins import VISITOR_TOKEN, limited_origins
from online.api.middleware.paths import ProxyPrefixes
from online.settings import Settings

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
    headers = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": ", ".join(methods),
        "Access-Control-Allow-Headers": ALLOWED_HEADERS,
        "Access-Control-Max-Age": str(MAX_AGE_S),
        "Vary": "Origin",
    }
    return Response(status_code=204, headers=headers)
