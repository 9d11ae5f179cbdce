r"""A TCP proxy with faults that are switched while connections are open.

client --> FaultProxy --> target      delay(0.1)   every piece of data arrives so much later, in both directions
                                      reset()      open connections break (RST); new ones work
                                      refuse()     open connections break, and new ones are refused
                                      freeze()     half-open: all connections stay, and nothing arrives any more
                                      heal()       everything arrives again, also what was sent meanwhile
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

CHUNK_BYTES = 65_536
MAX_CHUNKS = 256  # of one direction on their way; then the sender waits
CALL_S = 10.0
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


class LoopThread:
    """An event loop in a thread, for proxies whose faults are switched from other threads."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="fault-proxies", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_S)

    def close(self) -> None:
        """End the loop and its tasks."""
        self.run(self._cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_S)
        self.loop.close()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class FaultProxy:
    """Forwards TCP connections to one target. Its methods may be called from any thread but the loop's."""

    def __init__(self, thread: LoopThread, target: tuple[str, int], host: str = "127.0.0.1") -> None:
        """target: host and port. host: address to listen on; the port is a free one and stays the same. Raises OSError."""
        self.target, self.host, self.delay_s = target, host, 0.0
        self._thread = thread
        self._connections = set[asyncio.StreamWriter]()
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self.port = 0
        thread.run(self._listen())

    @property
    def open_connections(self) -> int:
        """Connections that are open now, counted on the side of the clients and on that of the target."""
        return len(self._connections)

    def delay(self, seconds: float) -> None:
        """Let all data that arrives from now on pass so much later."""
        self.delay_s = seconds

    def reset(self) -> None:
        """Break every open connection."""
        self._thread.run(self._break())

    def refuse(self) -> None:
        """Break every open connection, and refuse new ones, as a host does whose program has ended."""
        self._thread.run(self._refuse())

    def freeze(self) -> None:
        """Let nothing pass, and close nothing: what a cut network looks like. New connections are accepted and hang."""
        self._thread.loop.call_soon_threadsafe(self._flows.clear)

    def heal(self) -> None:
        """End every fault."""
        self.delay_s = 0.0
        self._thread.run(self._heal())

    def close(self) -> None:
        """Stop listening, and break what is open."""
        self._thread.run(self._refuse())

    # in the loop

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, self.host, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _heal(self) -> None:
        self._flows.set()
        await self._listen()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._break()

    async def _break(self) -> None:
        for writer in [*self._connections]:
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until either side ends it."""
        pumps, ends = list[asyncio.Task[None]](), [writer]
        self._connections.add(writer)
        try:
            await self._flows.wait()
            target_reader, target_writer = await asyncio.open_connection(*self.target)
            ends.append(target_writer)
            self._connections.add(target_writer)
            pumps = [
                asyncio.create_task(self._pump(reader, target_writer)),
                asyncio.create_task(self._pump(target_reader, writer)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # the target refuses, so the client's connection ends
        finally:
            for pump in pumps:
                pump.cancel()
            for end in ends:
                self._connections.discard(end)
                end.close()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one direction until it ends."""
        chunks = asyncio.Queue[tuple[float, bytes]](MAX_CHUNKS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(reader, chunks))
            group.create_task(self._write(chunks, writer))

    async def _read(self, reader: asyncio.StreamReader, chunks: "asyncio.Queue[tuple[float, bytes]]") -> None:
        while data := await reader.read(CHUNK_BYTES):
            await chunks.put((self._thread.loop.time() + self.delay_s, data))
        await chunks.put((self._thread.loop.time() + self.delay_s, b""))

    async def _write(self, chunks: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await chunks.get()
            await reach(due)
            await self._flows.wait()
            if not data:
                return
            writer.write(data)
            await writer.drain()


async def reach(due: float) -> None:
    """Return at a time of the loop's clock."""
    loop, is_due = asyncio.get_running_loop(), asyncio.Event()
    if due > loop.time():
        loop.call_at(due, is_due.set)
        await is_due.wait()
