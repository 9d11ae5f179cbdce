"""Middleware: a span for each request of an operation, with the version that its answer names.

Pages, their files and what asks for the health of the service have no spans. Predictions that are answered without ASGI are
recorded by `Tracer.answer`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from online.api.middleware.paths import ProxyPrefixes
from online.api.responses import RECORDED_HEADER
from online.api.routes import Route, compile_path
from online.plugins.traces.serving import ServingTracer, decode
from online.settings import Settings
from online.telemetry import Annotate

OPERATIONS = ("/v1/", "/v2/")
NUMBERS = {"x-model-version": "version", "x-learned-until": "learned_until"}  # attributes, by header
KNOWN_PATHS = 1_000  # whose operations are remembered


class TracedRequests:
    """Opens a span for each request, which ends with its answer."""

    def __init__(self, app: ASGIApp, tracer: ServingTracer, routes: Iterable[Route], settings: Settings) -> None:
        self.app, self.tracer, self.prefixes = app, tracer, ProxyPrefixes(settings)
        self.paths = defaultdict[str, list[tuple[re.Pattern[str], str]]](list)
        for route in routes:
            self.paths[route.method].append((compile_path(route.path), route.path))
        self.find_name = lru_cache(KNOWN_PATHS)(self._find_name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self.prefixes.route_path(scope) if scope["type"] == "http" else ""
        if not path.startswith(OPERATIONS):
            await self.app(scope, receive, send)
            return
        with self.tracer.request(self.find_name(scope["method"], path), decode(scope["headers"])) as annotate:

            async def send_and_note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    note_answer(annotate, message)
                await send(message)

            await self.app(scope, receive, send_and_note)

    def _find_name(self, method: str, path: str) -> str:
        """Return the method and the path of the operation, with its parameters in braces."""
        known = (template for pattern, template in self.paths.get(method, ()) if pattern.fullmatch(path))
        template = next(known, None)
        return method if template is None else f"{method} {template}"


def note_answer(annotate: Annotate, message: Message) -> None:
    """Add what the head of an answer says."""
    headers = Headers(raw=message["headers"])
    annotate(status=message["status"], **{to: int(headers[name]) for name, to in NUMBERS.items() if name in headers})
    if RECORDED_HEADER in headers:
        annotate(recorded=headers[RECORDED_HEADER])
