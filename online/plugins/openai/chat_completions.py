"""Chat completions in OpenAI's shape, whole or streamed, for every page that speaks it.

The id of a completion is the prediction_id that feedback refers to; its system_fingerprint is the version that answered. Why
sse-starlette is not used: a stream of chunks needs neither its pings nor its handling of shutdown, and would start a task group for
each answer.
"""

from collections.abc import AsyncIterator

from fastapi import Request, Response

from online.api.auth.scopes import CallerDep
from online.api.bodies import parse_as, read_json
from online.api.dependencies import RuntimeDep
from online.api.responses import Responses
from online.api.routes import Router
from online.plugins.openai.answers import complete_chat
from online.plugins.openai.chat_requests import receive_chat
from online.plugins.openai.completions import (
    ChatEvents,
    CutChat,
    StreamedChat,
    WholeChat,
    dump_answer,
    encode_event,
)
from online.plugins.openai.paths import COMPLETIONS
from online.plugins.openai.schemas import ChatAnswer, ChatError, ChatRequest

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
    body = await read_json(request, runtime.settings)
    parsed = parse_as(body, ChatRequest)
    completed = await complete_chat(request, receive_chat(request, parsed, body), caller)
    if isinstance(completed, WholeChat):
        return Response(dump_answer(completed.content), headers=completed.headers, media_type="application/json")
    with_usage = bool(parsed.stream_options and parsed.stream_options.include_usage)
    return ChatEvents(completed, encode_events(completed, with_usage))


async def encode_events(chat: StreamedChat, with_usage: bool) -> AsyncIterator[bytes]:
    """Encode chunks as server-sent events, and end the stream. with_usage: the caller has asked for it."""
    try:
        async for chunk in chat.chunks():
            if with_usage:
                yield encode_event({"usage": None} | chunk)
            elif chunk.get("choices"):
                yield encode_event({name: value for name, value in chunk.items() if name != "usage"})
        yield b"data: [DONE]\n\n"
    except CutChat as cut:
        error = {"message": str(cut), "type": "upstream_error", "param": None, "code": cut.code}
        yield encode_event({"error": error})
