"""Responses in OpenAI's shape: its newer API, which agents and SDKs send.

    request --responses_requests--> chat completion --complete_chat--> answer or stream --responses_events--> response

Nothing is stored but the prediction: its id is that of the response, and feedback refers to it.
"""

from fastapi import Request, Response

from online.api.auth.scopes import CallerDep
from online.api.bodies import parse_as, read_json
from online.api.dependencies import RuntimeDep
from online.api.routes import Router
from online.plugins.openai.answers import complete_chat
from online.plugins.openai.chat_completions import ERROR_RESPONSES
from online.plugins.openai.chat_requests import receive_chat
from online.plugins.openai.completions import ChatEvents, WholeChat, dump_answer
from online.plugins.openai.paths import RESPONSES
from online.plugins.openai.responses_events import encode_response, write_whole
from online.plugins.openai.responses_items import ID_PREFIX
from online.plugins.openai.responses_requests import translate_request
from online.plugins.openai.responses_schemas import ResponseAnswer, ResponseRequest
from online.plugins.openai.schemas import ChatRequest

router = Router(responses=ERROR_RESPONSES)


@router.post(RESPONSES, "predict", response_model=ResponseAnswer, body=ResponseRequest, every_worker=True)
async def respond(request: Request, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Answer the user's last message, in the shape of OpenAI's Responses API; with `stream`, as server-sent events.

    Answers are not stored: send the whole conversation in `input`. The header `X-Message-Id` is the id of the answer in
    the caller's page. It is recorded, so that feedback may refer to it.
    """
    body = await read_json(request, runtime.settings)
    parsed = parse_as(body, ResponseRequest)
    inner = translate_request(parsed, body)
    completed = await complete_chat(
        request, receive_chat(request, parse_as(inner, ChatRequest), inner, ID_PREFIX), caller
    )
    if isinstance(completed, WholeChat):
        response = dump_answer(write_whole(parsed, completed.content))
        return Response(response, headers=completed.headers, media_type="application/json")
    return ChatEvents(completed, encode_response(parsed, completed))
