"""Rewards about what a device answered without the service: feedback with an input, and the choice that it judges."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Start, config
from tests.support import Service

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
QUESTION = "When do you open?"
ADMIN = {"X-Admin-Key": "open sesame"}


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("chat")
    service = Service(folder / "state", config(folder, CHAT))
    service.wait_learned("chat", 1)
    yield service
    service.stop()


def give(service: Service, **item: Any) -> httpx.Response:
    return service.http.post("/v1/models/chat:feedback", json={"feedback": [item]})


def answer_after(service: Service, response: httpx.Response) -> str | None:
    """The reply to the question once the feedback is learned."""
    body = {"instances": [QUESTION], "min_offset": response.json()["receipts"][0]["offset"], "timeout_ms": 60_000}
    answer = service.http.post("/v1/models/chat:predict", json=body).raise_for_status().json()
    reply = answer["predictions"][0]["reply"]
    return None if reply is None else str(reply["text"])


def test_a_thumb_down_about_an_answer_of_a_device_is_learned_and_taken_back(chat: Service) -> None:
    thumb = {"id": "thumb", "input": QUESTION, "choice": "hours", "reward": 0}
    given = give(chat, **thumb)
    assert given.status_code == 202
    assert answer_after(chat, given) != "We open at nine."
    again = give(chat, **thumb)
    assert again.json() == given.json(), "the same id has no second effect"
    curve = chat.http.get("/v1/models/chat/curve").json()
    assert (curve["judged"], curve["rated"]) == (0, 0), "it does not count as an answer of the service"

    retracted = chat.http.delete("/v1/models/chat/feedback/thumb").raise_for_status().json()
    chat.wait_learned("chat", retracted["offset"])
    newest, *_, first = [each["state_sha256"] for each in chat.versions("chat")]
    assert newest == first, "the state is that of a model without the thumb"


@pytest.mark.parametrize(
    ("item", "status", "words"),
    [
        ({"input": QUESTION, "reward": 1}, 400, "a reward judges an answer"),
        ({"input": QUESTION, "label": "hours", "choice": "hours"}, 400, "only a reward for an input has one"),
        ({"prediction_id": "p", "reward": 1, "choice": "hours"}, 400, "a prediction is known by its prediction_id"),
        ({"input": QUESTION, "reward": 1, "choice": " "}, 400, "empty choice"),
        ({"input": QUESTION, "reward": 1, "choice": "x" * 2_000}, 413, "a choice of 2000 characters"),
        ({"input": QUESTION, "reward": 1, "choice": "nothing"}, 404, "no reply 'nothing'"),
    ],
)
def test_a_choice_that_judges_nothing_is_refused(chat: Service, item: dict[str, Any], status: int, words: str) -> None:
    head = chat.http.get("/v1/models/chat").json()["head"]
    refused = give(chat, **item)
    assert refused.status_code == status, refused.text
    assert words in refused.json()["error"]
    assert chat.http.get("/v1/models/chat").json()["head"] == head


def test_it_needs_the_scope_teach(start: Start) -> None:
    service = start(CHAT, admin_key="open sesame")
    body = {"name": "ann", "scopes": ["predict", "feedback"]}
    key = service.http.post("/v1/keys", json=body, headers=ADMIN).raise_for_status().json()["key"]
    item = {"input": QUESTION, "choice": "hours", "reward": 0}
    refused = service.http.post("/v1/models/chat:feedback", json={"feedback": [item]}, headers={"X-API-Key": key})
    assert refused.status_code == 403
    assert "'teach'" in refused.json()["error"]
