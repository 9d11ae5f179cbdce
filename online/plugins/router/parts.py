"""The part that a model has: its routes, or what it falls back to."""

from online.models import spec_of
from online.plugins.router.accounting import RouteAccounts
from online.plugins.router.fallback import FallbackChat
from online.plugins.router.metrics import RouteMetrics
from online.plugins.router.routed_chat import RoutedChat
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ModelPart
from online.serving.runtime import Runtime


def build_part(model: ModelRuntime, runtime: Runtime) -> ModelPart | None:
    """Return the part of a model; None for one that neither has routes nor a fallback. Raises SetupError."""
    if model.spec.fallback:
        return FallbackChat(model, runtime.models)
    if spec_of(model.spec.kind).has_routes:
        return RoutedChat(model, RouteAccounts(model, runtime.metrics.parts.find(RouteMetrics)))
    return None
