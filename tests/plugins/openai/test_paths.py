"""OpenAI's paths that are not served: 404 in OpenAI's shape, whichever part of its client is used."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import openai.resources
import pytest

from online.plugins.openai.paths import FIRST_PARTS, SERVED
from tests.support import Service

CALLS: dict[str, Callable[[openai.OpenAI], Any]] = {
    "embeddings": lambda client: client.embeddings.create(model="chat", input="hi"),
    "a stored response": lambda client: client.responses.retrieve("resp_1"),
    "completions": lambda client: client.completions.create(model="chat", prompt="hi"),
    "moderations": lambda client: client.moderations.create(input="hi"),
    "images": lambda client: client.images.generate(model="chat", prompt="a cat"),
    "speech": lambda client: client.audio.speech.create(model="chat", voice="alloy", input="hi"),
    "transcriptions": lambda client: client.audio.transcriptions.create(model="chat", file=("a.wav", b"RIFF")),
    "files": lambda client: client.files.create(file=("a.jsonl", b"{}"), purpose="batch"),
    "a file": lambda client: client.files.retrieve("file-1"),
    "deletion of a file": lambda client: client.files.delete("file-1"),
    "batches": lambda client: client.batches.list(),
    "vector stores": lambda client: client.vector_stores.create(name="a"),
    "jobs": lambda client: client.fine_tuning.jobs.create(model="chat", training_file="file-1"),
    "stored completions": lambda client: client.chat.completions.list(),
    "a stored completion": lambda client: client.chat.completions.retrieve("chatcmpl-1"),
    "any other path": lambda client: client.post("/not/yet/invented", cast_to=object, body={}),
}


@pytest.fixture
def client(service: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key="x", max_retries=0)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_is_not_served_is_answered_with_those_that_are(client: openai.OpenAI, call: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        CALLS[call](client)
    error = caught.value
    assert isinstance(error.body, dict) and error.body.keys() == {"message", "type", "param", "code"}
    assert "is not served here" in str(error) and SERVED in str(error)
    assert (error.type, error.code, error.param) == ("invalid_request_error", None, None)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_every_method_has_the_same_answer(service: Service, method: str) -> None:
    answer = service.http.request(method, "/v1/embeddings/x")
    assert answer.status_code == 404
    assert method == "HEAD" or answer.json()["error"]["message"].startswith(f"{method} /v1/embeddings/x is not served")


def test_the_table_has_every_path_of_the_client() -> None:
    sources = Path(inspect.getfile(openai.resources)).parent.rglob("*.py")
    found = {part for source in sources for part in re.findall(r'"/([a-z_]+)[/"?]', source.read_text())}
    assert len(found) > 25 and found - {"models", "messages"} <= FIRST_PARTS


def test_paths_of_ours_are_not_shadowed(service: Service) -> None:
    """They are refused as before, in the words of the protocol that they belong to."""
    assert service.http.get("/v1/session").status_code == 200
    assert service.http.get("/v1/foo").json() == {"error": "Malformed request: GET /v1/foo"}
    served = {
        str(path).split("/")[2] for path in service.http.get("/openapi.json").json()["paths"] if path.startswith("/v1/")
    }
    assert served & FIRST_PARTS == {"chat", "responses"}
