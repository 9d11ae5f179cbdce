"""The Open Inference Protocol of KServe and Triton over REST and gRPC."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.api.routes import Router
    from online.plugins.grpc.calls import Service
    from online.serving.runtime import Runtime


class OpenInferencePlugin(Plugin):
    """The hooks of the Open Inference Protocol."""

    name = "open_inference"
    requires = ("grpc", "tensorflow")  # whose tensors it shares

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.open_inference.rest import router

        return (router,)

    def grpc_services(self, runtime: "Runtime") -> "Iterable[Service]":
        """Return this plugin's gRPC services."""
        from online.plugins.open_inference.rpc import InferenceService

        return (InferenceService(runtime).service(),)


PLUGIN = OpenInferencePlugin()
