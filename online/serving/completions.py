"""HTTP: chat in OpenAI's shape, streamed or whole, for every page that speaks it.

    messages --the user's last--> predictor --one version--> reply --> one answer, or chunks of it
             --a task of the page--> answered without a prediction (tasks.py)

The completion's id is the prediction_id that feedback refers to; its system_fingerprint is the version that answered.
The whole reply is there before the first chunk leaves: whatever can go wrong is told by the status.
"""

import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from online.errors import BadInput, NotFound
from online.models import Answer
from online.schemas import ChatAnswer, ChatError, ChatMessage, ChatRequest, ChatUser, PredictRequest
from online.serving.api import PartsHere, answer, body_of, stamp
from online.serving.bodies import body_as
from online.serving.opinions import MAX_USER, cut
from online.serving.parts import ModelParts, Parts
from online.serving.tasks import TASK_NAMES, Task, task_of

PATH = "/v1/chat/completions"
PREFIX = "chatcmpl-"
UNKNOWN = "I don't know yet."
MAX_ID_CHARS = 128
PIECE = re.compile(r"\s*\S+\s*")

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ChatError, "description": "the request cannot be meant; nothing changed"},
    404: {"model": ChatError, "description": "no such model, or one that does not chat"},
    413: {"model": ChatError, "description": "more than a limit allows"},
    503: {"model": ChatError, "description": "the store cannot be reached now; nothing changed"},
}
router = APIRouter()


@router.post(PATH, response_model=ChatAnswer, responses=ERRORS, openapi_extra=body_of(ChatRequest))
async def complete(request: Request, parts: PartsHere) -> Response:
    """Answer the user's last message, in OpenAI's shape; with `stream`, as server-sent events.

    The header `X-Message-Id` is kept as what the caller's page calls the answer, so that feedback may come by that name.
    """
    started = time.perf_counter()
    asked = await body_as(request, ChatRequest, parts.settings)
    model = ranker(parts, asked.model)
    question = last_of(asked.messages, "user")
    task = task_of(task_name(request, asked), last_of(asked.messages, "system"), question)
    said = answered_task(model, task, question) if task else await answered(request, parts, model, asked, question)
    parts.metrics.prediction_seconds.labels(asked.model).observe(time.perf_counter() - started)
    if not asked.stream:
        return answer(said.whole(), headers=said.headers)
    with_usage = asked.stream_options is not None and asked.stream_options.include_usage
    headers = {**said.headers, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(as_events(said.chunks(with_usage)), media_type="text/event-stream", headers=headers)


def ranker(parts: Parts, name: str) -> ModelParts:
    """Raises NotFound for what is no model that chats."""
    chatting = [each for each, model in parts.models.items() if model.spec.kind == "ranker"]
    if name not in chatting:
        kind = f"is a {parts.models[name].spec.kind}, it does not chat" if name in parts.models else "is no model here"
        raise NotFound(f"{name!r} {kind}; these do: {', '.join(chatting) or 'none'}")
    return parts.models[name]


def task_name(request: Request, asked: ChatRequest) -> str:
    """What the page calls its task; "" for a question. Metadata are anybody's: of theirs only the names of tasks count."""
    told = str((asked.metadata or {}).get("task"))
    return request.headers.get("x-task") or (told if told in TASK_NAMES else "")


def last_of(messages: list[ChatMessage], role: str) -> str:
    """What a role said last. Raises BadInput where a user said nothing."""
    text = next((message.text() for message in reversed(messages) if message.role == role), "")
    if role == "user" and not text.strip():
        raise BadInput("messages must have a text of the role 'user': the last of them is the question")
    return text


@dataclass(frozen=True, slots=True)
class Said:
    """One completion."""

    id: str
    model: str
    version: int
    question: str
    text: str
    created: int
    headers: dict[str, str]
    feedback_url: str | None = None  # none for a task

    def whole(self) -> dict[str, Any]:
        choice = {"index": 0, "message": {"role": "assistant", "content": self.text}, "finish_reason": "stop"}
        content = {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}
        return content | ({"feedback_url": self.feedback_url} if self.feedback_url else {})

    def chunks(self, with_usage: bool) -> Iterator[dict[str, Any]]:
        """The role, the words one by one, the end; then, where it is asked for, the usage."""
        head = self._head("chat.completion.chunk")
        head |= {"usage": None} if with_usage else {}
        deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in PIECE.findall(self.text)), {}]
        for place, delta in enumerate(deltas):
            end = "stop" if place == len(deltas) - 1 else None
            first = {"feedback_url": self.feedback_url} if self.feedback_url and not place else {}
            yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}], **first}
        if with_usage:
            yield {**head, "choices": [], "usage": self._usage()}

    def _head(self, kind: str) -> dict[str, Any]:
        head = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**head, "system_fingerprint": str(self.version)}

    def _usage(self) -> dict[str, int]:
        asked, given = len(self.question.split()), len(self.text.split())
        return {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given}


async def as_events(chunks: Iterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield b"data: " + orjson.dumps(chunk) + b"\n\n"
    yield b"data: [DONE]\n\n"


def answered_task(model: ModelParts, task: Task, prompt: str) -> Said:
    """A task of the caller's page, answered without a prediction."""
    served = model.live.current
    headers = {**stamp(served.version, served.learned_until), "X-Task": task.name}
    id = f"{PREFIX}task-{model.predictor.new_id()}"
    return Said(id, model.spec.name, served.version, prompt, task.answer(prompt), int(time.time()), headers)


async def answered(request: Request, parts: Parts, model: ModelParts, asked: ChatRequest, question: str) -> Said:
    message_id = message_id_of(request)
    asking = PredictRequest(instances=[question], user=user_of(request, asked))
    predicted = await model.predictor.predict(asking, PREFIX)
    id, served, text = predicted.ids[0], predicted.served, reply_of(predicted.answers[0])
    if message_id is not None:
        await model.predictor.shown_in(message_id, id)
    url = parts.links.urls(request, model.spec.name, [id])[0]
    headers = {**stamp(served.version, served.learned_until), "X-Feedback-Url": url}
    return Said(id, model.spec.name, served.version, question, text, int(time.time()), headers, url)


def message_id_of(request: Request) -> str | None:
    """What the caller's page calls the answer; None where it did not say. Raises BadInput."""
    told = request.headers.get("x-message-id", "").strip()
    if len(told) > MAX_ID_CHARS:
        raise BadInput(f"X-Message-Id has {len(told)} characters; at most {MAX_ID_CHARS} are kept")
    return told if told and "{{" not in told else None  # a page that does not know a variable sends it as it is


def user_of(request: Request, asked: ChatRequest) -> str | None:
    """As the body says, or Open WebUI where it forwards its users."""
    told = asked.user.id if isinstance(asked.user, ChatUser) else asked.user
    return told or cut(request.headers.get("x-openwebui-user-id"), MAX_USER)


def reply_of(given: Answer) -> str:
    chosen = next((candidate.text for candidate in given.candidates if candidate.id == given.choice), None)
    return UNKNOWN if given.abstained or chosen is None else chosen


def error_content(status: int, text: str, missing: bool) -> dict[str, Any]:
    """An error as OpenAI's clients read it. missing: it is about something that is not there, here always a model."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    param, code = ("model", "model_not_found") if missing else (None, None)
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}
