"""A router: it sends each question to one of several language models, and learns from every thumb which one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from online.api.routes import Router
    from online.models.kinds import KindSpec
    from online.plugins.router.metrics import RouteMetrics
    from online.serving.model_runtime import ModelRuntime
    from online.serving.parts import ModelPart
    from online.serving.runtime import Runtime


class RouterPlugin(Plugin):
    """The hooks of the router."""

    name = "router"
    requires = ("openai",)  # whose requests its routes answer

    def metrics(self) -> "type[RouteMetrics]":
        """Return the class of this plugin's metrics."""
        from online.plugins.router.metrics import RouteMetrics

        return RouteMetrics

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes of the API."""
        from online.plugins.router.views import router

        return (router,)

    def kinds(self) -> "Iterable[KindSpec]":
        """Return this plugin's kinds of models."""
        from online.models.kinds import KindSpec
        from online.plugins.router.options import UNLEARNED

        return (
            KindSpec(
                "router",
                "online.plugins.router.model:RouterModel",
                "routing",
                inputs=("text",),
                is_exact=True,
                can_hash_texts=True,
                encoder="online.plugins.router.inputs:RouterEncoder",
                unlearned_options=UNLEARNED,
            ),
        )

    def model_part(self, model: "ModelRuntime", runtime: "Runtime") -> "ModelPart | None":
        """Return the routes of a model that has any."""
        from online.models import spec_of

        if not spec_of(model.spec.kind).has_routes:
            return None
        from online.plugins.router.metrics import RouteMetrics
        from online.plugins.router.routed_chat import RoutedChat

        return RoutedChat(model, runtime.metrics.parts.find(RouteMetrics))


PLUGIN = RouterPlugin()
