"""Clients that hold connections and make no progress, in a process of their own beside what measures a service.

    headers   a request whose head never ends; one more byte every second
    bodies    a request whose body arrives one byte a second
    idle      one request, its answer, and then nothing
    unread    many requests at once, whose answers are never read

A connection that the service closes is opened again, so that as many are held all the time. They come from several
loopback addresses, and are opened one after another: those of many clients do not all end at the same moment.
"""

import asyncio
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from online.api.http.connections import raise_file_limit
from online.api.http.protocol import MAX_PIPELINED

KINDS = ("headers", "bodies", "idle", "unread")
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 18)]
OPENED_A_S = 200
PAUSE_S = 1.0  # between two bytes, and before a connection that failed is opened again
SAMPLE_EVERY_S = 0.5
RECEIVE_BYTES = 4_096
ESTABLISHED = "01"
HEAD = b"POST /v1/models/vec:predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
FIRST = {
    "headers": HEAD + b"X-Half: ",
    "bodies": HEAD + b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n",
    "idle": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "unread": b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * MAX_PIPELINED,
}


@dataclass(frozen=True, slots=True)
class Held:
    """What was held since it was asked for the last time. fewest: connections at once, as the kernel counts them.

    opened: connections that were opened, and cpu_s: processor seconds of the slow clients.
    """

    fewest: int
    opened: int
    cpu_s: float


class SlowClients:
    """The slow clients of this process."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.opened, self.fewest, self.cpu_s = 0, 0, 0.0

    async def run(self, count: int, pipe: Pipe) -> None:
        """Hold `count` connections, and send a Held for each message that arrives, until the other end closes."""
        loop = asyncio.get_running_loop()
        kinds = [KINDS[number % len(KINDS)] for number in range(count)]
        tasks = [asyncio.create_task(self._hold(number, kind)) for number, kind in enumerate(kinds)]
        tasks.append(asyncio.create_task(self._sample()))
        try:
            while await loop.run_in_executor(None, receive, pipe):
                self.fewest = min(self.fewest, self._count())
                pipe.send(Held(self.fewest, self.opened, time.process_time() - self.cpu_s))
                self.fewest, self.opened, self.cpu_s = self._count(), 0, time.process_time()
        finally:
            for task in tasks:
                task.cancel()

    async def _hold(self, number: int, kind: str) -> None:
        """Hold one connection for ever: open it, be slow until it is closed, and again."""
        await asyncio.sleep(number / OPENED_A_S)
        while True:
            with socket.socket() as connection:
                try:
                    await self._open(connection, ADDRESSES[number % len(ADDRESSES)], kind)
                except OSError:  # refused
                    await asyncio.sleep(PAUSE_S)
                    continue
                with suppress(OSError):  # it was closed
                    await be_slow(connection, kind)

    async def _open(self, connection: socket.socket, address: str, kind: str) -> None:
        loop = asyncio.get_running_loop()
        connection.setblocking(False)
        if kind == "unread":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        connection.bind((address, 0))
        await loop.sock_connect(connection, (self.host, self.port))
        await loop.sock_sendall(connection, FIRST[kind])
        self.opened += 1

    async def _sample(self) -> None:
        while True:
            self.fewest = min(self.fewest, self._count())
            await asyncio.sleep(SAMPLE_EVERY_S)

    def _count(self) -> int:
        """Return how many connections of slow clients the service has, by the table of the kernel (proc(5))."""
        served, own = f":{self.port:04X}", "0100007F"
        rows = [line.split(maxsplit=4) for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(row[3] == ESTABLISHED and row[1].endswith(served) and not row[2].startswith(own) for row in rows)


async def be_slow(connection: socket.socket, kind: str) -> None:
    """Return, or raise OSError, once the service has closed the connection."""
    while True:
        if kind == "unread":
            await asyncio.sleep(PAUSE_S)
            if error := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, "closed")
        elif await is_closed(connection, PAUSE_S):
            return
        elif kind != "idle":
            connection.send(b"x")


async def is_closed(connection: socket.socket, timeout_s: float) -> bool:
    """Read, and return once the other end has closed the connection or the time is over."""
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while await loop.sock_recv(connection, RECEIVE_BYTES):
                pass
            return True
    return False


def receive(pipe: Pipe) -> bool:
    """Whether a message has arrived; False once the other end is closed."""
    try:
        pipe.recv()
    except EOFError:
        return False
    return True


def run_process(host: str, port: int, count: int, pipe: Pipe) -> None:
    raise_file_limit()
    asyncio.run(SlowClients(host, port).run(count, pipe))


@contextmanager
def slow_clients(host: str, port: int, count: int) -> Iterator[Pipe]:
    """Hold `count` slow connections. A message to the pipe is answered with what was Held since the one before."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run_process, args=(host, port, count, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.kill()  # the kernel closes its connections
        process.join()
