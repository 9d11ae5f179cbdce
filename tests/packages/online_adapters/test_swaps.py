"""Adapters that are swapped under load: each answer is that of the adapter it names, and none fails."""

import threading
import time
from pathlib import Path

import httpx
import openai
import pytest

from online_adapters.adapter_folder import BASE, AdapterFolder
from tests.packages.online_adapters.conftest import Serve
from tests.support import until

SWAPS = 100
CLIENTS = 4


def ask(client: openai.OpenAI, model: str, is_streamed: bool) -> tuple[str, str, str]:
    """The text of an answer, its fingerprint and its model."""
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Say it."}]
    if not is_streamed:
        whole = client.chat.completions.create(model=model, messages=messages, max_tokens=6)
        return whole.choices[0].message.content or "", whole.system_fingerprint or "", whole.model
    chunks = [*client.chat.completions.create(model=model, messages=messages, max_tokens=6, stream=True)]
    assert len({(chunk.system_fingerprint, chunk.model) for chunk in chunks}) == 1
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    return text, chunks[0].system_fingerprint or "", chunks[0].model


def wait_until_in_force(http: httpx.Client, name: str) -> None:
    until(lambda: http.get("/healthz").json()["in_force"] == name, what="the swap")


def test_no_answer_of_a_hundred_swaps_fails_or_is_another_adapters(
    serve: Serve, talking_model: Path, folder: AdapterFolder, words: dict[str, str]
) -> None:
    said = {"base": "base", **{name: word for word, name in words.items()}}
    answers, failures, ended = list[tuple[str, str, str]](), list[Exception](), threading.Event()
    pinned = words["fjord"]

    def load(url: str, number: int) -> None:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="anything", max_retries=0) as client:
            turn = 0
            while not ended.is_set():
                turn += 1
                try:
                    model = f"tiny@{pinned}" if turn % 4 == 0 else "tiny"
                    answers.append(answer := ask(client, model, is_streamed=(number + turn) % 2 == 0))
                    assert turn % 4 != 0 or answer[1] == pinned
                except Exception as error:
                    failures.append(error)

    with serve(talking_model, folder.path) as server, httpx.Client(base_url=server.url) as http:
        clients = [threading.Thread(target=load, args=(server.url, number)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        names = [*words.values(), BASE]
        for swap in range(SWAPS):
            name = names[swap % len(names)]
            folder.activate(name)
            began = time.monotonic()
            wait_until_in_force(http, name or "base")
            assert time.monotonic() - began < 10
        ended.set()
        for client in clients:
            client.join()
        last = until(
            lambda: len((health := http.get("/healthz").json())["loaded"]) <= 1 and health, what="the unloading"
        )
    assert failures == []
    assert [answer for answer in answers if answer[0] != said[answer[1]] * 6] == []
    assert all(model == ("tiny" if name == "base" else f"tiny@{name}") for _, name, model in answers)
    assert {name for _, name, _ in answers} == said.keys(), "each adapter has answered"
    assert last["problem"] == "" and len(answers) > SWAPS


def test_a_broken_adapter_leaves_the_one_before_in_force(
    serve: Serve, talking_model: Path, folder: AdapterFolder, words: dict[str, str]
) -> None:
    folder.activate(words["amber"])
    folder.activate(words["basil"])
    with (folder.path / words["cedar"] / "adapter_model.safetensors").open("ab") as file:
        file.write(b"more")
    with serve(talking_model, folder.path) as server, httpx.Client(base_url=server.url) as http:
        (folder.path / "active").write_text(words["cedar"])
        health = until(lambda: (found := http.get("/healthz").json())["problem"] and found, what="the problem")
        assert words["cedar"] in health["problem"] and health["in_force"] == words["basil"]
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="anything", max_retries=0) as client:
            assert ask(client, "tiny", is_streamed=False)[0] == "basil" * 6
            with pytest.raises(openai.BadRequestError, match="were changed"):
                ask(client, f"tiny@{words['cedar']}", is_streamed=False)
            stream = client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "Say it."}], max_tokens=200, stream=True
            )
            next(stream)
            server.process.terminate()
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        assert text == "basil" * 200, "what runs at SIGTERM is answered to its end"
        assert server.process.wait(30) == 0
