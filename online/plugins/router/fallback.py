"""Chats of a model with a repertoire, whose routes answer what has no reply there.

    question --ranker--> reply that people wrote
                 |
                 +-- none is known --> router --> a language model

The ranker's abstention is recorded as ever, so that the question waits for a person who knows the reply. The id of the completion is
the router's prediction, to which feedback refers; sent to the ranker, it is passed on (api/rest/forwarding.py).
"""

import json
from collections.abc import Mapping, Sequence

import orjson
from fastapi import Request

from online.errors import BadInput, NotFound, SetupError
from online.models import spec_of
from online.plugins.openai.answers import create_completion, note_message
from online.plugins.openai.chat_requests import ReceivedChat
from online.plugins.openai.completers import ChatCompleter
from online.plugins.openai.completions import CompletedChat, StreamedChat
from online.plugins.openai.schemas import ChatRequest
from online.plugins.router.conversation_messages import load_messages
from online.plugins.router.routed_chat import RoutedChat
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime
from online.store.database.values import NO_TEXT

ID_PREFIX = "answer-"  # of answers in conversations of the page


class FallbackChat(ChatCompleter):
    """The chats of one model with a `fallback`."""

    def __init__(self, model: ModelRuntime, models: Mapping[str, ModelRuntime]) -> None:
        """Find the router. Raises SetupError."""
        name, fallback = model.spec.name, model.spec.fallback
        routers = [each for each, other in models.items() if spec_of(other.spec.kind).has_routes]
        if not spec_of(model.spec.kind).has_repertoire:
            raise SetupError(
                f"model {name!r}: only a ranker has a fallback, for questions without a reply; this is a {model.spec.kind}"
            )
        if fallback not in routers:
            raise SetupError(
                f"model {name!r}: fallback = {fallback!r} is no router of this configuration; "
                f"its routers are: {', '.join(routers) or 'none'}"
            )
        self.model, self.router = model, models[fallback]

    async def complete(self, request: Request, chat: ReceivedChat, caller: Caller) -> CompletedChat:
        """Return the reply that people wrote or, where there is none, what a route answers."""
        is_textless = chat.task is None and not chat.question.strip()  # such as an image alone
        if not is_textless:
            unnoted = chat._replace(message_id=None)  # the page shows the answer that is given in the end
            completion = await create_completion(request, self.model, unnoted, caller)
            if not completion.abstained:
                if completion.is_recorded:
                    await note_message(request, self.model, completion.id, chat.message_id)
                return completion.as_chat(chat.parsed.stream)
        return await self.router.parts.find(RoutedChat).complete(request, chat, caller)

    async def answer_turn(self, request: Request, caller: Caller, id: str, without: Sequence[str]) -> StreamedChat:
        """Return what a route answers to a question that this model was asked; its text is kept.

        id: of the question's prediction. without: routes that are not asked. Raises NotFound for a question of somebody else,
        and what `RoutedChat.answer` raises.
        """
        predictions = await self.model.transactions.load_predictions([id])
        prediction = predictions.get(id)
        if prediction is None or not caller.may_act_for(prediction.user) or prediction.input == NO_TEXT:
            raise NotFound(f"{self.model.spec.name} has no prediction {id!r}")
        name, question = self.model.spec.name, json.loads(prediction.input)
        messages = await self.model.read(lambda connection: load_messages(connection, name, id, question))
        body = {"model": self.router.spec.name, "messages": messages, "stream": True}
        parsed = ChatRequest.model_validate(body)
        chat = ReceivedChat(parsed, orjson.dumps(body), messages[-1]["content"], None, prediction.user, None, ID_PREFIX)
        routed = self.router.parts.find(RoutedChat)
        stream = await routed.uses.use(await routed.answer(request, chat, caller, without), chat, id)
        assert isinstance(stream, StreamedChat), "the body asks for a stream"
        return stream


def find_fallback(model: ModelRuntime) -> FallbackChat:
    """Return what answers where a model has no reply. Raises BadInput for a model without a fallback."""
    for each in model.parts.list(FallbackChat):
        return each
    raise BadInput(f"{model.spec.name} has no fallback: name a router in its `[[models]]` table")
