"""Unanswered questions: they are grouped by meaning, until a reply is taught."""

import json
from collections.abc import Iterator

import pytest

from online.models.encoders.text import TEXT_WIDTH
from online.plugins.moderation.inbox.tables import UnansweredPrediction
from online.plugins.moderation.inbox.unanswered import collect_questions
from tests.conftest import config
from tests.serving.repertoire.test_repertoire import reply_to
from tests.support import Service

UNANSWERED = ("Do you lend telescopes?", "Can I borrow a telescope?", "Is there a telescope to lend?")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("unanswered")
    running = Service(folder / "state", config(folder, '[[models]]\nname = "chat"\nkind = "ranker"\n'))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


def test_unanswered_questions_are_clustered_until_a_reply_is_taught(chat: Service) -> None:
    for question in (*UNANSWERED, "do you lend TELESCOPES?", "My cat is called Misty and likes fish"):
        assert reply_to(chat, question) is None
    first = chat.http.get("/v1/models/chat/unanswered").json()["clusters"][0]
    assert first["asked"] == 4 and sorted(question["text"] for question in first["questions"]) == sorted(
        ["do you lend TELESCOPES?", *UNANSWERED[1:]]
    )
    assert "telescope" not in json.dumps(chat.http.get("/v1/models/chat/unanswered").json()["clusters"][1:]).lower()
    items = [
        {"prediction_id": question["predictions"][0], "correction": "Telescopes are lent for a week."}
        for question in first["questions"]
    ]
    receipts = chat.http.post("/v1/models/chat:feedback", json={"feedback": items}).json()["receipts"]
    chat.wait_learned("chat", receipts[-1]["offset"])
    remaining = json.dumps(chat.http.get("/v1/models/chat/unanswered").json())
    assert "telescope" not in remaining.lower() and "Misty" in remaining


def test_questions_of_the_same_words_are_merged() -> None:
    rows = [
        UnansweredPrediction("2", '"Tea?"', bytes(TEXT_WIDTH), None, "b"),
        UnansweredPrediction("1", '{"text": " tea? "}', bytes(TEXT_WIDTH), None, "a"),
        UnansweredPrediction("0", "[1, 2]", bytes(8), None, "a"),
    ]
    (merged,) = collect_questions(rows)
    assert (merged.text, merged.predictions, merged.asked_at) == ("Tea?", ["2", "1"], "b")


def test_only_a_ranker_has_unanswered_questions(service: Service) -> None:
    response = service.http.get("/v1/models/vec/unanswered")
    assert response.status_code == 400 and "only a ranker" in response.json()["error"]
