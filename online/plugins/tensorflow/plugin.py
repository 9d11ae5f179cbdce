"""TensorFlow Serving's protocol over REST and gRPC."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.api.routes import Router
    from online.api.shared_routes import Dialect
    from online.plugins.grpc.calls import Service
    from online.serving.runtime import Runtime


class TensorflowPlugin(Plugin):
    """The hooks of TensorFlow Serving's protocol."""

    name = "tensorflow"
    requires = ("grpc",)

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.tensorflow.rest import router

        return (router,)

    def dialect(self) -> "Dialect":
        """Return the shape of the shared routes."""
        from online.plugins.tensorflow.rest import DIALECT

        return DIALECT

    def grpc_services(self, runtime: "Runtime") -> "Iterable[Service]":
        """Return this plugin's gRPC services."""
        from online.plugins.tensorflow.rpc import TensorflowServices

        return TensorflowServices(runtime).services()


PLUGIN = TensorflowPlugin()
