"""OpenAI's Responses API, tested with OpenAI's own client against a real service whose model is a ranker."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response

from tests.support import Service

OPEN = "When do you open?"


@pytest.fixture
def chat(service: Service) -> Iterator[openai.OpenAI]:
    service.wait_learned("chat", 1)
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="anything", max_retries=0) as client:
        yield client


def post(service: Service, **fields: Any) -> httpx.Response:
    return service.http.post("/v1/responses", json={"model": "chat", "input": OPEN, **fields})


def test_a_text_is_answered_with_a_whole_response(chat: openai.OpenAI) -> None:
    response = chat.responses.create(model="chat", input=OPEN, metadata={"page": "help"})
    assert response.output_text == "We open at nine." and response.id.startswith("resp_")
    assert (response.status, response.error, response.incomplete_details) == ("completed", None, None)
    assert response.usage is not None and response.usage.total_tokens == 8 and response.metadata == {"page": "help"}


OPEN_RESPONSES = (  # fields that the specification of Open Responses requires
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id"),
    *("instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p"),
    *("presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "user", "usage"),
    *("max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier"),
    "prompt_cache_key",
)


def test_a_response_has_every_field_that_open_responses_requires(service: Service) -> None:
    response = post(service).json()
    assert {*OPEN_RESPONSES} - response.keys() == set()
    assert (response["temperature"], response["top_p"], response["truncation"]) == (1.0, 1.0, "disabled")
    (item,) = response["output"]
    assert item["content"] == [{"type": "output_text", "text": "We open at nine.", "annotations": [], "logprobs": []}]


def test_a_response_has_every_field_that_the_client_declares_as_required(service: Service) -> None:
    response = Response.model_validate_json(post(service).content, strict=True)
    assert response.object == "response" and response.completed_at is not None
    assert (response.tools, response.tool_choice, response.parallel_tool_calls) == ([], "auto", True)


INPUTS: dict[str, Any] = {
    "a message": [{"role": "user", "content": OPEN}],
    "parts": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": OPEN}]}],
    "an image beside the text": [
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:,"}, {"type": "input_text", "text": OPEN}],
        }
    ],
    "an earlier answer": [
        {"role": "user", "content": "Hello"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
        },
        {"role": "user", "content": OPEN},
    ],
    "a call and its output": [
        {"role": "user", "content": OPEN},
        {"type": "function_call", "call_id": "a", "name": "look_up", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "nine"},
    ],
}


@pytest.mark.parametrize("case", INPUTS)
def test_an_input_of_every_shape_is_answered(chat: openai.OpenAI, case: str) -> None:
    expected = chat.responses.create(model="chat", input=OPEN).output_text
    assert chat.responses.create(model="chat", input=INPUTS[case], instructions="Be brief.").output_text == expected


def test_a_stream_accumulates_to_the_same_answer(chat: openai.OpenAI) -> None:
    with chat.responses.stream(model="chat", input=OPEN) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == "We open at nine." and len(deltas) == 4
    assert final.usage is not None and final.usage.output_tokens == 4


async def read_stream(url: str) -> str:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.responses.create(model="chat", input=OPEN, stream=True)
        return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


def test_the_asynchronous_client_reads_a_stream(service: Service, chat: openai.OpenAI) -> None:
    assert asyncio.run(read_stream(service.url)) == "We open at nine."


def test_a_response_is_a_prediction_that_accepts_feedback(service: Service, chat: openai.OpenAI) -> None:
    question = "Where do the early birds sit?"
    response = chat.responses.create(model="chat", input=question)
    with service.client("chat") as bot:
        receipt = bot.teach(response.id, "Early birds sit by the window.")
        service.wait_learned("chat", receipt["offset"])
        assert chat.responses.create(model="chat", input=question).output_text == "Early birds sit by the window."
        service.wait_learned("chat", bot.retract(receipt["id"])["offset"])


def test_the_version_is_in_the_headers_and_in_the_body(service: Service) -> None:
    response = post(service)
    assert response.json()["system_fingerprint"] == response.headers["X-Model-Version"]
    assert response.json()["feedback_url"] == response.headers["X-Feedback-Url"]


def test_a_task_of_the_page_is_no_prediction(service: Service) -> None:
    response = post(service, metadata={"task": "tags_generation"})
    assert response.json()["id"].startswith("resp_task-") and response.headers["X-Task"] == "tags_generation"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an earlier response": ({"previous_response_id": "resp_1"}, "previous_response_id: answers are not stored here"),
    "a conversation": ({"conversation": "conv_1"}, "conversation: answers are not stored here"),
    "an answer for later": ({"background": True}, "background: answers are not stored here"),
    "a prompt template": ({"prompt": {"id": "pmpt_1"}}, "prompt: prompt templates are not stored here"),
    "a context that is cut": ({"truncation": "auto"}, "truncation: nothing is cut"),
    "moderation": ({"moderation": {"model": "m"}}, "moderation: answers are not moderated"),
    "compaction": ({"context_management": [{"type": "compaction"}]}, "context_management: conversations are not"),
    "a reasoning mode": ({"reasoning": {"mode": "pro"}}, "reasoning.mode: only `effort`"),
    "a reference": ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0: the item refers"),
    "a bare reference": ({"input": [{"id": "msg_1"}]}, "input.0: the item refers"),
    "an item of a vendor's tool": ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "'web_search_call'"),
    "an item that is a text": ({"input": ["hello"]}, "input.0: an item is an object"),
    "no item": ({"input": []}, "input: "),
    "an unknown role": ({"input": [{"role": "wizard", "content": "x"}]}, "input.0.message.role"),
    "an uploaded image": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]},
        "input.0.content.0: file_id cannot be read here",
    ),
    "the address of a file": (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://a.example"}]}]},
        "input.0.content.0: file_url cannot be read here",
    ),
    "an unknown part": (
        {"input": [{"role": "user", "content": [{"type": "input_video"}]}]},
        "input.0.content.0: a part of the type 'input_video'",
    ),
    "a tool of the vendor": ({"tools": [{"type": "web_search"}]}, "the tool 'web_search' is none"),
    "a choice of the vendor's tool": ({"tool_choice": {"type": "mcp", "server_label": "a"}}, "not 'mcp'"),
    "a choice that is no tool": (
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}},
        "tool_choice: 'f' is not one of the `tools`",
    ),
    "a grammar": ({"text": {"format": {"type": "grammar"}}}, "text.format: 'grammar'"),
    "chat messages": ({"messages": []}, "messages: this field of chat completions has another name here"),
    "several answers": ({"n": 2}, "n: "),
    "a user that is a number": ({"user": 7}, "user: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_field_that_cannot_be_translated_is_refused(chat: openai.OpenAI, case: str) -> None:
    fields, words = REFUSED[case]
    with pytest.raises(openai.BadRequestError) as caught:
        chat.responses.create(model="chat", input=OPEN, extra_body=fields)
    assert words in str(caught.value) and caught.value.type == "invalid_request_error"


HINTS = {
    "store": True,
    "include": ["reasoning.encrypted_content"],
    "service_tier": "auto",
    "prompt_cache_key": "a",
    "max_tool_calls": 3,
    "truncation": "disabled",
    "reasoning": {"summary": "auto"},
    "stream_options": {"include_obfuscation": False},
    "background": False,
    "previous_response_id": None,
}


def test_hints_change_nothing(chat: openai.OpenAI) -> None:
    response = chat.responses.create(model="chat", input=OPEN, extra_body=HINTS)
    assert response.output_text == "We open at nine."


def test_a_model_that_does_not_exist_is_named(chat: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat.responses.create(model="nothing", input=OPEN)
    assert caught.value.code == "model_not_found" and caught.value.param == "model"
