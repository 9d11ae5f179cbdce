"""The inbox of models that are no rankers: held examples by their name, and what callers add to a repertoire."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from online.cli.access.stopped_service import learn_everything
from online.plugins.moderation.inbox.groups import MAX_INSTANCE_CHARS
from online.settings import ModelSettings
from tests.api.auth.access import CHAT, bearer, browse, build, new_key

VEC = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2, "scale": 4.0})
WORDS = ModelSettings(name="words", kind="classifier", options={"input": "text"})
SUMS = ModelSettings(name="sums", kind="regressor", options={"input": "vector", "size": 2, "scale": 4.0})
ROOT = "/v1/models/vec"
ADDRESSES = count(1)
STAR, MOON = [1.0, 2.0], [4.0, 0.0]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    app = build(tmp_path / "inbox", VEC, SUMS, public_teaching="review")
    with browse(app):
        yield app


@pytest.fixture
def curator(app: FastAPI) -> TestClient:
    return browse(app, **bearer(new_key(app, "predict", "feedback", "curate", name="carl")))


def visitor(app: FastAPI) -> TestClient:
    client = browse(app, f"203.0.113.{next(ADDRESSES)}")
    client.get("/v1/session")
    return client


def name(client: TestClient, instance: Any, label: str, model: str = "vec", **more: Any) -> dict[str, Any]:
    """Ask about an instance as the draw page does, and name it; return the receipt."""
    asked = client.post(f"/v1/models/{model}:predict", json={"instances": [instance]}).json()
    item = {"prediction_id": asked["prediction_ids"][0], "label": label, **more}
    named = client.post(f"/v1/models/{model}:feedback", json={"feedback": [item]})
    assert named.status_code == 202, named.text
    receipt: dict[str, Any] = named.json()["receipts"][0]
    return receipt


def read(client: TestClient, model: str = "vec", **params: Any) -> dict[str, Any]:
    response = client.get(f"/v1/models/{model}/inbox", params=params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def decide(client: TestClient, ids: list[str], action: str, **more: Any) -> Any:
    return client.post(f"{ROOT}/inbox:decide", json={"ids": ids, "action": action, **more})


def undo(client: TestClient, decision: str, model: str = "vec") -> dict[str, Any]:
    response = client.post(f"/v1/models/{model}/inbox:undo", json={"decision": decision})
    assert response.status_code == 202, response.text
    undone: dict[str, Any] = response.json()
    return undone


def learn(app: FastAPI) -> str:
    """Learn the log to its end; return the digest of what was learned."""
    workspace = app.state.runtime.workspace
    learn_everything(workspace)
    snapshots = workspace.snapshots("vec")
    return str(snapshots.folder.manifest(snapshots.folder.live().version).state_sha256)


def status_of(client: TestClient, id: str) -> dict[str, Any]:
    status: dict[str, Any] = client.get(f"{ROOT}/feedback/{id}").json()
    return status


# held examples


def test_held_examples_are_groups_of_one_name_with_what_they_are_about(app: FastAPI, curator: TestClient) -> None:
    ann, ben = visitor(app), visitor(app)
    first, moon, second = name(ann, STAR, "star"), name(ann, MOON, "moon"), name(ben, STAR, "star", comment="Mine")
    assert {each["status"] for each in (first, moon, second)} == {"held"}
    star, other = read(curator)["groups"]
    assert (star["label"], star["questions"], [item["id"] for item in star["items"]]) == (
        "star",
        [],
        [second["id"], first["id"]],
    )
    item = star["items"][0]
    assert (item["kind"], item["label"], item["instance"], item["comment"]) == ("label", "star", STAR, "Mine")
    assert (item["state"], item["hold"], item["question"], item["answered"]) == ("held", "review", None, None)
    assert item["caller"].startswith("visitor:") and item["created_at"] and star["id"] == first["id"]
    assert other["items"][0]["instance"] == MOON
    assert curator.get(f"{ROOT}/inbox:count").json() == {"groups": 2, "items": 3, "mine": 0}
    assert [len(each["items"]) for each in read(curator, sort="largest")["groups"]] == [2, 1]
    assert ann.get(f"{ROOT}/inbox").status_code == 403


def test_approved_examples_are_learned_and_rejected_ones_tell_why(app: FastAPI, curator: TestClient) -> None:
    ann = visitor(app)
    star, rude = name(ann, STAR, "star")["id"], name(ann, MOON, "rude")["id"]
    untaught = learn(app)
    approved = decide(curator, [star], "approve").json()
    assert (approved["closed"], status_of(ann, star)["status"]) == (1, "accepted")
    assert decide(curator, [rude], "reject", reason="Be kind.").json()["closed"] == 1
    assert status_of(ann, rude) == {**status_of(ann, rude), "status": "rejected", "reason": "Be kind."}
    assert learn(app) != untaught and read(curator)["group_count"] == 0
    rejected, accepted = read(curator, state="done")["decisions"]
    assert (rejected["action"], rejected["reason"], rejected["items"][0]["label"]) == ("reject", "Be kind.", "rude")
    assert (accepted["action"], accepted["by"], accepted["items"][0]["instance"]) == ("approve", "key:carl", STAR)
    for decision in (rejected, accepted):
        assert undo(curator, decision["id"])["by"] == "key:carl"
    assert learn(app) == untaught
    assert sorted(each["label"] for each in read(curator)["groups"]) == ["rude", "star"]


def test_a_name_whose_approval_was_undone_is_checked_again(app: FastAPI, curator: TestClient) -> None:
    undo(curator, decide(curator, [name(visitor(app), STAR, "star")["id"]], "approve").json()["decision"])
    assert name(visitor(app), MOON, "star")["status"] == "held"


def test_the_second_curator_is_told_who_decided_before(app: FastAPI, curator: TestClient) -> None:
    olga = browse(app, **bearer(new_key(app, "predict", "feedback", "curate", name="olga")))
    ids = [name(visitor(app), STAR, "star")["id"], name(visitor(app), STAR, "star")["id"]]
    assert decide(curator, ids[:1], "approve").status_code == 202
    late = decide(olga, ids, "reject")
    assert (late.status_code, late.json()["by"], late.json()["action"]) == (409, "key:carl", "approve")
    assert [item["id"] for group in read(olga)["groups"] for item in group["items"]] == ids[1:]


def test_examples_are_approved_or_rejected_only(app: FastAPI, curator: TestClient) -> None:
    id = name(visitor(app), STAR, "star")["id"]
    for action, more in (("merge", {"reply": "moon"}), ("reply", {"text": "moon"})):
        refused = decide(curator, [id], action, **more)
        assert refused.status_code == 400 and "approved or rejected" in refused.json()["error"]
    dismissed = curator.post(f"{ROOT}/unanswered:dismiss", json={"predictions": ["x"]})
    assert dismissed.status_code == 400 and "only a ranker" in dismissed.json()["error"]


def test_held_numbers_and_examples_of_ones_own_are_listed_too(app: FastAPI, curator: TestClient) -> None:
    ann = visitor(app)
    said = ann.post("/v1/models/sums:feedback", json={"feedback": [{"input": STAR, "label": 3}]})
    assert said.json()["receipts"][0]["status"] == "held"
    (group,) = read(curator, "sums")["groups"]
    assert (group["label"], group["items"][0]["instance"]) == ("3", STAR)
    assert group["items"][0]["prediction_id"] is None


def test_texts_are_questions_and_long_ones_are_left_out(tmp_path: Path) -> None:
    app = build(tmp_path / "words", WORDS, public_teaching="review", max_text_chars=2 * MAX_INSTANCE_CHARS)
    with browse(app):
        curator = browse(app, **bearer(new_key(app, "predict", "feedback", "curate", name="carl")))
        name(visitor(app), "Hello there", "greeting", "words")
        name(visitor(app), "x " * MAX_INSTANCE_CHARS, "greeting", "words")
        (group,) = read(curator, "words")["groups"]
        assert [item["question"] for item in group["items"]] == [None, "Hello there"]
        assert [item["instance"] for item in group["items"]] == [None, "Hello there"]


# what callers add to a repertoire


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[FastAPI]:
    app = build(tmp_path / "chat", CHAT)
    with browse(app):
        yield app


def test_what_a_teacher_adds_is_shown_to_curators_and_taken_back_by_them(chat: FastAPI) -> None:
    curator = browse(chat, **bearer(new_key(chat, "predict", "feedback", "curate", "teach", name="carl")))
    tina = browse(chat, **bearer(new_key(chat, "predict", "teach", name="tina")))
    replies = "/v1/models/chat/replies"
    examples = ["Do you have a garden?", "Is it green outside?"]
    added = tina.post(replies, json={"text": "The garden is behind.", "examples": examples}).json()
    known = tina.post(replies, json={"text": "We open at nine.", "examples": ["Are you up?"]}).json()
    lines = '{"text": "We lend games."}\n{"text": "We lend tools.", "examples": ["Have you a drill?"]}\n'
    assert tina.post(f"{replies}:import", content=lines).status_code == 200
    curator.post(replies, json={"text": "A curator's own."})
    assert read(curator, "chat")["group_count"] == 0
    imported, example, reply = read(curator, "chat", state="done")["decisions"]
    assert (reply["action"], reply["by"], reply["questions"]) == ("add", "key:tina", examples)
    assert reply["added"] == {"replies": ["The garden is behind."], "reply_count": 1, "example_count": 2}
    assert example["added"] == {"replies": ["We open at nine."], "reply_count": 0, "example_count": 1}
    assert imported["added"] == {"replies": ["We lend games.", "We lend tools."], "reply_count": 2, "example_count": 1}

    assert undo(curator, reply["id"], "chat")["offset"] > 0
    assert curator.get(f"{replies}/{added['id']}").json()["active"] is False
    assert len(curator.get(f"{replies}/{added['id']}").json()["examples"]) == 2, "they count again once it is restored"
    undo(curator, example["id"], "chat")
    opening = curator.get(f"{replies}/{known['id']}").json()
    assert opening["active"] and "Are you up?" not in [each["text"] for each in opening["examples"]]
    undone = undo(curator, imported["id"], "chat")
    assert undo(curator, imported["id"], "chat") == undone
    active = {each["text"] for each in curator.get(replies).json()["replies"] if each["active"]}
    assert not active & {"The garden is behind.", "We lend games.", "We lend tools."}
    assert read(curator, "chat", state="done")["decisions"] == []


def test_an_undo_of_an_addition_leaves_alone_what_a_curator_has_changed(chat: FastAPI) -> None:
    curator = browse(chat, **bearer(new_key(chat, "predict", "curate", name="carl")))
    tina = browse(chat, **bearer(new_key(chat, "predict", "teach", name="tina")))
    replies = "/v1/models/chat/replies"
    added = tina.post(replies, json={"text": "We lend games."}).json()
    known = tina.post(replies, json={"text": "We open at nine.", "examples": ["Are you up?"]}).json()
    curator.delete(f"{replies}/{added['id']}")
    (offset,) = [
        each["offset"]
        for each in curator.get(f"{replies}/{known['id']}").json()["examples"]
        if each["text"] == "Are you up?"
    ]
    curator.delete(f"{replies}/{known['id']}/examples/{offset}")
    head = chat.state.runtime.models["chat"].stream.head()
    for decision in read(curator, "chat", state="done")["decisions"]:
        assert undo(curator, decision["id"], "chat")["offset"] is None
    assert chat.state.runtime.models["chat"].stream.head() == head
