"""The answers to chats, of models with a repertoire by this module and of others by their parts.

    messages --the user's last--> predictor --> reply --> one answer, or chunks of it
             --a task of the page--> answered without a prediction (page_tasks.py)

The whole reply exists before the first chunk is sent, so every error has its status code.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import Request

from online.api.auth.scopes import check_scope
from online.api.responses import answer_headers, create_feedback_urls, version_headers
from online.models import Answer
from online.models.encoders.follow_ups import add_previous
from online.plugins.openai.chat_requests import ReceivedChat, read_question
from online.plugins.openai.completers import ChatCompleter, find_chatting
from online.plugins.openai.completions import CompletedChat, KnownChat, WholeChat
from online.plugins.openai.messages import add_message
from online.schemas.access.callers import Caller
from online.schemas.json_values import JSONObject
from online.schemas.predict import PredictRequest
from online.serving.model_runtime import ModelRuntime

NO_REPLY = "I don't know yet."
UNSURE = "I am not sure. Did you mean one of these?"
MENTIONED = 0.2  # chance from which a reply is mentioned instead of given
MAX_MENTIONED = 3
WORD = re.compile(r"\S+\s*")  # a reply begins with no space


async def complete_chat(request: Request, chat: ReceivedChat, caller: Caller) -> CompletedChat:
    """Return what the model answers that a chat names, by its routes or from its repertoire. Raises an OnlineError."""
    check_scope(caller, "predict", chat.parsed.model)
    model = find_chatting(request.app.state.runtime, chat.parsed.model)
    for completer in model.parts.list(ChatCompleter):
        return await completer.complete(request, chat, caller)
    return (await create_completion(request, model, chat, caller)).as_chat(chat.parsed.stream)


async def create_completion(request: Request, model: ModelRuntime, chat: ReceivedChat, caller: Caller) -> "Completion":
    """Answer the last question of a chat, or a task of the page, from the repertoire."""
    started = time.perf_counter()
    question = read_question(chat.parsed.messages)
    if chat.task is not None:
        completion = answer_task(model, chat, question[: request.app.state.runtime.settings.max_text_chars])
    else:
        completion = await answer_question(request, model, chat, question, caller)
    model.predictor.seconds.observe(time.perf_counter() - started)
    return completion


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion. feedback_url: None for a task, for an answer that is not recorded, and where answers carry no URLs.

    abstained: whether no reply is known. is_recorded: whether feedback may refer to it.
    """

    id: str
    model: str
    version: int
    question: str
    text: str
    created: int
    headers: dict[str, str]
    feedback_url: str | None = None
    abstained: bool = False
    is_recorded: bool = False

    def as_chat(self, is_streamed: bool | None) -> CompletedChat:
        """Return the completion, whole or as chunks."""
        return KnownChat(self.id, self.headers, self.chunks()) if is_streamed else WholeChat(self.whole(), self.headers)

    def whole(self) -> JSONObject:
        """Return the completion as one JSON object."""
        choice = {"index": 0, "message": {"role": "assistant", "content": self.text}, "finish_reason": "stop"}
        content = {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}
        return content | ({"feedback_url": self.feedback_url} if self.feedback_url else {})

    def chunks(self) -> Iterator[JSONObject]:
        """Yield the role, the words one by one, the end; then the usage."""
        head = self._head("chat.completion.chunk")
        deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in WORD.findall(self.text)), {}]
        for place, delta in enumerate(deltas):
            reason = "stop" if place == len(deltas) - 1 else None
            url = {"feedback_url": self.feedback_url} if self.feedback_url and not place else {}
            yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **url}
        yield {**head, "choices": [], "usage": self._usage()}

    def _head(self, kind: str) -> JSONObject:
        head = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**head, "system_fingerprint": str(self.version)}

    def _usage(self) -> dict[str, int]:
        prompt, completion = len(self.question.split()), len(self.text.split())
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def answer_task(model: ModelRuntime, chat: ReceivedChat, prompt: str) -> Completion:
    """Return the answer to a task of the caller's page, without a prediction."""
    served, task = model.live.current, chat.task
    assert task is not None, "a question is answered by a prediction"
    headers = {**version_headers(served.version, served.learned_until), "X-Task": task.name}
    id = f"{chat.id_prefix}task-{model.new_id()}"
    return Completion(id, model.spec.name, served.version, prompt, task.answer(prompt), int(time.time()), headers)


async def answer_question(
    request: Request, model: ModelRuntime, chat: ReceivedChat, question: str, caller: Caller
) -> Completion:
    """Predict the reply to a question, within its conversation."""
    message_id, most = chat.message_id, request.app.state.runtime.settings.max_text_chars
    earlier = [message.text()[:most] for message in chat.parsed.messages if message.role == "user"][:-1]
    instance = add_previous(question, earlier) if model.predictor.reads_follow_ups else question
    prediction = PredictRequest(instances=[instance], user=caller.acts_for(chat.user))
    predicted = await model.predictor.predict(prediction, caller, chat.id_prefix)
    version, text, headers = predicted.served.version, reply_text(predicted.answers[0]), answer_headers(predicted)
    abstained, at = predicted.answers[0].abstained, int(time.time())
    if predicted.lacks_room:
        id = f"{chat.id_prefix}unrecorded-{model.new_id()}"
        return Completion(id, model.spec.name, version, question, text, at, headers, abstained=abstained)
    id = predicted.ids[0]
    url = await note_message(request, model, id, message_id)
    if url is not None:
        headers["X-Feedback-Url"] = url
    return Completion(id, model.spec.name, version, question, text, at, headers, url, abstained, is_recorded=True)


async def note_message(request: Request, model: ModelRuntime, id: str, message_id: str | None) -> str | None:
    """Record which message of the caller's page shows an answer; return the URL by which it may be rated, or None."""
    if message_id is not None:
        await model.transactions.write(lambda connection: add_message(connection, model.spec.name, id, message_id))
    return next(iter(create_feedback_urls(request, model.spec.name, [id])), None)


def reply_text(answer: Answer) -> str:
    """Return the chosen reply; without one, a question back where some reply may be meant."""
    chosen = next((candidate.text for candidate in answer.candidates if candidate.id == answer.choice), None)
    if chosen is not None and not answer.abstained:
        return chosen
    meant = [each.text for each in answer.candidates if each.score >= MENTIONED and each.text][:MAX_MENTIONED]
    return "\n".join([UNSURE, *(f"- {text}" for text in meant)]) if meant else NO_REPLY
