"""POST /v1/models/{model}:predict: predictions in the native shape, by the live version, a version or a label.

A body with `instances` alone is native: PredictRequest in, PredictAnswer out. A body in the shape of the other protocol on this
route is answered in that shape (shared_routes.py). Bodies are parsed as JSON whatever their content type says.
"""

import time

from fastapi import Request, Response
from pydantic import ValidationError

from online.api.auth.scopes import CallerDep
from online.api.bodies import invalid_body, parse_rows, read_json
from online.api.dependencies import RuntimeDep
from online.api.responses import answer_headers, create_feedback_urls, json_response
from online.api.routes import Router
from online.api.shared_routes import Dialect, DialectDep, Document, PredictModelDep, SelectorDep, select_by_header
from online.schemas.access.callers import Caller
from online.schemas.predict import PredictAnswer, PredictRequest
from online.serving.answers import render_answer
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime
from online.serving.versions import VersionSelector

router = Router()


async def predict_live(request: Request, model: ModelRuntime, runtime: Runtime, caller: Caller) -> Response:
    """Predict with the live version: the route below, found without a search."""
    dialect: Dialect = request.app.state.dialect
    return await predict(request, model, runtime, select_by_header(request), dialect, caller)


@router.post(
    "/v1/models/{model}:predict",
    "predict",
    response_model=PredictAnswer,
    body=PredictRequest,
    fast=predict_live,
    takes_rows=True,
    every_worker=True,
    widget=True,
)
async def predict(
    request: Request,
    model: PredictModelDep,
    runtime: RuntimeDep,
    selector: SelectorDep,
    dialect: DialectDep,
    caller: CallerDep,
) -> Response:
    """Predict for each instance. Every prediction is recorded and accepts feedback.

    A body with `inputs` or `signature_name` is answered as TensorFlow Serving answers it. `X-Recorded` is sent only while
    recording is disturbed: `journal`, the store does not answer, and gets the predictions later; `false`, the disk is full.
    """
    started = time.perf_counter()
    body = await read_json(request, runtime.settings)
    parsed = await parse_request(model, body, dialect, caller)
    with dialect.version_errors():
        if isinstance(parsed, PredictRequest):
            response = await predict_natively(request, model, runtime, selector, parsed, caller)
        else:
            response = await dialect.predict(model, selector, parsed, caller)
    model.predictor.seconds.observe(time.perf_counter() - started)
    return response


@router.post(
    "/v1/models/{model}/versions/{version}:predict",
    "predict",
    response_model=PredictAnswer,
    body=PredictRequest,
    every_worker=True,
)
async def predict_by_version(
    request: Request,
    model: PredictModelDep,
    runtime: RuntimeDep,
    selector: SelectorDep,
    dialect: DialectDep,
    caller: CallerDep,
    version: str,
) -> Response:
    """Predict with this version. The live version, the previous one and every labelled version are available."""
    return await predict(request, model, runtime, selector, dialect, caller)


@router.post(
    "/v1/models/{model}/labels/{label}:predict",
    "predict",
    response_model=PredictAnswer,
    body=PredictRequest,
    every_worker=True,
)
async def predict_by_label(
    request: Request,
    model: PredictModelDep,
    runtime: RuntimeDep,
    selector: SelectorDep,
    dialect: DialectDep,
    caller: CallerDep,
    label: str,
) -> Response:
    """Predict with the version that has this version label: `latest`, `previous`, or one that was set."""
    return await predict(request, model, runtime, selector, dialect, caller)


async def parse_request(
    model: ModelRuntime, body: bytes, dialect: Dialect, caller: Caller
) -> PredictRequest | Document:
    """Return the native request in a body, on behalf of the user for whom the caller acts, or the document of one in the other
    protocol's shape. Raises BadInput.

    The two fast parsers come first. They accept valid native bodies only; errors are found by the slow way.
    """
    takes_vectors = model.spec.options.get("input") == "vector"
    if takes_vectors and (request := await parse_rows(body, caller.acts_for(None))) is not None:
        return request
    if not any(field in body for field in dialect.fields):
        try:
            return on_behalf_of(caller, PredictRequest.model_validate_json(body))
        except ValidationError:
            pass  # the dialect's parser accepts more, such as NaN
    document, is_native = dialect.parse(body)
    if not is_native:
        return document
    try:
        return on_behalf_of(caller, PredictRequest.model_validate(document))
    except ValidationError as error:
        raise invalid_body(error, PredictRequest) from None


async def predict_natively(
    request: Request,
    model: ModelRuntime,
    runtime: Runtime,
    selector: VersionSelector,
    parsed: PredictRequest,
    caller: Caller,
) -> Response:
    """Predict, and answer in the native shape."""
    predicted = await model.predictor.predict(parsed, caller, selector=selector)
    served = predicted.served
    most = runtime.settings.max_candidates
    urls = create_feedback_urls(request, model.spec.name, predicted.ids) if parsed.feedback_urls else []
    content = {
        "predictions": [render_answer(model.spec.kind, each, most) for each in predicted.answers],
        "prediction_ids": predicted.ids,
        "feedback_urls": urls,
        "model_version": str(served.version),
        "learned_until": served.learned_until,
    }
    return json_response(content, headers=answer_headers(predicted))


def on_behalf_of(caller: Caller, request: PredictRequest) -> PredictRequest:
    """Return the request with the user for whom the caller acts."""
    user = caller.acts_for(request.user)
    return request if user == request.user else request.model_copy(update={"user": user})
