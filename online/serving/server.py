"""Runs the application under uvicorn on a socket that is already ours; beside it the other workers, where there are any."""

import asyncio
import socket
import sys
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from online.serving.app import create_app
from online.serving.handing import Handing, Received
from online.serving.parts import Parts
from online.serving.shortcut import Shortcut
from online.settings import Settings

DRAIN_S = 10  # open requests get this long to finish
KEPT_OPEN_S = 75  # longer than clients and balancers keep what is idle: who closes first must be who asks
SWITCH_S = 0.0005  # the event loop waits no longer than this for a thread that loads a version or writes rows
LOOK_S = 0.05


class Server(uvicorn.Server):
    """Ends the event streams before it waits for connections to close, and says when it is ready."""

    def __init__(
        self, app: ASGIApp, parts: Parts, sockets: list[socket.socket], when_ready: Callable[[], None]
    ) -> None:
        """sockets: what callers connect to, and where there are several workers what those hand over to."""
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                timeout_keep_alive=KEPT_OPEN_S,
                timeout_graceful_shutdown=DRAIN_S,
                server_header=False,
            )
        )
        self.parts, self.sockets, self.when_ready = parts, sockets, when_ready

    def run_all(self) -> None:
        """Until SIGINT or SIGTERM; then drain, stop the learner and return."""
        sys.setswitchinterval(SWITCH_S)
        try:
            with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
                runner.run(self.serve(self.sockets))
        except KeyboardInterrupt:
            return  # uvicorn raises it again once everything is stopped

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            await self._start_others()
            self.when_ready()

    async def _start_others(self) -> None:
        workers = self.parts.workers
        if self.parts.leads and len(self.sockets) > 1:
            await workers.start(self.sockets[0].fileno(), self.sockets[1].getsockname()[1])
        while not workers.all_up and not self.should_exit:
            await asyncio.sleep(LOOK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.parts.close_feeds()
        await self.parts.workers.stop()
        await super().shutdown(sockets)


def run(settings: Settings, listener: socket.socket, with_learner: bool, when_ready: Callable[[], None]) -> None:
    """Serve, and keep the other workers serving."""
    if settings.workers == 1:
        app = create_app(settings, with_learner)
        Server(Shortcut(app), app.state.parts, [listener], when_ready).run_all()
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as inner:
        inner.bind(("127.0.0.1", 0))
        inner.listen()
        app = create_app(settings, with_learner)
        received = Received(Shortcut(app), inner.getsockname()[1])
        Server(received, app.state.parts, [listener, inner], when_ready).run_all()


def run_beside(settings: Settings, listener: socket.socket, first: int) -> None:
    """Answer predictions beside the first worker. first: its port for what is handed over."""
    app = create_app(settings, with_learner=False, leads=False)
    Server(Handing(Shortcut(app), first), app.state.parts, [listener], lambda: None).run_all()
