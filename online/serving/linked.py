"""HTTP: feedback by a presigned URL, for whoever holds it.

GET     a small page that asks; it changes nothing, whoever previews the link
POST    from that page, or JSON: what is thought now; once more with something else changes it
DELETE  takes it back
"""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

import jinja2
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from online import store
from online.errors import BadInput, NotFound
from online.schemas import FeedbackItem, LinkedFeedback, Name, Receipt
from online.serving.api import ERRORS, ModelHere, PartsHere, answer, body_of, live_stamp
from online.serving.bodies import read_json
from online.serving.parts import ModelParts
from online.settings import describe

FORM = "application/x-www-form-urlencoded"
# links get into mails and chats: nothing of the page is kept, framed, indexed, or told to another site
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
}
REFUSED: dict[int | str, dict[str, Any]] = {403: {**ERRORS[400], "description": "the signature is not valid"}}
router = APIRouter(responses=ERRORS | REFUSED)


async def signed_prediction(
    model: ModelHere, parts: PartsHere, prediction_id: Annotated[Name, Query()], signature: Annotated[str, Query()]
) -> store.PredictionRow:
    """Raises Forbidden, or NotFound for a prediction that is not there any more."""
    parts.links.check(model.spec.name, prediction_id, signature)
    found = await model.predictor.read(
        lambda connection: store.predictions_of(connection, model.spec.name, [prediction_id])
    )
    if prediction_id not in found:
        raise NotFound(f"{model.spec.name} has no prediction {prediction_id!r}")
    row: store.PredictionRow = found[prediction_id]
    return row


Signed = Annotated[store.PredictionRow, Depends(signed_prediction)]


@router.get("/v1/models/{model}/feedback", response_class=HTMLResponse)
async def ask(model: ModelHere, parts: PartsHere, signed: Signed) -> Response:
    """A page that asks what one thinks of an answer. It changes nothing."""
    return shown(model, signed, await parts.opinions.standing(model.predictor, key_of(signed)))


@router.post(
    "/v1/models/{model}/feedback", status_code=202, response_model=Receipt, openapi_extra=body_of(LinkedFeedback)
)
async def rate(request: Request, model: ModelHere, parts: PartsHere, signed: Signed) -> Response:
    """Say what one thinks of an answer, in place of what was said by this URL before. JSON, or the page's form."""
    body = await read_json(request, parts.settings)
    if body.lstrip()[:1] == b"{" or not request.headers.get("content-type", "").startswith(FORM):  # curl calls JSON so
        receipt = await parts.opinions.hold(model.predictor, key_of(signed), item_of(signed, body))
        assert receipt is not None, "an item gives a receipt"
        return answer(receipt.model_dump(), 202, live_stamp(model))
    fields = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
    item = None if "take_back" in fields else item_of(signed, fields)
    await parts.opinions.hold(model.predictor, key_of(signed), item)
    return shown(model, signed, item)


@router.delete("/v1/models/{model}/feedback", status_code=202, response_model=Receipt)
async def take_back(model: ModelHere, parts: PartsHere, signed: Signed) -> Response:
    """Take back what was said by this URL."""
    receipt = await parts.opinions.hold(model.predictor, key_of(signed), None)
    if receipt is None:
        raise NotFound("nothing was said by this link, so nothing can be taken back")
    return answer(receipt.model_dump(), 202, live_stamp(model))


def key_of(signed: store.PredictionRow) -> str:
    return f"link-{signed.id}"


def item_of(signed: store.PredictionRow, given: bytes | dict[str, str]) -> FeedbackItem:
    """Feedback in the name of whoever had asked. Raises BadInput."""
    try:
        said = (
            LinkedFeedback.model_validate_json(given)
            if isinstance(given, bytes)
            else LinkedFeedback.model_validate({name: value for name, value in given.items() if value.strip()})
        )
        return FeedbackItem(prediction_id=signed.id, user=signed.user, **said.model_dump())
    except ValidationError as error:
        raise BadInput(describe(error)) from None


def shown(model: ModelParts, signed: store.PredictionRow, item: FeedbackItem | None) -> Response:
    page = template().render(kind=model.spec.kind, abstained=signed.choice is None, item=item)
    return HTMLResponse(page, headers={**HEADERS, **live_stamp(model)})


def template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(Path(__file__).with_name("feedback.html").read_text())
