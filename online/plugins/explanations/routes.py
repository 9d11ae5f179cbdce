"""The explanation of a reply: what its score consists of, and the rated questions nearby."""

from collections.abc import Mapping
from typing import Literal

from fastapi import Response
from pydantic import Field

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.rest.replies import check_ranker
from online.api.routes import Router
from online.errors import NotFound
from online.models.ranker.exemplars import Neighbor, ScoreBreakdown
from online.models.ranker.ranker import Ranker
from online.models.wrappers import find_answering
from online.plugins.explanations.event_summaries import EventSummary, load_event_summaries
from online.schemas.access.callers import Caller
from online.schemas.fields import Wire
from online.schemas.json_values import JSONObject
from online.schemas.predict import ReplyRef

MAX_SHOWN = 5  # replies and neighbors
EXAMPLE = EventSummary(None, "example", None, None)  # of the repertoire, which is no feedback

router = Router()


class ReplyScore(Wire):
    """The score of a reply for one question, as the sum of its terms."""

    id: str
    text: str
    score: float
    sums: float = Field(description="Of the features that the questions it was right for have in common.")
    evidence: float = Field(description="Of the rated questions nearby.")
    standing: float = Field(description="Of all its ratings, independent of the question.")
    moved: float = Field(
        description="By corrections of scope reply: to the new reply from the one that it supersedes, or away from that."
    )


class RatedQuestion(Wire):
    """A rated question or an example question near this one."""

    question: str | None = Field(description="Null where it was erased.")
    reply: ReplyRef
    likeness: float = Field(description="The cosine similarity of the two questions.")
    reward: float = Field(description="From -1 to 1.")
    said: Literal["correction", "thumb", "example"]
    feedback_id: str | None
    offset: int


class Explanation(Wire):
    """The explanation of a reply."""

    model_version: str = Field(description="The version that explains: the live one.")
    answered_by: str = Field(description="The version that answered.")
    settled: str | None = Field(description="The reply that the newest feedback about exactly this question asks for.")
    grounds: list[ReplyScore] = Field(description="The reply that was given, then the best others.")
    witnesses: list[RatedQuestion] = Field(description="The nearest first.")


@router.get("/v1/models/{model}/predictions/{id}/why", "predict", response_model=Explanation)
async def explain_prediction(model: ModelDep, caller: CallerDep, id: str) -> Response:
    """Explain why a question gets its reply, by what the live version has learned.

    Other people's questions are shown to curators only.
    """
    check_ranker(model)
    name = model.spec.name
    predictions = await model.transactions.load_predictions([id])
    if id not in predictions or not (caller.may("curate") or caller.may_act_for(predictions[id].user)):
        raise NotFound(f"{name} has no prediction {id!r}")
    prediction, served = predictions[id], model.live.current
    _, ranker = find_answering(model.spec.kind, model.spec.options, served.model)
    assert isinstance(ranker, Ranker), "check_ranker has passed"
    explanation = ranker.explain(prediction.features, prediction.choice, MAX_SHOWN)
    offsets = [each.offset for each in explanation.neighbors]
    summaries = await model.read(lambda connection: load_event_summaries(connection, name, offsets))
    texts = {reply.id: reply.text for reply in ranker.replies}
    shown = {offset: visible_summary(caller, each) for offset, each in summaries.items()}
    content = {
        "model_version": str(served.version),
        "answered_by": str(prediction.version),
        "settled": explanation.settled,
        "grounds": [describe_score(each) for each in explanation.breakdowns],
        "witnesses": [
            describe_neighbor(each, shown.get(each.offset, EXAMPLE), texts) for each in explanation.neighbors
        ],
    }
    return json_response(content, headers=live_headers(model))


def visible_summary(caller: Caller, summary: EventSummary) -> EventSummary:
    """Return a summary without the words and the id of somebody else's feedback."""
    is_own = summary.feedback_id is None or caller.may("curate") or caller.may_act_for(summary.user)
    return summary if is_own else summary._replace(question=None, feedback_id=None)


def describe_score(each: ScoreBreakdown) -> JSONObject:
    """Return the terms of one reply's score, as the API names them."""
    terms = {"sums": each.sums, "evidence": each.evidence, "standing": each.thumbs, "moved": each.moved}
    return {"id": each.reply, "text": each.text, "score": sum(terms.values()), **terms}


def describe_neighbor(each: Neighbor, summary: EventSummary, texts: Mapping[str, str]) -> JSONObject:
    """summary: of the event that the neighbor comes from."""
    return {
        "question": summary.question,
        "reply": {"id": each.reply, "text": texts.get(each.reply, "")},
        "likeness": each.likeness,
        "reward": each.reward,
        "said": summary.said,
        "feedback_id": summary.feedback_id,
        "offset": each.offset,
    }
