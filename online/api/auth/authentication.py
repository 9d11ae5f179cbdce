"""Middleware that finds the caller of each request, once, and counts the request.

request --what tells who sends it--> the caller, found within the last second --> scope[CALLER]
                                     or else by `Callers.find`
"""

from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from online.api.auth.callers import SAFE_METHODS, Callers, read_credentials
from online.api.auth.locality import PROXY_HEADERS
from online.api.auth.origins import VISITOR_TOKEN
from online.api.replica_requests import FORWARDED
from online.schemas.access.callers import Caller
from online.serving.rates import RateLimits

CALLER = "online.caller"  # key of an ASGI scope
MAX_REMEMBERED = 10_000  # requests of different credentials whose caller is remembered, for a second at most
Signature = tuple[str, bool, tuple[tuple[bytes, bytes], ...]]
TELLING_HEADERS = frozenset(
    b"authorization x-api-key x-admin-key cookie host origin sec-fetch-site".split()
    + [name.encode() for name in (VISITOR_TOKEN, *PROXY_HEADERS)]
)


class CallerMemory:
    """The callers of the requests of the last second, by everything in a request that tells who sends it.

    To find a caller takes several times as long as to remember it.
    """

    def __init__(self, callers: Callers) -> None:
        self.callers = callers
        header = callers.settings.identity_header
        self.telling = TELLING_HEADERS if header is None else TELLING_HEADERS | {header.lower().encode()}
        self._generation = 0
        self._known: dict[Signature, Caller] = {}

    def recall(self, address: str, headers: Sequence[tuple[bytes, bytes]]) -> Caller | None:
        """Return the caller of a POST request, if one like it was found within the last second; see `find`."""
        if self._generation != self.callers.keys.generation:
            return None
        return self._known.get((address, False, self._select(headers)))

    async def find(self, scope: Scope) -> Caller:
        """Return the caller of an HTTP request that nothing in front of this has refused."""
        if self._generation != self.callers.keys.generation:
            self._generation, self._known = self.callers.keys.generation, {}
        signature = self._sign(scope)
        caller = self._known.get(signature)
        if caller is None:
            caller = await self.callers.find(read_credentials(scope))
            if not caller.problem and len(self._known) < MAX_REMEMBERED:
                self._known[signature] = caller
        return caller

    def _sign(self, scope: Scope) -> Signature:
        client = scope.get("client")
        return client[0] if client else "", scope["method"] in SAFE_METHODS, self._select(scope["headers"])

    def _select(self, headers: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers that tell who sends a request."""
        telling = self.telling
        return tuple([header for header in headers if header[0] in telling or header[0].startswith(b"x-forwarded-")])


class Authentication:
    """Middleware: finds the caller of each request and counts the request. Raises QuotaExceeded."""

    def __init__(self, app: ASGIApp, memory: CallerMemory, rates: RateLimits) -> None:
        self.app, self.memory, self.rates = app, memory, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            caller = scope[CALLER] = await self.memory.find(scope)
            if not scope.get(FORWARDED):  # else the replica that has sent it has counted it
                self.rates.check(caller, requests=1)
        await self.app(scope, receive, send)
