"""Limits on the connections of one process: how many there are, and how slow their clients may be.

    accept --too many, or too many from one address-------> 503 or 429, closed
           --its request arrives too slowly---------------> 408, closed
           --its answer is left unread for too long-------> closed
           --too many requests wait for their turn--------> closed
           --its request line or headers are too long-----> 414 or 431, closed (protocol.py)
           --otherwise------------------------------------> the application

With TLS, connections whose handshake is not finished are bounded before that (tls_listener.py).
Each is looked at once a second, so it costs a request two comparisons and no timer. A request may
take `request_read_timeout_s`, and its body one second more for each MIN_BYTES_PER_S that have arrived.
"""

import asyncio
import logging
import resource
import socket
from collections import Counter
from functools import partial
from http import HTTPStatus

from online.api.auth.locality import is_loopback
from online.api.http.direct import DirectPredictions
from online.api.http.protocol import CHECK_EVERY_S, Connection, ConnectionHooks
from online.settings import Settings
from online.telemetry import Metrics, OutageLog

log = logging.getLogger("online.connections")

SLICES = 20  # of a check: a thousand connections that are closed at once would delay the requests of others
MAX_FILES = 65_536
SPARE_FILES = 256  # of the process's open files, for the store, snapshots, wake-ups and child processes
MAX_UNSENT_BYTES = 131_072  # of one connection in the kernel; by default up to 4 MB of an answer that nobody reads


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
        self.most = min(settings.max_connections, max(max_files - SPARE_FILES, max_files // 2))
        self.most_per_address = settings.max_connections_per_address
        self.request_read_timeout_s = settings.request_read_timeout_s
        self.answer_read_timeout_s = settings.answer_read_timeout_s
        hooks = ConnectionHooks(self.admit, self.release, metrics, direct)
        self.create_protocol = partial(Connection, hooks)
        self.create_inner_protocol = partial(Connection, hooks, is_inner=True)
        self.open = set[Connection]()
        self.by_address = Counter[str]()
        self._refused = OutageLog(log, "connections refused")

    def admit(self, connection: Connection) -> HTTPStatus | None:
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

    def release(self, connection: Connection) -> None:
        """Forget a connection that was closed."""
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

    def _check(self, connection: Connection) -> None:
        """Close a connection if it is slow."""
        if connection not in self.open:
            return
        now = connection.loop.time()
        connection.extend_while_paused()
        if connection.is_idle(now):
            connection.transport.close()
        elif connection.is_stalled(now, self.answer_read_timeout_s) or connection.is_lingering(now):
            connection.abort()
        elif connection.is_slow(now, self.request_read_timeout_s):
            connection.refuse(HTTPStatus.REQUEST_TIMEOUT)
