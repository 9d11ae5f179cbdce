"""What a caller can see, rate, take back and teach of others: nothing. Each of these succeeded before there were callers."""

import json
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from online.api.rest.events import follow_events
from online.schemas.access.callers import Caller, caller_with
from online.serving.event_feed import FeedEvent
from tests.api.auth.access import ADMIN_KEY, CHAT, VEC, ask, bearer, browse, build, new_key, rate

ROOT = "/v1/models/chat"
NO_EXAMPLE = "Is somebody there at noon?"  # of any reply


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    app = build(tmp_path_factory.mktemp("others"), CHAT, VEC, public_teaching="review")
    with browse(app):
        yield app


@pytest.fixture
def ann(app: FastAPI) -> TestClient:
    return visitor(app)


@pytest.fixture
def ben(app: FastAPI) -> TestClient:
    return visitor(app)


@pytest.fixture
def curator(app: FastAPI) -> TestClient:
    return browse(app, **{"X-Admin-Key": ADMIN_KEY})


ADDRESSES = count(1)


def visitor(app: FastAPI) -> TestClient:
    """A visitor from an address of their own: new visitors from one address share their influence."""
    client = browse(app, f"203.0.113.{next(ADDRESSES)}")
    assert client.get("/v1/session").json()["caller"].startswith("visitor:")
    return client


def user_of(client: TestClient) -> str:
    return str(client.get("/v1/session").json()["caller"])


def test_a_body_cannot_name_another_user(app: FastAPI, ann: TestClient, ben: TestClient) -> None:
    ask(ann, conversation="diary", user="somebody else")
    assert [each["id"] for each in ann.get(f"{ROOT}/conversations").json()["conversations"]] == ["diary"]
    stolen = ben.get(f"{ROOT}/conversations", headers={"X-User": user_of(ann)}).json()
    assert stolen["conversations"] == []
    assert ben.get(f"{ROOT}/conversations/diary", headers={"X-User": user_of(ann)}).status_code == 404
    assert ben.delete(f"{ROOT}/conversations/diary", headers={"X-User": user_of(ann)}).status_code == 404


def test_a_backend_with_impersonate_speaks_for_its_users(app: FastAPI) -> None:
    backend = browse(app, **bearer(new_key(app, "predict", "feedback", "impersonate", name="backend")))
    ask(backend, conversation="c1", user="alice")
    found = backend.get(f"{ROOT}/conversations", headers={"X-User": "alice"}).json()["conversations"]
    assert [each["id"] for each in found] == ["c1"]
    assert backend.get(f"{ROOT}/conversations").status_code == 400  # it has to name one


def test_nobody_rates_what_another_was_answered(ann: TestClient, ben: TestClient) -> None:
    id = ask(ann)["prediction_ids"][0]
    assert rate(ben, prediction_id=id, label="renew").status_code == 404
    assert rate(ann, prediction_id=id, label="hours").status_code == 202


def test_nobody_takes_back_or_looks_up_the_feedback_of_another(ann: TestClient, ben: TestClient) -> None:
    id = rate(ann, prediction_id=ask(ann)["prediction_ids"][0], label="hours").json()["receipts"][0]["id"]
    assert ben.delete(f"{ROOT}/feedback/{id}").status_code == 404
    assert ben.get(f"{ROOT}/feedback/{id}").status_code == 404
    assert ann.get(f"{ROOT}/feedback/{id}").json()["status"] == "accepted"
    assert ann.delete(f"{ROOT}/feedback/{id}").json()["status"] == "retracted"


def test_the_id_of_a_feedback_cannot_be_taken_by_another(ann: TestClient, ben: TestClient) -> None:
    mine, theirs = ask(ann)["prediction_ids"][0], ask(ben)["prediction_ids"][0]
    assert rate(ann, id="thumb-1", prediction_id=mine, label="hours").status_code == 202
    assert rate(ben, id="thumb-1", prediction_id=theirs, label="hours").status_code == 409


def test_one_caller_has_one_opinion_about_a_prediction(ann: TestClient) -> None:
    def thumb(times: int) -> list[dict[str, Any]]:
        items = [{"prediction_id": id, "label": ("renew", "hours")[n % 2]} for n in range(times)]
        receipts: list[dict[str, Any]] = ann.post(f"{ROOT}:feedback", json={"feedback": items}).json()["receipts"]
        return receipts

    def standing(receipts: list[dict[str, Any]]) -> set[str]:
        ids = {each["id"] for each in receipts}
        return {id for id in ids if ann.get(f"{ROOT}/feedback/{id}").json()["status"] == "accepted"}

    id = ask(ann, NO_EXAMPLE)["prediction_ids"][0]
    receipts = thumb(6)
    assert standing(receipts) == {receipts[-1]["id"]}
    same = rate(ann, prediction_id=id, label="hours").json()["receipts"][0]
    assert same == receipts[-1]  # saying it again changes nothing
    changed = rate(ann, prediction_id=id, label="renew").json()["receipts"][0]
    assert standing([same, changed]) == {changed["id"]}
    assert len(standing([changed, *thumb(100)])) == 1


def test_the_opinion_by_a_link_and_on_the_page_are_one(ann: TestClient) -> None:
    answer = ask(ann, NO_EXAMPLE, feedback_urls=True)
    thumb = rate(ann, prediction_id=answer["prediction_ids"][0], label="hours").json()["receipts"][0]
    path = answer["feedback_urls"][0].partition("127.0.0.1:8000")[2]
    assert ann.post(path, json={"label": "renew"}).status_code == 202
    assert ann.get(f"{ROOT}/feedback/{thumb['id']}").json()["status"] == "retracted"


def test_questions_of_others_are_shown_to_curators_only(ann: TestClient, ben: TestClient, curator: TestClient) -> None:
    secret = "My son Tim is ill, when do you open?"
    answer = ask(ann, secret)
    assert rate(ann, prediction_id=answer["prediction_ids"][0], label="hours").status_code == 202
    own, other, all_of_them = (client.get(f"{ROOT}/replies/hours").text for client in (ann, ben, curator))
    assert secret in own and secret not in other and secret in all_of_them
    why = f"{ROOT}/predictions/{answer['prediction_ids'][0]}/why"
    assert (ann.get(why).status_code, ben.get(why).status_code, curator.get(why).status_code) == (200, 404, 200)
    for path in ("unanswered", "replies:export", "held"):
        assert ben.get(f"{ROOT}/{path}").status_code == 403


def events_seen_by(app: FastAPI, caller: Caller) -> list[str]:
    """The names of the events that a caller sees, of one about key:a and one about nobody."""
    runtime = app.state.runtime
    model = runtime.models["chat"]

    async def collect() -> list[bytes]:
        stream = follow_events(model, runtime, caller)
        first = await anext(stream)
        model.feed.send(FeedEvent("learned", {"id": "f1"}, "key:a"))
        model.feed.notify("published", version="1")
        model.feed.close()
        return [first, *[each async for each in stream]]

    found: list[bytes] = app.state.portal.call(collect)
    return [each.decode().split()[1] for each in found]


def test_events_are_shown_to_their_owner_and_to_curators(app: FastAPI) -> None:
    assert events_seen_by(app, caller_with("key:a", ["predict"])) == ["status", "learned", "published"]
    assert events_seen_by(app, caller_with("key:b", ["predict"])) == ["status", "published"]
    assert events_seen_by(app, caller_with("key:c", ["predict", "curate"])) == ["status", "learned", "published"]


def test_a_rejection_is_sent_to_its_caller_and_to_no_other_visitor(
    app: FastAPI, ann: TestClient, ben: TestClient, curator: TestClient
) -> None:
    runtime, model = app.state.runtime, app.state.runtime.models["chat"]
    visitors = [Caller(user_of(each), frozenset({"predict"}), user=user_of(each)) for each in (ann, ben)]
    streams = [follow_events(model, runtime, caller) for caller in visitors]

    async def drain(stream: AsyncIterator[bytes]) -> list[str]:
        """What came of feedback; other events, as of the learner's state, may come at any time."""
        return [each.decode() async for each in stream if each.startswith(b"event: rejected")]

    receipt = propose(ann, "Only a balcony.")
    for stream in streams:
        app.state.portal.call(anext, stream)
    curator.post(f"{ROOT}/held/{receipt['id']}:reject")
    app.state.portal.call(model.feed.close)
    own, other = (app.state.portal.call(drain, stream) for stream in streams)
    assert (len(own), other) == (1, [])
    data = own[0].strip().split("\n")[1]
    assert json.loads(data.removeprefix("data: ")) == {"id": receipt["id"], "status": "rejected", "offset": 0}


def test_visitors_change_neither_replies_nor_classes_nor_users(ann: TestClient) -> None:
    row = {"text": "Free money!", "examples": ["When do you open?"]}
    assert ann.post(f"{ROOT}/replies", json=row).status_code == 403
    assert ann.post(f"{ROOT}/replies:import", content=json.dumps(row)).status_code == 403
    assert ann.put(f"{ROOT}/replies/hours", json={"text": "Free money!"}).status_code == 403
    assert ann.delete(f"{ROOT}/replies/hours").status_code == 403
    assert ann.delete(f"{ROOT}/users/{user_of(ann)}").status_code == 403
    assert ann.put("/v1/models/vec/classes/a").status_code == 403
    assert ann.get("/v1/replays").status_code == 403 and ann.get("/metrics").status_code == 403


# teaching that is reviewed


def propose(client: TestClient, text: str, question: str = "Do you have a garden?") -> dict[str, Any]:
    """Propose a reply; return the receipt."""
    response = rate(client, prediction_id=ask(client, question)["prediction_ids"][0], correction=text)
    assert response.status_code == 202, response.text
    receipt: dict[str, Any] = response.json()["receipts"][0]
    return receipt


def replies(client: TestClient) -> list[str]:
    return [reply["text"] for reply in client.get(f"{ROOT}/replies").json()["replies"]]


def test_a_reviewed_reply_is_held_until_a_curator_accepts_it(
    ann: TestClient, ben: TestClient, curator: TestClient
) -> None:
    receipt = propose(ann, "Yes, behind the house.")
    assert (receipt["status"], receipt["offset"]) == ("held", 0)
    assert ann.get(f"{ROOT}/feedback/{receipt['id']}").json()["status"] == "held"
    assert ben.get(f"{ROOT}/feedback/{receipt['id']}").status_code == 404
    assert "Yes, behind the house." not in replies(ben)
    held = {each["id"]: each for each in curator.get(f"{ROOT}/held").json()["held"]}[receipt["id"]]
    assert (held["question"], held["correction"]) == ("Do you have a garden?", "Yes, behind the house.")
    assert (held["reason"], held["user"]) == ("review", user_of(ann))
    accepted = curator.post(f"{ROOT}/held/{receipt['id']}:accept")
    assert accepted.status_code == 202 and accepted.json()["offset"] > 0
    assert ann.get(f"{ROOT}/feedback/{receipt['id']}").json()["status"] == "accepted"
    assert "Yes, behind the house." in replies(ben)
    assert curator.post(f"{ROOT}/held/{receipt['id']}:reject").status_code == 409


def test_a_rejected_or_withdrawn_reply_is_never_learned(ann: TestClient, curator: TestClient) -> None:
    rejected, withdrawn = propose(ann, "No garden."), propose(ann, "A small one.")
    assert curator.post(f"{ROOT}/held/{rejected['id']}:reject").json()["status"] == "rejected"
    assert ann.get(f"{ROOT}/feedback/{rejected['id']}").json()["status"] == "rejected"
    assert ann.delete(f"{ROOT}/feedback/{withdrawn['id']}").json()["status"] == "retracted"
    assert curator.post(f"{ROOT}/held/{withdrawn['id']}:accept").status_code == 409
    assert not {"No garden.", "A small one."} & set(replies(curator))


def test_choosing_an_existing_reply_is_not_teaching(ann: TestClient) -> None:
    id = ask(ann, "May I print something?")["prediction_ids"][0]
    receipt = rate(ann, prediction_id=id, correction="the printer is  by the stairs.").json()["receipts"][0]
    assert receipt["status"] == "accepted"


@pytest.mark.parametrize(("teaching", "status"), [("off", 403), ("on", 202)])
def test_teaching_by_visitors_is_off_or_on(tmp_path: Path, teaching: str, status: int) -> None:
    app = build(tmp_path, VEC, public_teaching=teaching)
    with browse(app) as client:
        client.get("/v1/session")
        answer = client.post("/v1/models/vec:predict", json={"instances": [[1, 2]]}).json()
        item = {"prediction_id": answer["prediction_ids"][0], "label": "a new class"}
        response = client.post("/v1/models/vec:feedback", json={"feedback": [item]})
        assert response.status_code == status, response.text
        if status == 202:
            assert response.json()["receipts"][0]["status"] == "accepted"


# quotas


def test_the_quotas_of_an_hour_hold_for_feedback_and_for_teaching(tmp_path: Path) -> None:
    def give(client: TestClient, headers: dict[str, str], *labels: str) -> Any:
        items = [{"input": [1, 2], "label": label} for label in labels]
        return client.post("/v1/models/vec:feedback", json={"feedback": items}, headers=headers)

    app = build(tmp_path, feedback_per_hour=12, teaching_per_hour=5)
    with browse(app) as client:
        key = bearer(new_key(app, "predict", "feedback", "teach", name="eager"))
        assert give(client, key, *"abcde").status_code == 202
        refused = give(client, key, "f")
        assert refused.status_code == 429 and "teaching_per_hour" in refused.json()["error"]
        assert 1 <= int(refused.headers["Retry-After"]) <= 3_601
        other = bearer(new_key(app, "predict", "feedback", "teach", name="other"))
        assert give(client, other, "f").status_code == 202
        curator = bearer(new_key(app, "feedback", "teach", "curate", name="curator"))
        assert give(client, curator, *map(str, range(20))).status_code == 202
    again = build(tmp_path, feedback_per_hour=12, teaching_per_hour=5)  # a restart forgets nothing
    with browse(again) as client:
        assert give(client, key, "g").status_code == 429


def test_a_key_that_teaches_adds_replies_within_its_quota_and_changes_none(tmp_path: Path) -> None:
    app = build(tmp_path, CHAT, teaching_per_hour=6)
    with browse(app) as client:
        client.headers.update(bearer(new_key(app, "predict", "teach", name="teacher")))
        new = {"text": "Yes, behind the house.", "examples": ["Is there a garden?"]}
        assert client.post(f"{ROOT}/replies", json=new).status_code == 202
        reworded = client.post(f"{ROOT}/replies:import", content=json.dumps({"id": "hours", "text": "Never."}))
        assert reworded.status_code == 403 and "'curate'" in reworded.json()["error"]
        lines = "\n".join(json.dumps({"text": f"Reply {n}."}) for n in range(6_000))
        flood = client.post(f"{ROOT}/replies:import", content=lines)
        assert flood.status_code == 429 and "teaching_per_hour" in flood.json()["error"]
        assert len(client.get(f"{ROOT}/replies").json()["replies"]) == 6
        retired = client.delete(f"{ROOT}/replies/hours", headers={**bearer(ADMIN_KEY)})
        assert retired.status_code == 202
        assert client.post(f"{ROOT}/replies", json={"text": "We open at nine."}).status_code == 403


def test_a_visitor_teaches_by_correcting_and_not_by_importing(tmp_path: Path) -> None:
    app = build(tmp_path, CHAT, public_teaching="on")
    with browse(app) as client:
        client.get("/v1/session")
        assert client.post(f"{ROOT}/replies", json={"text": "Hello."}).status_code == 403
        assert client.post(f"{ROOT}/replies:import", content=json.dumps({"text": "Hello."})).status_code == 403
        assert propose(client, "Yes, a garden.")["status"] == "accepted"
