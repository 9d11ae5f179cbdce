"""Answers of language models that this service has not asked itself: a caller says who answered what.

    {question, answer, source, propensity} --record--> a prediction, to which thumbs refer --> the router learns from them

So those who choose the model themselves, or have one only, learn from the same thumbs as those who let the router choose.
"""

from fastapi import Request, Response
from pydantic import Field

from online.api.auth.scopes import CallerDep
from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import create_feedback_urls, json_response, live_headers
from online.api.routes import Router
from online.errors import BadInput
from online.plugins.router.live_router import find_router
from online.plugins.router.recorded_predictions import record_prediction
from online.plugins.router.routed_chat import RoutedChat
from online.schemas.access.callers import SERVICE
from online.schemas.feedback import FeedbackItem, RouteOutcome
from online.schemas.fields import Name, NativeRequest, Text, Wire
from online.serving.model_runtime import ModelRuntime

router = Router()


class RecordRequest(NativeRequest):
    """An answer that a language model has given elsewhere."""

    question: Text = Field(min_length=1, description="The text that was asked.")
    answer: Text = Field("", description="The text that was answered. It is kept until its prediction expires.")
    source: Name = Field(description="Which language model has answered: the name of a route, or any without routes.")
    propensity: float = Field(
        1.0,
        gt=0,
        le=1,
        description="The probability with which the source was chosen; 1: such questions always go there.",
    )
    user: Name | None = Field(None, description="The user who asked.")
    cost: float | None = Field(None, ge=0, le=1e6, allow_inf_nan=False, description="US dollars.")
    seconds: float = Field(0.0, ge=0, le=1e6, allow_inf_nan=False, description="Until the answer was complete.")


class RecordReceipt(Wire):
    """The name of an answer that was recorded."""

    prediction_id: str = Field(description="To which feedback on the answer refers.")
    feedback_url: str | None = Field(None, description="A signed URL; its holder may rate the answer.")


@router.post("/v1/models/{model}:record", "teach", status_code=201, response_model=RecordReceipt, body=RecordRequest)
async def record_answer(request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Record what a language model has answered elsewhere, so that feedback can refer to it, and the router learns from it.

    With `cost`, also what it took is learned.
    """
    item = await read_body_as(request, RecordRequest, runtime.settings)
    check_source(model, item.source)
    runtime.rates.check(caller, instances=1)
    user = caller.acts_for(item.user)
    id = await record_prediction(model, item.question, item.source, item.propensity, user)
    if item.answer:
        await model.parts.find(RoutedChat).uses.texts.save(id, item.source, item.answer)
    if item.cost is not None:
        outcome = RouteOutcome(cost=item.cost, seconds=item.seconds)
        await model.feedback.submit([FeedbackItem(id=f"outcome-{id}", prediction_id=id, outcome=outcome)], SERVICE)
    url = next(iter(create_feedback_urls(request, model.spec.name, [id])), None)
    content = {"prediction_id": id, **({"feedback_url": url} if url else {})}
    return json_response(content, 201, live_headers(model))


def check_source(model: ModelRuntime, source: str) -> None:
    """Raise BadInput for a model that is no router, and for a source that is none of its routes."""
    find_router(model)
    names = [*model.parts.find(RoutedChat).clients]
    if names and source not in names:
        raise BadInput(f"source {source!r} is no route of {model.spec.name}; its routes are {', '.join(names)}")
