"""A ranker whose open questions a router answers: in chat completions, in conversations of the page, and for feedback."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import openai
import orjson
import pytest

from tests.conftest import Start
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_routed_chat import models, wait_learned
from tests.support import Service, until

TAUGHT, REPLY = "When do you open?", "We open at nine."
OPEN = "Why is the sky blue?"
USER = {"X-User": "ada"}


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


def front(upstream: FakeUpstream, routes: dict[str, str], fallback: str = "router") -> str:
    return f'[[models]]\nname = "chat"\nkind = "ranker"\nfallback = "{fallback}"\n\n{models(upstream, routes, explore=0.0)}'


@pytest.fixture
def service(start: Start, upstream: FakeUpstream, tmp_path: Path) -> Service:
    repertoire = tmp_path / "replies.jsonl"
    repertoire.write_bytes(orjson.dumps({"id": "hours", "text": REPLY, "examples": [TAUGHT]}))
    routes = {"small": "say:Because of Rayleigh.", "large": "echo"}
    service = start(front(upstream, routes), repertoire=str(repertoire))
    until(lambda: complete(service, TAUGHT).json()["choices"][0]["message"]["content"] == REPLY, what="the first reply")
    return service


def complete(service: Service, text: str, **more: Any) -> httpx.Response:
    body = {"model": "chat", "messages": [{"role": "user", "content": text}], **more}
    return service.http.post("/v1/chat/completions", json=body)


def ask(service: Service, text: str, conversation: str = "c1", **more: Any) -> dict[str, Any]:
    body = {"instances": [text], "conversation": conversation, "user": "ada", **more}
    answer: dict[str, Any] = service.http.post("/v1/models/chat:predict", json=body).raise_for_status().json()
    return answer


def stream_answer(service: Service, id: str, exclude: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """Return the id, the route and the text of an answer in a conversation."""
    url = f"/v1/models/chat/predictions/{id}/answers"
    with service.http.stream("POST", url, json={"exclude": exclude}) as answer:
        assert answer.status_code == 200, answer.read()
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    chunks = [orjson.loads(line) for line in lines[:-1]]
    text = "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks)
    return chunks[0]["id"], answer.headers["X-Route"], text


def list_answers(service: Service, conversation: str = "c1") -> dict[str, Any]:
    listed = service.http.get(f"/v1/models/chat/conversations/{conversation}/answers", headers=USER)
    found: dict[str, Any] = listed.raise_for_status().json()
    return found


def test_a_reply_that_people_wrote_stays_in_front(service: Service, upstream: FakeUpstream) -> None:
    before = len(upstream.requests)
    answer = complete(service, TAUGHT)
    assert answer.json()["choices"][0]["message"]["content"] == REPLY and "X-Route" not in answer.headers
    assert len(upstream.requests) == before


def test_a_question_without_a_reply_goes_to_a_route(service: Service) -> None:
    answer = complete(service, OPEN)
    assert answer.json()["choices"][0]["message"]["content"] == "Because of Rayleigh."
    assert answer.headers["X-Route"] == "small"
    client = openai.OpenAI(base_url=f"{service.url}/v1", api_key="any")
    question: Any = [{"role": "user", "content": OPEN}]
    chunks = list(client.chat.completions.create(model="chat", messages=question, stream=True))
    assert "".join(each.choices[0].delta.content or "" for each in chunks) == "Because of Rayleigh."


def test_the_question_still_waits_for_a_person_who_knows_the_reply(service: Service) -> None:
    complete(service, OPEN)
    store = service.http.get("/v1/models/chat/unanswered").raise_for_status()
    assert OPEN in store.text


def test_a_thumb_that_is_sent_to_the_ranker_teaches_the_router(service: Service) -> None:
    completion = complete(service, OPEN).json()
    item = {"prediction_id": completion["id"], "reward": 0, "id": "thumb-1"}
    given = service.http.post("/v1/models/chat:feedback", json={"feedback": [item]})
    assert given.status_code == 202, given.text
    wait_learned(service, given.json()["receipts"][0]["offset"])
    assert service.http.get("/v1/models/chat/feedback/thumb-1").json()["status"] == "learned"
    assert service.http.get("/v1/models/router/feedback/thumb-1").status_code == 200
    assert complete(service, OPEN).headers["X-Route"] == "large"
    assert service.http.delete("/v1/models/chat/feedback/thumb-1").status_code == 202


def test_feedback_on_an_answer_that_neither_gave_names_the_model_that_was_asked(service: Service) -> None:
    items = [{"prediction_id": "chatcmpl-unknown", "reward": 1}]
    refused = service.http.post("/v1/models/chat:feedback", json={"feedback": items})
    assert refused.status_code == 404 and "chat has no prediction" in refused.json()["error"]


def test_an_open_question_of_a_conversation_is_answered_with_the_turns_before_it(service: Service) -> None:
    assert ask(service, TAUGHT)["predictions"][0]["reply"]["text"] == REPLY
    first = ask(service, OPEN)
    assert first["predictions"][0]["abstained"]
    question = first["prediction_ids"][0]
    id, route, text = stream_answer(service, question)
    assert (route, text) == ("small", "Because of Rayleigh.")
    _, other, sent = stream_answer(service, question, (route,))  # this route answers with the request
    expected = [("user", TAUGHT), ("assistant", REPLY), ("user", OPEN)]
    assert other == "large" and [(each["role"], each["content"]) for each in orjson.loads(sent)["messages"]] == expected
    listed = list_answers(service)
    assert listed["model"] == "router"
    found = [(each["route"], each["text"]) for each in listed["answers"][question]]
    assert listed["answers"][question][0]["prediction_id"] == id and found == [("small", text), ("large", sent)]


def test_the_thumb_on_an_answer_of_a_conversation_is_listed_with_it(service: Service) -> None:
    question = ask(service, OPEN)["prediction_ids"][0]
    id, _, _ = stream_answer(service, question)
    items = [{"prediction_id": id, "reward": 0, "signal": "preference", "user": "ada"}]
    service.http.post("/v1/models/router:feedback", json={"feedback": items}).raise_for_status()
    (answer,) = list_answers(service)["answers"][question]
    assert [each["reward"] for each in answer["feedback"]] == [0]


def test_no_other_route_is_said_in_a_sentence(service: Service) -> None:
    question = ask(service, OPEN)["prediction_ids"][0]
    url = f"/v1/models/chat/predictions/{question}/answers"
    refused = service.http.post(url, json={"exclude": ["small", "large"]})
    assert refused.status_code == 502 and "no other route" in refused.json()["error"]


def test_the_answers_of_a_conversation_go_with_it_and_with_its_user(service: Service) -> None:
    question = ask(service, OPEN)["prediction_ids"][0]
    stream_answer(service, question)
    service.http.delete("/v1/models/chat/conversations/c1", headers=USER).raise_for_status()
    assert count_texts(service) == 0
    stream_answer(service, ask(service, OPEN, "c2")["prediction_ids"][0])
    assert count_texts(service) == 2
    erasure = service.http.delete("/v1/users/ada").raise_for_status().json()["id"]
    until(lambda: service.http.get(f"/v1/erasures/{erasure}").json()["state"] == "done", what="the erasure")
    assert count_texts(service) == 0


def test_an_answer_that_ends_after_its_conversation_was_deleted_is_not_kept(
    start: Start, upstream: FakeUpstream
) -> None:
    service = start(front(upstream, {"small": "drip"}))
    question = ask(service, OPEN)["prediction_ids"][0]
    url = f"/v1/models/chat/predictions/{question}/answers"
    with service.http.stream("POST", url) as answer:
        upstream.release(1)
        lines = answer.iter_lines()
        assert "delta" in next(lines)
        service.http.delete("/v1/models/chat/conversations/c1", headers=USER).raise_for_status()
        upstream.release(20)
        assert "data: [DONE]" in [*lines]
    assert count_texts(service) == 0


def count_texts(service: Service) -> int:
    """Count what the store has of the words of the router's answers and questions."""
    query = "SELECT (SELECT count(*) FROM generated_answer) + (SELECT count(*) FROM prediction WHERE model = 'router' AND input LIKE '%sky%')"
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        return int(store.execute(query).fetchone()[0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[[models]]\nname = "chat"\nkind = "ranker"\nfallback = "nothing"\n', "is no router of this configuration"),
        ('[[models]]\nname = "c"\nkind = "classifier"\nfallback = "router"\n', "only a ranker has a fallback"),
    ],
)
def test_a_fallback_that_cannot_be_is_refused_at_the_start(
    tmp_path: Path, upstream: FakeUpstream, text: str, reason: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=reason):
        Service(tmp_path / "state", text + models(upstream, {"small": "ok"}))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_texts_of_other_answers_are_kept_where_the_option_says_so(
    start: Start, upstream: FakeUpstream, streamed: bool
) -> None:
    service = start(models(upstream, {"small": "say:Because of Rayleigh."}, keep_answers=True))
    body = {"model": "router", "messages": [{"role": "user", "content": OPEN}], "stream": streamed}
    service.http.post("/v1/chat/completions", json=body).raise_for_status()
    listed = lambda: service.http.get("/v1/models/router/answers").raise_for_status().json()["answers"]  # noqa: E731
    (answer,) = until(listed, what="the text")
    assert (answer["question"], answer["answer"], answer["route"]) == (OPEN, "Because of Rayleigh.", "small")
