"""HTTP: the repertoire of a ranker, which replies it may give."""

from fastapi import APIRouter, Request, Response

from online.errors import BadInput, TooLarge
from online.schemas import NewReply, Receipt, RepliesAnswer, ReplyShown
from online.serving.api import ERRORS, ModelHere, PartsHere, answer, body_as, body_of, live_stamp
from online.serving.parts import ModelParts
from online.serving.repertoire import Repertoire
from online.store import ReplyRow

router = APIRouter(responses=ERRORS)


@router.get("/v1/models/{model}/replies", response_model=RepliesAnswer)
async def replies(model: ModelHere) -> Response:
    """Every reply, retired ones too, in the order they came."""
    check_ranker(model)
    return answer(
        {"replies": [shown(row) for row in await Repertoire(model.predictor).all()]}, headers=live_stamp(model)
    )


@router.post("/v1/models/{model}/replies", status_code=202, response_model=ReplyShown, openapi_extra=body_of(NewReply))
async def add(request: Request, model: ModelHere, parts: PartsHere) -> Response:
    """Add a reply with example questions; a retired one comes back. It is given from its offset on."""
    check_ranker(model)
    new = await body_as(request, NewReply, parts.settings.max_body_bytes)
    if not new.text.strip():
        raise BadInput("a reply needs a text")
    if len(new.text) > parts.settings.max_text_chars:
        raise TooLarge(
            f"the reply has {len(new.text)} characters; at most {parts.settings.max_text_chars} (max_text_chars)"
        )
    row = (await Repertoire(model.predictor).add([new]))[0]
    return answer(shown(row), 202, live_stamp(model))


@router.delete("/v1/models/{model}/replies/{id}", status_code=202, response_model=Receipt)
async def retire(model: ModelHere, id: str) -> Response:
    """Stop giving a reply. What was learned about it is kept, for the day it is added again."""
    check_ranker(model)
    offset = await Repertoire(model.predictor).retire(id)
    return answer({"id": id, "offset": offset, "status": "accepted"}, 202, live_stamp(model))


def check_ranker(model: ModelParts) -> None:
    if model.spec.kind != "ranker":
        raise BadInput(f"{model.spec.name} is a {model.spec.kind}; only a ranker has replies")


def shown(row: ReplyRow) -> dict[str, object]:
    return {"id": row.id, "text": row.text, "active": row.active, "offset": row.offset}
