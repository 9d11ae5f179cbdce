"""The answers of a router that are kept, with what they were worth: what a local model learns from."""

import json
from typing import Annotated

from fastapi import Query, Response
from pydantic import Field
from sqlalchemy import Connection

from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import BadInput
from online.plugins.router.answer_texts import load_answers_after
from online.plugins.router.live_router import find_router
from online.plugins.router.report.logged_answers import GivenFeedback
from online.schemas.fields import Wire
from online.schemas.json_values import JSONObject
from online.store.conversations.turns import extract_question
from online.store.database.values import ERASED, NO_TEXT
from online.store.feedback import load_feedback_about
from online.store.predictions import load_predictions

SEPARATOR = " "

router = Router(compressed=False)

After = Annotated[str, Query(max_length=300, description="The `next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Answers of a page, at most.")]


class RatedAnswerText(Wire):
    """An answer whose text is kept."""

    prediction_id: str
    question: str
    answer: str
    route: str
    reward: float | None = Field(description="Of the newest thumb or, without any, of a signal; null: not rated.")
    created_at: str


class AnswerTexts(Wire):
    """A page of answers, the oldest first."""

    answers: list[RatedAnswerText]
    next: str | None = Field(description="What `after` takes for the answers that follow; null after the last one.")


@router.get("/v1/models/{model}/answers", "curate", response_model=AnswerTexts)
async def list_answer_texts(model: ModelDep, after: After = "", limit: Limit = 1_000) -> Response:
    """List the answers whose texts are kept, with their questions and ratings.

    Kept are those of conversations of the page, recorded ones, and with the option `keep_answers` all.
    """
    find_router(model)
    start, separator, id = after.partition(SEPARATOR)
    if after and not (separator and id):
        raise BadInput("after: give the `next` of the page before")
    name = model.spec.name

    def load(connection: Connection) -> tuple[list[JSONObject], str | None]:
        rows = load_answers_after(connection, name, (start, id), limit)
        ids = [row.prediction_id for row in rows]
        asked, given = load_predictions(connection, name, ids), {each: GivenFeedback() for each in ids}
        for each in reversed(load_feedback_about(connection, name, ids)):  # the newest first
            if each.content != ERASED and each.prediction_id is not None:
                given[each.prediction_id].add(json.loads(each.content))
        answers: list[JSONObject] = [
            {
                "prediction_id": row.prediction_id,
                "question": str(extract_question(json.loads(asked[row.prediction_id].input))),
                "answer": row.text,
                "route": row.route,
                "reward": given[row.prediction_id].read_reward(row.route),
                "created_at": row.created_at,
            }
            for row in rows
            if row.prediction_id in asked and asked[row.prediction_id].input != NO_TEXT
        ]
        last = f"{rows[-1].created_at}{SEPARATOR}{rows[-1].prediction_id}" if len(rows) == limit else None
        return answers, last

    answers, following = await model.read(load)
    return json_response({"answers": answers, "next": following}, headers=live_headers(model))
