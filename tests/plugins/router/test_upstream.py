"""The client of a route, against a real server: answers, streams, failures, retries, limits and connections."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson
import pytest
import uvloop

from online.errors import BadInput
from online.plugins.router.breaker import FAILURES
from online.plugins.router.route_settings import RouteSettings
from online.plugins.router.upstream import (
    LONGEST_BACKOFF_S,
    MAX_ANSWER_BYTES,
    MAX_ERROR_BYTES,
    MAX_EVENT_BYTES,
    AnswerStream,
    EventDecoder,
    EventTooLarge,
    RouteClient,
    StreamEvent,
    TokenUsage,
    UpstreamFailure,
    WholeAnswer,
    build_body,
    compute_backoff,
    count_prompt_chars,
    create_http,
    parse_object,
    read_retry_after,
    read_usage,
)
from online.schemas.json_values import JSONObject
from tests.api.test_tls import create_certificate
from tests.plugins.router.fake_upstream import TEXT, TOOL_CALL, FakeUpstream, serve_fake
from tests.support import first_of

T = TypeVar("T")
KEY = "sk-secret-0123456789"
QUESTION = "My account number is 4711-0815, why was it closed?"
LOOP = {"create": asyncio.new_event_loop}
BODY: JSONObject = {"model": "auto", "messages": [{"role": "user", "content": QUESTION}]}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


@pytest.fixture
def fake(server: FakeUpstream) -> FakeUpstream:
    server.reset()
    return server


@pytest.fixture(params=first_of([uvloop.new_event_loop, asyncio.new_event_loop]), autouse=True)
def event_loop_of_sessions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run sessions in the event loop of the service, and with --all in that of Python as well."""
    monkeypatch.setitem(LOOP, "create", request.param)


def run(session: Coroutine[Any, Any, T]) -> T:
    """Run a session; a hang fails."""

    async def limited() -> T:
        async with asyncio.timeout(60):
            return await session

    with asyncio.Runner(loop_factory=LOOP["create"]) as runner:
        return runner.run(limited())


@asynccontextmanager
async def connect(fake: FakeUpstream | str, model: str, **settings: Any) -> AsyncIterator[RouteClient]:
    """A client of a route that asks for a model. Its pauses between attempts have no length."""
    url = fake if isinstance(fake, str) else fake.url
    route = RouteSettings(**{"name": "main", "url": url, "model": model, "key_env": "MAIN_KEY", **settings})
    async with create_http() as http:
        yield RouteClient(route, http, time.monotonic, lambda: 0.0, KEY)


def complete(fake: FakeUpstream | str, model: str, body: JSONObject = BODY, **settings: Any) -> WholeAnswer:
    async def session() -> WholeAnswer:
        async with connect(fake, model, **settings) as client:
            try:
                return await client.complete(body)
            finally:
                assert client.running == 0

    return run(session())


def stream(
    fake: FakeUpstream | str, model: str, body: JSONObject = BODY, **settings: Any
) -> tuple[list[StreamEvent], AnswerStream]:
    """Return the events of a stream that is read to its end, and the stream."""

    async def session() -> tuple[list[StreamEvent], AnswerStream]:
        async with connect(fake, model, **settings) as client:
            try:
                answer = await client.open_stream(body)
                return [event async for event in answer], answer
            finally:
                assert client.running == 0

    return run(session())


def fail(call: Callable[..., object], *arguments: Any, **settings: Any) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        call(*arguments, **settings)
    return caught.value


async def join_in_thread(wait: Callable[..., T], *arguments: Any) -> T:
    """Wait for a fact of the server, while the event loop goes on."""
    return await asyncio.to_thread(wait, *arguments)


def join_content(events: list[StreamEvent]) -> str:
    choices = [choice for event in events if event.content for choice in event.content["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


both = pytest.mark.parametrize("call", [complete, stream])


# whole answers


def test_a_whole_answer_has_the_content_the_usage_and_the_times(fake: FakeUpstream) -> None:
    answer = complete(fake, "ok")
    assert answer.content["choices"][0]["message"] == {"role": "assistant", "content": TEXT}
    assert answer.content["vendor_field"] == {"kept": True}
    assert answer.usage == TokenUsage(9, 4, 1, False)
    assert 0 < answer.first_s <= answer.seconds
    assert answer.attempts == 1


def test_the_request_is_that_of_the_caller_for_the_model_of_the_route(fake: FakeUpstream) -> None:
    body = {
        **BODY,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "response_format": {"type": "json_object"},
        "unknown": [1, None, {"a": 0.1}],
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}
        ],
    }
    complete(fake, "ok", body)
    assert fake.last.body == {**body, "model": "ok", "stream": False}
    assert fake.last.path == "/v1/chat/completions"
    assert fake.last.headers["authorization"] == f"Bearer {KEY}"
    assert fake.last.headers["content-type"] == "application/json"


def test_the_route_adds_its_system_prompt_its_parameters_and_its_headers(fake: FakeUpstream) -> None:
    body = {**BODY, "temperature": 1, "top_p": 0.5}
    complete(
        fake, "ok", body, system="Be brief.", parameters={"temperature": 0.2}, headers={"X-Team": "ü", "Accept": "*/*"}
    )
    assert fake.last.body["messages"] == [{"role": "system", "content": "Be brief."}, *BODY["messages"]]
    assert (fake.last.body["temperature"], fake.last.body["top_p"]) == (0.2, 0.5)
    assert fake.last.headers["x-team"].encode("latin-1").decode() == "ü"
    assert fake.last.headers["accept"] == "*/*"
    assert BODY["messages"] == [{"role": "user", "content": QUESTION}], "the caller's body is not changed"


def test_a_tool_call_passes_unchanged(fake: FakeUpstream) -> None:
    choice = complete(fake, "tools").content["choices"][0]
    assert choice["message"]["tool_calls"] == [TOOL_CALL]
    assert choice["finish_reason"] == "tool_calls"


def test_usage_is_estimated_where_the_endpoint_gives_none(fake: FakeUpstream) -> None:
    usage = complete(fake, "no_usage").usage
    assert usage == TokenUsage(round(len(QUESTION) / 4), round(len(TEXT) / 4), 0, True)


def test_halves_of_surrogate_pairs_are_sent(fake: FakeUpstream) -> None:
    body: JSONObject = {"messages": [{"role": "user", "content": "\ud83d"}]}
    complete(fake, "ok", body)
    assert fake.last.body["messages"] == body["messages"]


def test_an_answer_that_is_too_large_is_refused(fake: FakeUpstream) -> None:
    failure = fail(complete, fake, f"large:{MAX_ANSWER_BYTES}")
    assert failure.kind == "malformed"
    assert str(MAX_ANSWER_BYTES) in failure.message
    assert len(fake.requests) == 1


def test_a_large_answer_arrives(fake: FakeUpstream) -> None:
    answer = complete(fake, "large:10000000")
    assert len(answer.content["choices"][0]["message"]["content"]) == 10_000_000


# streams


def test_a_stream_gives_each_event_with_its_exact_bytes(fake: FakeUpstream) -> None:
    events, answer = stream(fake, "ok")
    assert join_content(events) == TEXT
    assert events[-1] == StreamEvent(b"[DONE]", None)
    assert all(json.loads(event.data) == event.content for event in events[:-1])
    assert events[0].content is not None
    assert events[0].content["vendor_field"] == {"kept": True}
    assert answer.usage == TokenUsage(9, 4, 1, False)
    assert answer.is_complete
    assert answer.finish_reason == "stop"
    assert 0 < answer.first_s <= answer.seconds
    assert answer.attempts == 1


def test_a_stream_asks_for_its_usage(fake: FakeUpstream) -> None:
    stream(fake, "ok", {**BODY, "stream": True, "stream_options": {"include_usage": False, "other": 1}})
    assert fake.last.body["stream"] is True
    assert fake.last.body["stream_options"] == {"include_usage": True, "other": 1}


def test_a_route_decides_about_stream_options_itself() -> None:
    route = RouteSettings(name="a", url="http://a/v1", model="m", parameters={"stream_options": None})
    assert "stream_options" not in build_body(route, {**BODY, "stream_options": {"include_usage": True}}, True)
    assert "stream_options" not in build_body(
        route.model_copy(update={"parameters": {}}), {"stream_options": {}}, False
    )


def test_a_stream_of_tool_calls_passes_unchanged(fake: FakeUpstream) -> None:
    events, answer = stream(fake, "tools")
    deltas = [event.content["choices"][0]["delta"] for event in events if event.content and event.content["choices"]]
    calls = [each for delta in deltas for each in delta.get("tool_calls", [])]
    assert calls[0]["function"]["name"] == "look_up"
    assert "".join(each["function"]["arguments"] for each in calls) == '{"city": "Zürich"}'
    assert answer.finish_reason == "tool_calls"


def test_comments_carriage_returns_and_a_missing_blank_line_are_understood(fake: FakeUpstream) -> None:
    events, answer = stream(fake, "odd")
    assert join_content(events) == TEXT
    assert b"\n" in events[0].data, "lines of a payload are joined"
    assert events[-1] == StreamEvent(b"[DONE]", None)
    assert answer.is_complete


def test_the_usage_of_a_stream_is_estimated_where_the_endpoint_gives_none(fake: FakeUpstream) -> None:
    _, answer = stream(fake, "no_usage")
    assert answer.usage == TokenUsage(round(len(QUESTION) / 4), round(len(TEXT) / 4), 0, True)


def test_each_event_is_given_as_soon_as_it_arrives(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with connect(fake, "drip") as client:
            answer = await client.open_stream(BODY)
            assert join_content([await anext(answer)]) == ""
            for word in ("The", " answer", " is"):
                fake.release()  # the next word is not sent before
                assert join_content([await anext(answer)]) == word
            assert answer.first_s < answer.seconds
            fake.release()
            assert join_content([event async for event in answer]) == " 42."

    run(session())


def test_a_connection_that_ends_too_early_cuts_the_stream(fake: FakeUpstream) -> None:
    async def session() -> tuple[list[StreamEvent], UpstreamFailure, AnswerStream]:
        events = list[StreamEvent]()
        async with connect(fake, "cut") as client:
            answer = await client.open_stream(BODY)
            with pytest.raises(UpstreamFailure) as caught:
                async for event in answer:
                    events.append(event)
            assert [event async for event in answer] == [], "it has ended"
            assert client.running == 0
            return events, caught.value, answer

    events, failure, answer = run(session())
    assert join_content(events) == "The answer"
    assert failure.kind == "cut"
    assert not answer.is_complete
    assert answer.usage == TokenUsage(round(len(QUESTION) / 4), round(len("The answer") / 4), 0, True)


def test_an_error_in_the_middle_of_a_stream_cuts_it(fake: FakeUpstream) -> None:
    failure = fail(stream, fake, "error_event:2")
    assert failure.kind == "cut"
    assert failure.message == "route 'main': the endpoint reports an error: the model is overloaded"


def test_an_error_before_the_answer_begins_is_a_refusal_that_may_pass(fake: FakeUpstream) -> None:
    failure = fail(stream, fake, "error_event", retries=2)
    assert (failure.kind, failure.is_callers) == ("refused", False)
    assert "the model is overloaded" in failure.message
    assert len(fake.requests) == 3


def test_a_status_in_an_error_event_counts_as_that_of_the_response(fake: FakeUpstream) -> None:
    failure = fail(stream, fake, "error_event:0:400")
    assert (failure.kind, failure.status, failure.is_callers) == ("refused", 400, True)
    assert len(fake.requests) == 1
    assert fail(stream, fake, "error_event:0:429").kind == "limited"


def test_an_event_that_is_too_large_is_refused(fake: FakeUpstream) -> None:
    failure = fail(stream, fake, f"large:{MAX_EVENT_BYTES}")
    assert failure.kind == "malformed"
    assert str(MAX_EVENT_BYTES) in failure.message


def test_a_stream_that_is_complete_but_not_ended_ends_soon(fake: FakeUpstream) -> None:
    events, answer = stream(fake, "no_end")
    assert events[-1].data == b"[DONE]"
    assert answer.is_complete
    fake.wait_until_gone("no_end")


# failures and retries


@both
def test_an_attempt_that_fails_is_repeated(fake: FakeUpstream, call: Callable[..., Any]) -> None:
    answer = call(fake, "flaky:2", retries=2)
    assert (answer if isinstance(answer, WholeAnswer) else answer[1]).attempts == 3
    assert len(fake.requests) == 3


@both
def test_after_the_last_retry_the_failure_is_raised(fake: FakeUpstream, call: Callable[..., Any]) -> None:
    failure = fail(call, fake, "broken", retries=2)
    assert (failure.kind, failure.status, failure.is_callers) == ("dead", 500, False)
    assert "status 500" in failure.message
    assert len(fake.requests) == 3


@both
def test_a_refused_request_is_the_callers_fault_and_is_not_repeated(
    fake: FakeUpstream, call: Callable[..., Any]
) -> None:
    failure = fail(call, fake, "refuse", retries=3)
    assert (failure.kind, failure.status, failure.is_callers) == ("refused", 400, True)
    assert json.loads(failure.body)["error"]["type"] == "fake"
    assert len(fake.requests) == 1


@both
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_url_is_the_operators_fault(fake: FakeUpstream, call: Callable[..., Any], status: int) -> None:
    failure = fail(call, fake, f"status:{status}", retries=3)
    assert (failure.kind, failure.status, failure.is_callers, failure.body) == ("refused", status, False, b"")
    assert ("check url" if status == 404 else "check key_env: the environment variable MAIN_KEY") in failure.message
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind", "attempts"),
    [
        (302, "refused", 1),
        (408, "slow", 2),
        (413, "refused", 1),
        (422, "refused", 1),
        (429, "limited", 2),
        (529, "limited", 2),
    ],
)
def test_the_status_decides_whether_an_attempt_is_repeated(
    fake: FakeUpstream, status: int, kind: str, attempts: int
) -> None:
    failure = fail(complete, fake, f"status:{status}")
    assert (failure.kind, failure.status, len(fake.requests)) == (kind, status, attempts)
    assert failure.is_callers == (status in (413, 422))


@both
def test_a_long_rate_limit_is_not_waited_for(fake: FakeUpstream, call: Callable[..., Any]) -> None:
    failure = fail(call, fake, "limited", retries=3)
    assert (failure.kind, failure.status, failure.retry_after_s) == ("limited", 429, 7.0)
    assert len(fake.requests) == 1


@both
def test_a_short_rate_limit_is_waited_for(fake: FakeUpstream, call: Callable[..., Any]) -> None:
    started = time.monotonic()
    call(fake, "limited:0.2:1")
    assert time.monotonic() - started >= 0.2
    assert len(fake.requests) == 2


@both
def test_a_page_instead_of_an_answer_is_malformed(fake: FakeUpstream, call: Callable[..., Any]) -> None:
    failure = fail(call, fake, "malformed")
    assert failure.kind == "malformed"
    assert "check url" in failure.message
    assert len(fake.requests) == 2


def test_a_whole_answer_that_ends_too_early_is_cut(fake: FakeUpstream) -> None:
    assert fail(complete, fake, "cut").kind == "cut"
    assert len(fake.requests) == 2


def test_a_stream_that_ends_before_its_first_event_is_repeated(fake: FakeUpstream) -> None:
    assert fail(stream, fake, "cut:0", retries=2).kind == "cut"
    assert len(fake.requests) == 3


@both
def test_an_endpoint_that_does_not_run_is_dead(call: Callable[..., Any]) -> None:
    failure = fail(call, "http://127.0.0.1:9/v1", "ok")
    assert failure.kind == "dead"
    assert "cannot connect to 127.0.0.1" in failure.message


@both
def test_an_answer_that_does_not_begin_is_slow(fake: FakeUpstream, call: Callable[..., Any]) -> None:
    failure = fail(call, fake, "slow#first", first_token_timeout_s=0.5, timeout_s=1.0, retries=3)
    assert failure.kind == "slow"
    assert len(fake.requests) == 1, "another attempt would take as long"
    fake.wait_until_gone("slow#first")


def test_a_stream_that_pauses_for_too_long_is_slow(fake: FakeUpstream) -> None:
    failure = fail(stream, fake, "drip#pause", first_token_timeout_s=0.5)
    assert failure.kind == "slow"
    assert "next event" in failure.message
    fake.wait_until_gone("drip#pause")


@both
def test_the_whole_time_is_limited(fake: FakeUpstream, call: Callable[..., Any]) -> None:
    assert fail(call, fake, "drip" if call is stream else "slow", timeout_s=0.2).kind == "slow"


def test_a_pause_that_would_exceed_the_whole_time_is_not_made(fake: FakeUpstream) -> None:
    assert fail(complete, fake, "limited:3", timeout_s=2.0).kind == "limited"
    assert len(fake.requests) == 1


def test_the_pauses_double_at_random_up_to_a_limit() -> None:
    assert [compute_backoff(number, 1.0) for number in (1, 2, 3, 9)] == [0.25, 0.5, 1.0, LONGEST_BACKOFF_S]
    assert compute_backoff(2, 0.5) == 0.25


@both
@pytest.mark.parametrize(
    "model", ["refuse", "broken", "malformed", "status:401", "limited", "cut", "error_event", "ok"]
)
def test_no_message_has_the_key_or_the_question(fake: FakeUpstream, call: Callable[..., Any], model: str) -> None:
    settings = {"retries": 0, "system": "You guard the secrets of Zanzibar."}
    try:
        call(fake, model, **settings)
    except UpstreamFailure as failure:
        assert "'main'" in failure.message
        for secret in (KEY, "4711", "Zanzibar"):
            assert secret not in str(failure) + repr(failure)


def test_a_key_that_cannot_be_a_header_is_refused_without_naming_it(fake: FakeUpstream) -> None:
    async def session() -> UpstreamFailure:
        async with create_http() as http:
            route = RouteSettings(name="main", url=fake.url, model="ok")
            client = RouteClient(route, http, time.monotonic, lambda: 0.0, f"{KEY}\nX-Other: 1")
            with pytest.raises(UpstreamFailure) as caught:
                await client.complete(BODY)
            return caught.value

    failure = run(session())
    assert failure.kind == "refused"
    assert "key_env" in failure.message
    assert KEY not in failure.message
    assert fake.requests == []


def test_a_url_that_cannot_be_parsed_is_refused() -> None:
    async def session() -> None:
        async with connect("http://[::1/v1", "ok"):
            pass

    with pytest.raises(BadInput, match="correct url"):
        run(session())


# limits, breaker and cancellation


def test_more_requests_than_the_route_allows_are_refused_at_once(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with connect(fake, "drip", max_parallel=2) as client:
            streams = [await client.open_stream(BODY) for _ in range(2)]
            for call in (client.complete, client.open_stream):
                with pytest.raises(UpstreamFailure, match="max_parallel") as caught:
                    await call(BODY)
                assert caught.value.kind == "busy"
            assert str(client.breaker.state) == "closed"
            for each in streams:
                await each.aclose()
                await each.aclose()
            assert client.running == 0
            async with await client.open_stream(BODY):
                assert client.running == 1
            assert client.running == 0

    run(session())
    assert len(fake.requests) == 3


@both
def test_an_open_breaker_refuses_requests_at_once(fake: FakeUpstream, call: Callable[..., Any]) -> None:
    async def session() -> None:
        async with connect(fake, "broken", retries=0) as client:
            ask: Callable[[JSONObject], Awaitable[object]] = client.complete if call is complete else client.open_stream
            for _ in range(FAILURES):
                with pytest.raises(UpstreamFailure):
                    await ask(BODY)
            assert str(client.breaker.state) == "open"
            with pytest.raises(UpstreamFailure) as caught:
                await ask(BODY)
            assert caught.value.kind == "dead"
            assert 5 < (caught.value.retry_after_s or 0) <= 10

    run(session())
    assert len(fake.requests) == FAILURES


def test_each_attempt_is_reported_to_the_breaker_once(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with connect(fake, "broken", retries=FAILURES - 2) as client:
            with pytest.raises(UpstreamFailure):
                await client.complete(BODY)
            assert str(client.breaker.state) == "closed"
            with pytest.raises(UpstreamFailure, match="status 500"):
                await client.complete(BODY)
            assert str(client.breaker.state) == "open"

    run(session())
    assert len(fake.requests) == FAILURES


@pytest.mark.parametrize(
    ("model", "state"), [("cut", "open"), ("refuse", "closed"), ("ok", "closed"), ("status:401", "open")]
)
def test_outcomes_of_streams_reach_the_breaker(fake: FakeUpstream, model: str, state: str) -> None:
    async def session() -> None:
        async with connect(fake, model, retries=0) as client:
            for _ in range(FAILURES):
                with suppress(UpstreamFailure):
                    async for _ in await client.open_stream(BODY):
                        pass
            assert str(client.breaker.state) == state
            assert client.running == 0

    run(session())


def test_a_rate_limit_opens_the_breaker_for_as_long_as_it_says(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with connect(fake, "limited") as client:
            with pytest.raises(UpstreamFailure):
                await client.complete(BODY)
            assert 2 < client.breaker.wait_s <= 7

    run(session())


def test_the_first_event_of_a_trial_closes_the_breaker(fake: FakeUpstream) -> None:
    async def session() -> None:
        now = 0.0
        async with create_http() as http:
            route = RouteSettings(name="main", url=fake.url, model="drip#trial")
            client = RouteClient(route, http, lambda: now, lambda: 0.0, None)
            client.breaker.fail(10.0)
            now = 10.0
            async with await client.open_stream(BODY):
                assert str(client.breaker.state) == "closed"

    run(session())


@both
def test_a_cancelled_request_closes_its_connection_and_frees_the_trial(
    fake: FakeUpstream, call: Callable[..., Any]
) -> None:
    async def session() -> None:
        now = 0.0
        async with create_http() as http:
            route = RouteSettings(name="main", url=fake.url, model="slow#cancelled")
            client = RouteClient(route, http, lambda: now, lambda: 0.0, None)
            client.breaker.fail(10.0)
            now = 10.0
            request = client.complete(BODY) if call is complete else client.open_stream(BODY)
            task = asyncio.create_task(as_coroutine(request))
            await join_in_thread(fake.wait_for_requests)
            assert not client.breaker.admits(), "the trial is running"
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert client.running == 0
            assert client.breaker.admits(), "another trial may begin"
            await join_in_thread(fake.wait_until_gone, "slow#cancelled")

    run(session())


async def as_coroutine(request: Awaitable[T]) -> T:
    return await request


def test_a_cancelled_reader_closes_the_connection_of_its_stream(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with connect(fake, "drip#reader") as client:
            answer = await client.open_stream(BODY)
            await anext(answer)
            task = asyncio.create_task(as_coroutine(anext(answer)))
            await asyncio.wait([task], timeout=0)
            task.cancel()
            await asyncio.wait([task])
            assert client.running == 0
            await join_in_thread(fake.wait_until_gone, "drip#reader")

    run(session())


def test_a_stream_that_is_closed_ends_its_connection_and_still_has_a_usage(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with connect(fake, "drip#closed") as client:
            answer = await client.open_stream(BODY)
            await anext(answer)
            fake.release()
            await anext(answer)
            await answer.aclose()
            assert answer.usage == TokenUsage(round(len(QUESTION) / 4), 1, 0, True)
            assert not answer.is_complete
            assert client.running == 0
            seconds = answer.seconds
            await join_in_thread(fake.wait_until_gone, "drip#closed")
            assert answer.seconds == seconds
            assert [event async for event in answer] == []

    run(session())


def test_another_task_can_close_a_stream_while_it_is_read(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with connect(fake, "drip#other") as client:
            answer = await client.open_stream(BODY)
            await anext(answer)
            task = asyncio.create_task(as_coroutine(anext(answer, None)))
            await asyncio.wait([task], timeout=0)
            await answer.aclose()
            assert await task is None
            assert client.running == 0

    run(session())


# connections


def test_a_connection_is_used_again_after_each_kind_of_answer(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with create_http() as http:
            for model in ("ok", "refuse", "odd", "ok", "flaky:1", "tools"):
                route = RouteSettings(name="main", url=fake.url, model=model)
                client = RouteClient(route, http, time.monotonic, lambda: 0.0, None)
                with suppress(UpstreamFailure):
                    await client.complete(BODY)
                with suppress(UpstreamFailure):
                    async for _ in await client.open_stream(BODY):
                        pass

    run(session())
    assert len({request.connection for request in fake.requests}) == 1


def test_many_streams_at_once_have_their_own_connections(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with connect(fake, "say:Well, well.", max_parallel=300) as client:

            async def read() -> str:
                return join_content([event async for event in await client.open_stream(BODY)])

            texts = await asyncio.gather(*(read() for _ in range(200)))
            assert set(texts) == {"Well, well."}
            assert client.running == 0

    run(session())
    assert len(fake.requests) == 200


@asynccontextmanager
async def serve_bytes(*responses: list[bytes]) -> AsyncIterator[str]:
    """The base URL of a server that sends one of these responses per connection, part by part, and then ends it."""
    left = list(responses)
    writers = list[asyncio.StreamWriter]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
            for part in left.pop(0):
                writer.write(part)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for writer in writers:
            writer.close()


CHUNK = b'{"choices":[{"index":0,"delta":{"content":"h\xc3\xa9"},"finish_reason":null}]}'
LAST = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
ANSWER = b'{"choices":[{"index":0,"message":{"content":"hi"}}]}'


BODY_BYTES = orjson.dumps(build_body(RouteSettings(name="main", url="http://a", model="m"), BODY, False))


def respond(*responses: list[bytes], call: Callable[..., Any] = complete, **settings: Any) -> Any:
    """Return the answer to a request whose endpoint sends these bytes."""

    async def session() -> Any:
        async with serve_bytes(*responses) as url, connect(url, "m", **settings) as client:
            if call is complete:
                return await client.complete(BODY)
            answer = await client.open_stream(BODY)
            return [event async for event in answer], answer

    return run(session())


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    answer = respond([b"HTTP/1.1 200 OK\r\n\r\n", ANSWER])
    assert answer.content == json.loads(ANSWER)
    events, _ = respond([b"HTTP/1.0 200 OK\r\n\r\ndata:", CHUNK, b"\n\ndata: ", LAST], call=stream)
    assert [event.data for event in events] == [CHUNK, LAST]


def test_an_interim_response_is_skipped() -> None:
    length = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)
    assert respond([b"HTTP/1.1 100 Continue\r\n\r\n", length, ANSWER]).content == json.loads(ANSWER)


def test_a_compressed_answer_is_understood() -> None:
    data = gzip.compress(ANSWER)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(data)
    assert respond([head, data]).content == json.loads(ANSWER)


def test_a_stream_without_done_is_complete_with_its_finish_reason() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
    events, answer = respond([head, b"data: ", CHUNK, b"\n\ndata: ", LAST, b"\n\ndata: {"], call=stream)
    assert [event.data for event in events] == [CHUNK, LAST]
    assert answer.is_complete


def test_an_empty_first_event_does_not_begin_the_answer() -> None:
    first = b'data: {"choices":[],"prompt_filter_results":[]}\n\n'
    failing = [b"HTTP/1.1 200 OK\r\n\r\n", first]
    events, answer = respond(failing, [*failing, b"data: ", CHUNK, b"\n\ndata: [DONE]\n\n"], call=stream)
    assert answer.attempts == 2
    assert [event.data for event in events] == [first[6:-2], CHUNK, b"[DONE]"]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_response_may_be_cut_anywhere(size: int) -> None:
    payload = b"data: " + CHUNK + b"\n\ndata: " + LAST + b"\n\ndata: [DONE]\n\n"
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(payload), payload)
    events, _ = respond([data[place : place + size] for place in range(0, len(data), size)], call=stream)
    assert [event.data for event in events] == [CHUNK, LAST, b"[DONE]"]


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        b"",
    ],
)
def test_an_endpoint_that_does_not_speak_http_is_dead(data: bytes) -> None:
    assert fail(respond, [data], retries=0).kind == "dead"


def test_a_second_response_that_nobody_asked_for_is_ignored() -> None:
    one = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
    other = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    assert respond([one + other]).content == json.loads(ANSWER)


def test_a_large_error_is_read_in_part_only() -> None:
    head = b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n" % (2 * MAX_ERROR_BYTES)
    failure = fail(respond, [head, b"x" * 2 * MAX_ERROR_BYTES])
    assert failure.is_callers
    assert len(failure.body) == MAX_ERROR_BYTES


def test_a_message_of_the_endpoint_that_has_the_key_is_not_repeated() -> None:
    words = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    failure = fail(respond, [b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n" % len(words), words])
    assert failure.status == 401
    assert "API key provided" not in failure.message


def test_a_connection_that_the_endpoint_closes_meanwhile_costs_one_attempt() -> None:
    heads = list[bytes]()

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the first request of each connection, and end it at the second one."""
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER))
        with suppress(asyncio.IncompleteReadError):
            await reader.readexactly(len(BODY_BYTES))
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(len(BODY_BYTES))
        writer.close()

    async def session() -> None:
        server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with connect(url, "m", retries=1) as client:
            answers = [await client.complete(BODY) for _ in range(2)]
            assert [answer.attempts for answer in answers] == [1, 2]
            assert len(heads) == 3
        server.close()

    run(session())


def test_an_endpoint_behind_a_proxy_is_reached_through_it(fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", fake.url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    url = "http://model.invalid/v1"
    assert complete(url, "ok").content["choices"]
    assert join_content(stream(url, "ok")[0]) == TEXT
    assert fail(stream, url, "cut#proxy").kind == "cut"
    assert fail(complete, url, "slow#proxy", timeout_s=0.5).kind == "slow"
    assert {request.headers["host"] for request in fake.requests} == {"model.invalid"}
    fake.wait_until_gone("slow#proxy")
    assert complete(fake, "ok").content["choices"]
    assert fake.last.headers["host"] != "model.invalid"


def test_the_certificate_of_an_endpoint_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = create_certificate(tmp_path, "model")
    with serve_fake(certificate) as secure:
        failure = fail(complete, secure, "ok", retries=0)
        assert failure.kind == "dead"
        assert secure.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert complete(secure, "ok").content["choices"]
        assert join_content(stream(secure, "ok")[0]) == TEXT
        assert fail(stream, secure, "cut").kind == "cut"
        assert len(complete(secure, "large:3000000").content["choices"][0]["message"]["content"]) == 3_000_000


def test_the_client_suits_any_use_of_httpx(fake: FakeUpstream) -> None:
    async def session() -> None:
        async with create_http() as http:
            response = await http.post(f"{fake.url}/chat/completions", json={"model": "ok"})
            assert response.json()["choices"]
            with pytest.raises(httpx.UnsupportedProtocol):
                await http.get("ftp://127.0.0.1/")

    run(session())


# the decoder


EVENTS = (
    b'\xef\xbb\xbf: a comment\ndata: {"a": "\xc3\xa4\xf0\x9f\x98\x80"}\n\n'
    b"event: x\r\nid: 1\r\ndata: one\r\ndata:two\r\ndata:  three\r\n\r\n"
    b":\n\ndata\n\ndata: \r\rdata:four\r\r\nretry: 5\n\ndata: \xc3\xa9\r\ndatafive: no\n\n\n\ndata: [DONE]"
)
PAYLOADS = ['{"a": "ä😀"}', "one\ntwo\n three", "four", "é", "[DONE]"]


def decode(*parts: bytes) -> list[str]:
    decoder = EventDecoder()
    payloads = [payload for part in parts for payload in decoder.feed(part)]
    return [payload.decode() for payload in (*payloads, *decoder.finish())]


def test_the_events_are_the_same_wherever_the_bytes_are_cut() -> None:
    assert decode(EVENTS) == PAYLOADS
    assert decode(*(EVENTS[place : place + 1] for place in range(len(EVENTS)))) == PAYLOADS
    for first in range(len(EVENTS)):
        assert decode(EVENTS[:first], EVENTS[first:]) == PAYLOADS, first
        for second in range(first, len(EVENTS), 3):
            assert decode(EVENTS[:first], EVENTS[first:second], b"", EVENTS[second:]) == PAYLOADS, (first, second)


@pytest.mark.parametrize(
    ("line", "blank"),
    [(b"data: x\n", b"\n"), (b"data: x\r\n", b"\r\n"), (b"data: x\r", b"\r"), (b"data: x\r\n", b"\r")],
)
def test_an_event_is_given_with_its_blank_line(line: bytes, blank: bytes) -> None:
    decoder = EventDecoder()
    assert decoder.feed(line) == []
    assert decoder.feed(blank) == [b"x"]


def test_an_endless_event_is_refused() -> None:
    part = b"x" * 2**16
    for beginning, parts in ((b"data: ", part), (b"", b"data: " + part + b"\n"), (b": ", part)):
        decoder = EventDecoder()
        decoder.feed(beginning)
        with pytest.raises(EventTooLarge):
            for _ in range(MAX_EVENT_BYTES // len(part) + 2):
                decoder.feed(parts)


def test_a_large_event_in_small_parts_takes_linear_time() -> None:
    decoder = EventDecoder()
    started = time.process_time()
    for _ in range(MAX_EVENT_BYTES // 16 - 10):
        decoder.feed(b"data: 6789abcdef")
    assert time.process_time() - started < 5


# usage, JSON and headers


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, (10, 5, 0, False)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
            (10, 5, 4, False),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None}, (10, 5, 0, False)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6}, (10, 5, 6, False)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99}},
            (10, 5, 10, False),
        ),
        ({"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 2}}, (10, 5, 2, False)),
        ({"prompt_tokens": 10.0, "completion_tokens": 5, "total_tokens": 40}, (10, 30, 0, False)),
        ({"prompt_tokens": 10, "completion_tokens": None}, (10, 3, 0, True)),
        ({"prompt_tokens": None, "completion_tokens": 5}, (7, 5, 0, True)),
        ({"prompt_tokens": "10", "completion_tokens": True}, (7, 3, 0, True)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (7, 3, 0, True)),
        ({"prompt_tokens": -1, "completion_tokens": float("inf")}, (7, 3, 0, True)),
        (None, (7, 3, 0, True)),
    ],
)
def test_usage_is_read_in_the_shapes_of_several_vendors(usage: JSONObject | None, expected: tuple[int, ...]) -> None:
    assert read_usage(usage, lambda: 7, 12) == expected


def test_an_estimate_has_at_least_one_token() -> None:
    assert read_usage(None, lambda: 7, 0).tokens_out == 1
    assert read_usage({"prompt_tokens": 3, "completion_tokens": 0}, lambda: 7, 0) == (3, 0, 0, False)


def test_images_do_not_count_as_text() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000}}
    parts = [{"type": "text", "text": "What is it?"}, image]
    assert (
        count_prompt_chars({"messages": [{"role": "user", "content": parts}, {"role": "x", "content": "abc"}, 5]}) == 14
    )


@pytest.mark.parametrize("usage_place", ["usage", "x_groq", "choices"])
def test_usage_is_found_where_vendors_put_it(usage_place: str) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 12}
    choice: JSONObject = {"index": 0, "message": {"content": "hi"}}
    content: JSONObject = {"choices": [choice]}
    {"usage": content, "x_groq": content.setdefault("x_groq", {}), "choices": choice}[usage_place]["usage"] = usage
    data = json.dumps(content).encode()
    answer = respond([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data), data])
    assert answer.usage == TokenUsage(11, 12, 0, False)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Fri, 31 Jan 2025 12:00:30 GMT", "date": "Fri, 31 Jan 2025 12:00:00 GMT"}, 30.0),
        ({"retry-after": "Fri, 31 Jan 2025 12:00:30 GMT"}, None),
    ],
)
def test_a_retry_after_is_read_in_each_form(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers) == seconds


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_not_a_json_object_is_none(data: bytes) -> None:
    assert parse_object(data) is None


def test_half_of_a_surrogate_pair_is_parsed() -> None:
    assert parse_object(rb'{"a": "\ud83d"}') == {"a": "\ud83d"}
