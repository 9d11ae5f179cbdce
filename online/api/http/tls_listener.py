"""Accepts connections with TLS and bounds those whose handshake is not finished: asyncio's own server tells nobody of them.

accept --many others of its address, or of all, have not finished--> closed
       --its handshake takes longer than request_read_timeout_s----> closed
       --finished--------------------------------------------------> `Connections` (connections.py)
"""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from online.api.auth.locality import is_loopback
from online.api.http.connections import Connections

CLOSE_S = 2.0  # a client may take so long to agree to the end of a connection
ACCEPTED_AT_ONCE = 100
PAUSE_S = 1.0  # while the process can open no file


class TlsListener:
    """Listens on one socket. It is closed as an asyncio.Server is."""

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        limits: Connections,
        create_protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        """listener: bound, and listening. limits: of the connections, finished or not."""
        self.listener, self.context, self.limits, self.create_protocol = listener, context, limits, create_protocol
        self.loop, self.is_closed = asyncio.get_running_loop(), False
        self.by_address = Counter[str]()  # of unfinished handshakes
        self.tasks = set[asyncio.Task[None]]()
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Accept no further connections, and cancel unfinished handshakes."""
        self.is_closed = True
        self.loop.remove_reader(self.listener)
        for task in self.tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the cancelled handshakes have ended."""
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _listen(self) -> None:
        if not self.is_closed:
            self.loop.add_reader(self.listener, self._accept_all)

    def _accept_all(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, address = self.listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no free file: it would fail again at once
                self.loop.remove_reader(self.listener)
                self.loop.call_later(PAUSE_S, self._listen)
                return
            self._admit(client, address[0])

    def _admit(self, client: socket.socket, address: str) -> None:
        limits, is_full = self.limits, self.by_address[address] >= self.limits.most_per_address
        if len(limits.open) + len(self.tasks) >= limits.most or (is_full and not is_loopback(address)):
            client.close()
            return
        self.by_address[address] += 1
        task = self.loop.create_task(self._shake_hands(client))
        self.tasks.add(task)
        task.add_done_callback(lambda task: self._forget(task, address))

    async def _shake_hands(self, client: socket.socket) -> None:
        client.setblocking(False)
        with contextlib.suppress(OSError):  # of TLS, of the connection, or of the time
            await self.loop.connect_accepted_socket(
                self.create_protocol,
                client,
                ssl=self.context,
                ssl_handshake_timeout=self.limits.request_read_timeout_s,
                ssl_shutdown_timeout=CLOSE_S,
            )

    def _forget(self, task: asyncio.Task[None], address: str) -> None:
        self.tasks.discard(task)
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]
