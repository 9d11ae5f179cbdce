"""OpenAI's Responses API in front of routes: what the routes are sent, and what OpenAI's own client reads."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from tests.conftest import Start
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_routed_chat import QUESTION, describe, models, rate, wait_learned
from tests.support import Service, until

EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
IMAGE = "data:image/png;base64,iVBORw0KGgo="
TOOL: Any = {
    "type": "function",
    "name": "look_up",
    "description": "Look a city up.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 3},
}

TOKEN = {
    "token": "Yes",
    "logprob": -0.1,
    "bytes": None,
    "top_logprobs": [{"token": "No", "logprob": -2.0, "bytes": [78]}],
}


def call(index: int | None, id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    placed = {} if index is None else {"index": index}
    return {**placed, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@dataclass
class Script:
    """An answer of an endpoint: its deltas, the same as one message, and the reason of its end."""

    deltas: list[dict[str, Any]]
    message: dict[str, Any]
    reason: str = "stop"


SCRIPTS = {
    "reasoning": Script(
        [{"reasoning_content": "Let me "}, {"reasoning_content": "think."}, {"content": "Forty"}, {"content": "-two."}],
        {"reasoning_content": "Let me think.", "content": "Forty-two."},
    ),
    "other_reasoning": Script(
        [{"reasoning": "Hm."}, {"content": "Yes."}], {"reasoning": "Hm.", "content": "Yes.", "reasoning_content": None}
    ),
    "thinking_parts": Script(
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
            {"content": [{"type": "text", "text": "Yes."}]},
        ],
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "Yes."},
            ]
        },
    ),
    "parallel": Script(
        [
            {"content": "Two calls."},
            {"tool_calls": [call(0, "call_a", "look_up", "")]},
            {"tool_calls": [call(1, "call_b", "look_up", '{"city"')]},
            {"tool_calls": [call(0, None, None, '{"city": "Bern"}')]},
            {"tool_calls": [call(1, None, None, ': "Oslo"}')]},
        ],
        {
            "content": "Two calls.",
            "tool_calls": [
                call(None, "call_a", "look_up", '{"city": "Bern"}'),
                call(None, "call_b", "look_up", '{"city": "Oslo"}'),
            ],
        },
        "tool_calls",
    ),
    "same_index": Script(
        [
            {"tool_calls": [call(0, "call_a", "look_up", '{"city": "Bern"}')]},
            {"tool_calls": [call(0, "call_b", "look_up", '{"city": "Oslo"}')]},
        ],
        {
            "tool_calls": [
                call(0, "call_a", "look_up", '{"city": "Bern"}'),
                call(0, "call_b", "look_up", {"city": "Oslo"}),
            ]
        },
        "tool_calls",
    ),
    "no_index": Script(
        [{"tool_calls": [call(None, "", "look_up", "{}"), call(None, "", "look_up", "{}")]}],
        {"tool_calls": [call(None, "", "look_up", "{}"), call(None, "", "look_up", "{}")]},
        "tool_calls",
    ),
    "refusal": Script(
        [{"refusal": "I cannot "}, {"refusal": "do that."}], {"content": None, "refusal": "I cannot do that."}
    ),
    "text_and_refusal": Script([{"content": "Well. "}, {"refusal": "No."}], {"content": "Well. ", "refusal": "No."}),
    "long": Script([{"content": "It is"}], {"content": "It is"}, "length"),
    "filtered": Script([{"content": "It is"}], {"content": "It is"}, "content_filter: SAFETY"),
    "broken_off": Script([{"content": "It is"}], {"content": "It is"}, "error"),
    "empty": Script([{}], {"content": ""}),
    "probable": Script([{"content": "Yes"}], {"content": "Yes"}),
    "json": Script([{"content": '{"city":'}, {"content": ' "Bern"}'}], {"content": '{"city": "Bern"}'}),
}


class ScriptedHandler(BaseHTTPRequestHandler):
    """Answers each request by the script that its model names."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        script = SCRIPTS[body["model"]]
        head = {"id": "chatcmpl-1", "created": 1, "model": "vendor-1"}
        more = {"logprobs": {"content": [TOKEN]}} if body.get("logprobs") else {}
        if not body.get("stream"):
            message = {"role": "assistant", **script.message}
            choice = {"index": 0, "message": message, "finish_reason": script.reason, **more}
            answer = {**head, "object": "chat.completion", "choices": [choice], "usage": USAGE}
            self.reply("application/json", json.dumps(answer))
            return
        ends: list[tuple[dict[str, Any], str | None]] = [
            (delta, None) for delta in ({"role": "assistant", "content": ""}, *script.deltas)
        ] + [({}, script.reason)]
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": end, **more}]} for delta, end in ends
        ]
        chunks.append({"choices": [], "usage": USAGE})
        events = [json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
        self.reply("text/event-stream", "".join(f"data: {event}\n\n" for event in (*events, "[DONE]")))

    def reply(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def serve_scripts() -> Iterator[FakeUpstream]:
    """Serve the scripts in a thread."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ScriptedHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield FakeUpstream(f"http://127.0.0.1:{server.server_port}/v1")
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


@pytest.fixture(scope="module")
def scripts() -> Iterator[FakeUpstream]:
    with serve_scripts() as fake:
        yield fake


@pytest.fixture
def two(start: Start, upstream: FakeUpstream) -> Service:
    return start(models(upstream, {"small": "say:from small", "large": "say:from large"}, explore=0.0))


@contextmanager
def connect(service: Service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="anything", max_retries=0) as client:
        yield client


def read_events(service: Service, **fields: Any) -> list[dict[str, Any]]:
    """Return the events of a stream, each checked against the type of the client that its name means."""
    body = {"model": "router", "input": QUESTION, "stream": True, **fields}
    answer = service.http.post("/v1/responses", json=body).raise_for_status()
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = list[dict[str, Any]]()
    *blocks, end, rest = answer.text.split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    for block in blocks:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        EVENTS.validate_json(data.removeprefix("data: "), strict=True)
        events.append(event)
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    return events


def sketch(output: list[Any]) -> list[tuple[Any, ...]]:
    """Return the texts of items and the parsed arguments of calls, without their ids."""
    sketched = list[tuple[Any, ...]]()
    for item in output:
        if item["type"] == "function_call":
            sketched.append(("function_call", item["name"], json.loads(item["arguments"])))
        else:
            sketched.append((item["type"], *(part.get("text", part.get("refusal")) for part in item["content"])))
    return sketched


# what the routes are sent


def send(service: Service, upstream: FakeUpstream, **fields: Any) -> dict[str, Any]:
    """Return what the route is sent for a request."""
    service.http.post("/v1/responses", json={"model": "router", "input": QUESTION, **fields}).raise_for_status()
    return upstream.last.body


def test_a_conversation_becomes_messages(two: Service, upstream: FakeUpstream) -> None:
    conversation = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "input_text", "text": "Bern and Oslo?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "a", "name": "look_up", "arguments": '{"city": "Bern"}'},
        {"type": "function_call", "call_id": "b", "name": "look_up", "arguments": '{"city": "Oslo"}'},
        {"type": "function_call_output", "call_id": "a", "output": "rain"},
        {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "snow"}]},
        {"type": "function_call", "call_id": "c", "name": "look_up", "arguments": "{}"},
        {"role": "assistant", "content": "Once more."},
        {"type": "function_call_output", "call_id": "c", "output": "hail"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "And this?"},
                {"type": "input_image", "image_url": IMAGE, "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            ],
        },
    ]
    body = send(two, upstream, input=conversation, instructions="Be brief.")

    def tool_call(id: str, arguments: str) -> dict[str, Any]:
        return {"id": id, "type": "function", "function": {"name": "look_up", "arguments": arguments}}

    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Bern and Oslo?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [tool_call("a", '{"city": "Bern"}'), tool_call("b", '{"city": "Oslo"}')],
        },
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
        {"role": "tool", "tool_call_id": "b", "content": "snow"},
        {"role": "assistant", "content": "Once more.", "tool_calls": [tool_call("c", "{}")]},
        {"role": "tool", "tool_call_id": "c", "content": "hail"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And this?"},
                {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            ],
        },
    ]


def test_options_become_those_of_a_chat_completion(two: Service, upstream: FakeUpstream) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    body = send(
        two,
        upstream,
        tools=[TOOL],
        tool_choice={"type": "function", "name": "look_up"},
        parallel_tool_calls=False,
        text={"format": {"type": "json_schema", "name": "city", "schema": schema, "strict": True}, "verbosity": "low"},
        reasoning={"effort": "high", "summary": "auto"},
        max_output_tokens=99,
        temperature=0.5,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        top_logprobs=2,
        safety_identifier="ann",
        top_k=5,
        seed=7,
        stop=["END"],
        store=True,
        prompt_cache_key="a",
        metadata={"page": "help"},
    )
    function = {name: TOOL[name] for name in ("name", "description", "parameters", "strict")}
    del body["messages"]
    assert body == {
        "model": "say:from small",
        "stream": False,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "look_up"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": schema, "strict": True}},
        "verbosity": "low",
        "reasoning_effort": "high",
        "max_completion_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "logprobs": True,
        "top_logprobs": 2,
        "user": "ann",
        "top_k": 5,
        "seed": 7,
        "stop": ["END"],
    }


def test_json_mode_reaches_the_route(two: Service, upstream: FakeUpstream) -> None:
    body = send(two, upstream, text={"format": {"type": "json_object"}})
    assert body["response_format"] == {"type": "json_object"}


def test_a_plain_request_adds_nothing(two: Service, upstream: FakeUpstream) -> None:
    body = send(two, upstream, text={"format": {"type": "text"}}, temperature=None)
    assert body.keys() == {"model", "messages", "stream"}


def test_tools_that_are_not_allowed_are_left_out(two: Service, upstream: FakeUpstream) -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look_up"}]}
    body = send(two, upstream, tools=[TOOL, {**TOOL, "name": "delete_all"}], tool_choice=choice)
    assert [each["function"]["name"] for each in body["tools"]] == ["look_up"] and body["tool_choice"] == "required"


# what the caller gets


def test_the_headers_of_the_route_and_the_settings_are_returned(two: Service) -> None:
    with connect(two) as client:
        raw = client.responses.with_raw_response.create(
            model="router",
            input=QUESTION,
            tools=[TOOL],
            temperature=0.5,
            metadata={"a": "b"},
            instructions="Be brief.",
            reasoning={"effort": "low"},
            extra_body={"presence_penalty": 0.5},
        )
    response = Response.model_validate_json(raw.content, strict=True)
    assert response.output_text == "from small" and raw.headers["X-Route"] == "small"
    assert float(raw.headers["X-Propensity"]) == 1 and float(raw.headers["X-Cost"]) > 0
    extra = response.model_extra or {}
    assert extra["system_fingerprint"].startswith("small@") and extra["feedback_url"] == raw.headers["X-Feedback-Url"]
    assert response.tools[0].model_dump(exclude_none=True) == TOOL and response.temperature == 0.5
    assert extra["presence_penalty"] == 0.5 and response.reasoning is not None and response.reasoning.effort == "low"
    assert response.metadata == {"a": "b"} and response.instructions == "Be brief."
    assert response.usage is not None and response.usage.input_tokens_details.cached_tokens == 1


def test_thumbs_on_responses_move_questions_to_the_other_route(two: Service) -> None:
    body = {"model": "router", "input": QUESTION}
    offset = max(rate(two, two.http.post("/v1/responses", json=body).json(), 0.0) for _ in range(3))
    wait_learned(two, offset)
    assert two.http.post("/v1/responses", json=body).headers["X-Route"] == "large"


def test_the_events_of_a_text_come_in_order(two: Service) -> None:
    events = read_events(two)
    assert [event["type"].removeprefix("response.") for event in events] == [
        *(
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
        ),
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert events[0]["response"]["output"] == [] and events[0]["response"]["status"] == "in_progress"
    assert events[2]["item"]["content"] == [] and events[-2]["item"]["status"] == "completed"
    final = events[-1]["response"]
    assert final["id"].startswith("resp_") and final["usage"]["input_tokens"] == 5 and final["feedback_url"]
    assert {event["item_id"] for event in events if "item_id" in event} == {final["output"][0]["id"]}


EXPECTED: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "reasoning": ("completed", [("reasoning", "Let me think."), ("message", "Forty-two.")]),
    "other_reasoning": ("completed", [("reasoning", "Hm."), ("message", "Yes.")]),
    "thinking_parts": ("completed", [("reasoning", "Hm."), ("message", "Yes.")]),
    "parallel": (
        "completed",
        [
            ("message", "Two calls."),
            ("function_call", "look_up", {"city": "Bern"}),
            ("function_call", "look_up", {"city": "Oslo"}),
        ],
    ),
    "same_index": (
        "completed",
        [("function_call", "look_up", {"city": "Bern"}), ("function_call", "look_up", {"city": "Oslo"})],
    ),
    "no_index": ("completed", [("function_call", "look_up", {}), ("function_call", "look_up", {})]),
    "refusal": ("completed", [("message", "I cannot do that.")]),
    "text_and_refusal": ("completed", [("message", "Well. ", "No.")]),
    "long": ("incomplete", [("message", "It is")]),
    "filtered": ("incomplete", [("message", "It is")]),
    "broken_off": ("failed", [("message", "It is")]),
    "empty": ("completed", [("message", "")]),
}
REASONS = {"long": "max_output_tokens", "filtered": "content_filter"}


@pytest.mark.parametrize("script", EXPECTED)
def test_whole_and_streamed_answers_have_the_same_items(start: Start, scripts: FakeUpstream, script: str) -> None:
    status, items = EXPECTED[script]
    service = start(models(scripts, {"one": script}))
    answer = service.http.post("/v1/responses", json={"model": "router", "input": QUESTION})
    Response.model_validate_json(answer.content, strict=True)
    events = read_events(service)
    for response in (answer.json(), events[-1]["response"]):
        assert (response["status"], response["model"]) == (status, "vendor-1")
        assert sketch(response["output"]) == items
        assert (response["incomplete_details"] or {}).get("reason") == REASONS.get(script)
        assert (response["error"] is not None) == (status == "failed")
        assert [item["status"] for item in response["output"]][-1] == (
            "completed" if status == "completed" else "incomplete"
        )
        assert response["usage"]["input_tokens_details"]["cached_tokens"] == 5
        assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 3
    assert events[-1]["type"] == f"response.{status}"
    calls = [item["call_id"] for item in answer.json()["output"] if item["type"] == "function_call"]
    assert len({*calls}) == len(calls) and all(calls)


@pytest.mark.parametrize("script", [name for name in EXPECTED if name != "broken_off"])
def test_the_deltas_of_each_item_are_its_text(start: Start, scripts: FakeUpstream, script: str) -> None:
    service = start(models(scripts, {"one": script}))
    events, texts = read_events(service), dict[tuple[str, int], str]()
    done = dict[tuple[str, int], str]()
    opened, closed = list[str](), list[str]()
    for event in events:
        place = (event.get("item_id", ""), event.get("content_index", 0))
        if event["type"].endswith(".delta"):
            texts[place] = texts.get(place, "") + event["delta"]
        elif "item_id" in event and "part" not in event:
            done[place] = str(event.get("text", event.get("refusal", event.get("arguments"))))
        elif event["type"] == "response.output_item.added":
            opened.append(event["item"]["id"])
        elif event["type"] == "response.output_item.done":
            closed.append(event["item"]["id"])
    assert texts == {place: text for place, text in done.items() if text} and len(done) > 0
    assert opened == closed == [item["id"] for item in events[-1]["response"]["output"]]


def test_the_probabilities_of_tokens_are_returned(start: Start, scripts: FakeUpstream) -> None:
    service = start(models(scripts, {"one": "probable"}))
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    answer = service.http.post("/v1/responses", json={"model": "router", "input": QUESTION, **fields})
    Response.model_validate_json(answer.content, strict=True)
    events = read_events(service, **fields)
    for response in (answer.json(), events[-1]["response"]):
        (token,) = response["output"][0]["content"][0]["logprobs"]
        assert token == TOKEN | {"bytes": []}


def test_the_client_accumulates_calls_of_tools(start: Start, scripts: FakeUpstream) -> None:
    with (
        connect(start(models(scripts, {"one": "parallel"}))) as client,
        client.responses.stream(model="router", input=QUESTION, tools=[TOOL]) as stream,
    ):
        seen = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.function_call_arguments.done" in seen
    calls = [item for item in final.output if item.type == "function_call"]
    assert [(each.call_id, each.arguments) for each in calls] == [
        ("call_a", '{"city": "Bern"}'),
        ("call_b", '{"city": "Oslo"}'),
    ]


def test_the_output_of_a_tool_goes_back_to_the_route(start: Start, upstream: FakeUpstream) -> None:
    with connect(start(models(upstream, {"one": "tools"}))) as client:
        conversation: list[Any] = [{"role": "user", "content": QUESTION}]
        first = client.responses.create(model="router", input=conversation, tools=[TOOL])
        (asked,) = first.output
        assert asked.type == "function_call" and json.loads(asked.arguments) == {"city": "Zürich"}
        conversation += [*first.output, {"type": "function_call_output", "call_id": asked.call_id, "output": "rain"}]
        client.responses.create(model="router", input=conversation, tools=[TOOL])
    messages = upstream.last.body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"] == "call_1"


class City(BaseModel):
    city: str


def test_the_client_parses_a_structured_answer(start: Start, scripts: FakeUpstream) -> None:
    with connect(start(models(scripts, {"one": "json"}))) as client:
        assert client.responses.parse(model="router", input=QUESTION, text_format=City).output_parsed == City(
            city="Bern"
        )
        with client.responses.stream(model="router", input=QUESTION, text_format=City) as stream:
            assert stream.get_final_response().output_parsed == City(city="Bern")


# failures


@pytest.mark.parametrize(("route", "text"), [("cut", "The answer"), ("error_event:1", "The")])
def test_a_stream_that_is_cut_ends_with_a_failed_response(
    start: Start, upstream: FakeUpstream, route: str, text: str
) -> None:
    events = read_events(start(models(upstream, {"one": route})))
    failed = events[-1]["response"]
    assert events[-1]["type"] == "response.failed" and failed["status"] == "failed"
    assert failed["error"]["code"] == "server_error" and "the route 'one' ended too early" in failed["error"]["message"]
    assert sketch(failed["output"]) == [("message", text)] and failed["output"][0]["status"] == "incomplete"
    assert not [event for event in events if event["type"].endswith(".done")]


def test_no_route_answers(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"small": "broken", "large": "malformed"}, explore=0.0))
    with connect(service) as client, pytest.raises(openai.InternalServerError) as caught:
        client.responses.create(model="router", input=QUESTION)
    assert caught.value.status_code == 502 and "no route has answered" in str(caught.value)


def test_a_request_that_a_route_refuses_is_refused_in_its_words(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"one": "refuse"}))
    with connect(service) as client, pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="router", input=QUESTION, stream=True)
    assert "the last message was" in str(caught.value) and caught.value.type == "fake"


def test_a_caller_who_leaves_in_mid_stream_ends_the_request_to_the_route(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"one": "drip#responses"}))
    upstream.reset()
    body = {"model": "router", "input": QUESTION, "stream": True}
    with service.http.stream("POST", "/v1/responses", json=body) as response:
        upstream.wait_for_requests()
        upstream.release()
        next(response.iter_bytes())
    upstream.wait_until_gone("drip#responses")
    until(lambda: describe(service)["head"] == 1, what="the outcome")
