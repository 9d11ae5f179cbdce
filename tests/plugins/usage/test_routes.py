"""Usage over calendar time and the top questions, over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api.auth.access import CHAT, VEC, ask, browse, build
from tests.support import Service

QUESTIONS = "/v1/models/chat/usage/questions"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with browse(build(tmp_path, CHAT, VEC, admin_key=None, open=True)) as client:
        yield client


def test_a_thumb_with_a_reason_and_a_comment_is_one_rating(service: Service) -> None:
    def usage() -> dict[str, Any]:
        sums: dict[str, Any] = service.http.get("/v1/models/chat/usage").raise_for_status().json()["total"]
        return sums

    def give(**item: Any) -> None:
        service.http.post("/v1/models/chat:feedback", json={"feedback": [item]}).raise_for_status()

    before = usage()
    body = {"instances": ["Is there coffee?"], "user": "ann"}
    id = service.http.post("/v1/models/chat:predict", json=body).json()["prediction_ids"][0]
    for item in ({"reward": 0}, {"reward": 0, "reason": "wrong"}, {"reward": 0, "reason": "wrong", "comment": "No!"}):
        give(id=None, prediction_id=id, user="ann", **item)
    after = usage()
    names = ("asked", "answered", "rated", "good", "bad", "corrected", "answered_alone")
    assert [after[name] - before[name] for name in names] == [1, 1, 1, 0, 1, 0, 0]
    give(prediction_id=id, user="ann", reward=1)
    changed = usage()
    assert [changed[name] - before[name] for name in names] == [1, 1, 1, 1, 0, 0, 1]


def test_satisfaction_counts_what_stands_and_every_span_is_listed(client: TestClient) -> None:
    for _ in range(3):
        ask(client)
    answer = client.get("/v1/models/chat/usage?timezone=Europe/Berlin").json()
    assert (answer["by"], answer["timezone"], len(answer["spans"])) == ("day", "Europe/Berlin", 30)
    assert [span["asked"] for span in answer["spans"]] == [0] * 29 + [3] and answer["is_complete"]
    assert answer["total"]["satisfaction"] is None and answer["counted_since"] and answer["kept_since"]


def test_each_unit_and_a_range_of_its_own(client: TestClient) -> None:
    query = "?from=2020-01-01&until=2020-03-01&timezone=Asia/Kathmandu"
    for unit, spans in (("hour", 1440), ("day", 60), ("week", 9), ("month", 2)):
        answer = client.get(f"/v1/models/chat/usage{query}&by={unit}").json()
        assert len(answer["spans"]) == spans
        assert answer["spans"][0]["since"] == "2020-01-01T00:00:00+05:45" and answer["total"]["asked"] == 0


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("by=minute", "by"),
        ("timezone=Nowhere", "there is no time zone 'Nowhere'"),
        ("from=soon", "from is 'soon'"),
        ("from=2026-02-01&until=2026-01-01", "is not before until"),
        ("from=2000-01-01&by=hour", "more than 2,000 spans"),
        ("until=" + "9" * 50, "until"),
    ],
)
def test_bad_ranges_are_refused_with_the_reason(client: TestClient, query: str, reason: str) -> None:
    answer = client.get(f"/v1/models/chat/usage?{query}")
    assert answer.status_code == 400 and reason in answer.json()["error"]


def test_top_questions_are_grouped_with_what_was_answered(client: TestClient) -> None:
    for question in ("When do you open?", "when do you open?", "What are your opening hours?", "Is there wifi?"):
        ask(client, question)
    answer = client.get(QUESTIONS).json()
    assert answer["questions"][0]["text"] == "When do you open?"
    assert answer["questions"][0]["asked"] >= 2 and answer["questions"][0]["unanswered"] >= 2  # nothing is learned
    assert answer["looked_at"] == 4 and answer["complete_since"] is None and answer["reason"] is None
    assert len(client.get(f"{QUESTIONS}?limit=1").json()["questions"]) == 1
    assert client.get(f"{QUESTIONS}?limit=0").status_code == client.get(f"{QUESTIONS}?limit=101").status_code == 400


def test_without_questions_there_is_a_reason(client: TestClient) -> None:
    assert "nothing was asked" in client.get(QUESTIONS).json()["reason"]
    client.post("/v1/models/vec:predict", json={"instances": [[1.0, 0.0]]}).raise_for_status()
    answer = client.get("/v1/models/vec/usage/questions").json()
    assert answer["questions"] == [] and "no texts" in answer["reason"]
    assert client.get("/v1/models/none/usage").status_code == 404
