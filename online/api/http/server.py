"""Runs the application under uvicorn on an open socket, and starts the other workers."""

import asyncio
import gc
import socket
import ssl
import sys
from collections.abc import Callable
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from online.api.app import create_app
from online.api.http.connections import Connections, bound_unsent_bytes, raise_file_limit
from online.api.http.direct import DirectPredictions
from online.api.http.forwarding import ForwardedCaller, Forwarder
from online.api.http.tls_listener import TlsListener
from online.io.tls import create_tls_context
from online.serving.runtime import Runtime
from online.settings import Settings

DRAIN_S = 10  # open requests get this long to finish
KEEP_ALIVE_S = 75  # longer than clients and load balancers keep idle connections, so that they close them first
SWITCH_INTERVAL_S = 0.0005  # the event loop waits at most this long for a thread that loads a version or writes rows
FULL_COLLECTION_EVERY = (
    50  # of the smaller ones, each after some 7,000 new objects: with 2,000 connections it takes 0.1 s
)
POLL_S = 0.05


class Server(uvicorn.Server):
    """Ends the event streams before it waits for connections to close, and reports when it is ready."""

    def __init__(
        self,
        app: ASGIApp,
        runtime: Runtime,
        direct: DirectPredictions,
        sockets: list[socket.socket],
        when_ready: Callable[[], None],
    ) -> None:
        """sockets: for callers; with several workers also one for the requests that they forward."""
        self.connections = Connections(runtime.settings, runtime.metrics, raise_file_limit(), direct)
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(type[asyncio.Protocol], self.connections.create_protocol),
                ws="none",
                log_config=None,
                access_log=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=DRAIN_S,
                server_header=False,
                proxy_headers=False,  # it would believe X-Forwarded-For from 127.0.0.1; `trusted_proxies` says who is believed
            )
        )
        self.runtime, self.sockets, self.when_ready = runtime, sockets, when_ready
        self.tls = create_runtime_tls(runtime.settings)

    def run_all(self) -> None:
        """Serve until SIGINT or SIGTERM; then drain, stop the learner and return."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        try:
            with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
                runner.run(self.serve(self.sockets))
        except KeyboardInterrupt:
            return  # uvicorn raises it again once everything is stopped

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the sockets for callers, with TLS where it is set, and on the socket for forwarded requests."""
        await super().startup([])  # it would use TLS on the socket of forwarded requests as well
        for listener in sockets or ():
            self.servers.append(cast(asyncio.Server, await self._listen(listener)))
        if self.started:
            self.runtime.run_until_stop(self.connections.watch())
            await self._start_workers()
        if self.started and not self.should_exit:
            gc.collect()
            gc.set_threshold(*gc.get_threshold()[:2], FULL_COLLECTION_EVERY)
            gc.freeze()  # modules live as long as the process: to look through them takes 0.2 s of a request's time
            self.when_ready()

    async def _listen(self, listener: socket.socket) -> asyncio.Server | TlsListener:
        """Accept connections on a socket, with TLS if it is the one for callers."""
        bound_unsent_bytes(listener)
        create_protocol = partial(self._create_protocol, is_inner=listener is not self.sockets[0])
        if self.tls is not None and listener is self.sockets[0]:
            listener.listen(self.config.backlog)
            return TlsListener(listener, self.tls, self.connections, create_protocol)
        loop = asyncio.get_running_loop()
        return await loop.create_server(create_protocol, sock=listener, backlog=self.config.backlog)

    def _create_protocol(self, is_inner: bool) -> asyncio.Protocol:
        create = self.connections.create_inner_protocol if is_inner else self.connections.create_protocol
        return create(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def _start_workers(self) -> None:
        workers = self.runtime.workers
        if self.runtime.is_primary and len(self.sockets) > 1:
            await workers.start(self.sockets[0].fileno(), self.sockets[1].getsockname()[1])
        while not self.runtime.has_started and not self.should_exit:
            await asyncio.sleep(POLL_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams and the other workers, then close the connections."""
        self.runtime.close_feeds()
        await self.runtime.workers.stop()
        await super().shutdown(sockets)


def create_runtime_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return None without a certificate. Raises SetupError."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return create_tls_context(settings.tls_certificate, settings.tls_key)


def run(settings: Settings, listener: socket.socket, with_learner: bool, when_ready: Callable[[], None]) -> None:
    """Serve, and keep the other workers running."""
    app = create_app(settings, with_learner, with_store_process=True)
    if settings.workers == 1:
        Server(app, app.state.runtime, app.state.direct, [listener], when_ready).run_all()
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as inner:
        inner.bind(("127.0.0.1", 0))
        inner.listen()
        receiver = ForwardedCaller(app, inner.getsockname()[1])
        Server(receiver, app.state.runtime, app.state.direct, [listener, inner], when_ready).run_all()


def run_beside(settings: Settings, listener: socket.socket, first_port: int, worker: int) -> None:
    """Serve predictions beside the first worker. first_port: where it accepts forwarded requests. worker: its number."""
    app = create_app(settings, with_learner=False, is_primary=False, worker=worker)
    forwarder = Forwarder(app, first_port, app.state.routes, settings)
    Server(forwarder, app.state.runtime, app.state.direct, [listener], lambda: None).run_all()
