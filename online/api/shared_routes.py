"""The shape of the routes under /v1/models that the native protocol shares with TensorFlow Serving's.

Both protocols have POST :predict and GET /v1/models/{model}. The native modules answer these routes; a `Dialect` says how the
other protocol selects a version, which bodies are in its shape, and how it words errors. A plugin contributes it (`Plugin.dialect`), so the native
modules depend on no other protocol.

    body --dialect.parse--native shape--> PredictRequest  --> native answer
                        --other shape---> dialect.predict --> an answer in the other protocol's shape
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from online.api.bodies import parse_leniently
from online.api.dependencies import ROUTE_HEADER, RuntimeDep
from online.errors import BadInput, NotFound
from online.schemas.access.callers import Caller
from online.schemas.json_values import JSON, JSONObject
from online.serving.live import LiveModel
from online.serving.model_runtime import ModelRuntime
from online.serving.versions import VersionSelector

Document = Mapping[str, JSON]
MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Dialect:
    """The other protocol on the shared routes.

    Attributes:
        fields: the fields, as bytes, one of which is in each of its bodies; no native body has any of them.
        parse: the JSON object in a body, and whether it is in the native shape. Raises BadInput.
        predict: the answer to a parsed body.
        version_statuses: the states of all versions, for the status route.
        unknown_predict_model: the error of predict for an unknown model.
        unknown_status_model: the error of the status route for an unknown model.
        version_errors: a context that replaces the errors of a version that cannot be requested.
        malformed: the error for a path that no route matches.
    """

    fields: tuple[bytes, ...]
    parse: Callable[[bytes], tuple[Document, bool]]
    predict: Callable[[ModelRuntime, VersionSelector, Document, Caller], Awaitable[Response]]
    version_statuses: Callable[[LiveModel], list[JSONObject]]
    unknown_predict_model: Callable[[str, VersionSelector, Iterable[str]], NotFound]
    unknown_status_model: Callable[[str, Iterable[str]], NotFound]
    version_errors: Callable[[], AbstractContextManager[None]]
    malformed: Callable[[Request], BadInput]


def parse_native(body: bytes) -> tuple[Document, bool]:
    """Return the JSON object in a body. Raises BadInput."""
    try:
        document = parse_leniently(body)
    except ValueError as error:
        raise BadInput(f"the body is not valid JSON: {error}") from None
    if not isinstance(document, Mapping):
        raise BadInput("the body must be a JSON object with the field `instances`")
    return document, True


async def refuse_shape(model: ModelRuntime, selector: VersionSelector, document: Document, caller: Caller) -> Response:
    """Refuse a body in the shape of another protocol. Its plugin replaces this."""
    raise BadInput("no installed plugin reads bodies of this shape")


def refuse_model(name: str, *known: object) -> NotFound:
    """Return the error for a model that does not exist. A plugin words it as its protocol does."""
    return NotFound(f"there is no model {name[:80]!r}")


def refuse_path(request: Request) -> BadInput:
    """Return the error for a path that names no operation."""
    return BadInput(f"Malformed request: {request.method} {request.url.path[:200]}")


NATIVE = Dialect(  # where no plugin has another shape
    fields=(),
    parse=parse_native,
    predict=refuse_shape,
    version_statuses=lambda live: [],
    unknown_predict_model=refuse_model,
    unknown_status_model=refuse_model,
    version_errors=nullcontext,
    malformed=refuse_path,
)


async def get_dialect(request: Request) -> Dialect:
    """Return the dialect of the shared routes: the native one, or that of a plugin."""
    dialect: Dialect = request.app.state.dialect
    return dialect


DialectDep = Annotated[Dialect, Depends(get_dialect)]


async def get_selector(request: Request, dialect: DialectDep) -> VersionSelector:
    """Return the version that the path or the header X-Route selects. Raises BadInput for a version that is not a number."""
    version, label = (request.path_params.get(name) for name in ("version", "label"))
    if version is None and label is None:
        return select_by_header(request)
    return VersionSelector(None if version is None else parse_version(request, version, dialect), label, None)


def select_by_header(request: Request) -> VersionSelector:
    """Return the version of a path that names none: the live one, or the canary for its share of the values of X-Route."""
    return VersionSelector(None, None, request.headers.get(ROUTE_HEADER))


def parse_version(request: Request, text: str, dialect: Dialect) -> int:
    """Parse the number of a version. Raises BadInput."""
    if not re.fullmatch("[0-9]+", text):
        raise dialect.malformed(request)
    if len(text) > len(str(MAX_INT64)) or int(text) > MAX_INT64:
        raise BadInput(f"Failed to convert version: {text[:40]} to numeric.")
    return int(text)


SelectorDep = Annotated[VersionSelector, Depends(get_selector)]


async def get_predict_model(
    runtime: RuntimeDep, dialect: DialectDep, selector: SelectorDep, model: str
) -> ModelRuntime:
    """Return the model that a prediction is requested from. Raises NotFound."""
    if model not in runtime.models:
        raise dialect.unknown_predict_model(model, selector, runtime.models)
    return runtime.models[model]


PredictModelDep = Annotated[ModelRuntime, Depends(get_predict_model)]


async def get_status_model(request: Request, runtime: RuntimeDep, dialect: DialectDep, model: str) -> ModelRuntime:
    """Return the model whose status is requested. Raises NotFound, or BadInput for a path such as chat:unknown."""
    if ":" in model:
        raise dialect.malformed(request)
    if model not in runtime.models:
        raise dialect.unknown_status_model(model, runtime.models)
    return runtime.models[model]


StatusModelDep = Annotated[ModelRuntime, Depends(get_status_model)]
