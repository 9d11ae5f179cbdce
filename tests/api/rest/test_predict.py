"""The REST API on a real service: its answers, and the requests it refuses without changing anything."""

import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

from online.settings import Settings
from online.state.workspace import Workspace
from online.store.drift_alarms import add_drift_alarms
from tests.conftest import Start, config
from tests.support import Service, until

VEC = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 4, scale = 4.0 }\n'
LAB = '[[models]]\nname = "lab"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 4.0 }\n'
NUM = """
[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }
"""


def predict(service: Service, model: str, instances: Any, **more: Any) -> dict[str, Any]:
    response = service.http.post(
        f"/v1/models/{model}:predict", json={"instances": instances, "timeout_ms": 60_000, **more}
    )
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def give(service: Service, model: str, **item: Any) -> dict[str, Any]:
    response = service.http.post(f"/v1/models/{model}:feedback", json={"feedback": [item]})
    assert response.status_code == 202, response.text
    receipt: dict[str, Any] = response.json()["receipts"][0]
    return receipt


# predict


def test_a_ranker_answers_with_a_reply_and_its_candidates(service: Service) -> None:
    service.wait_learned("chat", 1)
    answer = predict(service, "chat", ["When do you open?"])
    first = answer["predictions"][0]
    assert first["reply"]["text"] == "We open at nine." and first["abstained"] is False
    assert 0 <= first["score"] <= 1 and first["propensity"] == 1.0
    assert first["candidates"][0]["id"] == first["reply"]["id"] == "hours"
    assert len(answer["prediction_ids"]) == 1 and answer["model_version"].isdigit()


def test_a_ranker_abstains_on_an_unfamiliar_question(service: Service) -> None:
    answer = predict(service, "chat", ["qwertz zxcvb 12345 asdfgh"])["predictions"][0]
    assert answer["reply"] is None and answer["abstained"] is True


@pytest.fixture(scope="module")
def untaught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose models have learned nothing; each is for one test."""
    folder = tmp_path_factory.mktemp("untaught")
    text = '[[models]]\nname = "txt"\nkind = "classifier"\noptions = { input = "text" }\n'
    service = Service(folder / "state", config(folder, text + VEC + LAB + NUM))
    yield service
    service.stop()


def test_a_classifier_answers_null_before_it_has_seen_a_label(untaught: Service) -> None:
    assert predict(untaught, "txt", ["anything"])["predictions"] == [{"label": None, "probabilities": {}}]


def test_many_instances_are_answered_in_order_by_one_version(service: Service) -> None:
    texts = ["When do you open?", "Can I print here?", "When do you open?"]
    answer = predict(service, "chat", texts)
    ids = [each["reply"]["id"] for each in answer["predictions"]]
    assert ids == ["hours", "print", "hours"] and len(set(answer["prediction_ids"])) == 3


def test_every_answer_carries_its_version_and_offset(service: Service) -> None:
    for path in (
        "/v1/models/chat",
        "/v1/models/chat/versions",
        "/v1/models/chat/replies",
        "/v1/models/vec/labels",
        "/v1/models/chat/feedback/x",
    ):
        headers = service.http.get(path).headers
        assert headers["X-Model-Version"].isdigit() and headers["X-Learned-Until"].isdigit(), path


def test_a_dry_run_has_no_prediction_ids(service: Service) -> None:
    assert predict(service, "chat", ["When do you open?"], record=False)["prediction_ids"] == []


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "nonsense"])
def test_any_content_type_is_read_as_json(service: Service, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    response = service.http.post("/v1/models/chat:predict", content=b'{"instances": ["hello"]}', headers=headers)
    assert response.status_code == 200


# feedback


def test_a_label_is_learned_before_a_prediction_with_its_offset(service: Service) -> None:
    give(service, "vec", input=[1, 1, 1, 1], label="up")
    receipt = give(service, "vec", input=[-1, -1, -1, -1], label="down")
    answer = predict(service, "vec", [[1, 1, 1, 1], [-1, -1, -1, -1]], min_offset=receipt["offset"])
    assert [each["label"] for each in answer["predictions"]] == ["up", "down"]
    assert answer["learned_until"] >= receipt["offset"]
    assert sum(answer["predictions"][0]["probabilities"].values()) == pytest.approx(1)


def test_a_number_is_predicted_with_an_interval(untaught: Service) -> None:
    service = untaught
    assert predict(service, "num", [[0, 0]])["predictions"] == [{"value": None, "low": None, "high": None}]
    points = [[n % 4, n % 3] for n in range(24)]
    for x, y in points:
        receipt = give(service, "num", input=[x, y], label=10 + 2 * x - y)
    text = give(service, "num", input=[0, 0], label="1e1")
    answer = predict(service, "num", [[3, 1]], min_offset=text["offset"])["predictions"][0]
    assert answer["low"] < answer["value"] < answer["high"]
    assert answer["value"] == pytest.approx(15, abs=0.5)
    assert receipt["status"] == "accepted"


@pytest.mark.parametrize("label", ["NaN", "Infinity", "1e400"])
def test_a_label_that_is_not_finite_is_refused_by_every_kind(service: Service, label: str) -> None:
    body = f'{{"feedback": [{{"input": [0, 0, 0, 1], "label": {label}}}]}}'
    answer = service.http.post("/v1/models/vec:feedback", content=body)
    assert answer.status_code == 400 and "must be finite" in answer.json()["error"]


def test_the_label_of_a_regression_is_learned_and_retracted(service: Service) -> None:
    prediction_id = predict(service, "num", [[1, 1]])["prediction_ids"][0]
    receipt = give(service, "num", prediction_id=prediction_id, label=12.5)
    service.wait_learned("num", receipt["offset"])
    assert service.http.get(f"/v1/models/num/feedback/{receipt['id']}").json()["status"] == "learned"
    retraction = service.http.delete(f"/v1/models/num/feedback/{receipt['id']}").json()
    service.wait_learned("num", retraction["offset"])
    newest = service.versions("num")[-1]
    assert "noise" in newest["metrics"]


def test_repeated_feedback_with_the_same_id_has_no_second_effect(service: Service) -> None:
    item = {"id": uuid.uuid4().hex, "input": [0, 0, 0, 1], "label": "up"}
    first, again = give(service, "vec", **item), give(service, "vec", **item)
    assert first == again


def test_different_feedback_with_the_same_id_is_a_conflict(service: Service) -> None:
    id = uuid.uuid4().hex
    give(service, "vec", id=id, input=[0, 0, 0, 1], label="up")
    again = {"feedback": [{"id": id, "input": [0, 0, 0, 1], "label": "down"}]}
    response = service.http.post("/v1/models/vec:feedback", json=again)
    assert response.status_code == 409 and "used before" in response.json()["error"]


def test_the_status_of_feedback_names_the_version_that_learned_it(service: Service) -> None:
    receipt = give(service, "vec", input=[1, 0, 0, 1], label="up")
    service.wait_learned("vec", receipt["offset"])
    status = service.http.get(f"/v1/models/vec/feedback/{receipt['id']}").json()
    assert status["status"] == "learned" and status["version"].isdigit() and status["freshness_ms"] > 0


def test_an_event_the_model_cannot_learn_is_refused_with_the_reason_and_the_next_one_is_learned(
    service: Service,
) -> None:
    prediction_id = predict(service, "rv", [{"x": 1}])["prediction_ids"][0]
    bad = give(service, "rv", input={"x": 1e200}, label="a")
    good = give(service, "rv", prediction_id=prediction_id, label="a")
    service.wait_learned("rv", good["offset"])
    status = service.http.get(f"/v1/models/rv/feedback/{bad['id']}").json()
    assert status["status"] == "refused" and "overflow for good" in status["reason"]
    newest = service.http.get("/v1/models/rv/refused").json()["refused"][0]
    assert (newest["id"], newest["offset"], newest["label"]) == (bad["id"], bad["offset"], "a")
    assert newest["reason"] == status["reason"] and newest["created_at"]
    others = service.http.get("/v1/models/tab/refused").json()["refused"]
    assert bad["id"] not in [each["id"] for each in others]


def test_the_status_of_a_model_reports_its_freshness(service: Service) -> None:
    for _ in range(3):
        service.wait_learned("vec", give(service, "vec", input=[1, 1, 1, 1], label="up")["offset"])
    fresh = service.http.get("/v1/models/vec").json()["freshness_ms"]
    # 0.0 is feedback that was learned before it was acknowledged
    assert 0 <= fresh["p50"] <= fresh["p95"] < 60_000 and 0 <= fresh["last"] < 60_000


def test_retracted_feedback_is_unlearned_exactly(service: Service) -> None:
    give(service, "tab", input={"colour": "red", "size": 3}, label="apple")
    before = service.wait_learned("tab", give(service, "tab", input={"colour": "yellow"}, label="banana")["offset"])
    state_before = state_of(service, "tab", before["learned_until"])
    receipt = give(service, "tab", input={"colour": "red"}, label="cherry")
    retraction = service.http.delete(f"/v1/models/tab/feedback/{receipt['id']}")
    assert retraction.status_code == 202 and retraction.json()["status"] == "retracted"
    again = service.http.delete(f"/v1/models/tab/feedback/{receipt['id']}").json()
    assert again == retraction.json()
    service.wait_learned("tab", again["offset"])
    assert state_of(service, "tab", again["offset"]) == state_before
    status = service.http.get(f"/v1/models/tab/feedback/{receipt['id']}").json()
    assert status["status"] == "retracted" and status["version"].isdigit()


def state_of(service: Service, model: str, offset: int) -> str:
    def find_state() -> str | None:
        return next((v["state_sha256"] for v in service.versions(model) if v["learned_until"] == offset), None)

    return str(until(find_state, what=f"a version of {model} at {offset}"))


@pytest.mark.parametrize(
    "id", ["a/b", "x#retraction", "added:starter:hours#reply", "..", ".", "", "new\nline", "nul\x00"]
)
def test_an_id_that_cannot_be_part_of_a_path_is_refused(service: Service, id: str) -> None:
    body = {"feedback": [{"id": id, "input": [0, 0, 0, 1], "label": "up"}]}
    response = service.http.post("/v1/models/vec:feedback", json=body)
    assert response.status_code == 400 and "feedback.0.id" in response.json()["error"]


# the repertoire


def test_a_new_reply_is_given_until_it_is_retired(service: Service) -> None:
    new = {"text": "The cafe sells soup.", "examples": ["Do you sell soup?", "Is there a cafe?"]}
    added = service.http.post("/v1/models/chat/replies", json=new).json()
    answer = predict(service, "chat", ["Do you sell soup?"], min_offset=added["offset"])["predictions"][0]
    assert answer["reply"]["text"] == "The cafe sells soup."
    retired = service.http.delete(f"/v1/models/chat/replies/{added['id']}").json()
    answer = predict(service, "chat", ["Do you sell soup?"], min_offset=retired["offset"])["predictions"][0]
    assert added["id"] not in [candidate["id"] for candidate in answer["candidates"]]
    listed = {reply["id"]: reply["active"] for reply in service.http.get("/v1/models/chat/replies").json()["replies"]}
    assert listed[added["id"]] is False and listed["hours"] is True
    back = service.http.post("/v1/models/chat/replies", json={"text": "the CAFE sells soup."}).json()
    assert back["id"] == added["id"]
    answer = predict(service, "chat", ["Do you sell soup?"], min_offset=back["offset"])["predictions"][0]
    assert answer["reply"]["id"] == added["id"]


def test_a_taught_reply_is_removed_when_its_correction_is_retracted(service: Service) -> None:
    question = "Where do I park my spaceship?"
    untaught = predict(service, "chat", [question])
    receipt = give(service, "chat", prediction_id=untaught["prediction_ids"][0], correction="On the roof, please.")
    taught = predict(service, "chat", [question], min_offset=receipt["offset"])["predictions"][0]
    assert taught["reply"]["text"] == "On the roof, please."
    retraction = service.http.delete(f"/v1/models/chat/feedback/{receipt['id']}").json()
    after = predict(service, "chat", [question], min_offset=retraction["offset"])["predictions"][0]
    assert after["reply"] == untaught["predictions"][0]["reply"]
    assert "On the roof, please." not in [
        r["text"] for r in service.http.get("/v1/models/chat/replies").json()["replies"]
    ]


def texts_of(service: Service) -> dict[str, bool]:
    return {r["text"]: r["active"] for r in service.http.get("/v1/models/chat/replies").json()["replies"]}


def teach(service: Service, question: str, text: str) -> dict[str, Any]:
    prediction_id = predict(service, "chat", [question])["prediction_ids"][0]
    return give(service, "chat", prediction_id=prediction_id, correction=text)


def retract(service: Service, receipt: dict[str, Any]) -> dict[str, Any]:
    retraction: dict[str, Any] = service.http.delete(f"/v1/models/chat/feedback/{receipt['id']}").json()
    return retraction


def test_a_reply_stays_while_one_of_its_corrections_is_active(service: Service) -> None:
    text = "Sledges are in the cellar."
    first, second = teach(service, "Where are the sledges?", text), teach(service, "Any sledges for the snow?", text)
    retract(service, first)
    assert texts_of(service)[text]
    retract(service, second)
    assert text not in texts_of(service)


def test_a_reply_that_an_operator_added_stays_when_its_correction_is_retracted(service: Service) -> None:
    text = "Kites fly from the roof."
    receipt = teach(service, "Where do kites fly?", text)
    service.http.post("/v1/models/chat/replies", json={"text": text})
    retract(service, receipt)
    assert texts_of(service)[text]


def test_retracting_a_correction_that_restored_a_reply_retires_it_again(service: Service) -> None:
    text = "Skates are by the door."
    added = service.http.post(
        "/v1/models/chat/replies", json={"text": text, "examples": ["Where are the skates?"]}
    ).json()
    service.http.delete(f"/v1/models/chat/replies/{added['id']}")
    receipt = teach(service, "Where are the ice skates?", text)
    assert texts_of(service)[text]
    retraction = retract(service, receipt)
    assert not texts_of(service)[text]
    answer = predict(service, "chat", ["Where are the skates?"], min_offset=retraction["offset"])["predictions"][0]
    assert added["id"] not in [candidate["id"] for candidate in answer["candidates"]]


# classes


def test_a_retired_class_is_not_predicted_until_it_is_restored(untaught: Service) -> None:
    service = untaught
    for label, x in (("left/right", 1), ("up", -1), ("left/right", 2), ("up", -2)):
        give(service, "lab", input=[x, x], label=label)
    with service.client("lab") as lab:
        retired = lab.retire_class("left/right")
        answer = lab.predict([[1, 1], [-1, -1]], min_offset=retired["offset"], timeout_ms=60_000)["predictions"]
        assert [each["probabilities"] for each in answer] == [{"up": 1.0}] * 2
        assert lab.classes() == [
            {"label": "left/right", "active": False, "offset": retired["offset"], "refusal": None},
            {"label": "up", "active": True, "offset": 2, "refusal": None},
        ]
        give(service, "lab", input=[3, 3], label="left/right")
        back = lab.restore_class("left/right")
        answer = lab.predict([[1, 1], [-1, -1]], min_offset=back["offset"], timeout_ms=60_000)["predictions"]
        assert [each["label"] for each in answer] == ["left/right", "up"]
        assert lab.classes()[0] == {"label": "left/right", "active": True, "offset": back["offset"], "refusal": None}


@pytest.mark.long
def test_a_class_past_the_limit_is_listed_as_refused_until_the_limit_is_raised(start: Start) -> None:
    few = LAB.replace("scale = 4.0", "max_labels = 2")
    service = start(few)
    for label, x in (("a", 1), ("b", -1), ("c", 3), ("a", 2), ("c", 3)):
        offset = give(service, "lab", input=[x, x], label=label)["offset"]
    service.wait_learned("lab", offset)
    with service.client("lab") as lab:
        listed = until(lambda: [each for each in lab.classes() if each["refusal"]], what="the refused class")
        assert [(each["label"], each["active"]) for each in listed] == [("c", False)]
        assert "2 classes (option max_labels)" in listed[0]["refusal"]
        assert [(each["label"], each["active"]) for each in lab.classes()] == [("a", True), ("b", True), ("c", False)]
    service.stop()
    service = start(few.replace("max_labels = 2", "max_labels = 3"))
    service.wait_learned("lab", offset)
    with service.client("lab") as lab:
        assert all(each["active"] and each["refusal"] is None for each in lab.classes())


@pytest.mark.parametrize(
    ("model", "status", "words"),
    [
        ("vec", 404, "vec has no class 'nobody': no feedback has named it yet"),
        ("chat", 400, "chat is a ranker: it has replies instead of classes"),
        ("num", 400, "num is a regressor: it has no classes to retire"),
    ],
)
def test_retiring_an_unknown_class_or_one_of_a_model_without_classes_is_refused(
    service: Service, model: str, status: int, words: str
) -> None:
    for method in ("DELETE", "PUT"):
        response = service.http.request(method, f"/v1/models/{model}/labels/nobody")
        assert (response.status_code, response.json()) == (status, {"error": words})


# status and health


def test_status_has_the_shape_of_tensorflow_serving(service: Service) -> None:
    status = service.http.get("/v1/models/chat").json()
    state = status["model_version_status"][0]
    assert state["state"] == "AVAILABLE" and state["status"] == {"error_code": "OK", "error_message": ""}
    assert isinstance(state["version"], str) and status["ready"] is True


def test_models_are_listed_for_every_kind_of_client(service: Service) -> None:
    listed = service.http.get("/v1/models").json()
    assert listed["object"] == "list" and "chat" in listed["models"]
    chat = next(each for each in listed["data"] if each["id"] == "chat")
    assert chat.pop("created") > 1_700_000_000
    card = {"id": "chat", "object": "model", "owned_by": "online", "kind": "ranker", "input": "text", "size": 0}
    assert chat == {**card, "task": "ranking", "fallback": "", "share_sums": False}
    inputs = {each["id"]: (each["input"], each["size"]) for each in listed["data"]}
    assert inputs["vec"] == ("vector", 4) and inputs["rv"] == ("table", 0)


def test_health_readiness_and_metrics_answer(service: Service) -> None:
    assert service.http.get("/healthz").json() == {"live": True}
    ready = service.http.get("/readyz").json()
    assert ready["ready"] is True and ready["learner"]["state"] == "running" and "chat" in ready["models"]
    text = service.http.get("/metrics").text
    for name in ("online_predictions_total", "online_prediction_seconds_bucket", "online_freshness_seconds_count"):
        assert name in text
    assert 'online_live_version{model="chat"}' in text


def test_versions_are_listed_with_what_each_has_learned(service: Service) -> None:
    newest = service.versions("chat")[0]
    keys = {"version", "parent", "learned_until", "created_at", "state_sha256", "weights_sha256", "metrics", "live"}
    assert keys <= set(newest) and any(version["live"] for version in service.versions("chat"))


def test_drift_alarms_are_listed_newest_first_with_their_kind_place_and_size(untaught: Service) -> None:
    service = untaught
    assert service.http.get("/v1/models/vec/drift").json() == {"drift": [], "changes": []}
    alarm: dict[str, Any] = {"what": "loss", "label": None, "projection": None, "since": 900, "window": 64}
    alarm |= {"before": 0.1, "after": 0.6, "size": 0.5}
    alarms = [{**alarm, "offset": 960}, {**alarm, "offset": 970, "what": "class", "label": "a"}]
    store = Workspace(Settings(state=service.state)).store
    for _ in range(2):  # a restarted learner reports the same alarms
        store.submit(lambda connection: add_drift_alarms(connection, "vec", alarms)).result()
    store.close()
    listed = service.http.get("/v1/models/vec/drift").json()["drift"]
    assert [{key: each[key] for key in alarms[0]} for each in listed] == alarms[::-1]


def test_the_served_hash_is_the_published_hash(service: Service) -> None:
    def are_equal() -> bool:
        served = service.http.get("/v1/models/vec").json()
        live = next(version for version in service.versions("vec") if version["live"])
        return bool(served["weights_sha256"] == live["weights_sha256"])

    until(are_equal, what="the served hash equal to the published one")


def test_events_begin_with_the_status_and_report_publications_and_feedback(service: Service) -> None:
    events = service.client("vec").events(timeout_s=60)
    name, data = next(events)
    assert name == "status" and data["learner"]["state"] == "running"
    receipt = give(service, "vec", input=[1, 0, 1, 1], label="up")
    name, data = next(
        event for event in events if event[0] == "published" and event[1]["learned_until"] >= receipt["offset"]
    )
    assert data["version"].isdigit()
    # a version may be live before the feedback that it has learned is acknowledged: then no freshness is known yet
    assert data["freshness_ms"] is None or data["freshness_ms"] > 0
    status = service.http.get("/v1/models/vec")
    assert status.json()["freshness_ms"]["last"] is not None
    learned = next(data for name, data in events if name == "learned" and data["id"] == receipt["id"])
    assert int(learned["version"]) > 0 and learned["offset"] == receipt["offset"]
    service.http.delete(f"/v1/models/vec/feedback/{receipt['id']}")
    assert next(data for name, data in events if name == "retracted")["id"] == receipt["id"]


def test_events_report_refused_feedback_with_the_reason(service: Service) -> None:
    events = service.client("rv").events(timeout_s=60)
    next(events)
    receipt = give(service, "rv", input={"x": 1e300}, label="a")
    refusal = next(data for name, data in events if name == "refused")
    assert refusal["id"] == receipt["id"] and "overflow for good" in refusal["reason"]


def test_the_documentation_needs_no_other_host(service: Service) -> None:
    page = service.http.get("/docs").text
    assert "http://" not in page and "https://" not in page
    document = service.http.get("/openapi.json")
    assert document.json()["info"]["title"] == "online"
    schemas = set(document.json()["components"]["schemas"])
    assert set(re.findall(r'"#/components/schemas/(\w+)"', document.text)) <= schemas


# refusals

PREDICT, FEEDBACK = "/v1/models/vec:predict", "/v1/models/vec:feedback"
NUMBERS = "/v1/models/num:feedback"
DEEP = "[" * 100_000 + "]" * 100_000
INPUT = [0.0, 0.0, 0.0, 0.0]

BAD = {
    "an unknown model": ("/v1/models/nobody:feedback", '{"feedback": []}', 404, "no model 'nobody'"),
    "an unknown prediction": (
        FEEDBACK,
        {"feedback": [{"prediction_id": "nope", "label": "a"}]},
        404,
        "no prediction 'nope'",
    ),
    "reward and label": (
        FEEDBACK,
        {"feedback": [{"prediction_id": "x", "reward": 1, "label": "a"}]},
        400,
        "reward and label",
    ),
    "no signal": (FEEDBACK, {"feedback": [{"prediction_id": "x"}]}, 400, "none of them"),
    "prediction and input": (
        FEEDBACK,
        {"feedback": [{"prediction_id": "x", "input": INPUT, "label": "a"}]},
        400,
        "either",
    ),
    "neither prediction nor input": (FEEDBACK, {"feedback": [{"label": "a"}]}, 400, "either"),
    "a reward above one": (
        FEEDBACK,
        {"feedback": [{"prediction_id": "x", "reward": 1.5}]},
        400,
        "less than or equal to 1",
    ),
    "a reward below zero": (
        FEEDBACK,
        {"feedback": [{"prediction_id": "x", "reward": -1}]},
        400,
        "greater than or equal to 0",
    ),
    "a reward that is no number": (
        FEEDBACK,
        '{"feedback": [{"prediction_id": "x", "reward": NaN}]}',
        400,
        "finite number",
    ),
    "a correction for a classifier": (
        FEEDBACK,
        {"feedback": [{"input": INPUT, "correction": "a"}]},
        400,
        "send a label",
    ),
    "a text as a number": (NUMBERS, {"feedback": [{"input": [0, 0], "label": "up"}]}, 400, "'up' is not a number"),
    "no finite number": (NUMBERS, '{"feedback": [{"input": [0, 0], "label": NaN}]}', 400, "must be finite"),
    "a boolean as a number": (NUMBERS, {"feedback": [{"input": [0, 0], "label": True}]}, 400, "valid string"),
    "a reward for a number": (
        NUMBERS,
        {"feedback": [{"prediction_id": "x", "reward": 1}]},
        400,
        "learns from the right ones; send a label",
    ),
    "an unknown key": (FEEDBACK, {"feedback": [{"input": INPUT, "label": "a", "lable": "b"}]}, 400, "lable"),
    "NaN in a vector": (PREDICT, '{"instances": [[0, NaN, 0, 0]]}', 400, "must be finite"),
    "infinity in a vector": (PREDICT, '{"instances": [[0, 0, Infinity, 0]]}', 400, "must be finite"),
    "no instances": (PREDICT, {"instances": []}, 400, "instances"),
    "instances missing": (PREDICT, {}, 400, "instances"),
    "no feedback": (FEEDBACK, {"feedback": []}, 400, "feedback"),
    "too short a vector": (PREDICT, {"instances": [INPUT, [0]]}, 400, "instance 1 has 1 numbers; this model takes 4"),
    "a text for a vector": (PREDICT, {"instances": ["hello"]}, 400, "instance 0 must be a list"),
    "a boolean in a vector": (PREDICT, {"instances": [[0, True, 0, 0]]}, 400, "at 1 it has true"),
    "a number beyond a float": (PREDICT, '{"instances": [[0, 0, 0, 1' + "0" * 400 + "]]}", 400, "too large"),
    "a 10 MB text": ("/v1/models/chat:predict", json.dumps({"instances": ["x" * 10_000_000]}), 413, "max_body_bytes"),
    "a long text": ("/v1/models/chat:predict", {"instances": ["x" * 9_000]}, 413, "9000 characters"),
    "an empty text": ("/v1/models/chat:predict", {"instances": ["  "]}, 400, "instance 0 must be a text"),
    "100,000-deep JSON": (PREDICT, '{"instances": ' + DEEP + "}", 413, "max_json_depth"),
    "not JSON": (FEEDBACK, "hello", 400, "Invalid JSON"),
    "an empty body": (FEEDBACK, "", 400, "Invalid JSON"),
    "bytes that are not UTF-8": (PREDICT, b'{"instances": ["\xff\xfe"]}', 400, "JSON Parse error: Invalid value"),
    "too many instances": (PREDICT, {"instances": [INPUT] * 2_000}, 413, "max_instances"),
    "a label of 10,000 characters": (
        FEEDBACK,
        {"feedback": [{"input": INPUT, "label": "x" * 10_000}]},
        413,
        "10000 characters",
    ),
    "an empty label": (FEEDBACK, {"feedback": [{"input": INPUT, "label": ""}]}, 400, "has an empty label"),
    "a negative offset": (PREDICT, {"instances": [INPUT], "min_offset": -1}, 400, "min_offset"),
    "a version that is no number": ("/v1/models/vec:rollback", {"version": "../../etc"}, 400, "must be a number"),
    "a version in other digits": ("/v1/models/vec:rollback", {"version": "²"}, 400, "must be a number"),
    "a version of 5,000 digits": ("/v1/models/vec:rollback", {"version": "9" * 5_000}, 400, "must be a number"),
    "a label of blanks": (FEEDBACK, {"feedback": [{"input": INPUT, "label": "   "}]}, 400, "label"),
    "a user with a NUL": (PREDICT, {"instances": [INPUT], "user": "a\x00b"}, 400, "user"),
    "an unknown version": ("/v1/models/vec:rollback", {"version": 99999}, 404, "no version 99999"),
    "a reply without a text": ("/v1/models/chat/replies", {"text": "  "}, 400, "question is empty"),
    "replies of a classifier": ("/v1/models/vec/replies", {"text": "hello"}, 400, "only a ranker has replies"),
    "an unknown reply as label": (
        "/v1/models/chat:feedback",
        {"feedback": [{"input": "hi", "label": "nobody"}]},
        404,
        "no reply 'nobody'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_clear_error_and_changes_nothing(service: Service, case: str) -> None:
    path, body, status, words = BAD[case]
    heads = {name: service.http.get(f"/v1/models/{name}").json()["head"] for name in ("chat", "vec")}
    content = body if isinstance(body, (str, bytes)) else json.dumps(body)
    response = service.http.post(path, content=content)
    assert response.status_code == status, response.text
    figures = ["given", "limit"] if case == "a long text" else []
    assert list(response.json()) == ["error", *figures] and words in response.json()["error"]
    assert len(response.json()["error"]) < 2_000 and "Traceback" not in response.text
    assert {name: service.http.get(f"/v1/models/{name}").json()["head"] for name in heads} == heads


def test_one_bad_item_refuses_the_whole_request(service: Service) -> None:
    head = service.http.get("/v1/models/vec").json()["head"]
    items = [{"input": INPUT, "label": "up"}, {"prediction_id": "nope", "label": "up"}]
    response = service.http.post(FEEDBACK, json={"feedback": items})
    assert response.status_code == 404 and response.json()["error"].startswith("feedback 1")
    assert service.http.get("/v1/models/vec").json()["head"] == head


def test_an_offset_that_is_not_learned_in_time_is_reported(service: Service) -> None:
    response = service.http.post(PREDICT, json={"instances": [INPUT], "min_offset": 10**9, "timeout_ms": 20})
    assert response.status_code == 504 and "not learned after" in response.json()["error"]


def test_an_unknown_path_or_method_is_a_json_error(service: Service) -> None:
    assert service.http.get("/nothing/here").json() == {"error": "GET /nothing/here: Not Found"}
    assert service.http.put("/v1/models").json() == {"error": "Malformed request: PUT /v1/models"}
    assert service.http.put("/healthz").status_code == 405


def test_a_caller_that_disconnects_affects_no_other_request(service: Service) -> None:
    with pytest.raises(httpx.TimeoutException):
        httpx.post(
            f"{service.url}/v1/models/vec:predict", json={"instances": [INPUT], "min_offset": 10**9}, timeout=0.05
        )
    assert predict(service, "vec", [INPUT])["predictions"]


def test_an_idle_connection_stays_open_longer_than_clients_keep_it(service: Service) -> None:
    """httpx closes a connection after 5 idle seconds; a server with the same limit would sometimes cut off a request."""
    url = httpx.URL(service.url)
    with closing(HTTPConnection(url.host, url.port, timeout=30)) as connection:
        connection.connect()
        opened = connection.sock
        for idle_s in (6.0, 0.0):
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            assert (response.status, json.loads(response.read())) == (200, {"live": True})
            assert connection.sock is opened  # http.client would open another one silently
            time.sleep(idle_s)  # there is no event to wait for: the test is that nothing happens
