"""A load of chat completions, from a process of its own that costs as little as possible.

    python -m benchmarks.routing_load < plan.json --> one JSON line: LoadResult

    sequential  one request after another                    latency from sending
    open        `rate` requests a second at planned times    latency from the planned time; a wait for a connection counts
    streams     `count` streams begin within `spread_s`      time to the first chunk, from the planned time, and gaps between chunks

Requests are built before the clock starts. Those of the first `warm_s` seconds are sent, but not counted. What has not been answered
`GRACE_S` after the last planned time is given up.
"""

import asyncio
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Literal, cast

import orjson
import uvloop

from online.api.http.connections import raise_file_limit

GRACE_S, STREAM_GRACE_S = 2.0, 20.0
EVENT, DONE = b"data: {", b"data: [DONE]"
VERBS = ("repair", "paint", "sell", "insure", "clean", "describe", "measure", "replace", "translate", "draw")
THINGS = ("bicycle", "contract", "kitchen", "garden fence", "laptop", "poem", "violin", "database", "roof", "passport")
PLACES = ("in winter", "without tools", "on a small budget", "for a friend", "before Monday", "in Lisbon", "by hand")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What is sent. first: number of the first question. repeated: how many questions there are; 0: each is different."""

    port: int
    path: str
    model: str
    kind: Literal["sequential", "open", "streams"]
    key: str = ""
    rate: float = 0.0
    seconds: float = 1.0
    warm_s: float = 0.3
    count: int = 0
    spread_s: float = 1.0
    first: int = 0
    repeated: int = 0
    connections: int = 256


@dataclass(slots=True)
class LoadResult:
    """What came back, of the counted requests.

    latencies_ms, first_ms, gaps_ms: of whole answers and of streams. requests: all that were answered. elapsed_s: from the
    first planned time to the last answer. unanswered: given up.
    """

    latencies_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)
    failed: int = 0
    unanswered: int = 0
    requests: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0


def build_question(number: int) -> str:
    """Return one of many questions; different numbers give different ones."""
    verb, rest = VERBS[number % len(VERBS)], number // len(VERBS)
    thing, place = THINGS[rest % len(THINGS)], PLACES[number % len(PLACES)]
    return f"How do I {verb} a {thing} {place}, and what does it cost for {number} people?"


def build_request(plan: LoadPlan, number: int) -> bytes:
    """Return the bytes of a request."""
    asked = number % plan.repeated if plan.repeated else plan.first + number
    messages = [{"role": "user", "content": build_question(asked)}]
    body = orjson.dumps(
        {"model": plan.model, "messages": messages} | ({"stream": True} if plan.kind == "streams" else {})
    )
    key = f"Authorization: Bearer {plan.key}\r\n" if plan.key else ""
    head = f"POST {plan.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{key}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """One connection, one request at a time. Of a stream, the times of its chunks are noted."""

    def __init__(self, load: "Load") -> None:
        self.load, self.planned_at, self.number = load, 0.0, -1
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, number: int, planned_at: float) -> None:
        self.number, self.planned_at, self.received, self.length = number, planned_at, b"", -1
        self.first_at, self.last_at, self.tail, self.status = 0.0, 0.0, b"", 0
        assert self.transport is not None
        self.transport.write(self.load.requests[number])

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if self.load.plan.kind == "streams":
            self._note_events(data, now)
            return
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return
        if self.length < 0:
            self.status = int(head[9:12])
            self.length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if len(body) >= self.length:
            self._finish(now, self.status == 200)

    def _note_events(self, data: bytes, now: float) -> None:
        if not self.status:
            self.status = int(data[9:12])
        window = self.tail + data
        self.tail = window[1 - len(EVENT) :]
        gaps_ms = self.load.result.gaps_ms
        for _ in range(window.count(EVENT)):
            if self.last_at:
                gaps_ms.append(1_000 * (now - self.last_at))
            else:
                self.first_at = now
            self.last_at = now
        self.received = (self.received + data)[-80:]
        if self.received.endswith(b"\r\n0\r\n\r\n"):
            self._finish(now, DONE in self.received and self.status == 200)
        elif self.status != 200 and data.endswith((b"}", b"\n")):
            self._finish(now, False)

    def _finish(self, now: float, is_good: bool) -> None:
        number, self.number = self.number, -1
        self.load.note(number, self.planned_at, self.first_at, now, is_good)
        self.load.release(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self.number >= 0:
            number, self.number = self.number, -1
            self.load.note(number, self.planned_at, 0.0, time.perf_counter(), False)
        self.load.forget(self)


class Load:
    """The requests of one plan, and the connections on which they are sent."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan, self.result = plan, LoadResult()
        self.warm = 0 if plan.kind == "streams" else round(plan.rate * plan.warm_s)
        count = {"streams": plan.count, "open": self.warm + round(plan.rate * plan.seconds), "sequential": 4_000}
        self.requests = [build_request(plan, number) for number in range(count[plan.kind])]
        self.most = plan.count if plan.kind == "streams" else plan.connections
        self.free, self.waiting = list[Connection](), deque[tuple[int, float]]()
        self.opened, self.left = 0, len(self.requests)
        self.answered = asyncio.Event()
        self.opening = set[asyncio.Task[None]]()
        self.started_at = self.last_at = 0.0

    # the times of sending

    async def run(self) -> LoadResult:
        """Send all requests; return what came back."""
        self.started_at = time.perf_counter()
        if self.plan.kind == "sequential":
            await self._send_in_turn()
        else:
            await self._send_as_planned()
        self.result.elapsed_s = self.last_at - self.started_at
        self.result.cpu_s = time.process_time()
        return self.result

    async def _send_in_turn(self) -> None:
        counted_at = time.perf_counter() + self.plan.warm_s
        for number in range(len(self.requests)):
            now = time.perf_counter()
            if self.warm == number and now < counted_at:
                self.warm, self.started_at = number + 1, now
            if now > counted_at + self.plan.seconds:
                break
            self.answered.clear()
            self.send(number, now)
            await self.answered.wait()

    async def _send_as_planned(self) -> None:
        step = self.plan.spread_s / self.plan.count if self.plan.kind == "streams" else 1 / self.plan.rate
        begun_at = time.perf_counter() + 0.01
        self.started_at = begun_at + self.warm * step
        for number in range(len(self.requests)):
            planned_at = begun_at + number * step
            while (now := time.perf_counter()) < planned_at:
                await asyncio.sleep(planned_at - now)
            self.send(number, planned_at)
        end_by = time.perf_counter() + (STREAM_GRACE_S if self.plan.kind == "streams" else GRACE_S)
        while self.left and time.perf_counter() < end_by:
            await asyncio.sleep(0.01)
        self.result.unanswered = self.left

    # connections

    def send(self, number: int, planned_at: float) -> None:
        """Send a request on a free connection, on a new one, or later."""
        if self.free:
            self.free.pop().send(number, planned_at)
            return
        self.waiting.append((number, planned_at))
        if self.opened < self.most:
            self.opened += 1
            task = asyncio.ensure_future(self._open())
            self.opening.add(task)
            task.add_done_callback(self.opening.discard)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self.plan.port)
        except OSError:
            self.opened -= 1
            if self.waiting:
                number, planned_at = self.waiting.popleft()
                self.note(number, planned_at, 0.0, time.perf_counter(), False)
            return
        self.release(connection)

    def release(self, connection: Connection) -> None:
        """Use a connection again."""
        if self.waiting:
            connection.send(*self.waiting.popleft())
        else:
            self.free.append(connection)

    def forget(self, connection: Connection) -> None:
        """Use a connection no longer: it is closed."""
        self.opened -= 1
        if connection in self.free:
            self.free.remove(connection)
        if self.waiting:
            self.send(*self.waiting.popleft())

    def note(self, number: int, planned_at: float, first_at: float, now: float, is_good: bool) -> None:
        """Note the end of an answer."""
        self.left -= 1
        self.result.requests += is_good
        self.answered.set()
        if number < self.warm:
            return
        self.last_at = now
        if not is_good:
            self.result.failed += 1
        elif first_at:
            self.result.first_ms.append(1_000 * (first_at - planned_at))
        else:
            self.result.latencies_ms.append(1_000 * (now - planned_at))


def main() -> None:
    raise_file_limit()
    result = uvloop.run(Load(LoadPlan(**orjson.loads(sys.stdin.buffer.read()))).run())
    sys.stdout.buffer.write(orjson.dumps(asdict(result)))


if __name__ == "__main__":
    main()
