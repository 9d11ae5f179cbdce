"""gRPC: a server beside HTTP, with the services of every plugin and one of its own for feedback."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from fastapi import FastAPI

    from online.plugins.grpc.calls import Service
    from online.plugins.grpc.server import GrpcServer
    from online.serving.runtime import Runtime


class GrpcPlugin(Plugin):
    """The hooks of gRPC."""

    name = "grpc"

    def api_part(self, app: "FastAPI") -> "GrpcServer | None":
        """Return None where no port is set: the gRPC library is not imported then."""
        runtime: Runtime = app.state.runtime
        if runtime.settings.grpc_port is None or not runtime.is_primary:
            return None
        from online.plugins.grpc.server import GrpcServer

        return GrpcServer(runtime, app.state.callers, runtime.rates, runtime.settings.grpc_port)

    def grpc_services(self, runtime: "Runtime") -> "Iterable[Service]":
        """Return this plugin's gRPC services."""
        from online.plugins.grpc.feedback import FeedbackService

        return (FeedbackService(runtime).service(),)


PLUGIN = GrpcPlugin()
