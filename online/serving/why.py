"""HTTP: why a reply was given: what its score is made of, and which rated questions speak for and against it."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response

from online import store
from online.errors import NotFound
from online.models.contest import answering
from online.models.exemplars import Ground, Witness
from online.models.ranker import Ranker
from online.schemas import WhyAnswer
from online.serving.api import ERRORS, ModelHere, answer, live_stamp
from online.serving.chat import check_ranker

SHOWN = 5

router = APIRouter(responses=ERRORS)


@router.get("/v1/models/{model}/predictions/{id}/why", response_model=WhyAnswer)
async def why(model: ModelHere, id: str) -> Response:
    """Why a question gets its reply, by what the live version knows."""
    check_ranker(model)
    name, read = model.spec.name, model.predictor.read
    asked = (await read(lambda connection: store.predictions_of(connection, name, [id]))).get(id)
    if asked is None:
        raise NotFound(f"{name} has no prediction {id!r}")
    served = model.live.current
    ranker = answering(served.model)
    assert isinstance(ranker, Ranker), "check_ranker saw to it"
    found = ranker.explain(asked.features, asked.choice, SHOWN)
    told = await read(lambda connection: store.said_at(connection, name, [each.offset for each in found.witnesses]))
    texts = {reply.id: reply.text for reply in ranker.replies}
    content = {
        "model_version": str(served.version),
        "answered_by": str(asked.version),
        "settled": found.settled,
        "grounds": [grounded(each) for each in found.grounds],
        "witnesses": [witnessed(each, told.get(each.offset, {}), texts) for each in found.witnesses],
    }
    return answer(content, headers=live_stamp(model))


def grounded(each: Ground) -> dict[str, Any]:
    parts = {"sums": each.sums, "evidence": each.evidence, "standing": each.standing}
    return {"id": each.reply, "text": each.text, "score": sum(parts.values()), **parts}


def witnessed(each: Witness, told: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "question": told.get("question"),
        "reply": {"id": each.reply, "text": texts.get(each.reply, "")},
        "likeness": each.likeness,
        "reward": each.reward,
        "said": told.get("said", "example"),
        "feedback_id": told.get("feedback_id"),
        "offset": each.offset,
    }
