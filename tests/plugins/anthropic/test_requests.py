"""Requests for messages: what a language model behind a router gets of them, and what is refused."""

from typing import Any

import anthropic
import httpx
import pytest

from online.schemas.json_values import JSONObject
from tests.plugins.anthropic.scripted_upstream import ScriptedUpstream
from tests.support import Service

IMAGE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
TOOL = {"name": "look_up", "description": "Look it up.", "input_schema": {"type": "object"}}
HELLO = {"role": "user", "content": "Hello"}


def post(served: Service, path: str = "/v1/messages", **fields: Any) -> httpx.Response:
    body = {"model": "scripted", "max_tokens": 50, "messages": [HELLO], **fields}
    return served.http.post(path, json=body)


def send(served: Service, scripted: ScriptedUpstream, **fields: Any) -> JSONObject:
    """Return the body that the endpoint gets."""
    post(served, **fields).raise_for_status()
    return scripted.last


def ask(served: Service, scripted: ScriptedUpstream, *blocks: Any) -> list[Any]:
    """Return the messages that the endpoint gets for blocks of the user."""
    messages: list[Any] = send(served, scripted, messages=[{"role": "user", "content": [*blocks]}])["messages"]
    return messages


def test_a_plain_request_has_nothing_but_its_own_fields(served: Service, scripted: ScriptedUpstream) -> None:
    body = send(served, scripted)
    assert body == {"model": "scripted", "messages": [HELLO], "stream": False, "max_completion_tokens": 50}


def test_the_options_have_their_counterparts(served: Service, scripted: ScriptedUpstream) -> None:
    body = send(
        served,
        scripted,
        system=[
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Be kind."},
        ],
        stop_sequences=["END"],
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        seed=7,
        metadata={"user_id": "ann"},
        service_tier="auto",
        cache_control={"type": "ephemeral"},
        context_management={"edits": []},
        output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}},
    )
    assert body["messages"][0] == {"role": "system", "content": "Be brief.\nBe kind."}
    assert body["stop"] == ["END"] and body["user"] == "ann"
    assert [body[name] for name in ("temperature", "top_p", "top_k", "seed")] == [0.5, 0.9, 40, 7]
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert not body.keys() & {
        "system",
        "stop_sequences",
        "metadata",
        "service_tier",
        "cache_control",
        "context_management",
    }


def test_the_older_name_of_the_schema_is_read(served: Service, scripted: ScriptedUpstream) -> None:
    body = send(served, scripted, output_format={"type": "json_schema", "schema": {"type": "object"}})
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_a_long_name_of_a_user_is_cut(served: Service, scripted: ScriptedUpstream) -> None:
    assert send(served, scripted, metadata={"user_id": "u" * 200})["user"] == "u" * 128


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 4_096}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 16_384}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 16_385}}, "high"),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}, "medium"),
        ({"output_config": {"effort": "max"}}, "high"),
    ],
)
def test_a_budget_of_thinking_is_an_effort(
    served: Service, scripted: ScriptedUpstream, given: JSONObject, expected: str | None
) -> None:
    assert send(served, scripted, **given).get("reasoning_effort") == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "look_up"}, {"type": "function", "function": {"name": "look_up"}}),
    ],
)
def test_tools_and_their_choice_are_translated(
    served: Service, scripted: ScriptedUpstream, choice: JSONObject, expected: object
) -> None:
    tool = {**TOOL, "strict": True, "input_examples": [{"city": "Bern"}], "eager_input_streaming": True}
    body = send(served, scripted, tools=[tool], tool_choice={**choice, "disable_parallel_tool_use": True})
    parameters = {"type": "object", "examples": [{"city": "Bern"}]}
    function = {"name": "look_up", "description": "Look it up.", "parameters": parameters, "strict": True}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == expected and body["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in send(served, scripted, tools=[tool], tool_choice=choice)


def test_images_and_documents_are_parts(served: Service, scripted: ScriptedUpstream) -> None:
    (message,) = ask(
        served,
        scripted,
        {"type": "text", "text": "Compare."},
        {"type": "image", "source": IMAGE},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": PDF, "title": "a.pdf", "context": "Of 2020."},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/b.pdf"}},
    )
    assert message["content"] == [
        {"type": "text", "text": "Compare."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "text", "text": "a.pdf"},
        {"type": "text", "text": "Of 2020."},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "https://example.com/b.pdf"}},
    ]


def test_documents_of_text_are_texts(served: Service, scripted: ScriptedUpstream) -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "One."}
    blocks = {"type": "content", "content": [{"type": "text", "text": "Two."}]}
    (message,) = ask(
        served,
        scripted,
        {"type": "document", "source": plain, "title": "First"},
        {"type": "document", "source": blocks},
        {"type": "document", "source": {"type": "content", "content": "Three."}},
    )
    assert message == {"role": "user", "content": "First\nOne.\nTwo.\nThree."}


def test_calls_of_tools_and_their_results_are_messages(served: Service, scripted: ScriptedUpstream) -> None:
    calls = [{"type": "tool_use", "id": id, "name": "look_up", "input": {"city": "Zürich"}} for id in ("a", "b", "c")]
    thought = [{"type": "thinking", "thinking": "Hm.", "signature": ""}, {"type": "redacted_thinking", "data": "x"}]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": "4 °C"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "no"}], "is_error": True},
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image", "source": IMAGE}]},
    ]
    turns = [
        HELLO,
        {"role": "assistant", "content": [*thought, {"type": "text", "text": "I look."}, *calls]},
        {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "d", "name": "look_up", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "d"}]},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "It is"},
    ]
    messages = send(served, scripted, messages=turns)["messages"]
    function = {"name": "look_up", "arguments": '{"city":"Zürich"}'}
    assert messages[1]["content"] == "I look."
    assert messages[1]["tool_calls"] == [{"id": id, "type": "function", "function": function} for id in ("a", "b", "c")]
    assert messages[2:5] == [
        {"role": "tool", "tool_call_id": "a", "content": "4 °C"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no"},
        {"role": "tool", "tool_call_id": "c", "content": "(Files of this result in the next message of the user: 1)"},
    ]
    assert [part["type"] for part in messages[5]["content"]] == ["image_url", "text"]
    assert messages[6]["content"] is None and messages[6]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert messages[7:] == [
        {"role": "tool", "tool_call_id": "d", "content": ""},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "It is"},
    ]


REFUSED: dict[str, tuple[JSONObject, str]] = {
    "a tool of Anthropic's": (
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "tools.0: the tool 'web_search_20250305' is Anthropic's own and unknown to other models; leave it out",
    ),
    "a server": ({"mcp_servers": [{}]}, "mcp_servers: only Anthropic's own service does this; leave it out"),
    "a container": ({"container": "c"}, "container: only Anthropic's own service does this; leave it out"),
    "no limit": ({"max_tokens": None}, "max_tokens: Input should be a valid integer"),
    "a limit of 0": ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
    "no messages": ({"messages": []}, "messages: List should have at least 1 item"),
    "an unknown role": ({"messages": [{"role": "tool", "content": ""}]}, "messages.0: Input tag 'tool'"),
    "no content": (
        {"messages": [{"role": "user", "content": []}]},
        "messages.0.user.content: Value should have at least 1 item",
    ),
    "an unknown block": (
        {"messages": [{"role": "user", "content": [{"type": "container_upload"}]}]},
        "messages.0.user.content.0: Input tag 'container_upload'",
    ),
    "a file of Anthropic's": (
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]},
        "messages.0.user.content.0.image.source: Input tag 'file'",
    ),
    "citations": (
        {
            "messages": [
                {"role": "user", "content": [{"type": "document", "source": PDF, "citations": {"enabled": True}}]}
            ]
        },
        "messages.0.user.content.0.document.citations.enabled: Input should be False",
    ),
    "a choice without a name": ({"tool_choice": {"type": "tool"}}, "tool_choice: the type 'tool' needs the name"),
    "thinking without a budget": (
        {"thinking": {"type": "enabled"}},
        "thinking: the type 'enabled' needs budget_tokens",
    ),
    "another format": ({"output_config": {"task_budget": {}}}, "output_config: unknown field 'task_budget'"),
    "two answers": ({"n": 2}, "n: Input should be 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_translated_is_refused_with_a_sentence(served: Service, case: str) -> None:
    fields, expected = REFUSED[case]
    answer = post(served, **fields)
    assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.json()["error"]["message"].startswith(expected), answer.json()["error"]["message"]


def test_tokens_are_estimated_from_characters(served: Service, client: anthropic.Anthropic) -> None:
    image = {"type": "image", "source": {**IMAGE, "data": "A" * 4_000}}
    content: Any = [{"type": "text", "text": "x" * 400}, image]
    counted = client.messages.count_tokens(
        model="router", system="y" * 40, messages=[{"role": "user", "content": content}]
    )
    assert counted.input_tokens == 110
    with_tool: Any = [TOOL]
    more = client.messages.count_tokens(model="router", messages=[{"role": "user", "content": "x"}], tools=with_tool)
    assert 20 < more.input_tokens < 60
    assert post(served, "/v1/messages/count_tokens", model="nothing").status_code == 404
