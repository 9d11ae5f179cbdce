"""The base of both clients: the connection, the caller, and the parser of the event stream."""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from online.client.operations import RETRIES, HttpRequest, HttpResponse, Operations
from online.client.types import Json

if TYPE_CHECKING:
    import httpx

Http = TypeVar("Http")


class BaseClient(Generic[Http]):
    """A client for one model of one service."""

    _http: Http

    def __init__(
        self,
        url: str,
        model: str,
        user: str | None = None,
        timeout_s: float = 30.0,
        retries: int = RETRIES,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """
        user: on whose behalf predictions are made and feedback is given.
        retries: attempts after the first one, where sending a request again is harmless.
        key: sent as `Authorization: Bearer KEY`. headers: sent with every request.
        """
        self.model = model
        self._operations = Operations(model, user, retries)
        authorization = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = self._open(
            {"base_url": url, "timeout": timeout_s, "headers": {**(headers or {}), **authorization}}
        )

    @property
    def user(self) -> str | None:
        """The user on whose behalf requests are made; None for the caller itself."""
        return self._operations.user

    @user.setter
    def user(self, user: str | None) -> None:
        """The user on whose behalf requests are made; None for the caller itself."""
        self._operations.user = user

    def _open(self, arguments: dict[str, Any]) -> Http:
        raise NotImplementedError

    def _event_stream(self, timeout_s: float | None) -> Json:
        return {"method": "GET", "url": f"{self._operations.root}/events", "timeout": timeout_s}


class EventParser:
    """Parses server-sent events from lines. A service without events sends a comment now and then."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s, self.last_event_at, self.name = timeout_s, time.monotonic(), ""

    def parse(self, line: str) -> tuple[str, Json] | None:
        """(name, data) if the line completes an event."""
        if line.startswith("event: "):
            self.name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            self.last_event_at = time.monotonic()
            return self.name, json.loads(line.removeprefix("data: "))
        return None

    @property
    def is_over(self) -> bool:
        """No event has arrived for timeout_s seconds."""
        return self.timeout_s is not None and time.monotonic() - self.last_event_at > self.timeout_s


def request_arguments(request: HttpRequest) -> Json:
    """Return the arguments of httpx for a request."""
    timeout = {} if request.timeout_s is None else {"timeout": request.timeout_s}
    body = {"json": request.body} if request.content is None else {"content": request.content}
    return {"method": request.method, "url": request.path, **body, **timeout}


def read_response(response: "httpx.Response") -> HttpResponse:
    """Return a response of httpx as the operations read it."""
    return HttpResponse(response.status_code, response.content, response.headers)


def read_failure(error: "httpx.TransportError") -> HttpResponse:
    """Return a failed attempt; it may be repeated if the request was not sent."""
    import httpx

    was_not_sent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return HttpResponse(failure=error, sent=not was_not_sent)
