"""Ratings of a LibreChat, as its source of June 2026 sends them to a Langfuse (packages/api/src/langfuse/feedback.ts):
learned once, undone on delete."""

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Start, config
from tests.support import Service

CHAT = '\n[[models]]\nname = "chat"\nkind = "ranker"\n'
AUTH = ("pk-lf-online", "sk-lf-secret")
KEYS = {"langfuse_public_key": AUTH[0], "langfuse_secret_key": AUTH[1]}
OPEN = "When do you open?"
NONSENSE = "qwertz zxcvb 12345 asdfgh"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("librechat")
    service = Service(folder / "state", config(folder, CHAT, **KEYS))
    service.wait_learned("chat", 15)
    yield service
    service.stop()


@pytest.fixture
def there(running: Service) -> Iterator[httpx.Client]:
    """LibreChat's own client. What it scored is taken back afterwards."""
    with httpx.Client(base_url=running.url, auth=AUTH, timeout=30) as client:
        client.headers["x-scored"] = ""
        yield client
        for id in filter(None, client.headers["x-scored"].split(",")):
            client.delete(f"/api/public/scores/{id}")
    running.wait_learned("chat", head(running))


def ask(service: Service, question: str = OPEN) -> str:
    """Gives the message id of the reply, which `{{LIBRECHAT_BODY_MESSAGEID}}` put into the header."""
    message_id = str(uuid.uuid4())
    body = {"model": "chat", "messages": [{"role": "user", "content": question}], "stream": False}
    response = service.http.post("/v1/chat/completions", json=body, headers={"X-Message-Id": message_id})
    assert response.status_code == 200
    return message_id


def trace_of(message_id: str) -> str:
    return hashlib.sha256(message_id.encode()).hexdigest()[:32]


def score(message_id: str, thumb: str, tag: str = "", text: str = "") -> dict[str, Any]:
    """The body that sendFeedbackScore posts. Keys without a value are not in the JSON."""
    trace = trace_of(message_id)
    comment = " — ".join(filter(None, (tag, text)))
    metadata = {
        "messageId": message_id,
        "parentMessageId": str(uuid.uuid4()),
        "conversationId": "6f1c8f7e-6b1f-4f0e-9d3a-2f4c3b1a0d9e",
        "sessionId": "6f1c8f7e-6b1f-4f0e-9d3a-2f4c3b1a0d9e",
        "userId": "665f1c2ab8d4a1e0c7f3b912",
        "endpoint": "online",
        "sender": "online",
        "isCreatedByUser": False,
        "rating": thumb,
        **({"tag": tag} if tag else {}),
    }
    return {
        "id": f"feedback-{trace}",
        "traceId": trace,
        "name": "user-feedback",
        "value": 1 if thumb == "thumbsUp" else 0,
        "dataType": "BOOLEAN",
        **({"comment": comment} if comment else {}),
        "metadata": metadata,
        "environment": "production",
    }


def send(there: httpx.Client, body: dict[str, Any]) -> str:
    response = there.post("/api/public/scores", json=body)
    assert response.status_code == 200, response.text
    there.headers["x-scored"] += f",{body.get('id', '')}"
    return str(response.json()["status"])


def clear(there: httpx.Client, message_id: str) -> httpx.Response:
    return there.delete(f"/api/public/scores/feedback-{trace_of(message_id)}")


def head(service: Service) -> int:
    return int(service.http.get("/v1/models/chat").json()["head"])


def fates(service: Service, message_id: str) -> list[str]:
    found: list[str] = []
    while True:
        id = f"langfuse-feedback-{trace_of(message_id)}.{len(found) + 1}"
        response = service.http.get(f"/v1/models/chat/feedback/{id}")
        if response.status_code == 404:
            return found
        found.append("gone" if response.json()["status"] == "retracted" else "stands")


def settled(service: Service) -> str:
    service.wait_learned("chat", head(service))
    return str(service.versions("chat")[0]["state_sha256"])


def test_a_thumb_is_learned_and_taken_back_when_it_is_cleared(running: Service, there: httpx.Client) -> None:
    before, message = settled(running), ask(running)
    assert send(there, score(message, "thumbsDown", "not_helpful", "Sundays?")) == "accepted"
    assert fates(running, message) == ["stands"] and settled(running) != before
    cleared = clear(there, message)
    assert cleared.status_code == 200 and cleared.json()["status"] == "retracted"
    assert fates(running, message) == ["gone"] and settled(running) == before


def test_a_thumb_that_comes_twice_is_learned_once(running: Service, there: httpx.Client) -> None:
    message = ask(running)
    before = head(running)
    assert [send(there, score(message, "thumbsUp")) for _ in range(3)] == ["accepted"] * 3
    assert head(running) == before + 1 and fates(running, message) == ["stands"]


def test_a_reason_beside_the_same_thumb_is_no_other_thumb(running: Service, there: httpx.Client) -> None:
    message = ask(running)
    send(there, score(message, "thumbsDown"))
    before = head(running)
    assert send(there, score(message, "thumbsDown", "inaccurate", "it is ten")) == "accepted"
    assert head(running) == before


def test_another_thumb_takes_the_place_of_the_first(running: Service, there: httpx.Client) -> None:
    message = ask(running)
    send(there, score(message, "thumbsUp"))
    assert send(there, score(message, "thumbsDown")) == "accepted"
    assert fates(running, message) == ["gone", "stands"]


def test_clearing_twice_or_before_anything_was_said_harms_nothing(running: Service, there: httpx.Client) -> None:
    message = ask(running)
    before = head(running)
    assert clear(there, message).status_code == 404 and head(running) == before
    send(there, score(message, "thumbsUp"))
    assert [clear(there, message).status_code for _ in range(2)] == [200, 200]
    assert head(running) == before + 2 and fates(running, message) == ["gone"]
    assert send(there, score(message, "thumbsUp")) == "accepted"
    assert fates(running, message) == ["gone", "stands"]


def test_a_value_of_null_takes_it_back(running: Service, there: httpx.Client) -> None:
    message = ask(running)
    send(there, score(message, "thumbsUp"))
    assert send(there, {**score(message, "thumbsUp"), "value": None}) == "retracted"
    assert fates(running, message) == ["gone"]


@pytest.mark.parametrize(
    "body",
    [
        score(str(uuid.uuid4()), "thumbsUp"),
        {"traceId": "0" * 32, "name": "user-feedback", "value": True},
    ],
)
def test_a_thumb_on_another_models_answer_is_ignored(running: Service, there: httpx.Client, body: Any) -> None:
    before = head(running)
    assert send(there, body) == "ignored" and head(running) == before


def test_a_score_that_is_no_thumb_is_ignored(running: Service, there: httpx.Client) -> None:
    before, message = head(running), ask(running)
    assert send(there, {**score(message, "thumbsUp"), "name": "latency", "value": 0.3}) == "ignored"
    assert head(running) == before


def test_a_thumb_on_an_answer_that_knew_nothing_is_ignored(running: Service, there: httpx.Client) -> None:
    before, message = head(running), ask(running, NONSENSE)
    assert send(there, score(message, "thumbsDown")) == "ignored" and head(running) == before


def test_a_score_of_no_id_is_known_by_its_trace(running: Service, there: httpx.Client) -> None:
    message = ask(running)
    body = {name: value for name, value in score(message, "thumbsUp").items() if name != "id"}
    assert send(there, body) == "accepted" and clear(there, message).json()["status"] == "retracted"


def test_an_id_of_any_letters_is_kept_apart(running: Service, there: httpx.Client) -> None:
    message = ask(running)
    body = {**score(message, "thumbsUp"), "id": "a score #1"}
    assert send(there, body) == "accepted"
    assert there.delete("/api/public/scores/a%20score%20%231").json()["status"] == "retracted"


def test_who_rated_can_be_erased(running: Service, there: httpx.Client) -> None:
    message = ask(running)
    body = score(message, "thumbsUp", text="my words")
    body["metadata"]["userId"] = "erasmus"
    send(there, body)
    assert running.client("chat").erase("erasmus")["feedback"] == 1
    assert send(there, body) == "retracted" and fates(running, message) == ["gone"]


@pytest.mark.parametrize("more", [{"value": 7}, {"value": "up"}, {"traceId": ""}, {"id": "a\x00b"}, {"name": None}])
def test_what_cannot_be_meant_is_refused(running: Service, there: httpx.Client, more: dict[str, Any]) -> None:
    before = head(running)
    response = there.post("/api/public/scores", json={**score(ask(running), "thumbsUp"), **more})
    assert response.status_code == 400 and list(response.json()) == ["error"]
    assert head(running) == before


def test_what_librechat_sends_besides_is_let_in_and_dropped(there: httpx.Client) -> None:
    traces = there.post(
        "/api/public/otel/v1/traces", content=b"\x0a\x02", headers={"Content-Type": "application/x-protobuf"}
    )
    assert traces.status_code == 200
    assert there.get("/api/public/projects").json()["data"][0]["id"] == "online"


@pytest.mark.parametrize("auth", [None, ("pk-lf-online", "wrong"), ("", ""), ("pk-lf-online:sk-lf-secret", "")])
def test_nobody_is_let_in_without_the_keys(running: Service, auth: tuple[str, str] | None) -> None:
    message = ask(running)
    before = head(running)
    for method, path in (("POST", ""), ("DELETE", "/x"), ("POST", "/../otel/v1/traces"), ("GET", "/../projects")):
        body = score(message, "thumbsUp") if method == "POST" else None
        response = httpx.request(method, f"{running.url}/api/public/scores{path}", auth=auth, json=body)
        assert response.status_code == 401 and "langfuse_public_key" in response.json()["error"]
    assert head(running) == before


def test_it_is_shut_until_it_is_set_up(service: Service) -> None:
    response = service.http.post("/api/public/scores", json=score("m", "thumbsUp"), auth=("a", "b"))
    assert response.status_code == 404 and "set langfuse_public_key" in response.json()["error"]


def test_it_works_on_postgres(start: Start, postgres_url: str) -> None:
    service = start(CHAT, store=postgres_url, **KEYS)
    service.wait_learned("chat", 15)
    message = ask(service)
    with httpx.Client(base_url=service.url, auth=AUTH) as there:
        assert there.post("/api/public/scores", json=score(message, "thumbsUp")).json()["status"] == "accepted"
        assert clear(there, message).json()["status"] == "retracted"
