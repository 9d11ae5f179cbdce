"""Messages in Anthropic's shape, whole or streamed.

    request --chat_bodies--> chat completion --complete_chat--> completion or chunks --message_answers, message_events--> response

The id of a message is the prediction_id that feedback refers to.
"""

from fastapi import Request, Response
from pydantic_core import to_json

from online.api.auth.scopes import CallerDep, check_scope
from online.api.bodies import parse_as, read_json
from online.api.dependencies import RuntimeDep
from online.api.responses import Responses, json_response
from online.api.routes import Router
from online.plugins.anthropic.chat_bodies import build_chat_body, estimate_tokens
from online.plugins.anthropic.message_answers import MessageOptions, translate_completion
from online.plugins.anthropic.message_events import encode_message_events
from online.plugins.anthropic.paths import COUNT_TOKENS, MESSAGES
from online.plugins.anthropic.schemas import CountRequest, MessageAnswer, MessageError, MessageRequest, TokenCount
from online.plugins.openai.answers import complete_chat
from online.plugins.openai.chat_requests import receive_chat
from online.plugins.openai.completers import find_chatting
from online.plugins.openai.completions import ChatEvents, WholeChat, dump_answer
from online.plugins.openai.schemas import ChatRequest

ID_PREFIX = "msg_"
ERROR_RESPONSES: Responses = {
    400: {"model": MessageError, "description": "The request is invalid; nothing was changed."},
    404: {"model": MessageError, "description": "The model does not exist, or does not chat."},
    413: {"model": MessageError, "description": "The request exceeds a limit; the message names the setting."},
    503: {"model": MessageError, "description": "The store cannot be reached now; nothing was changed."},
}
router = Router(responses=ERROR_RESPONSES)


@router.post(MESSAGES, "predict", response_model=MessageAnswer, body=MessageRequest, every_worker=True)
async def create_message(request: Request, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Answer the user's last message, in Anthropic's shape; with `stream`, as server-sent events.

    The headers `anthropic-version` and `anthropic-beta` are ignored.
    """
    body = await read_json(request, runtime.settings)
    parsed = parse_as(body, MessageRequest)
    content = build_chat_body(body, parsed)
    options = MessageOptions(parsed.model, parsed.stop_sequences or [], estimate_tokens(content))
    translated = to_json(content)
    chat = receive_chat(request, parse_as(translated, ChatRequest), translated, ID_PREFIX)
    completed = await complete_chat(request, chat, caller)
    if isinstance(completed, WholeChat):
        message = dump_answer(translate_completion(completed.content, options))
        return Response(message, headers=completed.headers, media_type="application/json")
    return ChatEvents(completed, encode_message_events(completed, options))


@router.post(COUNT_TOKENS, "predict", response_model=TokenCount, body=CountRequest, every_worker=True)
async def count_tokens(request: Request, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Estimate the tokens of a message: characters / 4. Each language model behind a router would count others."""
    body = await read_json(request, runtime.settings)
    parsed = parse_as(body, CountRequest)
    check_scope(caller, "predict", parsed.model)
    find_chatting(runtime, parsed.model)
    return json_response({"input_tokens": estimate_tokens(build_chat_body(body, parsed))})
