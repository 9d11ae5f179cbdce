"""The wire of the server, as OpenAI's client reads it."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.packages.online_adapters.tiny_model import CONTEXT, make_tokenizer
from tests.support import until

CHAT: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]


@pytest.fixture(scope="module")
def client(random_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=random_url, api_key="anything", max_retries=0) as client:
        yield client


def complete(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(model="tiny", messages=CHAT, **{"temperature": 0, "max_tokens": 40} | more)


def test_a_whole_answer_has_its_usage(client: openai.OpenAI) -> None:
    answer = complete(client)
    prompt = make_tokenizer().apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    assert (answer.object, answer.model, answer.system_fingerprint) == ("chat.completion", "tiny", "base")
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "length"
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (len(prompt), 40, len(prompt) + 40)


def test_a_stream_says_the_same_as_the_whole_answer(client: openai.OpenAI) -> None:
    chunks = [*complete(client, stream=True, stream_options={"include_usage": True})]
    whole = complete(client)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage == whole.usage and len({chunk.id for chunk in chunks}) == 1
    assert len(chunks) > 10, "it comes piece by piece"


def test_a_stop_sequence_ends_the_answer_and_is_not_part_of_it(client: openai.OpenAI) -> None:
    text = complete(client).choices[0].message.content
    stop = text[5:8]
    assert stop not in text[:7]
    answer = complete(client, stop=["no such text", stop])
    assert answer.choices[0].message.content == text[:5] and answer.choices[0].finish_reason == "stop"
    pieces = [chunk.choices[0] for chunk in complete(client, stop=stop, stream=True)]
    assert "".join(piece.delta.content or "" for piece in pieces) == text[:5] and pieces[-1].finish_reason == "stop"


def test_the_same_seed_gives_the_same_answer(client: openai.OpenAI) -> None:
    texts = [complete(client, temperature=1.5, seed=seed).choices[0].message.content for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]
    narrow = complete(client, temperature=1.5, top_p=1e-9, seed=5).choices[0].message.content
    assert narrow == complete(client).choices[0].message.content, "only the most probable token is left"


def test_max_completion_tokens_goes_before_max_tokens(client: openai.OpenAI) -> None:
    assert complete(client, max_completion_tokens=7).usage.completion_tokens == 7


def test_an_answer_ends_where_the_context_does(client: openai.OpenAI) -> None:
    answer = complete(client, max_tokens=10_000)
    assert answer.usage.total_tokens == CONTEXT and answer.choices[0].finish_reason == "length"


def test_too_long_a_prompt_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="tokens, and prompt and answer together at most 256") as refused:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "a" * CONTEXT}])
    assert refused.value.code == "context_length_exceeded"


@pytest.mark.parametrize("model", ["other", "tiny@adapter-0123456789abcdef", "tiny@../tiny", "tiny@"])
def test_a_model_that_is_not_there_is_a_404(client: openai.OpenAI, model: str) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model=model, messages=CHAT)
    assert refused.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"temperature": 3}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "12"}]}, "no tools here"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(random_url: str, more: dict[str, Any], named: str) -> None:
    answer = httpx.post(f"{random_url}/chat/completions", json={"model": "tiny", "messages": CHAT} | more)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["type"] == "invalid_request_error" and named in error["message"]


def test_a_body_that_is_not_json_is_refused(random_url: str) -> None:
    answer = httpx.post(f"{random_url}/chat/completions", content=b"{")
    assert answer.status_code == 400 and "JSON" in answer.json()["error"]["message"]


def test_ignored_fields_are_named(random_url: str) -> None:
    body = {"model": "tiny", "messages": CHAT, "max_tokens": 1, "user": "ann", "logit_bias": {"3": 1}}
    answer = httpx.post(f"{random_url}/chat/completions", json=body)
    assert answer.status_code == 200 and answer.headers["X-Ignored-Fields"] == "logit_bias, user"


def test_texts_in_parts_are_joined(client: openai.OpenAI) -> None:
    parts: list[Any] = [{"role": "user", "content": [{"type": "text", "text": each} for each in ("Hel", "lo?")]}]
    answers = [
        client.chat.completions.create(model="tiny", messages=messages, temperature=0, max_tokens=9)
        for messages in (parts, CHAT[1:])
    ]
    assert answers[0].choices[0].message == answers[1].choices[0].message


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_caller_who_leaves_frees_its_place(random_url: str, is_streamed: bool) -> None:
    health = random_url.removesuffix("/v1") + "/healthz"
    body = {"model": "tiny", "messages": CHAT, "max_tokens": 240, "temperature": 0, "stream": is_streamed}
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    with httpx.Client() as http:
        host, port = random_url.removeprefix("http://").removesuffix("/v1").split(":")
        connection = socket.create_connection((host, int(port)))
        connection.sendall(head + data)
        until(lambda: http.get(health).json()["running"] == 1, what="the request", every_s=0.001)
        connection.close()
        until(lambda: http.get(health).json()["running"] == 0, 5, "the place")
