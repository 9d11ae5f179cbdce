"""Answers of language models in conversations of the page: to questions that a model in front of a router has no reply to.

    question, abstained --POST .../answers--> a route, with the turns before it --> chunks; the text is kept
    thumb down          --POST .../answers, exclude--> another route

The turns are read from the store, so that a page sends nothing but the id of its question.
"""

from typing import Any

from fastapi import Request, Response
from pydantic import Field
from sqlalchemy import Connection, select

from online.api.auth.scopes import CallerDep
from online.api.bodies import parse_as, read_json
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.rest.conversations import UserDep, describe_feedback
from online.api.routes import Router
from online.plugins.openai.chat_completions import encode_events
from online.plugins.openai.completions import ChatEvents
from online.plugins.router.answer_texts import load_answer_texts
from online.plugins.router.fallback import find_fallback
from online.schemas.conversations import TurnFeedback
from online.schemas.fields import Name, NativeRequest, Wire
from online.store.conversations.conversations import load_conversation
from online.store.conversations.turns import TURNS
from online.store.feedback import load_feedback_about

router = Router(compressed=False)


class AnswerRequest(NativeRequest):
    """The wish for an answer of a language model."""

    exclude: list[Name] = Field(default_factory=list, max_length=100, description="Routes that have answered already.")


class GeneratedAnswer(Wire):
    """An answer of a language model, as it is kept."""

    prediction_id: str = Field(description="To which feedback on the fallback refers.")
    route: str
    text: str
    created_at: str
    feedback: list[TurnFeedback]


class GeneratedAnswers(Wire):
    """The answers of language models in one conversation."""

    model: str = Field(description="The router, which takes the feedback.")
    answers: dict[str, list[GeneratedAnswer]] = Field(description="By the prediction_id of the question, oldest first.")


@router.post(
    "/v1/models/{model}/predictions/{id}/answers",
    "predict",
    body=AnswerRequest,
    requires_body=False,
    every_worker=True,
)
async def answer_question(
    request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep, id: str
) -> Response:
    """Answer a question by a language model of the fallback: chat completion chunks, as server-sent events.

    The turns before the question are sent along, and the text is kept with the conversation. The id of the chunks is the
    prediction_id that feedback refers to.
    """
    fallback, body = find_fallback(model), await read_json(request, runtime.settings)
    asked = parse_as(body, AnswerRequest) if body.strip() else AnswerRequest()
    stream = await fallback.answer_turn(request, caller, id, asked.exclude)
    return ChatEvents(stream, encode_events(stream, with_usage=False))


@router.get("/v1/models/{model}/conversations/{id}/answers", "predict", response_model=GeneratedAnswers)
async def list_answers(model: ModelDep, id: str, user: UserDep) -> Response:
    """List what language models have answered in a conversation, with the feedback about it."""
    name, answering = model.spec.name, find_fallback(model).router.spec.name

    def load(connection: Connection) -> dict[str, list[dict[str, Any]]]:
        load_conversation(connection, name, user, id)
        asked = select(TURNS.c.prediction_id).where(TURNS.c.model == name, TURNS.c.conversation == id)
        rows = load_answer_texts(connection, connection.scalars(asked).all())
        about = load_feedback_about(connection, answering, [row.prediction_id for row in rows])
        answers = dict[str, list[dict[str, Any]]]()
        for row in rows:
            described = [describe_feedback(each) for each in about if each.prediction_id == row.prediction_id]
            said = [each for each in described if "reward" in each]
            facts = row.model_dump(include={"prediction_id", "route", "text", "created_at"})
            answers.setdefault(row.question_id, []).append({**facts, "feedback": said})
        return answers

    content = {"model": answering, "answers": await model.read(load)}
    return json_response(content, headers=live_headers(model))
