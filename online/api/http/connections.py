"""Limits on the connections of one process: how many there are, and how slow their clients may be.

    accept --too many, or too many from one address-------> 503 or 429, closed
           --its request arrives too slowly---------------> 408, closed
           --its answer is left unread for too long-------> closed
           --too many requests wait for their turn--------> closed
           --otherwise------------------------------------> the application

Each is looked at once a second, so it costs a request two comparisons and no timer. A request may
take `request_read_timeout_s`, and one second more for each MIN_BYTES_PER_S that have arrived.
"""

import asyncio
import json
import logging
import resource
import socket
import struct
from collections import Counter
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from online.api.auth.locality import is_loopback
from online.api.http.direct import DirectPredictions, DirectRequest
from online.settings import Settings
from online.telemetry import Metrics, OutageLog

log = logging.getLogger("online.connections")

CHECK_EVERY_S = 1.0
SLICES = 20  # of a check: a thousand connections that are closed at once would delay the requests of others
MIN_BYTES_PER_S = 10_000
MAX_PIPELINED = 16  # requests of one connection that wait for their turn: 20 bytes each to send, and 2 kB here
MAX_FILES = 65_536
SPARE_FILES = 256  # of the process's open files, for the store, snapshots, wake-ups and child processes
MAX_UNSENT_BYTES = 131_072  # of one connection in the kernel; by default up to 4 MB of an answer that nobody reads
CLOSE_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: without the minutes in which the kernel tries to send the rest


def raise_file_limit() -> int:
    """Raise the soft limit of open files as far as is allowed and useful. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MAX_FILES if soft == resource.RLIM_INFINITY else soft


def bound_unsent_bytes(listener: socket.socket) -> None:
    """Bound what the kernel keeps unsent for each connection that is accepted, where it can (Linux, macOS)."""
    if option := getattr(socket, "TCP_NOTSENT_LOWAT", None):
        listener.setsockopt(socket.IPPROTO_TCP, option, MAX_UNSENT_BYTES)


class Connections:
    """The open connections of one process. `create_protocol` is uvicorn's protocol class with these limits."""

    def __init__(
        self, settings: Settings, metrics: Metrics, max_files: int, direct: DirectPredictions | None = None
    ) -> None:
        """max_files: the number of files that the process may open. direct: answers what need not go through ASGI."""
        self.direct = direct
        self.most = min(settings.max_connections, max(max_files - SPARE_FILES, max_files // 2))
        self.most_per_address = settings.max_connections_per_address
        self.request_read_timeout_s = settings.request_read_timeout_s
        self.answer_read_timeout_s = settings.answer_read_timeout_s
        self.create_protocol = partial(Connection, self)
        self.create_inner_protocol = partial(Connection, self, is_inner=True)
        self.open = set[Connection]()
        self.by_address = Counter[str]()
        self.metrics = metrics
        self._refused = OutageLog(log, "connections refused")

    def admit(self, connection: "Connection") -> HTTPStatus | None:
        """Count a new connection. Returns the status to refuse it with, or None."""
        self.open.add(connection)
        self.by_address[connection.address] += 1
        status = None
        if len(self.open) > self.most:
            status = HTTPStatus.SERVICE_UNAVAILABLE
            self._refused.record_failure(f"{self.most} are open (max_connections, and the limit of open files)")
        elif self.by_address[connection.address] > self.most_per_address and not is_loopback(connection.address):
            status = HTTPStatus.TOO_MANY_REQUESTS
            self._refused.record_failure(
                f"{connection.address} has {self.most_per_address} (max_connections_per_address)"
            )
        return status

    def release(self, connection: "Connection") -> None:
        if connection in self.open:
            self.open.discard(connection)
            self.by_address[connection.address] -= 1
            if not self.by_address[connection.address]:
                del self.by_address[connection.address]

    async def watch(self) -> None:
        """Close slow connections until cancelled: look at each once in CHECK_EVERY_S, at a few at a time."""
        while True:
            if len(self.open) < self.most:
                self._refused.record_success()
            connections = list(self.open)
            for number in range(SLICES):
                await asyncio.sleep(CHECK_EVERY_S / SLICES)
                for connection in connections[number::SLICES]:
                    self._check(connection)

    def _check(self, connection: "Connection") -> None:
        """Close a connection if it is slow."""
        if connection not in self.open:
            return
        now = connection.loop.time()
        connection.extend_while_paused()
        if connection.is_idle(now):
            connection.transport.close()
        elif connection.is_stalled(now, self.answer_read_timeout_s):
            connection.abort()
        elif connection.is_slow(now, self.request_read_timeout_s):
            connection.refuse(HTTPStatus.REQUEST_TIMEOUT)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which also knows since when its client keeps it waiting.

    reading_since: when the first byte of the present request came, or the connection was made; None between requests.
    unread_since: when the client stopped reading; None while it reads. idle_since: when the last answer was complete; None
    from the next byte on. answering: the request that is being answered, while `cycle` is the last one that has arrived.
    arriving: the request that is arriving, if it may be answered directly; chunks: of its body.
    """

    def __init__(self, limits: Connections, is_inner: bool = False, **context: Any) -> None:
        """is_inner: whether other workers forward requests of their callers over it."""
        super().__init__(**context)
        self.limits, self.direct = limits, None if is_inner else limits.direct
        self.idle_since: float | None = None
        self.arriving: DirectRequest | None = None
        self.chunks: list[bytes] = []
        self.address = ""
        self.reading_since: float | None = None
        self.unread_since: float | None = None
        self.received_bytes = 0
        self.answering: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.reading_since = self.loop.time()
        if (status := self.limits.admit(self)) is not None:
            self.refuse(status)

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.release(self)
        if self.answering is not None:  # uvicorn ends `cycle` only, and the other would write to what is closed
            self.answering.disconnected = True
            self.answering.message_event.set()
        super().connection_lost(exc)
        self.answering = self.cycle = None  # type: ignore[assignment]  # else the garbage collector has to find them
        self.pipeline.clear()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.answering = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.idle_since = None
        if self.reading_since is None:
            self.reading_since, self.received_bytes = self.loop.time(), 0
        self.received_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Also of a request whose first bytes came together with the end of the one before."""
        if self.reading_since is None:
            self.reading_since, self.received_bytes = self.loop.time(), 1
        if len(self.pipeline) >= MAX_PIPELINED:
            self.limits.metrics.refused.labels(str(int(HTTPStatus.TOO_MANY_REQUESTS))).inc()
            self.abort()
            raise ValueError(f"more than {MAX_PIPELINED} requests wait for their turn")  # ends the parser
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        if (
            self.direct is not None
            and (endpoint := self.direct.endpoints.get(self.url)) is not None
            and self._is_plain()
        ):
            self.arriving = self.cycle = DirectRequest(self, endpoint)  # type: ignore[assignment]
        else:
            self._begin_asgi()

    def _is_plain(self) -> bool:
        """Whether the request that arrives is a POST request of HTTP/1.1 that needs nothing but an answer."""
        parser, flow = self.parser, self.flow
        is_free = self.cycle is None or self.cycle.response_complete
        is_usual = parser.get_method() == b"POST" and parser.get_http_version() == "1.1" and parser.should_keep_alive()
        return is_free and is_usual and not self.expect_100_continue and not flow.write_paused and not flow.read_paused

    def _begin_asgi(self) -> None:
        """Let uvicorn build what ASGI needs."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        HttpToolsProtocol.on_message_begin(self)
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.arriving is None:
            super().on_body(body)
            return
        self.chunks.append(body)
        if self.received_bytes > self.arriving.endpoint.direct.max_body_bytes:
            self._hand_over()

    def _hand_over(self) -> None:
        """Give the request that arrives to the application, with what there is of its body."""
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
        """Answer what the parser could not read, unless the connection is closed already."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def on_message_complete(self) -> None:
        self.reading_since = None
        request = self.arriving
        if request is not None:
            body = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
            if request.endpoint.begin(request, self.address, self.headers, body):
                request.more_body, self.arriving, self.chunks = False, None, []
                return
            self._hand_over()
        super().on_message_complete()

    def pause_writing(self) -> None:
        self.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
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
        """Whether the present request has been arriving for longer than it may."""
        if self.reading_since is None or self.transport.is_closing():
            return False
        return now - self.reading_since > timeout_s + self.received_bytes / MIN_BYTES_PER_S

    def is_idle(self, now: float) -> bool:
        """Whether no request has come for longer than connections are kept open."""
        return self.idle_since is not None and now - self.idle_since > self.timeout_keep_alive

    def is_stalled(self, now: float, timeout_s: float) -> bool:
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
        cycle, is_unused = self.cycle, status == HTTPStatus.REQUEST_TIMEOUT and not self.received_bytes
        is_free = cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started)
        if is_free and not is_unused:
            self.transport.write(REFUSALS[status])
        self.limits.metrics.refused.labels(str(int(status))).inc(not is_unused)
        self.transport.close()


def encode_refusal(status: HTTPStatus, text: str) -> bytes:
    body = json.dumps({"error": text}).encode()
    head = (
        f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    )
    retry = "" if status == HTTPStatus.REQUEST_TIMEOUT else "retry-after: 1\r\n"
    return f"{head}{retry}connection: close\r\n\r\n".encode() + body


REFUSALS = {
    status: encode_refusal(status, text)
    for status, text in {
        HTTPStatus.REQUEST_TIMEOUT: "the request did not arrive in time (request_read_timeout_s)",
        HTTPStatus.TOO_MANY_REQUESTS: "too many open connections from this address (max_connections_per_address)",
        HTTPStatus.SERVICE_UNAVAILABLE: "too many open connections (max_connections, and the limit of open files)",
    }.items()
}
