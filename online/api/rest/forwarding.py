"""Feedback on what a model has passed on: the model that has answered takes it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from online.errors import NotFound
from online.serving.model_runtime import ModelRuntime

T = TypeVar("T")


async def find_owner(
    model: ModelRuntime, models: Mapping[str, ModelRuntime], run: Callable[[ModelRuntime], Awaitable[T]]
) -> tuple[ModelRuntime, T]:
    """Return the model that knows what a request refers to, and what `run` returns for it: the model itself or its fallback.

    Raises what `run` raises for the model itself, where neither knows it.
    """
    try:
        return model, await run(model)
    except NotFound as error:
        fallback = models.get(model.spec.fallback)
        if fallback is None:
            raise
        try:
            return fallback, await run(fallback)
        except NotFound:
            raise error from None
