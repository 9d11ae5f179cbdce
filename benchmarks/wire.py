"""An HTTP client with little overhead: requests are built before the clock starts, responses parsed after it stops.

    closed loop   send, wait for the response, send again         one connection
    open loop     send at fixed times, independent of responses   a pool of connections; waiting for one counts

This client shares two cores with the service that it measures, so it must not limit the rate.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import orjson

from benchmarks.service import BenchmarkError, Service

LOST = 0  # the status if the connection broke
HOST = "localhost"  # a request for another name is not local, so that it would need a key


@dataclass(frozen=True, slots=True)
class Response:
    """The response to one request. Instants are seconds of time.perf_counter."""

    status: int
    body: bytes
    sent_at: float
    answered_at: float

    @property
    def elapsed_ms(self) -> float:
        return 1000 * (self.answered_at - self.sent_at)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return orjson.loads(self.body)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


def post(path: str, content: object) -> bytes:
    body = orjson.dumps(content)
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def predict(model: str, *instances: object, **more: object) -> bytes:
    return post(f"/v1/models/{model}:predict", {"instances": instances, **more})


def label(model: str, instance: object, label: str) -> bytes:
    return post(f"/v1/models/{model}:feedback", {"feedback": [{"input": instance, "label": label}]})


class Connection:
    """One keep-alive HTTP/1.1 connection, one request at a time; reopened if it breaks."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes, sent_at: float | None = None) -> Response:
        """Send a request and return its response, with the status LOST if the connection broke.

        sent_at: when the caller began to wait, by default now.
        """
        started = time.perf_counter() if sent_at is None else sent_at
        try:
            status, body = await self._exchange(request)
        except (OSError, EOFError):
            self.close()
            status, body = LOST, b""
        return Response(status, body, started, time.perf_counter())

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self._ends is not None and self._ends[0].at_eof():  # the server closes idle connections
            self.close()
        if self._ends is None:
            self._ends = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._ends
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(head[9:12]), await reader.readexactly(length)

    def close(self) -> None:
        if self._ends is not None:
            self._ends[1].close()
        self._ends = None


@dataclass(slots=True)
class Pool:
    """`size` connections to one service, opened on entering."""

    service: Service
    size: int
    free: "asyncio.Queue[Connection]" = field(default_factory=asyncio.Queue)
    all: list[Connection] = field(default_factory=list)

    async def __aenter__(self) -> "Pool":
        for _ in range(self.size):
            connection = Connection(self.service.host, self.service.port)
            await connection.send(get("/healthz"))
            self.all.append(connection)
            self.free.put_nowait(connection)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self.all:
            connection.close()

    async def send(self, request: bytes) -> Response:
        """Send a request on the next free connection. The wait for one counts."""
        sent_at = time.perf_counter()
        connection = await self.free.get()
        try:
            return await connection.send(request, sent_at)
        finally:
            self.free.put_nowait(connection)


async def sleep_until(instant: float) -> None:
    """Return at an instant of time.perf_counter."""
    loop = asyncio.get_running_loop()
    due: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(max(0.0, instant - time.perf_counter()), due.set_result, None)
    try:
        await due
    finally:
        timer.cancel()


async def open_loop(
    send: Callable[[bytes], Awaitable[Response]], requests: Sequence[bytes], rate: float
) -> list[Response]:
    """Send `rate` requests per second at fixed times. Return the responses in the order of the requests."""
    start, tasks = time.perf_counter(), []
    try:
        for place, request in enumerate(requests):
            await sleep_until(start + place / rate)
            tasks.append(asyncio.ensure_future(send(request)))
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def fetch_json(connection: Connection, request: bytes) -> Any:
    """Send a request and return the JSON of its response. Raises BenchmarkError if it is an error."""
    response = await connection.send(request)
    if not response.ok:
        raise BenchmarkError(f"the service answered {response.status}: {response.body.decode(errors='replace')[:300]}")
    return response.json()


async def wait_until_learned(connection: Connection, model: str, probe: object) -> int:
    """Wait until all feedback sent so far is learned and served; return its offset. Includes the start of the learner."""
    head: int = (await fetch_json(connection, get(f"/v1/models/{model}")))["head"]
    await fetch_json(connection, predict(model, probe, min_offset=head, timeout_ms=60_000, record=False))
    return head
