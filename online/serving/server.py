"""Runs the application under uvicorn on a socket that is already ours."""

import asyncio
import socket
import sys
from collections.abc import Callable

import uvicorn

from online.serving.app import create_app
from online.serving.parts import Parts
from online.settings import Settings

DRAIN_S = 10  # open requests get this long to finish
SWITCH_S = 0.0005  # the event loop waits no longer than this for a thread that loads a version or writes rows


class Server(uvicorn.Server):
    """Ends the event streams before it waits for connections to close, and says when it is ready."""

    def __init__(self, config: uvicorn.Config, parts: Parts, when_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.parts, self.when_ready = parts, when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.parts.close_feeds()
        await super().shutdown(sockets)


def run(settings: Settings, listener: socket.socket, with_learner: bool, when_ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; then drain, stop the learner and return."""
    sys.setswitchinterval(SWITCH_S)
    app = create_app(settings, with_learner)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=DRAIN_S, server_header=False
    )
    server = Server(config, app.state.parts, when_ready)
    try:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(server.serve([listener]))
    except KeyboardInterrupt:
        return  # uvicorn raises it again once everything is stopped
