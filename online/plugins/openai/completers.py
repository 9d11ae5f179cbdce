"""The models that complete chats: those with a repertoire, and those for which another plugin contributes a part."""

from fastapi import Request

from online.api.dependencies import RuntimeDep
from online.errors import NotFound
from online.models import spec_of
from online.plugins.openai.chat_requests import ReceivedChat
from online.plugins.openai.completions import CompletedChat
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ModelPart


class ChatCompleter(ModelPart):
    """The part of a model that completes chats by itself."""

    async def complete(self, request: Request, chat: ReceivedChat, caller: Caller) -> CompletedChat:
        """Return the completion, streamed where the chat asks for it. Raises an OnlineError."""
        raise NotImplementedError


def find_chatting(runtime: RuntimeDep, name: str) -> ModelRuntime:
    """Return the model that a chat names. Raises NotFound for a model that does not exist, or does not chat."""
    found = runtime.models.get(name)
    if found is not None and can_chat(found):
        return found
    chatting = [each for each, model in runtime.models.items() if can_chat(model)]
    reason = f"is a {found.spec.kind} and does not chat" if found else "does not exist"
    raise NotFound(f"the model {name!r} {reason}; these models chat: {', '.join(chatting) or 'none'}")


def can_chat(model: ModelRuntime) -> bool:
    """Return whether a model has a repertoire, or another plugin completes chats for it."""
    return spec_of(model.spec.kind).has_repertoire or bool(model.parts.list(ChatCompleter))
