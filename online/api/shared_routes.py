"""What the native routes under /v1/models share with TensorFlow Serving's.

Both protocols have POST :predict and GET /v1/models/{model}. The native modules answer these routes; a `Dialect` says how the
other protocol selects a version, which bodies are in its shape, and how it words errors. `create_app` sets it, so the native
modules depend on no other protocol.

    body --dialect.parse--native shape--> PredictRequest  --> native answer
                        --other shape---> dialect.predict --> an answer in the other protocol's shape
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from online.api.dependencies import RuntimeDep
from online.errors import BadInput, NotFound
from online.schemas.access.callers import Caller
from online.serving.live import LiveModel
from online.serving.model_runtime import ModelRuntime
from online.serving.versions import VersionSelector

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The other protocol on the shared routes.

    Attributes:
        fields: the fields, as bytes, one of which is in each of its bodies; no native body has any of them.
        parse: the JSON object in a body, and whether it is in the native shape. Raises BadInput.
        predict: the answer to a parsed body.
        version_statuses: the states of all versions, for the status route.
        select_version: the version that a path names. Raises BadInput.
        unknown_predict_model: the error of predict for an unknown model.
        unknown_status_model: the error of the status route for an unknown model.
        version_errors: a context that replaces the errors of a version that cannot be requested.
        malformed: the error for a path that no route matches.
    """

    fields: tuple[bytes, ...]
    parse: Callable[[bytes], tuple[Document, bool]]
    predict: Callable[[ModelRuntime, VersionSelector, Document, Caller], Awaitable[Response]]
    version_statuses: Callable[[LiveModel], list[dict[str, Any]]]
    select_version: Callable[[Request], VersionSelector]
    unknown_predict_model: Callable[[str, VersionSelector, Iterable[str]], NotFound]
    unknown_status_model: Callable[[str, Iterable[str]], NotFound]
    version_errors: Callable[[], AbstractContextManager[None]]
    malformed: Callable[[Request], BadInput]


async def get_dialect(request: Request) -> Dialect:
    dialect: Dialect = request.app.state.dialect
    return dialect


DialectDep = Annotated[Dialect, Depends(get_dialect)]


async def get_selector(request: Request, dialect: DialectDep) -> VersionSelector:
    """The version that the path names. Raises BadInput."""
    return dialect.select_version(request)


SelectorDep = Annotated[VersionSelector, Depends(get_selector)]


async def get_predict_model(
    runtime: RuntimeDep, dialect: DialectDep, selector: SelectorDep, model: str
) -> ModelRuntime:
    """The model that a prediction is requested from. Raises NotFound."""
    if model not in runtime.models:
        raise dialect.unknown_predict_model(model, selector, runtime.models)
    return runtime.models[model]


PredictModelDep = Annotated[ModelRuntime, Depends(get_predict_model)]


async def get_status_model(request: Request, runtime: RuntimeDep, dialect: DialectDep, model: str) -> ModelRuntime:
    """The model whose status is requested. Raises NotFound, or BadInput for a path such as chat:unknown."""
    if ":" in model:
        raise dialect.malformed(request)
    if model not in runtime.models:
        raise dialect.unknown_status_model(model, runtime.models)
    return runtime.models[model]


StatusModelDep = Annotated[ModelRuntime, Depends(get_status_model)]
