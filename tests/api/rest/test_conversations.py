"""Conversations are stored for their user only."""

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.auth.access import ADMIN_KEY, browse, build
from tests.api.rest.test_predict import give, predict
from tests.conftest import Start
from tests.support import Service


class Person:
    """A user with a browser of their own."""

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


def test_conversations_are_listed_newest_first_and_titled_by_their_first_question(person: Person) -> None:
    first, second = uuid.uuid4().hex, uuid.uuid4().hex
    person.ask("When do you open?", first)
    person.ask("Can I print here?", second)
    person.ask("Is there wifi?", first)
    assert person.titles() == ["When do you open?", "Can I print here?"]
    assert [each["turns"] for each in person.get().json()["conversations"]] == [2, 1]


def test_a_conversation_has_all_its_questions_replies_and_feedback(person: Person) -> None:
    id = uuid.uuid4().hex
    answer = person.ask("When do you open?", id)
    first = answer["prediction_ids"][0]
    give(person.service, "chat", prediction_id=first, reward=1.0, user=person.user)
    thumb_down = give(person.service, "chat", prediction_id=first, reward=0.0, user=person.user, reason="wrong")["id"]
    person.ask("Where is the printer?", id)
    conversation = person.get(f"/{id}").json()
    assert conversation["title"] == "When do you open?" and conversation["turns"] == 2
    turns = conversation["said"]
    assert [turn["question"] for turn in turns] == ["When do you open?", "Where is the printer?"]
    assert turns[0]["reply"] == answer["predictions"][0]["reply"] and turns[0]["candidates"][0]["text"]
    assert [(each["reward"], each["reason"]) for each in turns[0]["feedback"]] == [(0.0, "wrong")]
    assert turns[1]["feedback"] == []
    person.service.http.delete(f"/v1/models/chat/feedback/{thumb_down}")


def test_a_conversation_is_found_by_words_of_its_questions_and_replies(person: Person) -> None:
    person.ask("When do you open?", uuid.uuid4().hex)
    person.ask("Is there wifi in the café?", uuid.uuid4().hex)
    assert person.titles(q="OPEN") == ["When do you open?"]
    assert person.titles(q="café") == ["Is there wifi in the café?"]
    assert person.titles(q="called guest") == ["Is there wifi in the café?"]
    assert person.titles(q="100%") == [] and person.titles(q="_") == []


def test_conversations_of_other_users_are_not_found(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("When do you open?", id)
    other = Person(person.service)
    assert other.titles() == [] and other.get(f"/{id}").status_code == 404
    body = {"instances": ["Is there wifi?"], "user": other.user, "conversation": id}
    refused = person.service.http.post("/v1/models/chat:predict", json=body)
    assert refused.status_code == 404 and "no conversation" in refused.json()["error"]
    assert person.service.http.get("/v1/models/chat/conversations").status_code == 400  # without a user


def test_a_conversation_needs_a_user_and_a_record(person: Person) -> None:
    for more in ({}, {"user": person.user, "record": False}):
        body = {"instances": ["Is there wifi?"], "conversation": "mine", **more}
        refused = person.service.http.post("/v1/models/chat:predict", json=body)
        assert refused.status_code == 400 and "needs a user" in refused.json()["error"]


def test_the_text_of_a_deleted_conversation_is_removed_from_the_store(person: Person) -> None:
    id = uuid.uuid4().hex
    prediction_id = person.ask("When do you open, dear library?", id)["prediction_ids"][0]
    give(person.service, "chat", prediction_id=prediction_id, reward=1.0, user=person.user, comment="lovely")
    url = f"/v1/models/chat/conversations/{id}"
    deleted = person.service.http.delete(url, headers={"X-User": person.user})
    assert deleted.json() == {"id": id, "turns": 1}
    assert person.titles() == [] and person.titles(q="library") == []
    assert person.service.http.delete(url, headers={"X-User": person.user}).status_code == 404
    with closing(sqlite3.connect(person.service.state / "online.db")) as database:
        assert not any("dear library" in line for line in database.iterdump())


def test_an_erased_user_has_no_conversations(person: Person) -> None:
    person.ask("When do you open?", uuid.uuid4().hex)
    person.service.http.delete(f"/v1/models/chat/users/{person.user}")
    assert person.titles() == []


# excluding replies


@pytest.fixture
def taught_question(person: Person) -> str:
    """A question with a taught answer, which does not depend on what other tests did to the repertoire."""
    question = f"When do you open on day {uuid.uuid4().hex[:6]}?"
    receipt = give(person.service, "chat", input=question, label="hours")
    person.service.wait_learned("chat", receipt["offset"])
    return question


def test_excluding_a_reply_gives_the_next_best_one_which_accepts_its_own_feedback(
    person: Person, taught_question: str
) -> None:
    similar = give(person.service, "chat", input=taught_question.replace("When", "On which floor"), label="card")
    person.service.wait_learned("chat", similar["offset"])
    first = predict(person.service, "chat", [taught_question])["predictions"][0]
    answer = predict(person.service, "chat", [taught_question], besides=[first["reply"]["id"]])
    second = answer["predictions"][0]
    assert second["reply"]["id"] == second["candidates"][0]["id"] == first["candidates"][1]["id"]
    assert first["reply"]["id"] not in {each["id"] for each in second["candidates"]}
    assert second["propensity"] == 1.0 and not second["abstained"]
    receipt = give(person.service, "chat", prediction_id=answer["prediction_ids"][0], reward=0.0)
    for each in (receipt, similar):
        person.service.http.delete(f"/v1/models/chat/feedback/{each['id']}")


def test_the_model_abstains_when_every_candidate_is_excluded(person: Person, taught_question: str) -> None:
    first = predict(person.service, "chat", [taught_question])["predictions"][0]
    candidates = [each["id"] for each in first["candidates"]]
    last = predict(person.service, "chat", [taught_question], besides=candidates)["predictions"][0]
    assert last["reply"] is None and last["abstained"] and last["candidates"] == []


EXPLORING = (
    'policy = "epsilon", epsilon = 1.0, explore_floor = 0.0, explore_below = 1.0, explore_user_share = 1.0, '
    "abstain_below = -1.0, abstain_margin = 0.0, min_chance = 0.0"
)


def test_where_a_reply_is_excluded_nothing_is_drawn(start: Start) -> None:
    """A draw among all candidates, some of which are ruled out afterwards, would have another propensity than the logged one."""
    service = start(f'[[models]]\nname = "chat"\nkind = "ranker"\noptions = {{ {EXPLORING} }}\n')
    service.wait_learned("chat", 1)
    drawn = predict(service, "chat", ["What about the building?"] * 20)["predictions"]
    assert len({each["reply"]["id"] for each in drawn}) > 1 and all(each["propensity"] < 1 for each in drawn)
    best, second = (each["id"] for each in drawn[0]["candidates"][:2])
    given = predict(service, "chat", ["What about the building?"] * 20, exclude=[best])["predictions"]
    assert all(each["propensity"] == 1 for each in given)
    assert {each["reply"] and each["reply"]["id"] for each in given} <= {second, None}


# follow-ups


def reply_id(answer: dict[str, Any]) -> str | None:
    reply = answer["predictions"][0]["reply"]
    return None if reply is None else str(reply["id"])


def test_a_follow_up_is_answered_with_the_question_before_it(person: Person) -> None:
    id = uuid.uuid4().hex
    assert reply_id(person.ask("And in colour?", uuid.uuid4().hex)) is None
    person.ask("Is there wifi?", id)
    assert reply_id(person.ask("Can I print here?", id)) == "print"
    assert reply_id(person.ask("And in colour?", id)) == "print"
    assert reply_id(person.ask("How do I join?", id)) == "card"


def test_a_conversation_shows_a_follow_up_as_it_was_typed(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("Can I print here?", id)
    person.ask("And in colour?", id)
    assert [turn["question"] for turn in person.get(f"/{id}").json()["said"]] == ["Can I print here?", "And in colour?"]


def test_a_follow_up_is_never_read_with_the_question_of_another_user(person: Person) -> None:
    id, other = uuid.uuid4().hex, Person(person.service)
    person.ask("Can I print here?", id)
    path = "/v1/models/chat:predict"
    body = {"instances": ["And in colour?"], "user": other.user, "conversation": id}
    assert person.service.http.post(path, json=body).status_code == 404


def test_another_reply_to_a_follow_up_is_read_with_the_same_question(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("Can I print here?", id)
    person.ask("And in colour?", id)
    again = person.ask("And in colour?", id, exclude=["print"])
    assert "print" not in [each["id"] for each in again["predictions"][0]["candidates"]]
    questions = [turn["question"] for turn in person.get(f"/{id}").json()["said"]]
    assert questions == ["Can I print here?", "And in colour?", "And in colour?"]


def test_a_follow_up_is_read_with_the_questions_that_come_with_it(person: Person) -> None:
    instance = {"text": "And in colour?", "previous": ["Is there wifi?", "Can I print here?"]}
    assert reply_id(predict(person.service, "chat", [instance])) == "print"


def test_what_is_learned_about_a_follow_up_holds_after_the_same_question_only(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("Can I print here?", id)
    follow_up = person.ask("And in black?", id)
    receipt = give(
        person.service,
        "chat",
        prediction_id=follow_up["prediction_ids"][0],
        correction="Black ink only.",
        user=person.user,
    )
    person.service.wait_learned("chat", receipt["offset"])
    taught = {"text": "And in black?", "previous": "Can I print here?"}
    answers = predict(person.service, "chat", [taught, "Can I print here?"])["predictions"]
    assert [each["reply"]["text"] for each in answers] == ["Black ink only.", "The printer is by the stairs."]
    person.service.wait_learned(
        "chat", person.service.http.delete(f"/v1/models/chat/feedback/{receipt['id']}").json()["offset"]
    )


# what people type


@pytest.mark.parametrize(("typed", "reply"), [("how do i renw a bok", "renew"), ("were is the pirnter", "print")])
def test_a_misspelt_question_gets_its_reply(person: Person, typed: str, reply: str) -> None:
    answer = predict(person.service, "chat", [typed])
    assert reply_id(answer) == reply


def test_a_question_in_another_language_gets_no_reply_until_one_is_taught(person: Person) -> None:
    question = "Gibt es hier einen Printer?"
    first = predict(person.service, "chat", [question])
    prediction = first["predictions"][0]
    assert prediction["reply"] is None and prediction["abstained"] and prediction["candidates"] == []
    feedback = {"prediction_id": first["prediction_ids"][0], "correction": "Der Drucker steht an der Treppe."}
    receipt = give(person.service, "chat", **feedback)
    person.service.wait_learned("chat", receipt["offset"])
    second = predict(person.service, "chat", [question])["predictions"][0]
    assert second["reply"]["text"] == feedback["correction"]
    retraction = person.service.http.delete(f"/v1/models/chat/feedback/{receipt['id']}").json()
    person.service.wait_learned("chat", retraction["offset"])


# titles, pins and pages of the list


def send(person: Person, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
    url = f"/v1/models/chat/conversations/{path}"
    return person.service.http.request(method, url, json=body, headers={"X-User": person.user})


def test_a_renamed_conversation_keeps_its_title_and_is_found_by_it(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("When do you open?", id)
    renamed = send(person, "PATCH", id, {"title": "  Größe & Zeiten  "}).json()
    assert (renamed["id"], renamed["title"], renamed["turns"]) == (id, "Größe & Zeiten", 1)
    person.ask("Is there wifi?", id)
    assert person.titles() == person.titles(q="größe") == person.titles(q="open") == ["Größe & Zeiten"]
    assert person.get(f"/{id}").json()["title"] == "Größe & Zeiten"


def test_an_edited_first_question_is_the_title_unless_the_user_gave_one(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("When do you opn?", id)
    first = person.get(f"/{id}").json()["said"][0]["prediction_id"]
    predict(person.service, "chat", ["Is there wifi?"], user=person.user, conversation=id, after=first)
    assert person.titles() == ["When do you opn?"]
    predict(person.service, "chat", ["When do you open?"], user=person.user, conversation=id, after="")
    assert person.titles() == ["When do you open?"]
    send(person, "PATCH", id, {"title": "Hours"})
    predict(person.service, "chat", ["When do you close?"], user=person.user, conversation=id, after="")
    assert person.titles() == ["Hours"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"title": "   "}, "at least 1 character"),
        ({"title": "x" * 81}, "at most 80 characters"),
        ({"title": "two\nlines"}, "one line"),
        ({"title": "moc.live\u202e"}, "control characters"),
        ({"title": "\u200b"}, "visible"),
        ({}, "give a title"),
        ({"name": "mine"}, "unknown field 'name'"),
        ({"pinned": "very"}, "pinned"),
    ],
)
def test_an_invalid_change_of_a_conversation_is_refused(person: Person, change: dict[str, Any], problem: str) -> None:
    id = uuid.uuid4().hex
    person.ask("When do you open?", id)
    refused = send(person, "PATCH", id, change)
    assert refused.status_code == 400 and problem in refused.json()["error"]
    assert person.titles() == ["When do you open?"]


def test_a_pinned_conversation_comes_first(person: Person) -> None:
    first, second = uuid.uuid4().hex, uuid.uuid4().hex
    person.ask("When do you open?", first)
    person.ask("Can I print here?", second)
    assert send(person, "PATCH", first, {"pinned": True}).json()["pinned"] is True
    assert person.titles() == ["When do you open?", "Can I print here?"]
    assert send(person, "PATCH", first, {"pinned": False}).json()["pinned"] is False
    assert person.titles() == ["Can I print here?", "When do you open?"]


def test_the_pages_of_the_list_have_every_conversation_once(person: Person) -> None:
    ids = [uuid.uuid4().hex for _ in range(7)]
    for id in ids:
        person.ask("When do you open?", id)
    for id in (ids[1], ids[4], ids[5]):
        send(person, "PATCH", id, {"pinned": True})
    listed, before = list[str](), dict[str, str]()
    while True:
        page = person.get(limit="2", **before).json()
        listed += [each["id"] for each in page["conversations"]]
        if page["next"] is None:
            break
        before = {"before": page["next"]}
    assert listed == [ids[n] for n in (5, 4, 1, 6, 3, 2, 0)]


def test_an_invalid_page_of_the_list_is_refused(person: Person) -> None:
    for query in ({"limit": "0"}, {"limit": "101"}, {"before": "2026-01-01"}):
        assert person.get(**query).status_code == 400


# branches


def follow(person: Person, question: str, id: str, after: str | None, **more: Any) -> str:
    """Ask a question after a turn; return the id of its turn."""
    fields = {} if after is None else {"after": after}
    return str(person.ask(question, id, **fields, **more)["prediction_ids"][0])


def test_a_question_follows_the_turn_that_it_names(person: Person) -> None:
    id = uuid.uuid4().hex
    first = follow(person, "When do you open?", id, "")
    second = follow(person, "Is there wifi?", id, first)
    edited = follow(person, "Can I print here?", id, first)
    begun = follow(person, "How do I join?", id, "")
    newest = follow(person, "Is there wifi?", id, None)
    said = person.get(f"/{id}").json()["said"]
    assert {turn["prediction_id"]: turn["after"] for turn in said} == {
        first: "",
        second: first,
        edited: first,
        begun: "",
        newest: begun,
    }


def test_another_reply_follows_what_its_question_follows(person: Person) -> None:
    id = uuid.uuid4().hex
    first = follow(person, "When do you open?", id, None)
    other = follow(person, "When do you open?", id, None, exclude=["hours"])
    next_one = follow(person, "Is there wifi?", id, None)
    after = {turn["prediction_id"]: turn["after"] for turn in person.get(f"/{id}").json()["said"]}
    assert after == {first: "", other: "", next_one: other}


def test_a_follow_up_is_read_with_the_question_of_its_branch(person: Person) -> None:
    id = uuid.uuid4().hex
    printing = follow(person, "Can I print here?", id, "")
    follow(person, "Is there wifi?", id, "")
    assert reply_id(person.ask("And in colour?", id, after=printing)) == "print"
    assert reply_id(person.ask("And in colour?", id, after="")) is None


def test_the_questions_of_one_request_follow_each_other(person: Person) -> None:
    id = uuid.uuid4().hex
    first = follow(person, "When do you open?", id, None)
    questions = ["Is there wifi?", "Can I print here?"]
    ids = predict(person.service, "chat", questions, user=person.user, conversation=id, after=first)["prediction_ids"]
    after = {turn["prediction_id"]: turn["after"] for turn in person.get(f"/{id}").json()["said"]}
    assert after == {first: "", ids[0]: first, ids[1]: ids[0]}


def test_a_question_follows_no_turn_of_another_conversation_or_user(person: Person) -> None:
    mine, other = uuid.uuid4().hex, Person(person.service)
    elsewhere = follow(person, "When do you open?", uuid.uuid4().hex, None)
    theirs = follow(other, "When do you open?", uuid.uuid4().hex, None)
    follow(person, "When do you open?", mine, None)
    for after in (elsewhere, theirs, "nothing"):
        body = {"instances": ["Is there wifi?"], "user": person.user, "conversation": mine, "after": after}
        refused = person.service.http.post("/v1/models/chat:predict", json=body)
        assert refused.status_code == 404 and f"has no turn {after!r}" in refused.json()["error"]
    assert person.get(f"/{mine}").json()["turns"] == 1
    alone = person.service.http.post("/v1/models/chat:predict", json={"instances": ["Is there wifi?"], "after": ""})
    assert alone.status_code == 400 and "name the conversation" in alone.json()["error"]


# sharing


def share(person: Person, id: str, body: dict[str, Any] | None = None) -> str:
    answer = send(person, "POST", f"{id}:share", body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["share_id"])


def read_shared(person: Person, share_id: str) -> httpx.Response:
    return person.service.http.get(f"/v1/shared/{share_id}")


def shared_questions(person: Person, share_id: str) -> list[str]:
    return [turn["question"] for turn in read_shared(person, share_id).json()["turns"]]


def test_a_shared_conversation_shows_questions_and_replies_and_nothing_of_its_user(person: Person) -> None:
    id = uuid.uuid4().hex
    asked = person.ask("When do you open?", id)["prediction_ids"][0]
    given = give(person.service, "chat", prediction_id=asked, reward=1.0, user=person.user, comment="lovely")
    shared = read_shared(person, share(person, id))
    content = shared.json()
    assert shared.headers["cache-control"] == "no-store" and shared.headers["x-robots-tag"] == "noindex"
    assert set(content) == {"model", "title", "created_at", "shared_at", "turns"}
    assert (content["model"], content["title"]) == ("chat", "When do you open?")
    assert content["turns"] == [{"question": "When do you open?", "reply": "We open at nine."}]
    for secret in (person.user, asked, id, given["id"], "lovely"):
        assert secret not in shared.text
    person.service.http.delete(f"/v1/models/chat/feedback/{given['id']}")


def test_sharing_again_keeps_the_link_and_shares_what_was_asked_since(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("When do you open?", id)
    first = share(person, id)
    person.ask("Is there wifi?", id)
    assert shared_questions(person, first) == ["When do you open?"]
    assert person.get().json()["conversations"][0]["share_id"] == person.get(f"/{id}").json()["share_id"] == first
    assert share(person, id) == first
    assert shared_questions(person, first) == ["When do you open?", "Is there wifi?"]


def test_one_branch_is_shared(person: Person) -> None:
    id = uuid.uuid4().hex
    first = follow(person, "When do you open?", id, "")
    old = follow(person, "Is there wifi?", id, first)
    follow(person, "Can I print here?", id, first)
    assert shared_questions(person, share(person, id)) == ["When do you open?", "Can I print here?"]
    assert shared_questions(person, share(person, id, {"until": old})) == ["When do you open?", "Is there wifi?"]
    assert send(person, "POST", f"{id}:share", {"until": "nothing"}).status_code == 404


def test_a_link_ends_with_its_share_its_conversation_and_its_user(person: Person) -> None:
    id = uuid.uuid4().hex
    person.ask("When do you open?", id)
    first = share(person, id)
    ended = send(person, "DELETE", f"{id}:share").json()
    assert (ended["id"], ended["share_id"], ended["shared_at"]) == (id, None, None)
    second = share(person, id)
    send(person, "DELETE", id)
    person.ask("When do you open?", id)
    third = share(person, id)
    person.service.http.delete(f"/v1/models/chat/users/{person.user}")
    assert len({first, second, third}) == 3
    for share_id in (first, second, third, first[:-1], "x"):
        gone = read_shared(person, share_id)
        assert gone.status_code == 404 and "no such shared conversation" in gone.json()["error"]


def test_nobody_changes_or_shares_the_conversation_of_another(person: Person) -> None:
    id, other = uuid.uuid4().hex, Person(person.service)
    person.ask("When do you open?", id)
    share_id = share(person, id)
    for method, path, body in (
        ("PATCH", id, {"title": "Mine"}),
        ("POST", f"{id}:share", None),
        ("DELETE", f"{id}:share", None),
    ):
        assert send(other, method, path, body).status_code == 404
    assert person.titles() == ["When do you open?"] and shared_questions(person, share_id) == ["When do you open?"]


def test_a_new_conversation_has_no_id_that_sharing_needs_for_itself(person: Person) -> None:
    body = {"instances": ["Is there wifi?"], "user": person.user, "conversation": "mine:share"}
    refused = person.service.http.post("/v1/models/chat:predict", json=body)
    assert refused.status_code == 400 and "must not end with ':share'" in refused.json()["error"]


def test_sharing_can_be_switched_off(tmp_path: Path) -> None:
    headers = {"X-Admin-Key": ADMIN_KEY, "X-User": "ann"}
    conversation = "/v1/models/vec/conversations/c1"
    app = build(tmp_path)
    with browse(app, **headers) as client:
        body = {"instances": [[1, 2]], "user": "ann", "conversation": "c1"}
        assert client.post("/v1/models/vec:predict", json=body).status_code == 200
        share_id = client.post(f"{conversation}:share").json()["share_id"]
        assert client.get("/v1/session").json()["share_conversations"] is True
        shared = browse(app).get(f"/v1/shared/{share_id}")  # without a key
        assert shared.json()["turns"] == [{"question": "[1, 2]", "reply": None}]
    with browse(build(tmp_path, share_conversations=False), **headers) as client:
        assert client.post(f"{conversation}:share").status_code == 403
        assert client.get(f"/v1/shared/{share_id}").status_code == 404
        assert client.get("/v1/session").json()["share_conversations"] is False
        assert client.delete(f"{conversation}:share").json()["share_id"] is None


def test_share_links_are_long_random_and_counted(tmp_path: Path) -> None:
    app = build(tmp_path, address_requests_per_minute=5)
    with browse(app, **{"X-Admin-Key": ADMIN_KEY, "X-User": "ann"}) as client:
        links = set[str]()
        for n in range(3):
            client.post("/v1/models/vec:predict", json={"instances": [[1, 2]], "user": "ann", "conversation": f"c{n}"})
            links.add(client.post(f"/v1/models/vec/conversations/c{n}:share").json()["share_id"])
        assert len(links) == 3 and {len(link) for link in links} == {32}  # of 64 characters
        guesses = [browse(app, "203.0.113.99").get(f"/v1/shared/{'a' * 31}{n}").status_code for n in range(6)]
    assert guesses == [404] * 5 + [429]
