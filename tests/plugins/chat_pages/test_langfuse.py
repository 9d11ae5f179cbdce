"""Ratings that LibreChat sends to Langfuse: learned once, retracted when they are deleted.

The requests follow packages/api/src/langfuse/feedback.ts of LibreChat as of June 2026.
"""

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Start, config
from tests.support import Service, erase

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
def librechat(running: Service) -> Iterator[httpx.Client]:
    """The HTTP client of LibreChat. The scores it sent are deleted afterwards."""
    with httpx.Client(base_url=running.url, auth=AUTH, timeout=30) as client:
        client.headers["x-scored"] = ""
        yield client
        for id in filter(None, client.headers["x-scored"].split(",")):
            client.delete(f"/api/public/scores/{id}")
    running.wait_learned("chat", head(running))


def ask(service: Service, question: str = OPEN) -> str:
    """Return the message id, which LibreChat puts into the header as `{{LIBRECHAT_BODY_MESSAGEID}}`."""
    message_id = str(uuid.uuid4())
    body = {"model": "chat", "messages": [{"role": "user", "content": question}], "stream": False}
    response = service.http.post("/v1/chat/completions", json=body, headers={"X-Message-Id": message_id})
    assert response.status_code == 200
    return message_id


def trace_of(message_id: str) -> str:
    return hashlib.sha256(message_id.encode()).hexdigest()[:32]


def score(message_id: str, thumb: str, tag: str = "", text: str = "") -> dict[str, Any]:
    """The body that sendFeedbackScore posts, without the keys that have no value."""
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


def send(librechat: httpx.Client, body: dict[str, Any]) -> str:
    response = librechat.post("/api/public/scores", json=body)
    assert response.status_code == 200, response.text
    librechat.headers["x-scored"] += f",{body.get('id', '')}"
    return str(response.json()["status"])


def clear(librechat: httpx.Client, message_id: str) -> httpx.Response:
    return librechat.delete(f"/api/public/scores/feedback-{trace_of(message_id)}")


def head(service: Service) -> int:
    return int(service.http.get("/v1/models/chat").json()["head"])


def feedback_states(service: Service, message_id: str) -> list[str]:
    states: list[str] = []
    while True:
        id = f"langfuse-feedback-{trace_of(message_id)}.{len(states) + 1}"
        response = service.http.get(f"/v1/models/chat/feedback/{id}")
        if response.status_code == 404:
            return states
        states.append("retracted" if response.json()["status"] == "retracted" else "active")


def learned_state(service: Service) -> str:
    service.wait_learned("chat", head(service))
    return str(service.versions("chat")[0]["state_sha256"])


def test_a_rating_is_learned_and_retracted_when_it_is_cleared(running: Service, librechat: httpx.Client) -> None:
    before, message = learned_state(running), ask(running)
    assert send(librechat, score(message, "thumbsDown", "not_helpful", "Sundays?")) == "accepted"
    assert feedback_states(running, message) == ["active"] and learned_state(running) != before
    cleared = clear(librechat, message)
    assert cleared.status_code == 200 and cleared.json()["status"] == "retracted"
    assert feedback_states(running, message) == ["retracted"] and learned_state(running) == before


def test_a_repeated_rating_is_learned_once(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    before = head(running)
    assert [send(librechat, score(message, "thumbsUp")) for _ in range(3)] == ["accepted"] * 3
    assert head(running) == before + 1 and feedback_states(running, message) == ["active"]


def test_a_later_reason_for_the_same_rating_adds_no_feedback(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    send(librechat, score(message, "thumbsDown"))
    before = head(running)
    assert send(librechat, score(message, "thumbsDown", "inaccurate", "it is ten")) == "accepted"
    assert head(running) == before


def test_a_changed_rating_replaces_the_first(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    send(librechat, score(message, "thumbsUp"))
    assert send(librechat, score(message, "thumbsDown")) == "accepted"
    assert feedback_states(running, message) == ["retracted", "active"]


def test_clearing_twice_or_without_a_rating_is_harmless(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    before = head(running)
    assert clear(librechat, message).status_code == 404 and head(running) == before
    send(librechat, score(message, "thumbsUp"))
    assert [clear(librechat, message).status_code for _ in range(2)] == [200, 200]
    assert head(running) == before + 2 and feedback_states(running, message) == ["retracted"]
    assert send(librechat, score(message, "thumbsUp")) == "accepted"
    assert feedback_states(running, message) == ["retracted", "active"]


def test_a_value_of_null_retracts_the_rating(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    send(librechat, score(message, "thumbsUp"))
    assert send(librechat, {**score(message, "thumbsUp"), "value": None}) == "retracted"
    assert feedback_states(running, message) == ["retracted"]


@pytest.mark.parametrize(
    "body",
    [
        score(str(uuid.uuid4()), "thumbsUp"),
        {"traceId": "0" * 32, "name": "user-feedback", "value": True},
    ],
)
def test_a_rating_of_an_answer_of_another_model_is_ignored(
    running: Service, librechat: httpx.Client, body: Any
) -> None:
    before = head(running)
    assert send(librechat, body) == "ignored" and head(running) == before


def test_a_score_that_is_not_a_rating_is_ignored(running: Service, librechat: httpx.Client) -> None:
    before, message = head(running), ask(running)
    assert send(librechat, {**score(message, "thumbsUp"), "name": "latency", "value": 0.3}) == "ignored"
    assert head(running) == before


def test_a_rating_of_an_abstention_is_ignored(running: Service, librechat: httpx.Client) -> None:
    before, message = head(running), ask(running, NONSENSE)
    assert send(librechat, score(message, "thumbsDown")) == "ignored" and head(running) == before


def test_a_score_without_an_id_is_identified_by_its_trace(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    body = {name: value for name, value in score(message, "thumbsUp").items() if name != "id"}
    assert send(librechat, body) == "accepted" and clear(librechat, message).json()["status"] == "retracted"


def test_an_id_may_have_any_characters(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    body = {**score(message, "thumbsUp"), "id": "a score #1"}
    assert send(librechat, body) == "accepted"
    assert librechat.delete("/api/public/scores/a%20score%20%231").json()["status"] == "retracted"


def test_a_user_who_rated_can_be_erased(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    body = score(message, "thumbsUp", text="my words")
    body["metadata"]["userId"] = "erasmus"
    send(librechat, body)
    assert erase(running.client("chat"), "erasmus")["feedback"] == 1
    assert send(librechat, body) == "retracted" and feedback_states(running, message) == ["retracted"]


@pytest.mark.parametrize("changes", [{"value": 7}, {"value": "up"}, {"traceId": ""}, {"id": "a\x00b"}, {"name": None}])
def test_an_invalid_score_is_refused(running: Service, librechat: httpx.Client, changes: dict[str, Any]) -> None:
    before = head(running)
    response = librechat.post("/api/public/scores", json={**score(ask(running), "thumbsUp"), **changes})
    assert response.status_code == 400 and list(response.json()) == ["error"]
    assert head(running) == before


def test_other_requests_of_librechat_are_accepted_and_discarded(librechat: httpx.Client) -> None:
    traces = librechat.post(
        "/api/public/otel/v1/traces", content=b"\x0a\x02", headers={"Content-Type": "application/x-protobuf"}
    )
    assert traces.status_code == 200
    (project,) = librechat.get("/api/public/projects").json()["data"]
    assert project["id"] == project["organization"]["id"] == "online" and project["metadata"] == {}


def send_list(librechat: httpx.Client, *scores: Any) -> httpx.Response:
    """Send several scores at once, as Langfuse's client for Python does from its version 5 on."""
    response = librechat.post("/api/public/scores", json=scores)
    ids = [str(score["id"]) for score in scores if isinstance(score, dict) and score.get("id")]
    librechat.headers["x-scored"] += "," + ",".join(ids)
    return response


def test_a_list_of_scores_is_learned(running: Service, librechat: httpx.Client) -> None:
    first, second = ask(running), ask(running)
    before = head(running)
    answer = send_list(librechat, score(first, "thumbsUp"), score(second, "thumbsDown"))
    assert (answer.status_code, answer.json()["message"]) == (202, "Accepted")
    assert [each["status"] for each in answer.json()["scores"]] == ["accepted", "accepted"]
    assert head(running) == before + 2 and feedback_states(running, second) == ["active"]


def test_an_invalid_score_of_a_list_holds_up_no_other(running: Service, librechat: httpx.Client) -> None:
    message = ask(running)
    invalid = [{**score(ask(running), "thumbsUp"), "value": 7}, {"traceId": "x"}, "score"]
    answer = send_list(librechat, *invalid, score(message, "thumbsUp"))
    assert answer.status_code == 207
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (1, 3)
    first, second, third = (error["message"] for error in answer.json()["errors"])
    assert "not 7" in first and second.startswith("score 1: name") and third.startswith("score 2:")
    assert feedback_states(running, message) == ["active"]


@pytest.mark.parametrize("value", [0.3, "positive", {"any": "thing"}])
def test_scores_of_other_names_may_have_any_value(librechat: httpx.Client, value: Any) -> None:
    other = {"id": "s", "sessionId": "x", "name": "sentiment", "value": value, "dataType": "CATEGORICAL"}
    assert send_list(librechat, other).json()["scores"] == [{"id": "s", "status": "ignored"}]


def test_an_empty_list_is_accepted_and_too_long_a_list_is_refused(librechat: httpx.Client) -> None:
    assert librechat.post("/api/public/scores", json=[]).status_code == 202
    answer = librechat.post("/api/public/scores", json=[{}] * 1_025)
    assert answer.status_code == 413 and "at most 1024 in one request (max_instances)" in answer.json()["error"]
    assert librechat.post("/api/public/scores", content="[").status_code == 400


@pytest.mark.parametrize("path", ["scores", "ingestion"])
def test_a_document_of_too_many_lists_is_refused(librechat: httpx.Client, path: str) -> None:
    answer = librechat.post(f"/api/public/{path}", content=b"[" + b",".join([b"[]"] * 100_000) + b"]")
    assert answer.status_code == 413 and "lists and objects" in answer.json()["error"]


def test_the_scores_of_older_clients_are_learned(running: Service, librechat: httpx.Client) -> None:
    first, second = ask(running), ask(running)
    bodies = {"a": score(first, "thumbsUp"), "b": {**score(second, "thumbsUp"), "value": 7}}
    batch = [
        {"id": id, "timestamp": "2026-01-01T00:00:00Z", "type": "score-create", "body": bodies[id]} for id in bodies
    ]
    librechat.headers["x-scored"] += f",{bodies['a']['id']}"
    trace = {"id": "t", "timestamp": "2026-01-01T00:00:00Z", "type": "trace-create", "body": {"id": "x"}}
    answer = librechat.post(
        "/api/public/ingestion", json={"batch": [*batch, trace], "metadata": {"sdk_name": "python"}}
    )
    assert answer.status_code == 207
    assert answer.json()["successes"] == [{"id": "a", "status": 201}, {"id": "t", "status": 201}]
    (error,) = answer.json()["errors"]
    assert (error["id"], error["status"]) == ("b", 400) and "not 7" in error["message"]
    assert feedback_states(running, first) == ["active"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "v3/scores"), ("POST", "v2/prompts"), ("GET", "health/x"), ("PATCH", "otel/v1/other")]
)
def test_other_calls_of_langfuse_are_refused_with_those_that_are_served(
    librechat: httpx.Client, method: str, path: str
) -> None:
    answer = librechat.request(method, f"/api/public/{path}")
    assert answer.status_code == 404 and list(answer.json()) == ["error"]
    assert f"{method} /api/public/{path} is not served here" in answer.json()["error"]
    assert "POST and DELETE /api/public/scores" in answer.json()["error"]


@pytest.mark.parametrize("auth", [None, ("pk-lf-online", "wrong"), ("", ""), ("pk-lf-online:sk-lf-secret", "")])
def test_requests_without_the_keys_are_refused(running: Service, auth: tuple[str, str] | None) -> None:
    message = ask(running)
    before = head(running)
    for method, path in (("POST", ""), ("DELETE", "/x"), ("POST", "/../otel/v1/traces"), ("GET", "/../projects")):
        body = score(message, "thumbsUp") if method == "POST" else None
        response = httpx.request(method, f"{running.url}/api/public/scores{path}", auth=auth, json=body)
        assert response.status_code == 401 and "langfuse_public_key" in response.json()["error"]
    assert head(running) == before


def test_the_endpoint_is_disabled_until_it_is_configured(service: Service) -> None:
    response = service.http.post("/api/public/scores", json=score("m", "thumbsUp"), auth=("a", "b"))
    assert response.status_code == 404 and "set langfuse_public_key" in response.json()["error"]


@pytest.mark.long
def test_ratings_work_on_postgres(start: Start, postgres_url: str) -> None:
    service = start(CHAT, store=postgres_url, **KEYS)
    service.wait_learned("chat", 15)
    message = ask(service)
    with httpx.Client(base_url=service.url, auth=AUTH) as librechat:
        assert librechat.post("/api/public/scores", json=score(message, "thumbsUp")).json()["status"] == "accepted"
        assert clear(librechat, message).json()["status"] == "retracted"
