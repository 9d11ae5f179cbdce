"""Chat completions in OpenAI's shape, whole or streamed, for every page that speaks it.

    messages --the user's last--> predictor --> reply --> one answer, or chunks of it
             --a task of the page--> answered without a prediction (page_tasks.py)

The id of a completion is the prediction_id that feedback refers to; its system_fingerprint is the
version that answered. The whole reply exists before the first chunk is sent, so every error has its
status code. That is also why sse-starlette is not used: a stream of known chunks needs neither its
pings nor its handling of shutdown, and would start a task group for each answer.
"""

import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from online.api.auth.scopes import CallerDep, check_scope
from online.api.bodies import parse_as, read_json
from online.api.dependencies import RuntimeDep
from online.api.responses import Responses, answer_headers, create_feedback_urls, json_response, version_headers
from online.api.routes import Router
from online.models import Answer
from online.models.encoders.follow_ups import add_previous
from online.plugins.openai.chat_requests import ID_PREFIX, ReceivedChat, read_question, receive_chat
from online.plugins.openai.completers import ChatCompleter, find_chatting
from online.plugins.openai.messages import add_message
from online.plugins.openai.paths import COMPLETIONS
from online.plugins.openai.schemas import ChatAnswer, ChatError, ChatRequest
from online.schemas.access.callers import Caller
from online.schemas.predict import PredictRequest
from online.serving.model_runtime import ModelRuntime

NO_REPLY = "I don't know yet."
UNSURE = "I am not sure. Did you mean one of these?"
MENTIONED = 0.2  # chance from which a reply is mentioned instead of given
MAX_MENTIONED = 3
WORD = re.compile(r"\S+\s*")  # a reply begins with no space

ERROR_RESPONSES: Responses = {
    400: {"model": ChatError, "description": "The request is invalid; nothing was changed."},
    404: {"model": ChatError, "description": "The model does not exist, or does not chat."},
    413: {"model": ChatError, "description": "The request exceeds a limit; the message names the setting."},
    503: {"model": ChatError, "description": "The store cannot be reached now; nothing was changed."},
}
router = Router(responses=ERROR_RESPONSES)


@router.post(COMPLETIONS, "predict", response_model=ChatAnswer, body=ChatRequest, every_worker=True)
async def complete(request: Request, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Answer the user's last message, in OpenAI's shape; with `stream`, as server-sent events.

    The header `X-Message-Id` is the id of the answer in the caller's page. It is recorded, so that feedback may refer to it.
    """
    started = time.perf_counter()
    body = await read_json(request, runtime.settings)
    parsed = parse_as(body, ChatRequest)
    check_scope(caller, "predict", parsed.model)
    model, chat = find_chatting(runtime, parsed.model), receive_chat(request, parsed, body)
    for completer in model.parts.list(ChatCompleter):
        return await completer.complete(request, chat, caller)
    completion = await create_completion(request, model, chat, caller)
    model.predictor.seconds.observe(time.perf_counter() - started)
    if not parsed.stream:
        return json_response(completion.whole(), headers=completion.headers)
    with_usage = bool(parsed.stream_options and parsed.stream_options.include_usage)
    headers = {**completion.headers, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    events = encode_events(completion.chunks(with_usage))
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def create_completion(request: Request, model: ModelRuntime, chat: ReceivedChat, caller: Caller) -> "Completion":
    """Answer the last question of a chat, or a task of the page."""
    question = read_question(chat.parsed.messages)
    if chat.task is not None:
        return answer_task(model, chat, question[: request.app.state.runtime.settings.max_text_chars])
    return await answer_question(request, model, chat, question, caller)


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion. feedback_url: None for a task, for an answer that is not recorded, and where answers carry no URLs."""

    id: str
    model: str
    version: int
    question: str
    text: str
    created: int
    headers: dict[str, str]
    feedback_url: str | None = None

    def whole(self) -> dict[str, object]:
        """Return the completion as one JSON object."""
        choice = {"index": 0, "message": {"role": "assistant", "content": self.text}, "finish_reason": "stop"}
        content = {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}
        return content | ({"feedback_url": self.feedback_url} if self.feedback_url else {})

    def chunks(self, with_usage: bool) -> Iterator[dict[str, object]]:
        """Yield the role, the words one by one, the end; then the usage, if requested."""
        head = self._head("chat.completion.chunk")
        head |= {"usage": None} if with_usage else {}
        deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in WORD.findall(self.text)), {}]
        for place, delta in enumerate(deltas):
            reason = "stop" if place == len(deltas) - 1 else None
            url = {"feedback_url": self.feedback_url} if self.feedback_url and not place else {}
            yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **url}
        if with_usage:
            yield {**head, "choices": [], "usage": self._usage()}

    def _head(self, kind: str) -> dict[str, object]:
        head = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**head, "system_fingerprint": str(self.version)}

    def _usage(self) -> dict[str, int]:
        prompt, completion = len(self.question.split()), len(self.text.split())
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def encode_events(chunks: Iterator[dict[str, object]]) -> AsyncIterator[bytes]:
    """Encode chunks as server-sent events, and end the stream."""
    for chunk in chunks:
        yield b"data: " + orjson.dumps(chunk) + b"\n\n"
    yield b"data: [DONE]\n\n"


def answer_task(model: ModelRuntime, chat: ReceivedChat, prompt: str) -> Completion:
    """Return the answer to a task of the caller's page, without a prediction."""
    served, task = model.live.current, chat.task
    assert task is not None, "a question is answered by a prediction"
    headers = {**version_headers(served.version, served.learned_until), "X-Task": task.name}
    id = f"{ID_PREFIX}task-{model.new_id()}"
    return Completion(id, model.spec.name, served.version, prompt, task.answer(prompt), int(time.time()), headers)


async def answer_question(
    request: Request, model: ModelRuntime, chat: ReceivedChat, question: str, caller: Caller
) -> Completion:
    """Predict the reply to a question, within its conversation."""
    message_id, most = chat.message_id, request.app.state.runtime.settings.max_text_chars
    earlier = [message.text()[:most] for message in chat.parsed.messages if message.role == "user"][:-1]
    instance = add_previous(question, earlier) if model.predictor.reads_follow_ups else question
    prediction = PredictRequest(instances=[instance], user=caller.acts_for(chat.user))
    predicted = await model.predictor.predict(prediction, caller, ID_PREFIX)
    version, text, headers = predicted.served.version, reply_text(predicted.answers[0]), answer_headers(predicted)
    if predicted.lacks_room:
        id = f"{ID_PREFIX}unrecorded-{model.new_id()}"
        return Completion(id, model.spec.name, version, question, text, int(time.time()), headers)
    id = predicted.ids[0]
    if message_id is not None:
        await model.transactions.write(lambda connection: add_message(connection, model.spec.name, id, message_id))
    url = next(iter(create_feedback_urls(request, model.spec.name, [id])), None)
    if url is not None:
        headers["X-Feedback-Url"] = url
    return Completion(id, model.spec.name, version, question, text, int(time.time()), headers, url)


def reply_text(answer: Answer) -> str:
    """Return the chosen reply; without one, a question back where some reply may be meant."""
    chosen = next((candidate.text for candidate in answer.candidates if candidate.id == answer.choice), None)
    if chosen is not None and not answer.abstained:
        return chosen
    meant = [each.text for each in answer.candidates if each.score >= MENTIONED and each.text][:MAX_MENTIONED]
    return "\n".join([UNSURE, *(f"- {text}" for text in meant)]) if meant else NO_REPLY
