"""Messages, whole and streamed, with Anthropic's own clients against a router and against a ranker."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import BaseModel, TypeAdapter
from pydantic_core import from_json

from online.plugins.anthropic.message_answers import MessageOptions
from online.plugins.anthropic.message_events import encode_message_events
from online.plugins.openai.completions import CutChat, StreamedChat
from online.schemas.json_values import JSONObject
from tests.conftest import Start
from tests.plugins.anthropic.scripted_upstream import Script, ScriptedUpstream
from tests.plugins.anthropic.test_requests import HELLO, IMAGE, TOOL, post
from tests.plugins.router.fake_upstream import FakeUpstream
from tests.plugins.router.test_routed_chat import models
from tests.support import Service, run_online, until

ADMIN_KEY = "open sesame"
QUESTION: Any = [{"role": "user", "content": "When do you open?"}]
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def test_a_router_answers_with_its_headers(served: Service, client: anthropic.Anthropic) -> None:
    raw = client.messages.with_raw_response.create(model="router", max_tokens=50, messages=QUESTION)
    message = raw.parse()
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": "from small"}]
    assert message.id.startswith("msg_") and message.stop_reason == "end_turn" and message.role == "assistant"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (3, 1, 2)
    assert raw.headers["X-Route"] == "small" and float(raw.headers["X-Propensity"]) == 1 and raw.headers["X-Cost"]
    assert message.to_dict()["system_fingerprint"].startswith("small@")  # type: ignore[attr-defined]
    item = {"prediction_id": message.id, "reward": 1.0}
    served.http.post("/v1/models/router:feedback", json={"feedback": [item]}).raise_for_status()


def test_a_ranker_answers_whole_and_streamed(served: Service, client: anthropic.Anthropic) -> None:
    message = client.messages.create(model="chat", max_tokens=50, messages=QUESTION)
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": "We open at nine."}]
    with client.messages.stream(model="chat", max_tokens=50, messages=QUESTION) as stream:
        words = [*stream.text_stream]
        final = stream.get_final_message()
    assert words == ["We ", "open ", "at ", "nine."] and final.model == "chat"
    assert final.content[0].to_dict()["text"] == "We open at nine."
    assert final.usage.output_tokens == message.usage.output_tokens == 4
    item = {"prediction_id": final.id, "reward": 1.0}
    served.http.post("/v1/models/chat:feedback", json={"feedback": [item]}).raise_for_status()


def test_the_url_for_feedback_is_in_the_body_too(served: Service) -> None:
    whole = post(served, model="chat")
    assert whole.json()["feedback_url"] == whole.headers["X-Feedback-Url"]
    assert whole.json()["system_fingerprint"] == whole.headers["X-Model-Version"]
    streamed = post(served, model="chat", stream=True)
    start = json.loads(streamed.text.split("\n\n")[0].split("data: ")[1])["message"]
    assert start["feedback_url"] == streamed.headers["X-Feedback-Url"]


def test_beta_messages_are_answered(client: anthropic.Anthropic) -> None:
    message = client.beta.messages.create(model="router", max_tokens=50, messages=QUESTION, betas=["some-beta"])
    assert message.content[0].to_dict()["text"] == "from small"


def test_the_asynchronous_client_streams_too(served: Service) -> None:
    async def ask() -> Message:
        async with (
            anthropic.AsyncAnthropic(base_url=served.url, api_key="anything", max_retries=0) as client,
            client.messages.stream(model="router", max_tokens=50, messages=QUESTION) as stream,
        ):
            return await stream.get_final_message()

    assert asyncio.run(ask()).content[0].to_dict()["text"] == "from small"


def test_a_tool_is_called_and_its_result_is_sent_back(client: anthropic.Anthropic, fake: FakeUpstream) -> None:
    tools: Any = [TOOL]
    with client.messages.stream(model="tools", max_tokens=50, messages=QUESTION, tools=tools) as stream:
        parts = [event.partial_json for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    whole = client.messages.create(model="tools", max_tokens=50, messages=QUESTION, tools=tools)
    assert "".join(parts) == '{"city": "Zürich"}' and len(parts) == 2
    call = {"type": "tool_use", "id": "call_1", "name": "look_up", "input": {"city": "Zürich"}}
    assert [block.to_dict() for block in final.content] == [block.to_dict() for block in whole.content] == [call]
    assert final.stop_reason == whole.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "4 °C"}
    turns: Any = [*QUESTION, {"role": "assistant", "content": final.content}, {"role": "user", "content": [result]}]
    client.messages.create(model="tools", max_tokens=50, messages=turns, tools=tools)
    sent = fake.last.body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"city": "Zürich"}


def test_an_image_reaches_the_model(client: anthropic.Anthropic) -> None:
    content: Any = [{"type": "text", "text": "What is this?"}, {"type": "image", "source": IMAGE}]
    message = client.messages.create(model="echo", max_tokens=50, messages=[{"role": "user", "content": content}])
    echoed = json.loads(message.content[0].to_dict()["text"])  # type: ignore[arg-type]
    assert echoed["messages"][0]["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="


def test_a_schema_is_parsed_by_the_client(client: anthropic.Anthropic, scripted: ScriptedUpstream) -> None:
    class Weather(BaseModel):
        degrees: int

    scripted.script = Script({"content": '{"degrees": 4}'}, [{"content": '{"degrees": '}, {"content": "4}"}])
    parsed = client.messages.parse(model="scripted", max_tokens=50, messages=QUESTION, output_format=Weather)
    assert parsed.parsed_output == Weather(degrees=4)
    assert scripted.last["response_format"]["json_schema"]["schema"]["properties"]["degrees"]["type"] == "integer"


def call(index: int, id: str | None, name: str | None, arguments: str) -> JSONObject:
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"index": index, **({"id": id, "type": "function"} if id else {}), "function": function}


def text(value: str) -> JSONObject:
    return {"type": "text", "text": value}


def thought(value: str) -> JSONObject:
    return {"type": "thinking", "thinking": value, "signature": ""}


def used(id: str, input: JSONObject) -> JSONObject:
    return {"type": "tool_use", "id": id, "name": "f", "input": input}


CALLS = {"tool_calls": [call(0, "a", "f", '{"x": 1}'), call(1, "b", "f", "{}")]}
HI = {"content": "Hi"}
SCRIPTS: dict[str, tuple[Script, list[JSONObject], str]] = {  # what the endpoint sends -> blocks, and why they end
    "reasoning_content": (
        Script(
            {"reasoning_content": "Hm.", "content": "Hi you"},
            [
                {"role": "assistant", "content": ""},
                {"reasoning_content": "H"},
                {"reasoning_content": "m."},
                {"content": "Hi "},
                {"content": "you"},
            ],
        ),
        [thought("Hm."), text("Hi you")],
        "end_turn",
    ),
    "reasoning under both names": (
        Script(
            {"reasoning": "Hm.", "reasoning_content": "Hm.", **HI},
            [{"reasoning": "Hm.", "reasoning_content": "Hm."}, HI],
        ),
        [thought("Hm."), text("Hi")],
        "end_turn",
    ),
    "parts": (
        Script({"content": [text("H"), text("i")]}, [{"content": [text("H")]}, {"content": [text("i")]}]),
        [text("Hi")],
        "end_turn",
    ),
    "a text, then two calls": (
        Script(
            {**HI, **CALLS},
            [
                HI,
                {"tool_calls": [call(0, "a", "f", "")]},
                {"tool_calls": [call(0, None, None, '{"x"')]},
                {"tool_calls": [call(0, "a", "f", ": 1}")]},
                {"tool_calls": [call(1, "b", "f", "{}")]},
            ],
            "tool_calls",
        ),
        [text("Hi"), used("a", {"x": 1}), used("b", {})],
        "tool_use",
    ),
    "two calls in one place, and another reason": (
        Script(CALLS, [{"tool_calls": [call(0, "a", "f", '{"x": 1}')]}, {"tool_calls": [call(0, "b", "f", "{}")]}]),
        [used("a", {"x": 1}), used("b", {})],
        "tool_use",
    ),
    "a call without arguments": (
        Script({"tool_calls": [call(0, "a", "f", "")]}, [{"tool_calls": [call(0, "a", "f", "")]}], "tool_calls"),
        [used("a", {})],
        "tool_use",
    ),
    "a call that is cut": (
        Script(
            {"tool_calls": [call(0, "a", "f", '{"x": [1, 2')]},
            [{"tool_calls": [call(0, "a", "f", '{"x": [1, 2')]}],
            "length",
        ),
        [used("a", {"x": [1, 2]})],
        "max_tokens",
    ),
    "a refusal": (
        Script({"content": None, "refusal": "No."}, [{"refusal": "N"}, {"refusal": "o."}]),
        [text("No.")],
        "refusal",
    ),
    "nothing": (Script({"content": ""}, [{"content": ""}], usage=None), [], "end_turn"),
    "length": (Script(HI, [HI], "length"), [text("Hi")], "max_tokens"),
    "content_filter": (Script(HI, [HI], "content_filter"), [text("Hi")], "refusal"),
    "an interruption": (Script(HI, [HI], "insufficient_system_resource"), [text("Hi")], "max_tokens"),
    "an unknown reason": (Script(HI, [HI], "eos"), [text("Hi")], "end_turn"),
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_an_answer_is_the_same_whole_and_streamed(served: Service, scripted: ScriptedUpstream, case: str) -> None:
    scripted.script, blocks, reason = SCRIPTS[case]
    whole = post(served).raise_for_status().json()
    Message.model_validate(whole)
    streamed = collect(post(served, stream=True).raise_for_status().text)
    for message in (whole, streamed):
        assert message["content"] == blocks
        assert (message["stop_reason"], message["stop_sequence"], message["model"]) == (reason, None, "m")
    assert whole["usage"] == streamed["usage"]


def test_a_half_of_a_surrogate_pair_is_passed_on(served: Service, scripted: ScriptedUpstream) -> None:
    scripted.script = Script({"content": "a\ud83d"}, [{"content": "a\ud83d"}, {"content": "\ude00"}])
    assert json.loads(post(served).text)["content"] == [text("a\ud83d")]
    assert '"a\\ud83d"' in (streamed := post(served, stream=True).text) and '"\\ude00"' in streamed


def collect(body: str) -> JSONObject:
    """Return the message of a stream, whose events are checked for their types and their order."""
    events = [EVENT.validate_json(each.split("data: ")[1]) for each in body.strip().split("\n\n")]
    assert [each.split("\n")[0] for each in body.strip().split("\n\n")] == [f"event: {each.type}" for each in events]
    start, *middle, delta, stop = events
    assert (start.type, delta.type, stop.type) == ("message_start", "message_delta", "message_stop")
    blocks = list[JSONObject]()
    is_open, partial = False, ""
    for event in middle:
        assert event.index == len(blocks) - is_open
        if event.type == "content_block_start":
            assert not is_open
            blocks.append(event.content_block.model_dump(exclude_none=True))
            is_open, partial = True, ""
        elif event.type == "content_block_stop":
            assert is_open
            is_open = False
            if partial:
                blocks[-1]["input"] = from_json(partial, allow_partial=True)
        elif event.delta.type == "input_json_delta":
            partial += event.delta.partial_json
        else:
            assert is_open
            name = event.delta.type.removesuffix("_delta")
            blocks[-1][name] += getattr(event.delta, name)
    assert not is_open
    ending = delta.delta.model_dump(include={"stop_reason", "stop_sequence"})
    usage = {**start.message.usage.model_dump(exclude_none=True), **delta.usage.model_dump(exclude_none=True)}
    return {"content": blocks, "model": start.message.model, "usage": usage, **ending}


@pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
def test_a_stop_sequence_is_named_where_the_endpoint_names_it(
    served: Service, scripted: ScriptedUpstream, name: str
) -> None:
    scripted.script = Script(HI, [HI], choice={name: "END"})
    cases: list[tuple[JSONObject, object]]
    cases = [({"stop_sequences": ["END"]}, ("stop_sequence", "END")), ({}, ("end_turn", None))]
    for fields, expected in cases:
        whole = post(served, **fields).json()
        streamed = collect(post(served, stream=True, **fields).text)
        assert (whole["stop_reason"], whole["stop_sequence"]) == expected
        assert (streamed["stop_reason"], streamed["stop_sequence"]) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}, (5, 4, 5)),
        ({"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 8}, (1, 8, 5)),
        ({"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": None}, (9, 0, 5)),
        (None, (2, 0, 1)),
    ],
)
def test_cached_tokens_are_counted_apart_and_missing_ones_estimated(
    served: Service, scripted: ScriptedUpstream, usage: JSONObject | None, expected: tuple[int, int, int]
) -> None:
    scripted.script = Script(HI, [HI], usage=usage)
    for message in (post(served).json(), collect(post(served, stream=True).text)):
        counted = message["usage"]
        names = ("input_tokens", "cache_read_input_tokens", "output_tokens")
        assert tuple(counted[name] for name in names) == expected and counted["cache_creation_input_tokens"] == 0


def test_a_call_that_is_no_object_is_an_error(client: anthropic.Anthropic, scripted: ScriptedUpstream) -> None:
    scripted.script = Script({"tool_calls": [call(0, "a", "f", "[1]")]}, [])
    with pytest.raises(anthropic.InternalServerError, match="'f' with arguments that are no JSON object; ask again"):
        client.messages.create(model="scripted", max_tokens=50, messages=QUESTION)


def test_mixed_parts_of_calls_are_an_error(served: Service, scripted: ScriptedUpstream) -> None:
    parts = [call(0, "a", "f", "{"), call(1, "b", "f", "{"), call(0, None, None, "}")]
    scripted.script = Script({}, [{"tool_calls": [part]} for part in parts])
    last = post(served, stream=True).text.strip().split("\n\n")[-1]
    assert last.startswith("event: error\n") and "has mixed the parts of its calls of tools; ask again" in last


# errors


def ask(client: anthropic.Anthropic, model: str, **fields: Any) -> Message:
    message: Message = client.messages.create(model=model, messages=QUESTION, **{"max_tokens": 50, **fields})
    return message


ERRORS: dict[str, tuple[JSONObject, type[anthropic.APIStatusError], str, str]] = {
    "a field": (
        {"model": "router", "max_tokens": -1},
        anthropic.BadRequestError,
        "invalid_request_error",
        "max_tokens",
    ),
    "the endpoint's": (
        {"model": "refuse"},
        anthropic.BadRequestError,
        "invalid_request_error",
        "400: the last message",
    ),
    "no model": ({"model": "gpt"}, anthropic.NotFoundError, "not_found_error", "these models chat: "),
    "no chat": ({"model": "lab"}, anthropic.NotFoundError, "not_found_error", "does not chat"),
    "too large": (
        {"model": "router", "system": "x" * 100_000},
        anthropic.ContentTooLargeError,
        "request_too_large",
        "max_body_bytes",
    ),
    "no route": ({"model": "broken"}, anthropic.InternalServerError, "api_error", "no route has answered: only (dead)"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_have_the_class_of_the_client(client: anthropic.Anthropic, case: str) -> None:
    fields, kind, name, words = ERRORS[case]
    with pytest.raises(kind) as caught:
        ask(client, **fields)
    assert type(caught.value) is kind and isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error" and caught.value.body["error"]["type"] == name
    assert words in caught.value.body["error"]["message"]


def test_a_stream_that_is_cut_ends_with_an_error(client: anthropic.Anthropic) -> None:
    got = list[str]()
    with (
        pytest.raises(anthropic.APIStatusError) as caught,
        client.messages.stream(model="cut", max_tokens=50, messages=QUESTION) as stream,
    ):
        got.extend(stream.text_stream)
    assert "".join(got) == "The answer" and isinstance(caught.value.body, dict)
    assert caught.value.body["error"]["type"] == "api_error"
    assert "'only' ended too early" in caught.value.body["error"]["message"]


class LimitedChat(StreamedChat):
    """A stream that a rate limit has ended."""

    async def chunks(self) -> AsyncIterator[JSONObject]:
        yield {"id": "msg_1", "choices": [{"delta": HI}]}
        raise CutChat("too many requests", "limited")


def test_a_stream_that_a_limit_ends_has_an_error_of_its_own() -> None:
    async def read() -> list[bytes]:
        return [event async for event in encode_message_events(LimitedChat(), MessageOptions("m", [], 1))]

    error = {"type": "overloaded_error", "message": "too many requests"}
    assert json.loads(asyncio.run(read())[-1].split(b"data: ")[1]) == {"type": "error", "error": error}


def test_other_paths_of_the_client_are_answered_with_those_that_are_served(client: anthropic.Anthropic) -> None:
    for call_of in (client.messages.batches.list, client.beta.files.list):
        with pytest.raises(
            anthropic.NotFoundError, match="is not served here; of Anthropic's API this service has POST"
        ):
            call_of()


def create_key(service: Service, scope: str) -> str:
    created = run_online("keys", "create", "--name", scope, "--scopes", scope, "--state", str(service.state))
    return created.stdout.strip()


def test_a_service_with_keys_asks_for_one(start: Start, fake: FakeUpstream) -> None:
    service = start(models(fake, {"small": "say:from small"}, explore=0.0), admin_key=ADMIN_KEY)
    keys = {scope: create_key(service, scope) for scope in ("predict", "feedback")}
    for key, kind in (("wrong", anthropic.AuthenticationError), (keys["feedback"], anthropic.PermissionDeniedError)):
        with (
            anthropic.Anthropic(base_url=service.url, api_key=key, max_retries=0) as client,
            pytest.raises(kind) as caught,
        ):
            ask(client, "router")
        assert isinstance(caught.value, anthropic.APIStatusError) and isinstance(caught.value.body, dict)
        assert caught.value.body["error"]["type"] in ("authentication_error", "permission_error")
    credentials: list[Any] = [{"api_key": keys["predict"]}, {"auth_token": keys["predict"]}]
    for named in credentials:
        with anthropic.Anthropic(base_url=service.url, max_retries=0, **named) as client:
            assert ask(client, "router").content[0].to_dict()["text"] == "from small"


def test_a_quota_that_is_used_up_is_a_rate_limit(start: Start, fake: FakeUpstream) -> None:
    service = start(
        models(fake, {"small": "say:from small"}, explore=0.0), admin_key=ADMIN_KEY, key_instances_per_minute=2
    )
    with (
        anthropic.Anthropic(base_url=service.url, api_key=create_key(service, "predict"), max_retries=0) as client,
        pytest.raises(anthropic.RateLimitError) as caught,
    ):
        for _ in range(3):
            ask(client, "router")
    assert isinstance(caught.value.body, dict) and caught.value.body["error"]["type"] == "rate_limit_error"


def test_a_caller_who_leaves_ends_the_request_to_the_route(start: Start, fake: FakeUpstream) -> None:
    service = start(models(fake, {"small": "drip#message"}, explore=0.0))
    body = {"model": "router", "max_tokens": 50, "messages": [HELLO], "stream": True}
    fake.reset()
    with service.http.stream("POST", "/v1/messages", json=body) as response:
        fake.wait_for_requests()
        fake.release()
        next(response.iter_bytes())
    fake.wait_until_gone("drip#message")
    until(lambda: service.http.get("/v1/models/router").json()["head"] == 1, what="the outcome")
