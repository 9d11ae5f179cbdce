"""The inbox of curators: what comes into it, each decision, its exact undo, two curators at once, and what is dismissed."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Connection, select

from online.cli.access.stopped_service import learn_everything
from online.plugins.moderation.inbox.tables import ASSIGNMENTS, DECISIONS, ITEMS, OUTCOMES
from online.store.callers.audit import load_audit
from online.store.deletion.retention import END_OF_TIME, prune_predictions
from online.store.feedback import FEEDBACK
from tests.api.auth.access import ADMIN_KEY, CHAT, ask, bearer, browse, build, new_key, rate

ROOT = "/v1/models/chat"
ADDRESSES = count(1)
GARDEN, GARDENS = "Do you have a garden?", "do you have a   GARDEN?"
LESSON = "The garden is behind the house."


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    app = build(tmp_path / "inbox", CHAT, public_teaching="review")
    with browse(app):
        yield app


@pytest.fixture
def curator(app: FastAPI) -> TestClient:
    return browse(app, **bearer(new_key(app, "predict", "feedback", "curate", name="carl")))


@pytest.fixture
def other(app: FastAPI) -> TestClient:
    return browse(app, **bearer(new_key(app, "predict", "feedback", "curate", name="olga")))


def visitor(app: FastAPI) -> TestClient:
    client = browse(app, f"203.0.113.{next(ADDRESSES)}")
    client.get("/v1/session")
    return client


def teacher(app: FastAPI, name: str = "tina") -> TestClient:
    """A caller whose teaching is learned at once, and whom nobody has to trust."""
    return browse(app, **bearer(new_key(app, "predict", "feedback", "teach", name=name)))


def learn(app: FastAPI) -> str:
    """Learn the log to its end; return the digest of what was learned."""
    workspace = app.state.runtime.workspace
    learn_everything(workspace)
    return str(
        workspace.snapshots("chat").folder.manifest(workspace.snapshots("chat").folder.live().version).state_sha256
    )


def in_force(app: FastAPI) -> list[tuple[Any, ...]]:
    """Who says what about which question: what a learner learns from, without the order."""
    rows = app.state.runtime.workspace.store.read(
        lambda connection: (
            connection.execute(select(FEEDBACK).where(FEEDBACK.c.retracted_offset.is_(None))).mappings().all()
        )
    )
    said = [({**json.loads(row["content"]), "id": ""}, row) for row in rows]
    return sorted((row["caller"], row["prediction_id"], row["about"], json.dumps(item)) for item, row in said)


def say(client: TestClient, question: str = GARDEN, **item: Any) -> dict[str, Any]:
    """Ask, and say something about the answer; return the receipt."""
    response = rate(client, prediction_id=ask(client, question)["prediction_ids"][0], **item)
    assert response.status_code == 202, response.text
    receipt: dict[str, Any] = response.json()["receipts"][0]
    return receipt


def read(client: TestClient, **params: Any) -> dict[str, Any]:
    response = client.get(f"{ROOT}/inbox", params=params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def open_items(client: TestClient) -> list[dict[str, Any]]:
    return [item for group in read(client)["groups"] for item in group["items"]]


def decide(client: TestClient, ids: list[str], action: str, **more: Any) -> dict[str, Any]:
    response = client.post(f"{ROOT}/inbox:decide", json={"ids": ids, "action": action, **more})
    assert response.status_code == 202, response.text
    decided: dict[str, Any] = response.json()
    return decided


def undo(client: TestClient, decision: str) -> dict[str, Any]:
    response = client.post(f"{ROOT}/inbox:undo", json={"decision": decision})
    assert response.status_code == 202, response.text
    undone: dict[str, Any] = response.json()
    return undone


def status_of(client: TestClient, id: str) -> Any:
    return client.get(f"{ROOT}/feedback/{id}").json()


def replies(client: TestClient) -> list[str]:
    return [reply["text"] for reply in client.get(f"{ROOT}/replies").json()["replies"]]


# what is in it


def test_strangers_change_nothing_at_an_example_question_before_a_curator_agrees(
    app: FastAPI, curator: TestClient
) -> None:
    learn(app)
    head = app.state.runtime.models["chat"].stream.head()
    hours = "When do you open?"
    assert ask(curator, hours, min_offset=head, timeout_ms=60_000)["predictions"][0]["reply"]["id"] == "hours"
    waiting = [
        say(visitor(app), hours, reward=0.0),
        say(visitor(app), "when do you open", reward=0.0),  # almost the example
        say(visitor(app), hours, label="wifi"),
        say(visitor(app), hours, correction="The network is called Guest."),
    ]
    assert {receipt["status"] for receipt in waiting} == {"held"}
    agreed = [say(visitor(app), hours, reward=1.0), say(visitor(app), hours, label="hours")]
    elsewhere = [
        say(visitor(app), "Until what time can I come in?", label="wifi"),
        say(teacher(app), hours, reward=0.0),
    ]
    assert {receipt["status"] for receipt in [*agreed, *elsewhere]} == {"accepted"}
    items = {each["id"]: each for each in open_items(curator)}
    found = [items[receipt["id"]] for receipt in waiting]
    assert {(each["state"], each["hold"]) for each in found} == {("held", "review")}
    assert [each["kind"] for each in found] == ["thumb_down", "thumb_down", "correction", "correction"]
    decide(curator, [waiting[0]["id"]], "approve")
    assert status_of(curator, waiting[0]["id"])["status"] == "accepted"


def test_held_teaching_and_complaints_in_force_are_listed_with_who_said_what_about_which_answer(
    app: FastAPI, curator: TestClient
) -> None:
    ann, tina = visitor(app), teacher(app)
    held = say(ann, correction=LESSON, comment="I was there", reason="wrong")
    chosen = say(tina, "Where is the printer?", label="print")
    thumb_up = say(tina, "Can I print here?", label="print")
    assert rate(tina, input="x", correction="We open at nine.").status_code == 202
    (group,) = [each for each in read(curator)["groups"] if each["questions"][0]["text"] == GARDEN]
    (item,) = group["items"]
    assert (item["id"], item["kind"], item["state"], item["hold"]) == (held["id"], "new_reply", "held", "review")
    assert (item["correction"], item["reply"], item["answered"]) == (LESSON, None, None)
    assert (item["reason"], item["comment"]) == ("wrong", "I was there")
    assert item["caller"].startswith("visitor:") and item["asked_at"] and item["created_at"]
    found = {each["id"]: each for each in open_items(curator)}
    label = found[chosen["id"]]
    assert (label["kind"], label["state"], label["reply"], label["caller"]) == (
        "correction",
        "accepted",
        "print",
        "key:tina",
    )
    assert label["correction"] == "The printer is by the stairs." and thumb_up["id"] in found
    counts = curator.get(f"{ROOT}/inbox:count").json()
    assert counts == {"groups": read(curator)["group_count"], "items": len(found), "mine": 0}


def test_what_curators_say_and_what_is_taken_back_is_not_listed(app: FastAPI, curator: TestClient) -> None:
    tina = teacher(app)
    say(curator, correction=LESSON)
    receipt = say(tina, correction="Only a balcony.")
    assert [each["id"] for each in open_items(curator)] == [receipt["id"]]
    again = rate(tina, prediction_id=open_items(curator)[0]["prediction_id"], correction="Only a yard.").json()
    assert [each["id"] for each in open_items(curator)] == [again["receipts"][0]["id"]]
    assert tina.delete(f"{ROOT}/feedback/{again['receipts'][0]['id']}").status_code == 202
    assert read(curator)["group_count"] == 0


def test_questions_of_one_meaning_are_one_group(app: FastAPI, curator: TestClient) -> None:
    for question in ("When do you open?", "when do you open", "At what time do you open?", "Is there wifi here?"):
        say(visitor(app), question, correction=f"Something about {question}")
    groups = read(curator, sort="largest")["groups"]
    assert [len(group["items"]) for group in groups] == [3, 1]
    assert groups[0]["items"][0]["created_at"] > groups[0]["items"][-1]["created_at"]
    assert read(curator)["groups"][0]["questions"] == [{"text": "Is there wifi here?", "count": 1}]
    assert len(read(curator, limit=1)["groups"]) == 1 and read(curator, limit=1)["group_count"] == 2
    assert curator.get(f"{ROOT}/inbox", params={"limit": 0}).status_code == 400


def test_groups_are_searched_by_their_words_and_by_what_is_in_them(app: FastAPI, curator: TestClient) -> None:
    learn(app)
    head = app.state.runtime.models["chat"].stream.head()
    tina = teacher(app)
    say(visitor(app), correction=LESSON, comment="I was there")
    say(tina, "Is there wifi here?", correction="The printer is by the stairs.")
    answer = ask(tina, "When do you open?", min_offset=head, timeout_ms=60_000)
    assert rate(tina, prediction_id=answer["prediction_ids"][0], reward=0.0).status_code == 202
    say(visitor(app), "Who pays for it?", correction="The town, at nine.")

    def found(**params: Any) -> set[str]:
        answer = read(curator, **params)
        assert answer["group_count"] == 4 and answer["found_count"] >= len(answer["groups"])
        return {group["questions"][0]["text"] for group in answer["groups"]}

    wifi, hours, money = "Is there wifi here?", "When do you open?", "Who pays for it?"
    assert found(q="THERE i") == {GARDEN, wifi}
    assert found(q="stairs") == {wifi}
    assert found(q="no such words") == set()
    assert found(only="waiting") == {GARDEN, money}
    assert found(only="new_reply") == {GARDEN, money}
    assert found(only="thumb_down") == {hours}
    assert found(only="waiting", q="town") == {money}
    assert len(found(only="waiting", limit=1)) == 1 and read(curator, only="waiting", limit=1)["found_count"] == 2
    assert curator.get(f"{ROOT}/inbox", params={"only": "spam"}).status_code == 400


# decisions


def test_approved_items_are_learned_or_stay_and_are_done(app: FastAPI, curator: TestClient) -> None:
    ann, tina = visitor(app), teacher(app)
    held, learned = say(ann, correction=LESSON)["id"], say(tina, correction="Only a balcony.")["id"]
    learn(app)
    decided = decide(curator, [held, learned], "approve")
    assert (decided["closed"], decided["skipped"]) == (2, [])
    assert status_of(ann, held)["status"] == "accepted" and LESSON in replies(curator)
    done = read(curator, state="done")
    assert done["group_count"] == 0
    (decision,) = done["decisions"]
    assert (decision["action"], decision["by"], decision["questions"]) == ("approve", "key:carl", [GARDEN])
    assert {item["id"] for item in decision["items"]} == {held, learned}


def test_a_merge_teaches_an_existing_reply_in_place_of_what_was_said(app: FastAPI, curator: TestClient) -> None:
    ann, tina = visitor(app), teacher(app)
    held = say(ann, "When do you open?", correction="At 9.")["id"]
    learned = say(tina, "When do you open today?", correction="Nine.")["id"]
    assert "Nine." in replies(curator)
    before = len(replies(curator))
    decide(curator, [held, learned], "merge", reply="hours")
    assert status_of(ann, held)["status"] == "accepted" and status_of(tina, learned)["status"] == "retracted"
    assert len(replies(curator)) == before - 1 and "At 9." not in replies(curator)
    learn(app)
    taught = curator.get(f"{ROOT}/replies/hours").json()["taught"]
    assert {each["question"] for each in taught} == {"When do you open?", "When do you open today?"}
    refused = curator.post(f"{ROOT}/inbox:decide", json={"ids": [held], "action": "merge", "reply": "nothing"})
    assert refused.status_code == 404


def test_a_rejection_unlearns_and_tells_the_callers_why(app: FastAPI, curator: TestClient) -> None:
    ann, tina = visitor(app), teacher(app)
    learn(app)
    untaught = learn(app)
    held, learned = say(ann, correction="Spam!")["id"], say(tina, correction="More spam!")["id"]
    assert learn(app) != untaught
    decide(curator, [held, learned], "reject", reason="We do not advertise.")
    assert learn(app) == untaught
    assert status_of(ann, held) == {**status_of(ann, held), "status": "rejected", "reason": "We do not advertise."}
    assert status_of(tina, learned)["reason"] == "We do not advertise."
    assert read(curator)["group_count"] == 0 and "More spam!" not in replies(curator)


def test_a_later_opinion_takes_the_place_of_one_that_waits(app: FastAPI, curator: TestClient) -> None:
    ann = visitor(app)
    asked = ask(ann, GARDEN)["prediction_ids"][0]

    def give(**item: Any) -> str:
        return str(rate(ann, prediction_id=asked, **item).json()["receipts"][0]["id"])

    first, second = give(correction="At the front."), give(correction=LESSON)
    assert [item["id"] for item in open_items(curator)] == [second]
    assert status_of(ann, first)["status"] == "retracted"
    other = say(visitor(app), correction="Somebody else's.")["id"]
    assert {item["id"] for item in open_items(curator)} == {second, other}


def test_a_holder_of_a_feedback_url_has_one_opinion_that_waits(app: FastAPI, curator: TestClient) -> None:
    learn(app)
    head, hours, ann = app.state.runtime.models["chat"].stream.head(), "When do you open?", visitor(app)
    answer = ask(ann, hours, feedback_urls=True, min_offset=head, timeout_ms=60_000)
    url = answer["feedback_urls"][0]
    for item in ({"reward": 0.0}, {"correction": "At nine."}, {"correction": "At ten."}, {"correction": "At nine."}):
        assert ann.post(url, json=item).json()["status"] == "held"
        assert len(open_items(curator)) == 1
    ann.post(url, json={"reward": 1.0})
    assert open_items(curator) == []


def test_the_stored_conversation_says_why_a_suggestion_was_rejected(app: FastAPI, curator: TestClient) -> None:
    ann = visitor(app)
    asked = ask(ann, GARDEN, conversation="garden")["prediction_ids"][0]
    id = rate(ann, prediction_id=asked, correction="Spam!").json()["receipts"][0]["id"]
    path = f"{ROOT}/conversations/garden"
    (waiting,) = ann.get(path).json()["said"][0]["feedback"]
    assert (waiting["status"], waiting.get("note")) == ("held", None)
    decide(curator, [id], "reject", reason="We do not advertise.")
    (rejected,) = ann.get(path).json()["said"][0]["feedback"]
    assert rejected == {**waiting, "status": "rejected", "correction": "Spam!", "note": "We do not advertise."}


def test_one_reply_is_taught_for_every_question_of_a_group(app: FastAPI, curator: TestClient) -> None:
    ann, tina = visitor(app), teacher(app)
    held = say(ann, "When do you open?", correction="At 9.")["id"]
    learned = say(tina, "At what time do you open?", correction="Nine.")["id"]
    repeated = say(teacher(app, "theo"), "when do you  OPEN?", label="wifi")["id"]
    decided = decide(curator, [held, learned, repeated], "reply", text="We open at 9 on weekdays.")
    assert status_of(ann, held)["status"] == "rejected" and "another reply" in status_of(ann, held)["reason"]
    (reply,) = [each for each in curator.get(f"{ROOT}/replies").json()["replies"] if "weekdays" in each["text"]]
    taught = curator.get(f"{ROOT}/replies/{reply['id']}").json()["taught"]
    assert sorted(" ".join(each["question"].lower().split()) for each in taught) == [
        "at what time do you open?",
        "when do you open?",
    ]
    assert read(curator, state="done")["decisions"][0]["reply"] == "We open at 9 on weekdays."
    undo(curator, decided["decision"])
    assert "We open at 9 on weekdays." not in replies(curator) and len(open_items(curator)) == 3


def test_a_thumb_down_stays_when_the_right_reply_is_given(app: FastAPI, curator: TestClient) -> None:
    learn(app)
    head = app.state.runtime.models["chat"].stream.head()
    tina = teacher(app)
    answer = ask(tina, "When do you open?", min_offset=head, timeout_ms=60_000)
    assert answer["predictions"][0]["reply"]["id"] == "hours"
    thumb = rate(tina, prediction_id=answer["prediction_ids"][0], reward=0.0).json()["receipts"][0]["id"]
    (item,) = open_items(curator)
    assert (item["kind"], item["answered"]) == ("thumb_down", {"id": "hours", "text": "We open at nine."})
    decide(curator, [thumb], "merge", reply="wifi")
    assert status_of(tina, thumb)["status"] == "accepted"
    assert curator.get(f"{ROOT}/replies/wifi").json()["taught"][0]["right"] is True


def test_bad_decisions_change_nothing(app: FastAPI, curator: TestClient) -> None:
    id = say(visitor(app), correction=LESSON)["id"]
    for body in (
        {"ids": [], "action": "approve"},
        {"ids": [id] * 201, "action": "approve"},
        {"ids": [id], "action": "merge"},
        {"ids": [id], "action": "reply", "text": "  "},
        {"ids": [id], "action": "reply", "text": "x" * 100_000},
        {"ids": [id], "action": "forget"},
        {"ids": [id], "action": "approve", "more": 1},
    ):
        assert curator.post(f"{ROOT}/inbox:decide", json=body).status_code in (400, 413), body
    assert curator.post(f"{ROOT}/inbox:decide", json={"ids": ["x"], "action": "approve"}).status_code == 404
    assert curator.post(f"{ROOT}/inbox:undo", json={"decision": "x"}).status_code == 404
    retired = curator.delete(f"{ROOT}/replies/wifi")
    assert retired.status_code == 202
    merge = {"ids": [id], "action": "merge", "reply": "wifi"}
    assert curator.post(f"{ROOT}/inbox:decide", json=merge).status_code == 409
    assert [each["id"] for each in open_items(curator)] == [id]


# undo


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("action", "more"),
    [("approve", {}), ("merge", {"reply": "hours"}), ("reject", {}), ("reply", {"text": "Look outside."})],
)
def test_an_undo_leaves_what_the_decision_had_found(
    app: FastAPI, curator: TestClient, action: str, more: dict[str, Any]
) -> None:
    ann, tina, theo = visitor(app), teacher(app), teacher(app, "theo")
    ids = [say(ann, correction=LESSON)["id"], say(tina, GARDENS, correction="A new balcony.")["id"]]
    ids.append(say(theo, correction="A new balcony.")["id"])
    ids.append(say(teacher(app, "thea"), label="wifi")["id"])
    own = say(curator, correction="The curator's own words.")["id"]
    curator.post(f"{ROOT}/inbox:assign", json={"ids": ids[:2], "assignee": "me"})
    before, seen, known, learned = open_items(curator), replies(curator), in_force(app), learn(app)
    decided = decide(curator, ids, action, **more)
    assert read(curator)["group_count"] == 0
    assert learn(app) != learned
    undone = undo(curator, decided["decision"])
    assert undone == {**undone, "decision": decided["decision"], "by": "key:carl"}
    assert undo(curator, decided["decision"]) == undone
    assert in_force(app) == known and sorted(replies(curator)) == sorted(seen)
    if action == "approve":  # what comes into force again has a later offset, which is a part of the state
        assert learn(app) == learned
    assert status_of(curator, own)["status"] != "retracted"

    def told(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # `learned` is written by the server that swaps the version in
        changing = ("id", "state", "reply")
        return [{name: value for name, value in item.items() if name not in changing} for item in items]

    assert told(open_items(curator)) == told(before)
    assert decide(curator, [item["id"] for item in open_items(curator)], "approve")["closed"] == 4


def test_an_undo_leaves_alone_what_the_caller_has_changed_since_then(app: FastAPI, curator: TestClient) -> None:
    ann, tina = visitor(app), teacher(app)
    held, learned = say(ann, correction=LESSON)["id"], say(tina, correction="A balcony.")
    prediction = next(each for each in open_items(curator) if each["id"] == learned["id"])["prediction_id"]
    decided = decide(curator, [held], "approve")
    rejected = decide(curator, [learned["id"]], "reject")
    assert ann.delete(f"{ROOT}/feedback/{held}").status_code == 202
    changed = rate(tina, prediction_id=prediction, label="wifi").json()["receipts"][0]["id"]
    undo(curator, decided["decision"])
    undo(curator, rejected["decision"])
    assert [each["id"] for each in open_items(curator)] == [changed]


# several curators


def test_the_second_of_two_curators_is_told_who_decided_what(
    app: FastAPI, curator: TestClient, other: TestClient
) -> None:
    ann, ben = visitor(app), visitor(app)
    first, second = say(ann, correction=LESSON)["id"], say(ben, correction="Only a yard.")["id"]
    decide(curator, [first], "reject")
    late = other.post(f"{ROOT}/inbox:decide", json={"ids": [first, second], "action": "approve"})
    assert late.status_code == 409
    assert (late.json()["by"], late.json()["action"]) == ("key:carl", "reject")
    assert [each["id"] for each in open_items(other)] == [second]
    assert curator.post(f"{ROOT}/held/{second}:accept").status_code == 202
    late = other.post(f"{ROOT}/inbox:decide", json={"ids": [second], "action": "approve"})
    assert (late.status_code, late.json()["by"], late.json()["action"]) == (409, "key:carl", "approve")


def test_a_repeated_request_has_no_second_effect(app: FastAPI, curator: TestClient) -> None:
    id = say(visitor(app), correction=LESSON)["id"]
    first = decide(curator, [id], "approve", id="once")
    assert decide(curator, [id], "approve", id="once") == first
    other = curator.post(f"{ROOT}/inbox:decide", json={"ids": [id], "action": "reject", "id": "once"})
    assert other.status_code == 409 and "another decision" in other.json()["error"]
    assert len(read(curator, state="done")["decisions"]) == 1


def test_what_was_withdrawn_meanwhile_is_passed_over(app: FastAPI, curator: TestClient) -> None:
    ann, ben = visitor(app), visitor(app)
    first, second = say(ann, correction=LESSON)["id"], say(ben, correction="Only a yard.")["id"]
    ann.delete(f"{ROOT}/feedback/{first}")
    decided = decide(curator, [first, second], "approve")
    assert decided["closed"] == 1 and decided["skipped"] == [{"id": first, "reason": "gone"}]


def test_items_are_assigned_to_curators_and_found_by_them(app: FastAPI, curator: TestClient, other: TestClient) -> None:
    id = say(visitor(app), correction=LESSON)["id"]
    say(visitor(app), "Is there wifi?", correction="Ask at the desk.")

    def assign(assignee: str | None) -> Any:
        return curator.post(f"{ROOT}/inbox:assign", json={"ids": [id, "gone"], "assignee": assignee})

    assert assign("me").json() == {"ids": [id], "assignee": "key:carl"}
    assert curator.get(f"{ROOT}/inbox:count").json()["mine"] == 1
    assert [group["assignee"] for group in read(curator, assignee="me")["groups"]] == ["key:carl"]
    assert len(read(curator, assignee="nobody")["groups"]) == 1 and read(other, assignee="me")["groups"] == []
    assert assign("key:olga").status_code == 200 and read(other)["assignees"] == ["key:olga", "key:carl"]
    assert [group["assignee"] for group in read(other, assignee="me")["groups"]] == ["key:olga"]
    new_key(app, "predict", name="nora")
    assert assign("key:nora").status_code == 400
    assert assign(None).json()["assignee"] is None and len(read(curator, assignee="nobody")["groups"]) == 2


def test_only_curators_see_the_inbox_and_every_decision_is_in_the_audit_log(app: FastAPI, curator: TestClient) -> None:
    ann = visitor(app)
    id = say(ann, correction=LESSON)["id"]
    assert ann.get(f"{ROOT}/inbox").status_code == 403 and ann.get(f"{ROOT}/inbox:count").status_code == 403
    assert ann.post(f"{ROOT}/inbox:decide", json={"ids": [id], "action": "approve"}).status_code == 403
    undo(curator, decide(curator, [id], "reject")["decision"])
    curator.post(f"{ROOT}/inbox:assign", json={"ids": [id], "assignee": "me"})
    audit = app.state.runtime.workspace.store.read(lambda connection: load_audit(connection, 3))
    assert [(row.actor, row.action) for row in audit] == [
        ("key:carl", "inbox_assign"),
        ("key:carl", "inbox_undo"),
        ("key:carl", "inbox_reject"),
    ]


# dismissed questions


def unanswered(client: TestClient) -> list[dict[str, Any]]:
    clusters: list[dict[str, Any]] = client.get(f"{ROOT}/unanswered").json()["clusters"]
    return clusters


def test_a_dismissed_question_stays_away_until_many_others_ask_it(app: FastAPI, curator: TestClient) -> None:
    ann = visitor(app)
    for question in ("Buy cheap watches!", "Do you have a garden?"):
        ask(ann, question)
    (spam,) = [each for each in unanswered(curator) if "watches" in each["questions"][0]["text"]]
    ids = spam["questions"][0]["predictions"]
    dismissed = curator.post(f"{ROOT}/unanswered:dismiss", json={"predictions": ids, "id": "spam"})
    assert dismissed.status_code == 202 and dismissed.json()["closed"] == 1
    again = curator.post(f"{ROOT}/unanswered:dismiss", json={"predictions": ids, "id": "spam"})
    assert again.json() == dismissed.json()
    assert [each["questions"][0]["text"] for each in unanswered(curator)] == [GARDEN]
    for _ in range(9):  # the same user again and again
        ask(ann, "buy cheap WATCHES!")
    assert len(unanswered(curator)) == 1
    undo(curator, "spam")
    assert len(unanswered(curator)) == 2
    curator.post(f"{ROOT}/unanswered:dismiss", json={"predictions": ids})
    for _ in range(4):
        ask(visitor(app), "Buy cheap watches!")
    assert len(unanswered(curator)) == 1
    ask(visitor(app), "Buy cheap watches!")
    assert len(unanswered(curator)) == 2
    (decision,) = read(curator, state="done")["decisions"]
    assert (decision["action"], decision["questions"]) == ("dismiss", ["Buy cheap watches!"])
    assert curator.post(f"{ROOT}/unanswered:dismiss", json={"predictions": ["x"]}).status_code == 404


# deletion


def test_a_dismissal_goes_with_the_predictions_that_it_dismissed(app: FastAPI, curator: TestClient) -> None:
    ids = ask(visitor(app), "Buy cheap watches!")["prediction_ids"]
    assert curator.post(f"{ROOT}/unanswered:dismiss", json={"predictions": ids}).status_code == 202
    store = app.state.runtime.workspace.store
    assert (
        store.submit(lambda connection: prune_predictions(connection, "plain", END_OF_TIME, 100)).result().deleted == 1
    )
    assert store.read(lambda connection: connection.execute(select(OUTCOMES)).all()) == []


def test_an_erased_user_leaves_nothing_in_the_inbox(app: FastAPI, curator: TestClient) -> None:
    ann, ben, tina = visitor(app), visitor(app), teacher(app)
    user = str(ann.get("/v1/session").json()["caller"])
    decide(curator, [say(ann, correction=LESSON)["id"]], "reject", reason="Ann, please!")
    say(ann, GARDENS, correction="Another one.")
    undone = decide(curator, [say(ann, "Is it warm?", correction="Yes, very.")["id"]], "approve")["decision"]
    kept = say(ben, correction="Only a yard.")["id"]
    mine = say(tina, correction="A balcony.")["id"]
    curator.post(f"{ROOT}/inbox:assign", json={"ids": [item["id"] for item in open_items(curator)], "assignee": "me"})
    curator.post(f"{ROOT}/unanswered:dismiss", json={"predictions": ask(ann, "Am I here?")["prediction_ids"]})
    eraser = browse(app, **{"X-Admin-Key": ADMIN_KEY})
    assert eraser.delete(f"{ROOT}/users/{user}").status_code == 202
    assert {each["id"] for each in open_items(curator)} == {kept, mine}
    assert undo(curator, undone)["offset"] is None

    def rows(connection: Connection) -> str:
        tables = [connection.execute(select(table)).all() for table in (ITEMS, ASSIGNMENTS, DECISIONS, OUTCOMES)]
        return json.dumps([[list(row) for row in table] for table in tables])

    kept_rows = app.state.runtime.workspace.store.read(rows)
    assert "Ann" not in kept_rows and user not in kept_rows
    assert len(json.loads(kept_rows)[3]) == 0 and len(json.loads(kept_rows)[1]) == 2


def test_an_unanswered_question_names_the_open_group_that_suggests_a_reply(app: FastAPI, curator: TestClient) -> None:
    def waiting() -> dict[str, tuple[str | None, int]]:
        found = unanswered(curator)
        return {each["questions"][0]["text"]: (each["inbox_group"], each["suggestions"]) for each in found}

    ask(curator, "Buy cheap watches!")
    item = say(visitor(app), GARDEN, correction=LESSON)
    (group,) = read(curator)["groups"]
    assert waiting() == {GARDEN: (group["id"], 1), "Buy cheap watches!": (None, 0)}
    decide(curator, [item["id"]], "reject")
    assert waiting() == {GARDEN: (None, 0), "Buy cheap watches!": (None, 0)}


# what is asked most


def test_a_question_asked_often_names_the_open_group_that_has_it(app: FastAPI, curator: TestClient) -> None:
    def groups_of_questions() -> dict[str, str | None]:
        questions = curator.get(f"{ROOT}/usage/questions").json()["questions"]
        return {each["text"]: each["inbox_group"] for each in questions}

    ask(curator, "Is there wifi?")
    item = say(visitor(app), GARDENS, correction=LESSON)
    (group,) = read(curator)["groups"]
    assert groups_of_questions() == {"do you have a GARDEN?": group["id"], "Is there wifi?": None}
    decide(curator, [item["id"]], "reject")
    assert groups_of_questions() == {"do you have a GARDEN?": None, "Is there wifi?": None}
