"""The chat completions API of OpenAI, tested with OpenAI's own client against a real service."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion

from online.models import Answer, Candidate
from online.plugins.openai.answers import reply_text
from online.plugins.openai.messages import MessageRow, find_by_message, trace_id_of
from online.settings import Settings
from online.state.workspace import Workspace
from tests.conftest import Start
from tests.support import Service, erase, until

OPEN, PRINT = "When do you open?", "Can I print here?"
NONSENSE = "qwertz zxcvb 12345 asdfgh"


@pytest.fixture
def chat(service: Service) -> Iterator[openai.OpenAI]:
    service.wait_learned("chat", 1)
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="anything", max_retries=0) as client:
        yield client


def user_message(text: str) -> Any:
    return [{"role": "user", "content": text}]


def post(service: Service, body: Any, **headers: str) -> httpx.Response:
    return service.http.post("/v1/chat/completions", json=body, headers=headers)


def test_the_last_message_of_the_user_is_answered(chat: openai.OpenAI) -> None:
    completion = chat.chat.completions.create(
        model="chat",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": PRINT},
            {"role": "assistant", "content": "The printer is by the stairs."},
            {"role": "user", "content": [{"type": "text", "text": OPEN}]},
        ],
    )
    assert completion.object == "chat.completion" and completion.model == "chat" and completion.created > 1_700_000_000
    choice = completion.choices[0]
    assert (choice.message.role, choice.message.content) == ("assistant", "We open at nine.")
    assert choice.finish_reason == "stop" and choice.index == 0
    assert completion.usage is not None and completion.usage.total_tokens == 8


ANSWERED: dict[str, list[Any]] = {
    "a developer's instructions": [{"role": "developer", "content": "Be brief."}, *user_message(OPEN)],
    "parts with a text of null": [
        {"role": "user", "content": [{"type": "text", "text": None}, {"type": "text", "text": OPEN}]}
    ],
    "a part of null": [{"role": "user", "content": [None, {"type": "text", "text": OPEN}]}],
    "a text as part": [{"role": "user", "content": [OPEN]}],
    "a part of the newer API": [{"role": "user", "content": [{"type": "input_text", "text": OPEN}]}],
    "an image beside the text": [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": OPEN}],
        }
    ],
    "an answer that is begun": [*user_message(OPEN), {"role": "assistant", "content": "We"}],
    "tool calls without content": [
        *user_message(OPEN),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "{}"},
    ],
    "an answer without content": [*user_message("Hello"), {"role": "assistant"}, *user_message(OPEN)],
}


@pytest.mark.parametrize("case", ANSWERED)
def test_messages_of_every_shape_are_answered(chat: openai.OpenAI, case: str) -> None:
    expected = chat.chat.completions.create(model="chat", messages=user_message(OPEN)).choices[0].message.content
    answer = chat.chat.completions.create(model="chat", messages=ANSWERED[case], user="", stop=None)
    assert answer.choices[0].message.content == expected


def test_a_stream_gives_the_same_answer_in_chunks_of_one_version(chat: openai.OpenAI) -> None:
    chunks = list(chat.chat.completions.create(model="chat", messages=user_message(OPEN), stream=True))
    assert chunks[0].choices[0].delta.role == "assistant" and len(chunks) > 3
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "We open at nine."
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert len({(chunk.id, chunk.system_fingerprint, chunk.created) for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_its_usage_on_request(chat: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    chunks = list(
        chat.chat.completions.create(model="chat", messages=user_message(OPEN), stream=True, stream_options=options)
    )
    assert chunks[-1].choices == [] and chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 4
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-2].usage is None


def test_a_stream_is_server_sent_events_that_end_with_done(service: Service) -> None:
    response = post(service, {"model": "chat", "messages": user_message(OPEN), "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = response.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""] and all(event.startswith("data: {") for event in events[:-2])


async def read_stream(url: str) -> str:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(model="chat", messages=user_message(PRINT), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


def test_the_asynchronous_client_reads_a_stream(service: Service) -> None:
    service.wait_learned("chat", 1)
    assert asyncio.run(read_stream(service.url)) == "The printer is by the stairs."


def test_a_completion_is_a_prediction_that_accepts_feedback(service: Service, chat: openai.OpenAI) -> None:
    question = "Where do the night owls sit?"
    completion = chat.chat.completions.create(model="chat", messages=user_message(question))
    assert completion.id.startswith("chatcmpl-")
    with service.client("chat") as bot:
        receipt = bot.teach(completion.id, "Night owls sit on the balcony.")
        service.wait_learned("chat", receipt["offset"])
        taught = chat.chat.completions.create(model="chat", messages=user_message(question))
        assert taught.choices[0].message.content == "Night owls sit on the balcony."
        assert int(taught.system_fingerprint or "") > int(completion.system_fingerprint or "")
        service.wait_learned("chat", bot.retract(receipt["id"])["offset"])


def test_the_system_fingerprint_is_the_version_in_the_headers(service: Service) -> None:
    response = post(service, {"model": "chat", "messages": user_message(OPEN)})
    assert response.json()["system_fingerprint"] == response.headers["X-Model-Version"]


def test_an_abstention_is_answered_with_a_fixed_text(chat: openai.OpenAI) -> None:
    for stream in (False, True):
        raw: Any = chat.chat.completions.create(model="chat", messages=user_message(NONSENSE), stream=stream)
        text = "".join(c.choices[0].delta.content or "" for c in raw) if stream else raw.choices[0].message.content
        assert text == "I don't know yet."


def test_a_follow_up_is_read_with_the_message_of_the_user_before_it(chat: openai.OpenAI) -> None:
    alone = chat.chat.completions.create(model="chat", messages=user_message("And in colour?"))
    messages = [*user_message(PRINT), {"role": "assistant", "content": "Yes."}, *user_message("And in colour?")]
    after = chat.chat.completions.create(model="chat", messages=messages)
    assert alone.choices[0].message.content != "The printer is by the stairs."
    assert after.choices[0].message.content == "The printer is by the stairs."


def test_an_unsure_answer_asks_back() -> None:
    candidates = (Candidate("a", 0.4, "Reply A."), Candidate("b", 0.3, "Reply B."), Candidate("c", 0.1, "Reply C."))
    text = reply_text(Answer(None, candidates, 0.4, abstained=True))
    assert text == "I am not sure. Did you mean one of these?\n- Reply A.\n- Reply B."
    assert reply_text(Answer(None, candidates[2:], 0.1, abstained=True)) == "I don't know yet."
    assert reply_text(Answer("a", candidates, 0.4)) == "Reply A."


def count_predictions(service: Service) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith('online_predictions_total{model="chat"'))


@pytest.mark.parametrize("stream", [False, True])
def test_a_task_is_answered_without_a_prediction(service: Service, stream: bool) -> None:
    before = count_predictions(service)
    prompt = f'### Task:\nGenerate a title.\nJSON format: {{ "title": "x" }}\n<chat_history>\nUSER: {OPEN}\n'
    response = post(service, {"model": "chat", "messages": user_message(prompt), "stream": stream})
    assert response.status_code == 200 and response.headers["X-Task"] == "title_generation"
    assert "open?" in response.text
    by_header = post(service, {"model": "chat", "messages": user_message(OPEN)}, **{"X-Task": "tags_generation"}).json()
    assert by_header["choices"][0]["message"]["content"] == '{"tags":["General"]}'
    by_metadata = post(
        service, {"model": "chat", "messages": user_message(OPEN), "metadata": {"task": "tags_generation"}}
    ).json()
    assert by_metadata["choices"] == by_header["choices"]
    refused = service.http.post(
        "/v1/models/chat:feedback", json={"feedback": [{"prediction_id": by_header["id"], "reward": 1}]}
    )
    assert refused.status_code == 404
    assert count_predictions(service) == before


def test_other_metadata_do_not_turn_a_question_into_a_task(service: Service) -> None:
    service.wait_learned("chat", 1)
    body = {"model": "chat", "messages": user_message(PRINT), "metadata": {"task": "support", "ticket": "7"}}
    assert post(service, body).json()["choices"][0]["message"]["content"] == "The printer is by the stairs."


# users and message ids


def find_message(service: Service, message_id: str) -> MessageRow | None:
    store = Workspace(Settings(state=service.state)).store
    try:
        message: MessageRow | None = store.read(lambda connection: find_by_message(connection, message_id))
        return message
    finally:
        store.close()


def test_the_message_id_of_the_page_is_stored_with_the_answer(service: Service, chat: openai.OpenAI) -> None:
    message_id = str(uuid.uuid4())
    first, _ = (
        chat.chat.completions.create(
            model="chat", messages=user_message(OPEN), extra_headers={"X-Message-Id": message_id}
        )
        for _ in range(2)
    )
    message = find_message(service, message_id)
    assert message is not None and (message.model, message.prediction_id) == ("chat", first.id)
    assert message.trace_id == trace_id_of(message_id)


@pytest.mark.parametrize("message_id", ["", "{{MESSAGE_ID}}"])
def test_an_empty_or_unfilled_message_id_is_ignored(service: Service, message_id: str) -> None:
    response = post(service, {"model": "chat", "messages": user_message(OPEN)}, **{"X-Message-Id": message_id})
    assert response.status_code == 200
    assert find_message(service, message_id) is None


@pytest.mark.parametrize(
    ("more", "headers"),
    [
        ({"user": "anna"}, {}),
        ({"user": {"id": "anna", "name": "Anna", "email": "anna@example.org"}}, {}),
        ({}, {"X-OpenWebUI-User-Id": "anna"}),
    ],
)
def test_erasing_a_user_deletes_the_message_ids(service: Service, more: Any, headers: dict[str, str]) -> None:
    message_id = str(uuid.uuid4())
    body = {"model": "chat", "messages": user_message(OPEN), **more}
    assert post(service, body, **{"X-Message-Id": message_id, **headers}).status_code == 200
    assert find_message(service, message_id) is not None
    assert erase(service.client("chat"), "anna")["predictions"] == 1
    assert find_message(service, message_id) is None


@pytest.mark.long
def test_message_ids_are_stored_on_postgres(start: Start, postgres_url: str) -> None:
    service = start(store=postgres_url)
    service.wait_learned("chat", 1)
    body = {"model": "chat", "messages": user_message(OPEN), "user": "anna"}
    assert post(service, body, **{"X-Message-Id": "m-1"}).status_code == 200
    assert erase(service.client("chat"), "anna")["predictions"] == 1


# refusals

BAD: dict[str, tuple[Any, int, str, type[openai.APIStatusError]]] = {
    "an unknown model": (
        {"model": "gpt-4o"},
        404,
        "the model 'gpt-4o' does not exist; these models chat: chat",
        openai.NotFoundError,
    ),
    "no ranker": ({"model": "vec"}, 404, "the model 'vec' is a classifier and does not chat", openai.NotFoundError),
    "no messages": ({"messages": []}, 400, "messages", openai.BadRequestError),
    "no user": ({"messages": [{"role": "system", "content": "hi"}]}, 400, "role 'user'", openai.BadRequestError),
    "an empty question": ({"messages": user_message("  ")}, 400, "role 'user'", openai.BadRequestError),
    "a long question": ({"messages": user_message("x" * 9_000)}, 413, "9000 characters", openai.APIStatusError),
    "no text in the last message of the user": (
        {"messages": [*user_message(OPEN), {"role": "assistant", "content": "At nine."}, *user_message("")]},
        400,
        "messages.2: the last message of the role 'user' is the question, and has no text",
        openai.BadRequestError,
    ),
    "a null": ({"messages": [{"role": "user", "content": None}]}, 400, "has no text", openai.BadRequestError),
    "parts of null": ({"messages": [{"role": "user", "content": [None]}]}, 400, "has no text", openai.BadRequestError),
    "an image alone": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
        400,
        "other parts, such as images, are not read",
        openai.BadRequestError,
    ),
    "another role": (
        {"messages": [{"role": "User", "content": "hi"}, {"role": "developer", "content": "hi"}]},
        400,
        "no message has the role 'user', whose last text is the question; the roles are 'User', 'developer'",
        openai.BadRequestError,
    ),
    "a number as content": (
        {"messages": [{"role": "user", "content": 5}]},
        400,
        "messages.0.content: it must be a text, a list of parts",
        openai.BadRequestError,
    ),
    "a part without a type": (
        {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
        400,
        "messages.0.content.parts.0.type: Field required",
        openai.BadRequestError,
    ),
    "a number as user": ({"user": 5}, 400, "user: it must be a text, an object", openai.BadRequestError),
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
        chat.chat.completions.create(**{"model": "chat", "messages": user_message(OPEN), "stream": stream, **more})
    error = caught.value
    assert error.status_code == status and words in str(error) and error.type == "invalid_request_error"
    assert isinstance(error.body, dict) and set(error.body) == {"message", "type", "param", "code"}
    if status == 404:
        assert (error.code, error.param) == ("model_not_found", "model")


def test_other_errors_of_the_path_have_the_shape_of_openai(service: Service) -> None:
    for response in (
        service.http.get("/v1/chat/completions"),
        service.http.post("/v1/chat/completions", content=b"{"),
        service.http.post("/v1/chat/completions", content=b" " * 5_000_000),
    ):
        assert response.status_code in (404, 400, 413)
        assert response.json()["error"].keys() == {"message", "type", "param", "code"}
        assert response.json()["error"]["code"] is None


def test_a_stream_that_its_reader_closes_affects_no_other_request(service: Service, chat: openai.OpenAI) -> None:
    log_length = len(service.output)
    for _ in range(20):
        with chat.chat.completions.create(model="chat", messages=user_message(OPEN), stream=True) as stream:
            id = next(iter(stream)).id
    receipt = service.client("chat").feedback([{"prediction_id": id, "reward": 1}])[0]
    assert receipt["status"] == "accepted"  # the prediction is recorded before the stream begins
    assert chat.chat.completions.create(model="chat", messages=user_message(OPEN)).choices[0].message.content
    assert "Traceback" not in service.output[log_length:]


async def leave_stream(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(model="chat", messages=user_message(PRINT), stream=True)
        async for _ in stream:
            raise asyncio.CancelledError


def test_a_stream_whose_reader_is_cancelled_affects_no_other_request(service: Service, chat: openai.OpenAI) -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(leave_stream(service.url))
    assert chat.models.retrieve("chat").id == "chat"


async def send_many(url: str) -> set[type]:
    """Send many requests at once; return the types of the results."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        requests = [client.chat.completions.create(model="chat", messages=user_message(OPEN)) for _ in range(48)]
        return {type(each) for each in await asyncio.gather(*requests, return_exceptions=True)}


@pytest.mark.long
def test_too_many_waiting_requests_get_the_rate_limit_error_of_the_client(start: Start) -> None:
    service = start(max_waiting=1, max_batch=1)
    service.wait_learned("chat", 1)
    results = until(lambda: (types := asyncio.run(send_many(service.url))) and openai.RateLimitError in types and types)
    assert results <= {openai.RateLimitError, ChatCompletion}


@pytest.mark.long
def test_a_stopped_service_is_a_connection_error(start: Start) -> None:
    service = start()
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="x", max_retries=0) as client:
        assert client.models.retrieve("chat").id == "chat"
        service.stop()
        with pytest.raises(openai.APIConnectionError):
            client.models.list()


def test_the_client_recognises_the_error_of_an_unknown_model(chat: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat.models.retrieve("gpt-4o")
    text = "Could not find any versions of model gpt-4o; this service has chat, vec, tab, txt, lab, num, rv"
    assert caught.value.response.json() == {"error": text}


def test_the_client_lists_the_models(chat: openai.OpenAI) -> None:
    models = {model.id: model for model in chat.models.list()}
    assert models["chat"].created > 1_700_000_000 and chat.models.retrieve("chat").id == "chat"
