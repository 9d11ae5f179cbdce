"""The repertoire of a real service: changing replies, examples, and questions of one meaning."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from online.models.encoders.text import TEXT_WIDTH
from online.serving.repertoire.question_clusters import RepeatedQuestion, cluster_questions
from tests.api.rest.test_predict import give, predict
from tests.conftest import config
from tests.plugins.repertoire_files.test_import_and_export import import_replies
from tests.support import Service, replay_json, run_online

REPLIES = "/v1/models/chat/replies"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("repertoire")
    running = Service(folder / "state", config(folder, '[[models]]\nname = "chat"\nkind = "ranker"\n'))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


def put(service: Service, id: str, **change: Any) -> dict[str, Any]:
    response = service.http.put(f"{REPLIES}/{id}", json=change)
    assert response.status_code == 202, response.text
    reply: dict[str, Any] = response.json()
    service.wait_learned("chat", reply["offset"])
    return reply


def add(service: Service, text: str, *examples: str) -> str:
    response = service.http.post(REPLIES, json={"text": text, "examples": examples})
    service.wait_learned("chat", response.json()["offset"])
    return str(response.json()["id"])


def list_replies(service: Service) -> dict[str, dict[str, Any]]:
    return {reply["id"]: reply for reply in service.http.get(REPLIES).json()["replies"]}


def reply_to(service: Service, question: str) -> dict[str, Any] | None:
    reply: dict[str, Any] | None = predict(service, "chat", [question])["predictions"][0]["reply"]
    return reply


def state(service: Service) -> str:
    return str(service.versions("chat")[0]["state_sha256"])


# one reply


def test_a_reworded_reply_keeps_its_id_and_what_was_learned(chat: Service) -> None:
    prediction_id = predict(chat, "chat", ["Is the building open on a Sunday?"])["prediction_ids"][0]
    chat.wait_learned("chat", give(chat, "chat", prediction_id=prediction_id, label="hours")["offset"])
    reply = put(chat, "hours", text="  We open at   ten. ")
    assert (reply["id"], reply["text"], reply["active"]) == ("hours", "We open at ten.", True)
    for question in ("When do you open?", "Is the building open on a Sunday?"):
        assert reply_to(chat, question) == {"id": "hours", "text": "We open at ten."}
    assert list_replies(chat)["hours"]["text"] == "We open at ten."
    put(chat, "hours", text="We open at nine.")
    assert reply_to(chat, "When do you open?") == {"id": "hours", "text": "We open at nine."}


LIST = "To join:\n\n- bring a card\n    - or a letter\n- sign here"


def test_a_reply_keeps_its_line_breaks_and_is_identified_without_them(chat: Service) -> None:
    id = add(chat, LIST.replace("\n", "  \r\n") + "\n\n", "What must I do to become a member of yours?")
    assert reply_to(chat, "What must I do to become a member of yours?") == {"id": id, "text": LIST}
    assert add(chat, LIST) == id and add(chat, " ".join(LIST.split())) == id
    taught = give(chat, "chat", input="Sign me up", correction=LIST.replace("\n", "\r\n"))
    chat.wait_learned("chat", taught["offset"])
    assert reply_to(chat, "Sign me up") == {"id": id, "text": LIST}
    assert put(chat, id, text=f"{LIST}\n\n\n\nThat is all. ")["text"] == f"{LIST}\n\nThat is all."
    report = import_replies(chat, json.dumps({"id": id, "text": LIST.replace("\n", "\r\n")}))
    chat.wait_learned("chat", report["offset"])
    assert report["lines"][0]["does"] == ["reworded"] and list_replies(chat)[id]["text"] == LIST


def test_a_corrected_reply_keeps_its_line_breaks(chat: Service) -> None:
    taught = give(chat, "chat", input="Where can I park?", correction="Behind us:\r\n 1. left  gate \n 2. right gate")
    chat.wait_learned("chat", taught["offset"])
    assert (reply_to(chat, "Where can I park?") or {})["text"] == "Behind us:\n 1. left gate\n 2. right gate"


def test_a_retired_reply_stays_retired_when_it_is_reworded(chat: Service) -> None:
    id = add(chat, "Skis are in the attic.", "Where are the skis?")
    put(chat, id, active=False)
    put(chat, id, text="Skis are in the cellar.")
    assert list_replies(chat)[id]["active"] is False and reply_to(chat, "Where are the skis?") is None
    put(chat, id, active=True)
    assert reply_to(chat, "Where are the skis?") == {"id": id, "text": "Skis are in the cellar."}
    put(chat, id, active=False)


def test_a_deleted_example_question_is_unlearned_exactly(chat: Service) -> None:
    id = add(chat, "Umbrellas hang by the door.")
    before = state(chat)
    put(chat, id, examples=["It is pouring, help!"])
    assert (reply_to(chat, "It is pouring, help!") or {})["id"] == id
    details = chat.http.get(f"{REPLIES}/{id}").json()
    assert [example["text"] for example in details["examples"]] == ["It is pouring, help!"]
    assert list_replies(chat)[id]["examples"] == 1
    deleted = chat.http.delete(f"{REPLIES}/{id}/examples/{details['examples'][0]['offset']}").json()
    chat.wait_learned("chat", deleted["offset"])
    assert state(chat) == before
    assert chat.http.get(f"{REPLIES}/{id}").json()["examples"] == [] and list_replies(chat)[id]["examples"] == 0


def test_a_reply_is_shown_with_its_feedback(chat: Service) -> None:
    answer = predict(chat, "chat", ["How do I join?"])
    wrong = give(chat, "chat", prediction_id=answer["prediction_ids"][0], reward=0)
    right = give(chat, "chat", input="Membership, please", label="card")
    chat.wait_learned("chat", right["offset"])
    taught = chat.http.get(f"{REPLIES}/card").json()["taught"]
    assert [(each["question"], each["right"]) for each in taught[:2]] == [
        ("Membership, please", True),
        ("How do I join?", False),
    ]
    assert list_replies(chat)["card"]["rated"] >= 1
    chat.http.delete(f"/v1/models/chat/feedback/{wrong['id']}")
    assert wrong["id"] not in [each["feedback_id"] for each in chat.http.get(f"{REPLIES}/card").json()["taught"]]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("printer STAIRS", ["print"]),
        ("extend", ["renew"]),
        ("how do i", ["renew", "wifi", "card"]),
        ("stairs loan", []),
    ],
)
def test_replies_are_found_by_words_in_their_text_or_in_one_example_question(
    chat: Service, words: str, found: list[str]
) -> None:
    assert [reply["id"] for reply in chat.http.get(REPLIES, params={"q": words}).json()["replies"]] == found


@pytest.mark.parametrize(
    ("id", "change", "status", "words"),
    [
        ("nobody", {"text": "x"}, 404, "no reply 'nobody'"),
        ("print", {"text": "  "}, 400, "example question is empty"),
        ("print", {"text": "x" * 8_001}, 413, "max_text_chars"),
        ("print", {"text": "the network is called GUEST."}, 409, "has this text already: 'wifi'"),
        ("print", {"colour": "red"}, 400, "colour"),
        ("print", {"examples": [""]}, 400, "example question is empty"),
    ],
)
def test_an_invalid_change_is_refused(chat: Service, id: str, change: dict[str, Any], status: int, words: str) -> None:
    before = chat.http.get("/v1/models/chat").json()["head"]
    response = chat.http.put(f"{REPLIES}/{id}", json=change)
    assert response.status_code == status and words in response.json()["error"]
    assert chat.http.get("/v1/models/chat").json()["head"] == before


def test_deleting_an_unknown_example_is_an_error(chat: Service) -> None:
    for offset in (0, 1, 10**9):
        assert chat.http.delete(f"{REPLIES}/print/examples/{offset}").status_code == 404
    assert chat.http.get(f"{REPLIES}/nobody").status_code == 404


def test_only_a_ranker_has_a_repertoire(service: Service) -> None:
    for path in ("replies", "replies/x", "replies:export"):
        response = service.http.get(f"/v1/models/vec/{path}")
        assert response.status_code == 400 and "only a ranker" in response.json()["error"], path


# questions of one meaning


def question(text: str, degrees: float, times: int = 1) -> RepeatedQuestion:
    features = np.zeros(TEXT_WIDTH)
    features[:2] = 127 * np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    return RepeatedQuestion(text, np.rint(features).astype(np.int8).tobytes(), "", [f"{text}{n}" for n in range(times)])


def test_questions_are_clustered_by_their_centres_and_sorted_by_their_number() -> None:
    questions = [question("a", 0), question("b", 50), question("c", 130), question("d", 150, times=3)]
    clusters = [[each.text for each in cluster.questions] for cluster in cluster_questions(questions)]
    assert clusters == [["d", "c"], ["a", "b"]]
    assert [[e.text for e in c.questions] for c in cluster_questions(questions[::-1])] == clusters
    assert cluster_questions([]) == []


# replay


def test_a_replay_of_the_exported_log_reaches_the_same_state(
    chat: Service, tmp_path_factory: pytest.TempPathFactory
) -> None:
    put(chat, "hours", text="We open at eight.", examples=["Early birds?"])
    newest = chat.versions("chat")[0]
    log = tmp_path_factory.mktemp("log") / "chat.jsonl"
    flags = ("--config", str(chat.state.parent / f"{chat.state.name}.toml"), "--state", str(chat.state))
    process = run_online("log", "export", "--model", "chat", "--output", str(log), *flags)
    assert process.returncode == 0, process.stderr
    report = replay_json(str(log), "--model", "ranker")
    assert report["state_sha256"] == newest["state_sha256"] and report["same_answers"] == report["asked"]
