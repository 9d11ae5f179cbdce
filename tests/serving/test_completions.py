"""Chat in OpenAI's shape, by OpenAI's own client against a real service."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion

from online import outside
from online.settings import Settings
from online.workspace import Workspace
from tests.conftest import Start
from tests.support import Service, until

OPEN, PRINT = "When do you open?", "Can I print here?"
NONSENSE = "qwertz zxcvb 12345 asdfgh"


@pytest.fixture
def chat(service: Service) -> Iterator[openai.OpenAI]:
    service.wait_learned("chat", 1)
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="anything", max_retries=0) as client:
        yield client


def says(text: str) -> Any:
    return [{"role": "user", "content": text}]


def post(service: Service, body: Any, **headers: str) -> httpx.Response:
    return service.http.post("/v1/chat/completions", json=body, headers=headers)


def test_the_last_message_of_the_user_is_answered(chat: openai.OpenAI) -> None:
    said = chat.chat.completions.create(
        model="chat",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": PRINT},
            {"role": "assistant", "content": "The printer is by the stairs."},
            {"role": "user", "content": [{"type": "text", "text": OPEN}]},
        ],
    )
    assert said.object == "chat.completion" and said.model == "chat" and said.created > 1_700_000_000
    choice = said.choices[0]
    assert (choice.message.role, choice.message.content) == ("assistant", "We open at nine.")
    assert choice.finish_reason == "stop" and choice.index == 0
    assert said.usage is not None and said.usage.total_tokens == 8


def test_a_stream_says_the_same_in_pieces_of_one_version(chat: openai.OpenAI) -> None:
    chunks = list(chat.chat.completions.create(model="chat", messages=says(OPEN), stream=True))
    assert chunks[0].choices[0].delta.role == "assistant" and len(chunks) > 3
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "We open at nine."
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert len({(chunk.id, chunk.system_fingerprint, chunk.created) for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_its_usage_where_that_is_asked_for(chat: openai.OpenAI) -> None:
    asked: Any = {"include_usage": True}
    chunks = list(chat.chat.completions.create(model="chat", messages=says(OPEN), stream=True, stream_options=asked))
    assert chunks[-1].choices == [] and chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 4
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-2].usage is None


def test_a_stream_is_server_sent_events_that_end_with_done(service: Service) -> None:
    response = post(service, {"model": "chat", "messages": says(OPEN), "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = response.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""] and all(event.startswith("data: {") for event in events[:-2])


async def streamed(url: str) -> str:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(model="chat", messages=says(PRINT), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


def test_the_asynchronous_client_reads_it_too(service: Service) -> None:
    service.wait_learned("chat", 1)
    assert asyncio.run(streamed(service.url)) == "The printer is by the stairs."


def test_the_completion_is_a_prediction_that_takes_feedback(service: Service, chat: openai.OpenAI) -> None:
    question = "Where do the night owls sit?"
    said = chat.chat.completions.create(model="chat", messages=says(question))
    assert said.id.startswith("chatcmpl-")
    with service.client("chat") as bot:
        receipt = bot.teach(said.id, "Night owls sit on the balcony.")
        service.wait_learned("chat", receipt["offset"])
        taught = chat.chat.completions.create(model="chat", messages=says(question))
        assert taught.choices[0].message.content == "Night owls sit on the balcony."
        assert int(taught.system_fingerprint or "") > int(said.system_fingerprint or "")
        service.wait_learned("chat", bot.retract(receipt["id"])["offset"])


def test_the_version_is_the_one_in_the_headers(service: Service) -> None:
    response = post(service, {"model": "chat", "messages": says(OPEN)})
    assert response.json()["system_fingerprint"] == response.headers["X-Model-Version"]


def test_it_says_that_it_does_not_know(chat: openai.OpenAI) -> None:
    for stream in (False, True):
        raw: Any = chat.chat.completions.create(model="chat", messages=says(NONSENSE), stream=stream)
        text = "".join(c.choices[0].delta.content or "" for c in raw) if stream else raw.choices[0].message.content
        assert text == "I don't know yet."


def predictions(service: Service) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith('online_predictions_total{model="chat"'))


@pytest.mark.parametrize("stream", [False, True])
def test_a_task_is_answered_without_a_prediction(service: Service, stream: bool) -> None:
    before = predictions(service)
    prompt = f'### Task:\nGenerate a title.\nJSON format: {{ "title": "x" }}\n<chat_history>\nUSER: {OPEN}\n'
    response = post(service, {"model": "chat", "messages": says(prompt), "stream": stream})
    assert response.status_code == 200 and response.headers["X-Task"] == "title_generation"
    assert "open?" in response.text
    named = post(service, {"model": "chat", "messages": says(OPEN)}, **{"X-Task": "tags_generation"}).json()
    assert named["choices"][0]["message"]["content"] == '{"tags":["General"]}'
    told = post(service, {"model": "chat", "messages": says(OPEN), "metadata": {"task": "tags_generation"}}).json()
    assert told["choices"] == named["choices"]
    refused = service.http.post(
        "/v1/models/chat:feedback", json={"feedback": [{"prediction_id": named["id"], "reward": 1}]}
    )
    assert refused.status_code == 404
    assert predictions(service) == before


def test_metadata_of_another_kind_make_no_task_of_a_question(service: Service) -> None:
    service.wait_learned("chat", 1)
    body = {"model": "chat", "messages": says(PRINT), "metadata": {"task": "support", "ticket": "7"}}
    assert post(service, body).json()["choices"][0]["message"]["content"] == "The printer is by the stairs."


# who asks, and what their page calls the answer


def messages_of(service: Service, message_id: str) -> outside.MessageRow | None:
    store = Workspace(Settings(state=service.state)).store
    try:
        found: outside.MessageRow | None = store.read(lambda connection: outside.shown_in(connection, message_id))
        return found
    finally:
        store.close()


def test_what_the_page_calls_the_answer_is_kept_with_it(service: Service, chat: openai.OpenAI) -> None:
    message_id = str(uuid.uuid4())
    first, _ = (
        chat.chat.completions.create(model="chat", messages=says(OPEN), extra_headers={"X-Message-Id": message_id})
        for _ in range(2)
    )
    kept = messages_of(service, message_id)
    assert kept is not None and (kept.model, kept.prediction_id) == ("chat", first.id)
    assert kept.trace_id == outside.trace_of(message_id)


@pytest.mark.parametrize("told", ["", "{{MESSAGE_ID}}"])
def test_a_page_that_fills_nothing_in_names_no_message(service: Service, told: str) -> None:
    assert post(service, {"model": "chat", "messages": says(OPEN)}, **{"X-Message-Id": told}).status_code == 200
    assert messages_of(service, told) is None


@pytest.mark.parametrize(
    ("more", "headers"),
    [
        ({"user": "anna"}, {}),
        ({"user": {"id": "anna", "name": "Anna", "email": "anna@example.org"}}, {}),
        ({}, {"X-OpenWebUI-User-Id": "anna"}),
    ],
)
def test_an_erased_user_leaves_no_message_behind(service: Service, more: Any, headers: dict[str, str]) -> None:
    message_id = str(uuid.uuid4())
    body = {"model": "chat", "messages": says(OPEN), **more}
    assert post(service, body, **{"X-Message-Id": message_id, **headers}).status_code == 200
    assert messages_of(service, message_id) is not None
    assert service.client("chat").erase("anna")["predictions"] == 1
    assert messages_of(service, message_id) is None


def test_it_is_kept_on_postgres_too(start: Start, postgres_url: str) -> None:
    service = start(store=postgres_url)
    service.wait_learned("chat", 1)
    body = {"model": "chat", "messages": says(OPEN), "user": "anna"}
    assert post(service, body, **{"X-Message-Id": "m-1"}).status_code == 200
    assert service.client("chat").erase("anna")["predictions"] == 1


# what is refused

BAD: dict[str, tuple[Any, int, str, type[openai.APIStatusError]]] = {
    "an unknown model": ({"model": "gpt-4o"}, 404, "'gpt-4o' is no model here; these do: chat", openai.NotFoundError),
    "no ranker": ({"model": "vec"}, 404, "'vec' is a classifier, it does not chat", openai.NotFoundError),
    "no messages": ({"messages": []}, 400, "messages", openai.BadRequestError),
    "no user": ({"messages": [{"role": "system", "content": "hi"}]}, 400, "role 'user'", openai.BadRequestError),
    "an empty question": ({"messages": says("  ")}, 400, "role 'user'", openai.BadRequestError),
    "a long question": ({"messages": says("x" * 9_000)}, 413, "9000 characters", openai.APIStatusError),
    "two choices": ({"n": 2}, 400, "n: Input should be 1", openai.BadRequestError),
    "a user with a NUL": ({"user": "a\x00b"}, 400, "user", openai.BadRequestError),
    "a long message id": (
        {"extra_headers": {"X-Message-Id": "m" * 200}},
        400,
        "X-Message-Id has 200 characters",
        openai.BadRequestError,
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", BAD)
def test_an_error_has_the_shape_of_openai(chat: openai.OpenAI, case: str, stream: bool) -> None:
    more, status, words, kind = BAD[case]
    with pytest.raises(kind) as caught:
        chat.chat.completions.create(**{"model": "chat", "messages": says(OPEN), "stream": stream, **more})
    error = caught.value
    assert error.status_code == status and words in str(error) and error.type == "invalid_request_error"
    assert isinstance(error.body, dict) and set(error.body) == {"message", "type", "param", "code"}
    if status == 404:
        assert (error.code, error.param) == ("model_not_found", "model")


def test_other_errors_of_the_path_have_it_too(service: Service) -> None:
    for response in (
        service.http.get("/v1/chat/completions"),
        service.http.post("/v1/chat/completions", content=b"{"),
        service.http.post("/v1/chat/completions", content=b" " * 5_000_000),
    ):
        assert response.status_code in (404, 400, 413)
        assert response.json()["error"].keys() == {"message", "type", "param", "code"}
        assert response.json()["error"]["code"] is None


def test_a_stream_that_its_reader_leaves_troubles_nobody(service: Service, chat: openai.OpenAI) -> None:
    said = len(service.output)
    for _ in range(20):
        with chat.chat.completions.create(model="chat", messages=says(OPEN), stream=True) as stream:
            id = next(iter(stream)).id
    receipt = service.client("chat").feedback([{"prediction_id": id, "reward": 1}])[0]
    assert receipt["status"] == "accepted"  # what nobody read to its end was recorded before it was said
    assert chat.chat.completions.create(model="chat", messages=says(OPEN)).choices[0].message.content
    assert "Traceback" not in service.output[said:]


async def left(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(model="chat", messages=says(PRINT), stream=True)
        async for _ in stream:
            raise asyncio.CancelledError


def test_a_task_that_is_cancelled_within_a_stream_troubles_nobody(service: Service, chat: openai.OpenAI) -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(left(service.url))
    assert chat.models.retrieve("chat").id == "chat"


async def crowd(url: str) -> set[type]:
    """What came of many who ask at once."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        asked = [client.chat.completions.create(model="chat", messages=says(OPEN)) for _ in range(48)]
        return {type(each) for each in await asyncio.gather(*asked, return_exceptions=True)}


def test_more_than_may_wait_are_told_so_as_the_client_knows_it(start: Start) -> None:
    service = start(max_waiting=1, max_batch=1)
    service.wait_learned("chat", 1)
    came = until(lambda: (found := asyncio.run(crowd(service.url))) and openai.RateLimitError in found and found)
    assert came <= {openai.RateLimitError, ChatCompletion}


def test_a_service_that_is_gone_is_no_answer(start: Start) -> None:
    service = start()
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="x", max_retries=0) as client:
        assert client.models.retrieve("chat").id == "chat"
        service.stop()
        with pytest.raises(openai.APIConnectionError):
            client.models.list()


def test_the_client_knows_a_model_that_is_not_there(chat: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat.models.retrieve("gpt-4o")
    text = "Could not find any versions of model gpt-4o"  # TensorFlow Serving's: its clients ask the same path
    assert caught.value.response.json() == {"error": text}


def test_the_client_lists_the_models(chat: openai.OpenAI) -> None:
    models = {model.id: model for model in chat.models.list()}
    assert models["chat"].created > 1_700_000_000 and chat.models.retrieve("chat").id == "chat"
