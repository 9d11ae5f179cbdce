"""A client that costs little: requests are bytes made before the clock starts, answers are read after it stopped.

    closed loop   ask, wait for the answer, ask again           one connection
    open loop     ask at fixed times whatever the answers do    a pool of connections; waiting for one counts

Requests a second are never limited by this client, which shares two cores with the service it measures.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import orjson

from benchmarks.service import Failed, Service

LOST = 0  # the status of a request whose connection broke


@dataclass(frozen=True, slots=True)
class Reply:
    """One answered request; instants in seconds of time.perf_counter."""

    status: int
    body: bytes
    asked_at: float
    answered_at: float

    @property
    def elapsed_ms(self) -> float:
        return 1000 * (self.answered_at - self.asked_at)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return orjson.loads(self.body)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: benchmark\r\n\r\n".encode()


def post(path: str, content: object) -> bytes:
    body = orjson.dumps(content)
    head = f"POST {path} HTTP/1.1\r\nHost: benchmark\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def predict(model: str, *instances: object, **more: object) -> bytes:
    return post(f"/v1/models/{model}:predict", {"instances": instances, **more})


def label(model: str, instance: object, label: str) -> bytes:
    return post(f"/v1/models/{model}:feedback", {"feedback": [{"input": instance, "label": label}]})


class Connection:
    """One keep-alive HTTP/1.1 connection, one request at a time. Opened again after it broke."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes, asked_at: float | None = None) -> Reply:
        """The answer; status LOST when the connection broke. asked_at: since when the caller has been waiting."""
        started = time.perf_counter() if asked_at is None else asked_at
        try:
            status, body = await self._exchange(request)
        except (OSError, EOFError):
            self.close()
            status, body = LOST, b""
        return Reply(status, body, started, time.perf_counter())

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self._ends is not None and self._ends[0].at_eof():  # the server ends what was idle for long, as it may
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
            await connection.ask(get("/healthz"))
            self.all.append(connection)
            self.free.put_nowait(connection)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self.all:
            connection.close()

    async def ask(self, request: bytes) -> Reply:
        """Waits for a free connection; the waiting counts."""
        asked_at = time.perf_counter()
        connection = await self.free.get()
        try:
            return await connection.ask(request, asked_at)
        finally:
            self.free.put_nowait(connection)


async def at(instant: float) -> None:
    """Return at an instant of time.perf_counter."""
    loop = asyncio.get_running_loop()
    due: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(max(0.0, instant - time.perf_counter()), due.set_result, None)
    try:
        await due
    finally:
        timer.cancel()


async def open_loop(ask: Callable[[bytes], Awaitable[Reply]], requests: Sequence[bytes], rate: float) -> list[Reply]:
    """Ask `rate` requests a second, on time, whatever the answers do. Replies in the order of the requests."""
    start, tasks = time.perf_counter(), []
    try:
        for place, request in enumerate(requests):
            await at(start + place / rate)
            tasks.append(asyncio.ensure_future(ask(request)))
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def must(connection: Connection, request: bytes) -> Any:
    """The answer's JSON. Raises Failed when it is an error: for what a benchmark needs before it can measure."""
    reply = await connection.ask(request)
    if not reply.ok:
        raise Failed(f"the service answered {reply.status}: {reply.body.decode(errors='replace')[:300]}")
    return reply.json()


async def learned(connection: Connection, model: str, probe: object) -> int:
    """Return once everything sent so far is learned and served: the offset. Starts of the learner are waited for."""
    head: int = (await must(connection, get(f"/v1/models/{model}")))["head"]
    await must(connection, predict(model, probe, min_offset=head, timeout_ms=60_000, record=False))
    return head
