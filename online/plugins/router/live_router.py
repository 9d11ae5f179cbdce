"""The live version of a router."""

from online.errors import BadInput
from online.models.wrappers import find_answering
from online.plugins.router.model import RouterModel
from online.serving.model_runtime import ModelRuntime


def find_router(model: ModelRuntime) -> RouterModel:
    """Return the live model. Raises BadInput for a model that is no router."""
    _, answering = find_answering(model.spec.kind, model.spec.options, model.live.current.model)
    if not isinstance(answering, RouterModel):
        raise BadInput(f"{model.spec.name} is a {model.spec.kind}, which has no routes")
    return answering
