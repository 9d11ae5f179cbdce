"""One HTTP connection: uvicorn's protocol, with limits on its client, and with requests that are answered directly.

    headers --a predict route of plain rows of numbers--> DirectRequest: body -> begin -> batcher -> complete
            --anything else-----------------------------> uvicorn: the application, by ASGI

Requests of one connection are answered in their order: while one is being answered, later ones wait in uvicorn's pipeline.

What has arrived is given to the parser piece by piece, and what is no body is counted first: the parser joins the parts of a
header again with each piece, so a header without an end would take quadratic time and all memory.

    request line > MAX_TARGET_BYTES ---> 414, headers > MAX_HEAD_BYTES or MAX_HEADERS --> 431,
    sizes and extensions of chunks, trailers > MAX_FRAMING_BYTES + the body ------------> 400; then closed

The application is started once a small body has arrived: a proxy that is still sending it when the answer comes may cut the
answer off (Go's reverse proxy, in Caddy and Traefik, does).
"""

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from online.api.http.direct import DirectEndpoint, DirectPredictions, DirectRequest
from online.telemetry import Metrics

CHECK_EVERY_S = 1.0  # how often `Connections` looks at each connection
MIN_BYTES_PER_S = 10_000
MAX_PIPELINED = 16  # requests of one connection that wait for their turn: 20 bytes each to send, and 2 kB here
PIECE_BYTES = 16_384  # that the parser gets at once
MAX_TARGET_BYTES = 8_192  # of the path and the query, as most proxies have it
MAX_HEAD_BYTES = 32_768  # of a request line and its headers
MAX_HEADERS = 100
MAX_FRAMING_BYTES = 65_536  # of a body in chunks, beside as many bytes as the body has
LINGER_S = 1.0  # for a client that is still sending to read why its request was refused
MAX_DISCARDED_BYTES = 1_048_576  # that such a client may still send
UNREAD_PAUSE_S = 0.05  # between two reads of a body whose request is answered already
UPGRADE_HEADERS = (b"upgrade", b"connection", b"http2-settings")
CLOSE_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: without the minutes in which the kernel tries to send the rest


@dataclass(frozen=True, slots=True)
class ConnectionHooks:
    """The hooks with which connections report to the limits on all of them.

    admit: count a new connection; the status to refuse it with, or None. release: count it no more. direct: answers what need
    not go through the application.
    """

    admit: "Callable[[Connection], HTTPStatus | None]"
    release: "Callable[[Connection], None]"
    metrics: Metrics
    direct: DirectPredictions | None = None


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which also knows since when its client keeps it waiting.

    reading_since: when the first byte of the present request came, or the connection was made; None between requests.
    unread_since: when the client stopped reading; None while it reads. idle_since: when the last answer was complete; None
    from the next byte on. answering: the request that is being answered, while `cycle` is the last one that has arrived.
    arriving: the request that is arriving, if it may be answered directly; chunks: of its body. delayed: the request, and its
    application, that is started when its body has arrived. is_head: whether what arrives belongs to a request line and headers.
    overhead_bytes: that have arrived of them, or of a body's chunks beside the body's body_bytes; is_counting: False while a
    piece is parsed in which another part of a request began. refused_since: when a refusal was sent to a client that goes on
    sending; discarded_bytes: since then. is_body_skipped: whether the head has arrived of a request that asks for another
    protocol and has a body.
    """

    def __init__(self, hooks: ConnectionHooks, is_inner: bool = False, **context: Any) -> None:
        """is_inner: whether other workers forward requests of their callers over it."""
        super().__init__(**context)
        self.hooks, self.direct = hooks, None if is_inner else hooks.direct
        self.idle_since: float | None = None
        self.arriving: DirectRequest | None = None
        self.chunks: list[bytes] = []
        self.delayed: tuple[RequestResponseCycle, ASGI3Application] | None = None
        self.address = ""
        self.reading_since: float | None = None
        self.unread_since: float | None = None
        self.received_bytes = 0
        self.answering: RequestResponseCycle | None = None
        self.is_head, self.is_counting = True, True
        self.overhead_bytes = self.body_bytes = 0
        self.is_upgrade = self.is_body_skipped = False
        self.refused_since: float | None = None
        self.discarded_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection, or refuse it if there are too many."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.reading_since = self.loop.time()
        if (status := self.hooks.admit(self)) is not None:
            self.refuse(status)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up what is being answered, and release the place of the connection."""
        self.hooks.release(self)
        if self.answering is not None:  # uvicorn ends `cycle` only, and the other would write to what is closed
            self.answering.disconnected = True
            self.answering.message_event.set()
        super().connection_lost(exc)
        self.answering = self.cycle = self.delayed = None  # type: ignore[assignment]  # else the garbage collector has to find them
        self.pipeline.clear()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.answering = cycle
        if cycle.more_body and not cycle.waiting_for_100_continue and has_small_body(cycle.scope["headers"]):
            self.delayed = cycle, app
        else:
            super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, or discard it after a refusal."""
        if self.transport.is_closing():
            return
        if self.refused_since is not None or self.is_upgrade:
            self._discard(len(data))
            return
        self.idle_since = None
        if self.reading_since is None:
            self.reading_since, self.received_bytes = self.loop.time(), 0
        self.received_bytes += len(data)
        if len(data) <= PIECE_BYTES:
            self._parse(data)
            return
        for start in range(0, len(data), PIECE_BYTES):
            self._parse(data[start : start + PIECE_BYTES])
            if self.transport.is_closing() or self.refused_since is not None or self.is_upgrade:
                return

    def _parse(self, piece: bytes) -> None:
        """Give the parser a piece, and refuse the request if what has arrived of it beside its body is too long."""
        self.is_counting, body_bytes = True, self.body_bytes
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:  # the application answers as if it had not been asked for
            if self.is_body_skipped:
                self._parse_without_upgrade(piece[upgrade.args[0] :])
                return
            self.is_upgrade, self.cycle.keep_alive = True, False
        except httptools.HttpParserError:  # also of a callback that has refused the request
            self.send_400_response("Invalid HTTP request received.")
            return
        if self.is_counting:
            self.overhead_bytes += len(piece) - (self.body_bytes - body_bytes)
            if self.overhead_bytes > (MAX_HEAD_BYTES if self.is_head else MAX_FRAMING_BYTES + self.body_bytes):
                self.refuse_form(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if self.is_head else HTTPStatus.BAD_REQUEST)

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Parse a request with a body again, without its wish for another protocol, for which the parser skips the body.

        Java's HttpClient asks for HTTP/2 in this way with every request. rest: what follows the head in the same piece.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        fields = [(name, value) for name, value in self.headers if name not in UPGRADE_HEADERS]
        fields += [(b"connection", b"close")] if not self.parser.should_keep_alive() else []
        lines = [b"%b %b HTTP/%b" % (method, self.url, version), *(b"%b: %b" % field for field in fields), b"", b""]
        self.is_body_skipped, self.is_head = False, True
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self._parse(b"\r\n".join(lines))
        if rest and not self.transport.is_closing():
            self._parse(rest)

    def _begin_part(self, is_head: bool) -> None:
        """Count what arrives from now on as a part of its own."""
        self.is_head, self.is_counting = is_head, False
        self.overhead_bytes = self.body_bytes = 0

    def _discard(self, count: int) -> None:
        """Read what nobody parses any more, within bounds: to close while a client sends would take its answer from it."""
        self.discarded_bytes += count
        if self.discarded_bytes > MAX_DISCARDED_BYTES:
            self.abort()

    def on_message_begin(self) -> None:
        """Also of a request whose first bytes came together with the end of the one before."""
        if self.reading_since is None:
            self.reading_since, self.received_bytes = self.loop.time(), 1
        if len(self.pipeline) >= MAX_PIPELINED:
            self.hooks.metrics.refused.labels(str(int(HTTPStatus.TOO_MANY_REQUESTS))).inc()
            self.abort()
            raise ValueError(f"more than {MAX_PIPELINED} requests wait for their turn")  # ends the parser
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_url(self, url: bytes) -> None:
        """Refuse a target that is too long before the rest of the head is read."""
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            self.refuse_form(HTTPStatus.REQUEST_URI_TOO_LONG)
            raise ValueError("the path is too long")  # ends the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header of the request. Trailers, which no proxy has checked, are ignored."""
        if not self.is_head:
            return
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            self.refuse_form(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            raise ValueError("there are too many headers")  # ends the parser

    def on_headers_complete(self) -> None:
        """Decide by the head whether the request is answered directly or by the application."""
        self._begin_part(is_head=False)
        if self.parser.should_upgrade() and has_body(self.headers):
            self.is_body_skipped = True
            return
        if (
            self.direct is not None
            and (endpoint := self.direct.endpoints.get(self.url)) is not None
            and self._is_plain()
        ):
            self.arriving = self.cycle = DirectRequest(endpoint, self.complete, self.server_state.default_headers)  # type: ignore[assignment]
        else:
            self._begin_asgi()

    def _is_plain(self) -> bool:
        """Return whether the request that arrives is a POST request of HTTP/1.1 that needs nothing but an answer."""
        parser, flow = self.parser, self.flow
        is_free = self.cycle is None or self.cycle.response_complete
        is_usual = parser.get_method() == b"POST" and parser.get_http_version() == "1.1" and parser.should_keep_alive()
        is_usual = is_usual and not parser.should_upgrade()
        return is_free and is_usual and not self.expect_100_continue and not flow.write_paused and not flow.read_paused

    def _begin_asgi(self) -> None:
        """Let uvicorn build what ASGI needs."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        HttpToolsProtocol.on_message_begin(self)
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect a part of the body, up to the limit of a direct request."""
        self.body_bytes += len(body)
        if self.arriving is None:
            if self.cycle.response_complete:
                self._read_slowly()
            super().on_body(body)
            return
        self.chunks.append(body)
        if self.received_bytes > self.arriving.endpoint.direct.large_bytes and not self._is_awaited(
            self.arriving.endpoint
        ):
            self._hand_over()

    def _is_awaited(self, endpoint: DirectEndpoint) -> bool:
        """Return whether the rest of a large body is to be collected here."""
        length = read_length(self.headers)
        return length is not None and endpoint.admits(self.address, self.headers, length)

    def _read_slowly(self) -> None:
        """Read what follows an answer that did not need it no faster than a few MB a second: nobody waits for it."""
        if not self.flow.read_paused:
            self.flow.pause_reading()
            self.loop.call_later(UNREAD_PAUSE_S, self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _hand_over(self) -> None:
        """Give the request that arrives to the application, with the part of its body that has arrived."""
        self.arriving, self.cycle = None, None  # type: ignore[assignment]
        chunks, self.chunks = self.chunks, []
        self._begin_asgi()
        super().on_body(b"".join(chunks))

    def complete(self, request: DirectRequest, response: bytes) -> None:
        """Send the whole response of a request that was answered directly."""
        request.response_complete = True
        if not self.transport.is_closing():
            self.transport.write(response)
            if not request.keep_alive:
                self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """Begin the next request that waits. Idle connections need no timer: all are looked at once a second."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self.idle_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser could not read, unless the request is refused already."""
        if not self.transport.is_closing() and self.refused_since is None:
            self.hooks.metrics.refused.labels(str(int(HTTPStatus.BAD_REQUEST))).inc()
            super().send_400_response(msg)

    def on_message_complete(self) -> None:
        """Begin to answer a request whose body is complete."""
        if self.is_body_skipped:
            return
        self.reading_since = None
        self._begin_part(is_head=True)
        request = self.arriving
        if request is not None:
            body = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
            if request.endpoint.begin(request, self.address, self.headers, body):
                request.more_body, self.arriving, self.chunks = False, None, []
                return
            self._hand_over()
        super().on_message_complete()
        if self.cycle.response_complete:  # answered before its body was there, which nobody needed
            self.idle_since = self.loop.time()
        if self.delayed is not None:
            (cycle, app), self.delayed = self.delayed, None
            super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        """Note when the client stopped reading the response."""
        self.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads the response again."""
        self.unread_since = None
        super().resume_writing()

    def extend_while_paused(self) -> None:
        """Grant the client the time since the last check, if the application was too busy to read what has arrived.

        So is one that still answers the request before.
        """
        is_answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if self.reading_since is not None and (self.flow.read_paused or is_answering):
            self.reading_since += CHECK_EVERY_S

    def is_slow(self, now: float, timeout_s: float) -> bool:
        """Return whether the present request has been arriving for longer than it may; only its body gets time for its bytes."""
        if self.reading_since is None or self.transport.is_closing():
            return False
        granted_s = 0.0 if self.is_head else self.received_bytes / MIN_BYTES_PER_S
        return now - self.reading_since > timeout_s + granted_s

    def is_idle(self, now: float) -> bool:
        """Return whether no request has come for longer than connections are kept open."""
        return self.idle_since is not None and now - self.idle_since > self.timeout_keep_alive

    def is_lingering(self, now: float) -> bool:
        """Return whether its client has had the time to read why it was refused."""
        return self.refused_since is not None and now - self.refused_since > LINGER_S

    def is_stalled(self, now: float, timeout_s: float) -> bool:
        """Return whether the client has read nothing for too long."""
        return self.unread_since is not None and now - self.unread_since > timeout_s

    def abort(self) -> None:
        """Close the connection, and give up what was not read."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSE_AT_ONCE)
        self.transport.abort()

    def refuse(self, status: HTTPStatus) -> None:
        """Close the connection, with an answer to the request that is arriving.

        A connection on which nothing was sent is closed silently: its client may have opened it in advance, and
        would take an answer for that of its first request.
        """
        is_unused = status == HTTPStatus.REQUEST_TIMEOUT and not self.received_bytes
        if not is_unused:
            self._send_refusal(status)
        self.transport.close()

    def refuse_form(self, status: HTTPStatus) -> None:
        """Answer a request that is too long beside its body, and close the connection once its client has read that."""
        if self.refused_since is None:
            self.refused_since, self.reading_since = self.loop.time(), None
            self._send_refusal(status)

    def _send_refusal(self, status: HTTPStatus) -> None:
        cycle = self.cycle
        if cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started):
            self.transport.write(REFUSALS[status])
        self.hooks.metrics.refused.labels(str(int(status))).inc()


def has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the headers announce a body that is not empty."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0") for name, value in headers
    )


def has_small_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the request has a body of a stated length that is buffered without pausing its sender."""
    return 0 < (read_length(headers) or 0) <= HIGH_WATER_LIMIT


def read_length(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the stated length of a body; None if there is none, or it is sent in chunks."""
    length = next((value for name, value in headers if name == b"content-length"), b"")
    return int(length) if length.isdigit() else None


def encode_refusal(status: HTTPStatus, text: str) -> bytes:
    """Return the bytes of a whole response with an error, after which the connection is closed."""
    body = json.dumps({"error": text}).encode()
    head = (
        f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    )
    retry = "retry-after: 1\r\n" if status in (429, 503) else ""
    return f"{head}{retry}connection: close\r\n\r\n".encode() + body


REFUSALS = {
    status: encode_refusal(status, text)
    for status, text in {
        HTTPStatus.BAD_REQUEST: "the chunks of the body have too long sizes, extensions or trailers; send it with a Content-Length",
        HTTPStatus.REQUEST_URI_TOO_LONG: f"the path and query have more than {MAX_TARGET_BYTES:,} bytes",
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: f"the request has more than {MAX_HEADERS} headers, or they have more than "
        f"{MAX_HEAD_BYTES:,} bytes with the request line; send fewer or shorter ones, such as cookies",
        HTTPStatus.REQUEST_TIMEOUT: "the request did not arrive in time (request_read_timeout_s)",
        HTTPStatus.TOO_MANY_REQUESTS: "too many open connections from this address (max_connections_per_address)",
        HTTPStatus.SERVICE_UNAVAILABLE: "too many open connections (max_connections, and the limit of open files)",
    }.items()
}
