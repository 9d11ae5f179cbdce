"""Feedback by a signed URL, for its holder.

GET     a small page with a form; it changes nothing, so a link preview has no effect
POST    the form or JSON: rate the prediction; a second request replaces the first
DELETE  retract the rating
"""

from urllib.parse import parse_qs

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import Field, ValidationError

from online.api.audit import name_offset, record, record_corrections
from online.api.bodies import invalid_body, read_json
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import ERROR_RESPONSES, Responses, json_response, live_headers
from online.api.routes import Router
from online.errors import BadInput, NotFound
from online.plugins.feedback_links.feedback_page import PageNotice, complain, render_page, thank_for
from online.plugins.feedback_links.holders import SignedPrediction, link_caller
from online.schemas.feedback import CorrectionScope, FeedbackItem, Receipt
from online.schemas.fields import Label, NativeRequest, Text
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime
from online.store.predictions import PredictionRow

FORM = "application/x-www-form-urlencoded"
FORBIDDEN: Responses = {
    403: {**ERROR_RESPONSES[400], "description": "The signature is not valid, or the URL has expired."}
}


class LinkedFeedback(NativeRequest):
    """Feedback about the prediction of a feedback_url: exactly one of reward, label and correction."""

    reward: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    label: Label | None = None
    correction: Text | None = None
    scope: CorrectionScope | None = None
    reason: str | None = Field(None, max_length=200)
    comment: str | None = Field(None, max_length=2_000)


def check_address(request: Request) -> None:
    """Raise BadInput where the address is not a signed one, as of a client that takes it for that of all feedback."""
    if missing := [name for name in ("prediction_id", "signature") if name not in request.query_params]:
        raise BadInput(
            f"the address has no {' and no '.join(missing)}: it is not one of the feedback_urls of a prediction; "
            f"other feedback goes to POST /v1/models/{request.path_params['model']}:feedback"
        )


router = Router(compressed=False, responses=ERROR_RESPONSES | FORBIDDEN, dependencies=[Depends(check_address)])


@router.get("/v1/models/{model}/feedback", "signed URL", response_class=HTMLResponse)
async def show_form(request: Request, model: ModelDep, runtime: RuntimeDep, prediction: SignedPrediction) -> Response:
    """A page on which the holder of the URL can rate the prediction. It changes nothing."""
    item = await runtime.feedback_slots.load(model.feedback, slot_key(prediction))
    notice = thank_for(item, None) if item else None
    return await render_page(request, model, prediction, link_caller(request, prediction), item, notice)


@router.post("/v1/models/{model}/feedback", "signed URL", status_code=202, response_model=Receipt, body=LinkedFeedback)
async def rate(request: Request, model: ModelDep, runtime: RuntimeDep, prediction: SignedPrediction) -> Response:
    """Rate the prediction, in JSON or with the form of the page. It replaces an earlier rating by the same URL."""
    body = await read_json(request, runtime.settings)
    slots, key, caller = runtime.feedback_slots, slot_key(prediction), link_caller(request, prediction)
    # curl sends JSON with the content type of a form
    if body.lstrip()[:1] == b"{" or not request.headers.get("content-type", "").startswith(FORM):
        item = parse_item(prediction, body)
        receipt = await slots.hold(model.feedback, key, item, caller=caller)
        assert receipt is not None, "an item has a receipt"
        await record_corrections(runtime, caller, model.spec.name, [item], [receipt])
        return json_response(receipt.model_dump(), 202, live_headers(model))
    fields = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
    return await take_form(request, model, runtime, prediction, fields)


async def take_form(
    request: Request, model: ModelRuntime, runtime: Runtime, prediction: PredictionRow, fields: dict[str, str]
) -> Response:
    """Rate the prediction with the fields of the form, or take the rating back, and answer with the page."""
    slots, key, caller = runtime.feedback_slots, slot_key(prediction), link_caller(request, prediction)
    try:
        given = None if "take_back" in fields else parse_item(prediction, fields)
        held = await slots.hold(model.feedback, key, given, caller=caller)
    except BadInput as error:
        item = await slots.load(model.feedback, key)
        return await render_page(request, model, prediction, caller, item, complain(error, fields), error.status)
    if given is None or held is None:
        notice = PageNotice(("taken_back",)) if held else None
        return await render_page(request, model, prediction, caller, None, notice)
    await record_corrections(runtime, caller, model.spec.name, [given], [held])
    return await render_page(request, model, prediction, caller, given, thank_for(given, held))


@router.delete("/v1/models/{model}/feedback", "signed URL", status_code=202, response_model=Receipt)
async def retract(request: Request, model: ModelDep, runtime: RuntimeDep, prediction: SignedPrediction) -> Response:
    """Retract the rating that was given by this URL."""
    receipt = await runtime.feedback_slots.hold(model.feedback, slot_key(prediction), None)
    if receipt is None:
        raise NotFound("no feedback was given by this URL, so there is nothing to retract")
    await record(runtime, link_caller(request, prediction), "retract", model.spec.name, name_offset(receipt.offset))
    return json_response(receipt.model_dump(), 202, live_headers(model))


def slot_key(prediction: PredictionRow) -> str:
    """Return the slot under which feedback by the URL of a prediction replaces earlier feedback."""
    return f"link-{prediction.id}"


def parse_item(prediction: PredictionRow, given: bytes | dict[str, str]) -> FeedbackItem:
    """Return the feedback, on behalf of the user of the prediction.

    given: JSON, or the fields of a form. Raises BadInput.
    """
    try:
        parsed = (
            LinkedFeedback.model_validate_json(given)
            if isinstance(given, bytes)
            else LinkedFeedback.model_validate({name: value for name, value in given.items() if value.strip()})
        )
        return FeedbackItem(prediction_id=prediction.id, user=prediction.user, **parsed.model_dump())
    except ValidationError as error:
        raise invalid_body(error, LinkedFeedback) from None
