"""Dependencies of handlers: the runtime, and the model that the path names.

The functions are coroutines although they wait for nothing: FastAPI runs plain functions in a thread.
"""

from typing import Annotated

from fastapi import Depends, Request

from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime

ROUTE_HEADER = "x-route"  # callers that send the same value get the same version while a canary has a share


async def get_runtime(request: Request) -> Runtime:
    """Return the runtime that the application was started with."""
    runtime: Runtime = request.app.state.runtime
    return runtime


RuntimeDep = Annotated[Runtime, Depends(get_runtime)]


async def get_model(runtime: RuntimeDep, model: str) -> ModelRuntime:
    """Return the model that the path names. Raises NotFound."""
    return runtime.model(model)


ModelDep = Annotated[ModelRuntime, Depends(get_model)]
