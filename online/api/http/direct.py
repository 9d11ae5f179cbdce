"""Predictions from rows of numbers, answered without ASGI: from the parser of HTTP to the batcher and back in few objects.

    POST /v1/models/m:predict {"instances": [[0.5, 1.5]]}
        |  remembered caller, scope, rate            (what any middleware would have refused was not remembered)
        |  typed decoding, straight into float64
        v
    batcher --one model call, one write to the journal--> answer() --one write--> the connection

Every other request, and everything that is not plain about such a request, goes through the application: `begin` returns False
before it has changed anything. So errors are worded in one place, and the answers are the same bytes (a test compares them).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus

import orjson

from online.api.auth.authentication import CallerMemory
from online.api.auth.scopes import check_scope
from online.api.bodies import decode_rows
from online.api.middleware.content_codings import is_coded
from online.api.responses import RECORDED_HEADER
from online.api.routes import Route
from online.errors import OnlineError, describe_error
from online.models import Answer
from online.models.encoders.rows import VectorEncoder
from online.serving.answers import render_answer
from online.serving.batcher import PendingRequest
from online.serving.model_runtime import ModelRuntime
from online.serving.rates import LARGE_BYTES, RateLimits
from online.serving.runtime import Runtime
from online.serving.versions import ServedVersion

log = logging.getLogger("online.api")

Headers = Sequence[tuple[bytes, bytes]]
CLOSE: Headers = ((b"connection", b"close"),)
RETRY: Headers = ((b"retry-after", b"1"),)
NO_HEADERS: Headers = ()
IN_JOURNAL: Headers = ((RECORDED_HEADER.lower().encode(), b"journal"),)
ORIGIN = b"origin"


class NoEvent:
    """A stand-in for the event that uvicorn sets when a connection is lost; nobody waits for it here."""

    def set(self) -> None:
        """Do nothing."""


class DirectRequest(PendingRequest):
    """A request that is answered directly.

    uvicorn sees the attributes of its own RequestResponseCycle: while `response_complete` is False, it lets later requests of
    the connection wait.
    """

    __slots__ = (
        "default_headers",
        "disconnected",
        "endpoint",
        "headers",
        "keep_alive",
        "more_body",
        "respond",
        "response_complete",
        "response_started",
        "started_at",
    )
    message_event = NoEvent()

    def __init__(
        self, endpoint: "DirectEndpoint", respond: Callable[["DirectRequest", bytes], None], default_headers: Headers
    ) -> None:
        """respond: sends the whole response over the connection. default_headers: of every response of the server."""
        self.endpoint, self.respond, self.default_headers = endpoint, respond, default_headers
        self.more_body, self.keep_alive = True, True
        self.response_started = self.response_complete = self.disconnected = False
        self.started_at, self.headers = 0.0, NO_HEADERS

    @property
    def is_gone(self) -> bool:
        """Whether the client has closed the connection."""
        return self.disconnected

    def answer(self, served: ServedVersion, answers: list[Answer]) -> None:
        """Write the answers, or the error of rendering them: one request must not fail the others of its batch."""
        try:
            self.endpoint.answer(self, served, answers)
        except Exception as error:  # it must not fail the other requests of the batch
            self.endpoint.fail(self, error)

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        self.endpoint.fail(self, error)


class DirectEndpoint:
    """The predict route of one model of vectors."""

    def __init__(self, model: ModelRuntime, direct: "DirectPredictions", route: Route) -> None:
        self.access, self.operation = route.access, f"{route.method} {route.path}"
        self.model, self.direct, self.name = model, direct, model.spec.name
        self.predictor, self.kind = model.predictor, model.spec.kind
        self._head, self._head_of = b"", (model.live.current, NO_HEADERS, NO_HEADERS)
        self._instances, self._seconds = 0, list[float]()  # of the requests that this round of the event loop answers

    def admits(self, address: str, headers: Headers, length: int) -> bool:
        """Return whether a large body of this length is collected here; the application lets others wait, or refuses them unread."""
        if length > self.direct.max_body_bytes:
            return False
        caller, rates = self.direct.memory.recall(address, headers), self.direct.rates
        return caller is not None and not rates.is_paced(caller) and rates.has_room(caller, length)

    def begin(self, request: DirectRequest, address: str, headers: Headers, body: bytes) -> bool:
        """Queue a request. Returns False, and counts nothing, if it has to go through the application."""
        started = time.perf_counter()
        direct, predictor = self.direct, self.predictor
        caller = direct.memory.recall(address, headers)
        if caller is None:
            return False
        if direct.answers_other_origins and any(name == ORIGIN for name, _ in headers):
            return False
        if is_coded(headers):
            return False
        if len(body) > LARGE_BYTES and body.count(b"[") > predictor.settings.max_instances + 1:
            return False
        if not predictor.is_plain or (decoded := decode_rows(body)) is None:
            return False
        rows, texts = decoded
        if (inputs := predictor.pack(rows)) is None:
            return False
        try:
            check_scope(caller, self.access, self.name)
            direct.rates.check(caller, 1, len(rows), len(body))
        except OnlineError:  # it is refused again there, with all that belongs to the answer
            return False
        try:
            predictor.submit(request, inputs, texts, caller.acts_for(None))
        except OnlineError:  # there, it is also counted again
            direct.rates.take_back(caller, 1, len(rows), len(body))
            return False
        request.started_at, request.headers = started, headers
        return True

    def answer(self, request: DirectRequest, served: ServedVersion, answers: list[Answer]) -> None:
        """Write the answers in the native shape, with the version that gave them."""
        ids, most = [row.id for row in request.rows], self.predictor.settings.max_candidates
        content = {
            "predictions": [render_answer(self.kind, each, most) for each in answers],
            "prediction_ids": ids,
            "feedback_urls": (),
            "model_version": str(served.version),
            "learned_until": served.learned_until,
        }
        default_headers = request.default_headers
        recorded = IN_JOURNAL if ids and self.predictor.is_store_away else NO_HEADERS
        head_of = self._head_of
        if head_of[0] is not served or head_of[1] is not default_headers or head_of[2] is not recorded:
            self._head_of = served, default_headers, recorded
            self._head = self._build_head(HTTPStatus.OK, served, (*default_headers, *recorded))
        self._send(request, self._head, content)
        self.predictor.observe(request.inputs, request.encoder, request.keys, ids)
        self._trace(request, HTTPStatus.OK, served)
        self._count(request)

    def fail(self, request: DirectRequest, error: Exception) -> None:
        """Answer with the error; one that nobody foresaw also closes the connection."""
        is_known = isinstance(error, OnlineError)
        code, text = describe_error(error)
        status = HTTPStatus(code)
        if not is_known:
            log.error("a prediction failed", exc_info=error)
            request.keep_alive = False
        self.model.metrics.refused.labels(str(int(status))).inc()
        default_headers = request.default_headers
        head = self._build_head(
            status,
            self.model.live.current,
            (*default_headers, *(RETRY if status == 503 else ()), *(() if is_known else CLOSE)),
        )
        if not request.response_complete:
            self._send(request, head, {"error": text})
        self._trace(request, status, self.model.live.current)

    def _build_head(self, status: HTTPStatus, served: ServedVersion, default_headers: Headers) -> bytes:
        """Return the response up to the length of its body."""
        own = (b"x-model-version", b"%d" % served.version), (b"x-learned-until", b"%d" % served.learned_until)
        headers = *default_headers, *own, (b"content-type", b"application/json"), *self.direct.headers.items()
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        return b"HTTP/1.1 %d %b\r\n%bcontent-length: " % (status, status.phrase.encode(), lines)

    @staticmethod
    def _send(request: DirectRequest, head: bytes, content: object) -> None:
        body = orjson.dumps(content)
        request.respond(request, b"%b%d\r\n\r\n%b" % (head, len(body), body))

    def _trace(self, request: DirectRequest, status: HTTPStatus, served: ServedVersion) -> None:
        if not self.direct.tracer.is_on:
            return
        self.direct.tracer.answer(
            self.operation,
            request.headers,
            time.perf_counter() - request.started_at,
            model=self.name,
            status=int(status),
            version=served.version,
            learned_until=served.learned_until,
        )

    def _count(self, request: DirectRequest) -> None:
        if not self._seconds:
            asyncio.get_running_loop().call_soon(self._observe_answered)
        self._seconds.append(time.perf_counter() - request.started_at)
        self._instances += len(request.inputs)

    def _observe_answered(self) -> None:
        self.predictor.count_answered(self._instances, self._seconds)
        self._instances, self._seconds = 0, []


class DirectPredictions:
    """The predict routes of one process that are answered directly. endpoints: by the path as it is sent."""

    def __init__(
        self,
        runtime: Runtime,
        memory: CallerMemory,
        rates: RateLimits,
        headers: Mapping[bytes, bytes],
        routes: Iterable[Route],
    ) -> None:
        """headers: of every answer."""
        self.memory, self.rates, self.headers, self.tracer = memory, rates, headers, runtime.tracer
        self.answers_other_origins = bool(runtime.settings.cors_origins or runtime.settings.widget_origins)
        self.max_body_bytes = runtime.settings.max_body_bytes
        self.large_bytes = min(LARGE_BYTES, self.max_body_bytes)
        self.endpoints = {
            route.path.format(model=name).encode(): DirectEndpoint(model, self, route)
            for route in routes
            if route.takes_rows
            for name, model in runtime.models.items()
            if isinstance(model.live.encoder_config.encoder, VectorEncoder)
        }
