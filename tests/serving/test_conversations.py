"""What was said is kept for whoever said it, and for nobody else; and a reply can be asked for its reasons."""

import uuid
from typing import Any

import httpx
import pytest

from tests.serving.test_api import give, predict
from tests.support import Service


class Person:
    """Somebody with a browser of their own."""

    def __init__(self, service: Service) -> None:
        self.service, self.user = service, f"browser-{uuid.uuid4().hex}"

    def ask(self, question: str, conversation: str, **more: Any) -> dict[str, Any]:
        return predict(self.service, "chat", [question], user=self.user, conversation=conversation, **more)

    def get(self, path: str = "", **query: str) -> httpx.Response:
        return self.service.http.get(
            f"/v1/models/chat/conversations{path}", params=query, headers={"X-User": self.user}
        )

    def titles(self, **query: str) -> list[str]:
        return [each["title"] for each in self.get(**query).json()["conversations"]]


@pytest.fixture
def person(service: Service) -> Person:
    service.wait_learned("chat", 1)
    return Person(service)


def test_conversations_are_listed_the_newest_first_by_their_first_question(person: Person) -> None:
    first, second = uuid.uuid4().hex, uuid.uuid4().hex
    person.ask("When do you open?", first)
    person.ask("Can I print here?", second)
    person.ask("Is there wifi?", first)
    assert person.titles() == ["When do you open?", "Can I print here?"]
    assert [each["turns"] for each in person.get().json()["conversations"]] == [2, 1]


def test_a_conversation_tells_all_that_was_said_and_thought(person: Person) -> None:
    id = uuid.uuid4().hex
    asked = person.ask("When do you open?", id)
    first = asked["prediction_ids"][0]
    down = give(person.service, "chat", prediction_id=first, reward=0.0, user=person.user, reason="wrong")["id"]
    gone = give(person.service, "chat", prediction_id=first, reward=1.0, user=person.user)["id"]
    person.service.http.delete(f"/v1/models/chat/feedback/{gone}")
    person.ask("Where is the printer?", id)
    opened = person.get(f"/{id}").json()
    assert opened["title"] == "When do you open?" and opened["turns"] == 2
    said = opened["said"]
    assert [turn["question"] for turn in said] == ["When do you open?", "Where is the printer?"]
    assert said[0]["reply"] == asked["predictions"][0]["reply"] and said[0]["candidates"][0]["text"]
    assert [(each["reward"], each["reason"]) for each in said[0]["feedback"]] == [(0.0, "wrong")]
    assert said[1]["feedback"] == []
    person.service.http.delete(f"/v1/models/chat/feedback/{down}")


def test_words_of_questions_and_of_replies_find_a_conversation(person: Person) -> None:
    person.ask("When do you open?", uuid.uuid4().hex)
    person.ask("Is there wifi in the café?", uuid.uuid4().hex)
    assert person.titles(q="OPEN") == ["When do you open?"]
    assert person.titles(q="café") == ["Is there wifi in the café?"]
    assert person.titles(q="called guest") == ["Is there wifi in the café?"]
    assert person.titles(q="100%") == [] and person.titles(q="_") == []


def test_what_somebody_else_said_is_not_there(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("When do you open?", id)
    other = Person(person.service)
    assert other.titles() == [] and other.get(f"/{id}").status_code == 404
    body = {"instances": ["Is there wifi?"], "user": other.user, "conversation": id}
    refused = person.service.http.post("/v1/models/chat:predict", json=body)
    assert refused.status_code == 404 and "no conversation" in refused.json()["error"]
    assert person.service.http.get("/v1/models/chat/conversations").status_code == 400  # whose?


def test_a_conversation_needs_a_user_and_a_record(person: Person) -> None:
    for more in ({}, {"user": person.user, "record": False}):
        body = {"instances": ["Is there wifi?"], "conversation": "mine", **more}
        refused = person.service.http.post("/v1/models/chat:predict", json=body)
        assert refused.status_code == 400 and "needs its user" in refused.json()["error"]


def test_a_deleted_conversation_leaves_no_words(person: Person) -> None:
    id = uuid.uuid4().hex
    asked = person.ask("When do you open, dear library?", id)["prediction_ids"][0]
    give(person.service, "chat", prediction_id=asked, reward=1.0, user=person.user, comment="lovely")
    url = f"/v1/models/chat/conversations/{id}"
    deleted = person.service.http.delete(url, headers={"X-User": person.user})
    assert deleted.json() == {"id": id, "turns": 1}
    assert person.titles() == [] and person.titles(q="library") == []
    assert person.service.http.delete(url, headers={"X-User": person.user}).status_code == 404
    stored = person.service.state / "online.db"
    assert b"dear library" not in stored.read_bytes() + stored.with_name("online.db-wal").read_bytes()[-200_000:]


def test_an_erased_user_has_no_conversations(person: Person) -> None:
    person.ask("When do you open?", uuid.uuid4().hex)
    person.service.http.delete(f"/v1/models/chat/users/{person.user}")
    assert person.titles() == []


# another reply


@pytest.fixture
def settled(person: Person) -> str:
    """A question whose answer is known for sure, whatever other tests did to the repertoire."""
    question = f"When do you open on day {uuid.uuid4().hex[:6]}?"
    receipt = give(person.service, "chat", input=question, label="hours")
    person.service.wait_learned("chat", receipt["offset"])
    return question


def test_another_reply_is_the_next_best_one_and_takes_feedback_of_its_own(person: Person, settled: str) -> None:
    first = predict(person.service, "chat", [settled])["predictions"][0]
    again = predict(person.service, "chat", [settled], besides=[first["reply"]["id"]])
    second = again["predictions"][0]
    assert second["reply"]["id"] == second["candidates"][0]["id"] == first["candidates"][1]["id"]
    assert first["reply"]["id"] not in {each["id"] for each in second["candidates"]}
    assert second["propensity"] == 1.0 and not second["abstained"]
    receipt = give(person.service, "chat", prediction_id=again["prediction_ids"][0], reward=0.0)
    person.service.http.delete(f"/v1/models/chat/feedback/{receipt['id']}")


def test_when_no_candidate_is_left_it_abstains(person: Person, settled: str) -> None:
    first = predict(person.service, "chat", [settled])["predictions"][0]
    every = [each["id"] for each in first["candidates"]]
    last = predict(person.service, "chat", [settled], besides=every)["predictions"][0]
    assert last["reply"] is None and last["abstained"] and last["candidates"] == []


# why


def test_a_reply_says_what_its_score_is_made_of_and_who_speaks_for_it(person: Person) -> None:
    asked = predict(person.service, "chat", ["When do you open?"])["prediction_ids"][0]
    told = person.service.http.get(f"/v1/models/chat/predictions/{asked}/why").json()
    best, *others = told["grounds"]
    assert best["id"] == "hours" and best["text"] == "We open at nine." and len(others) == 4
    for each in told["grounds"]:
        assert each["score"] == pytest.approx(each["sums"] + each["evidence"] + each["standing"])
        assert each["score"] <= best["score"]
    nearest = told["witnesses"][0]
    assert nearest["question"] == "When do you open?" and nearest["reply"]["id"] == "hours"
    assert nearest["likeness"] == pytest.approx(1, abs=0.01) and nearest["said"] == "example" and nearest["reward"] == 1


def test_what_was_taught_is_named_as_the_reason(person: Person) -> None:
    question = f"What is behind door {uuid.uuid4().hex[:6]}?"
    asked = predict(person.service, "chat", [question])["prediction_ids"][0]
    receipt = give(person.service, "chat", prediction_id=asked, correction="A staircase.")
    person.service.wait_learned("chat", receipt["offset"])
    told = person.service.http.get(f"/v1/models/chat/predictions/{asked}/why").json()
    nearest = told["witnesses"][0]
    assert (nearest["question"], nearest["said"]) == (question, "correction")
    assert nearest["feedback_id"] == receipt["id"] and told["settled"] == nearest["reply"]["id"]
    person.service.http.delete(f"/v1/models/chat/feedback/{receipt['id']}")


def test_only_what_was_asked_of_a_ranker_has_such_reasons(person: Person) -> None:
    missing = person.service.http.get("/v1/models/chat/predictions/nothing/why")
    assert missing.status_code == 404 and "no prediction 'nothing'" in missing.json()["error"]
    other = person.service.http.get("/v1/models/vec/predictions/nothing/why")
    assert other.status_code == 400 and "only a ranker" in other.json()["error"]
