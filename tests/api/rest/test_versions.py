"""Versions beside the live one: selected by number or label, as a canary or a shadow; rollback, freezing and the guard."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from online.client import Client
from online.models import Example, create, input_options
from online.models.encoders.factory import create_encoder
from tests.conftest import Start, config
from tests.support import Service, run_online, until

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
UP, DOWN = [1.0, 0.0], [0.0, 1.0]


def post(service: Service, path: str, body: Any, **headers: str) -> httpx.Response:
    return service.http.post(f"/v1/models/vec{path}", json=body, headers=headers)


def flags_of(service: Service) -> tuple[str, ...]:
    return ("--state", str(service.state), "--config", str(service.state.with_suffix(".toml")))


def put_label(service: Service, label: str, version: str | int, **more: Any) -> httpx.Response:
    url = f"/v1/models/vec/version_labels/{label}"
    return service.http.put(url, json={"version": version, **more})


def predicted_class(response: httpx.Response) -> str | None:
    label: str | None = response.raise_for_status().json()["predictions"][0]["label"]
    return label


def teach(service: Service, label: str, times: int = 1) -> str:
    """Teach the class of UP and wait until it is learned; return the version that learned it."""
    with Client(service.url, "vec") as client:
        receipt = client.feedback([{"input": UP, "label": label}] * times)[-1]
        answer = client.predict([UP], min_offset=receipt["offset"], timeout_ms=30_000)
        return answer["model_version"]


def teach_two_versions(service: Service) -> tuple[Service, str, str]:
    """Return the version labelled stable, which predicts "one", and a newer version, which predicts "two"."""
    one = teach(service, "one")
    put_label(service, "stable", one).raise_for_status()
    return service, one, teach(service, "two", times=5)


@pytest.fixture(scope="module")
def two_versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str, str]]:
    """A service with two versions, for tests that neither teach it nor roll it back."""
    folder = tmp_path_factory.mktemp("versions")
    service = Service(folder / "state", config(folder, VEC))
    yield teach_two_versions(service)
    service.stop()


def test_each_loaded_version_answers_by_its_number_and_by_its_labels(two_versions: tuple[Service, str, str]) -> None:
    service, one, newer = two_versions
    ask = {"instances": [UP]}
    assert predicted_class(post(service, ":predict", ask)) == "two"
    assert predicted_class(post(service, f"/versions/{one}:predict", ask)) == "one"
    assert predicted_class(post(service, "/labels/stable:predict", ask)) == "one"
    assert predicted_class(post(service, "/labels/latest:predict", ask)) == "two"
    by_number = post(service, f"/versions/{one}:predict", ask)
    assert (by_number.headers["X-Model-Version"], by_number.json()["model_version"]) == (one, one)
    listed = {version["version"]: version for version in service.versions("vec")}
    assert "latest" in listed[newer]["labels"] and "stable" in listed[one]["labels"]
    assert listed[one]["state"] == "AVAILABLE"


def test_a_version_that_is_not_loaded_is_refused_with_the_error_of_tensorflow_serving(
    two_versions: tuple[Service, str, str],
) -> None:
    service, _, _ = two_versions
    ask = {"instances": [UP]}
    missing = post(service, "/versions/99:predict", ask)
    assert (missing.status_code, missing.json()["error"]) == (404, "Servable not found for request: Specific(vec, 99)")
    unknown = post(service, "/labels/nightly:predict", ask)
    assert (unknown.status_code, unknown.json()["error"]) == (400, "Unrecognized servable version label: nightly")
    assert post(service, "/versions/x:predict", ask).status_code == 400
    assert put_label(service, "stable", 99).status_code == 404
    assert put_label(service, "latest", 1).status_code == 400
    assert put_label(service, "stable", 1, percent=5).status_code == 400
    assert put_label(service, "no-such.label", 1).status_code == 400


@pytest.mark.long
def test_a_labelled_version_is_not_pruned(start: Start) -> None:
    service = start(VEC, retain=2, publish_every_ms=0, durable_every_s=0.05)
    one = teach(service, "one")
    put_label(service, "stable", one).raise_for_status()
    for _ in range(80):
        teach(service, "two")
    assert one in {version["version"] for version in service.versions("vec")}
    assert int(one) + 1 not in {int(version["version"]) for version in service.versions("vec")}
    assert predicted_class(post(service, "/labels/stable:predict", {"instances": [UP]})) == "one"


def test_the_canary_answers_its_share_of_callers_consistently(two_versions: tuple[Service, str, str]) -> None:
    service, one, _ = two_versions
    put_label(service, "canary", one, percent=30).raise_for_status()
    routes = [f"caller {number}" for number in range(200)]
    first = [predicted_class(post(service, ":predict", {"instances": [UP]}, **{"X-Route": route})) for route in routes]
    again = [
        predicted_class(post(service, ":predict", {"instances": [UP]}, **{"X-Route": route})) for route in routes[:50]
    ]
    assert again == first[:50]
    assert 35 <= first.count("one") <= 85  # 30 % of 200, within four standard deviations
    by_user = {predicted_class(post(service, ":predict", {"instances": [UP], "user": "ann"})) for _ in range(10)}
    assert len(by_user) == 1
    put_label(service, "canary", one).raise_for_status()  # without a share it is an ordinary label
    assert {predicted_class(post(service, ":predict", {"instances": [UP]})) for _ in range(20)} == {"two"}


@pytest.mark.long
def test_a_status_describes_one_version_even_while_another_is_published(start: Start) -> None:
    service = start(VEC)
    teach(service, "one")
    compared = 0
    with Client(service.url, "vec") as client:
        for turn in range(100):
            client.feedback([{"input": UP, "label": "one" if turn % 2 else "two"}])
            status = service.http.get("/v1/models/vec").json()
            listed = service.http.get("/v1/models/vec/versions").json()["versions"]
            version = status["model_version_status"][0]["version"]
            known = [each for each in listed if each["version"] == version]
            compared += len(known)
            described = [(each["weights_sha256"], each["learned_until"]) for each in known]
            assert described in ([], [(status["weights_sha256"], status["learned_until"])])
    assert compared > 50


@pytest.mark.long
def test_a_version_that_fails_a_golden_question_is_refused_and_listed_with_the_reason(start: Start) -> None:
    service = start(VEC + 'canaries = [{ input = [1.0, 0.0], answer = "one" }]\n')
    one = teach(service, "one")
    with Client(service.url, "vec") as client:
        client.feedback([{"input": UP, "label": "two"}] * 5)

    def list_refused() -> list[dict[str, Any]]:
        versions: list[dict[str, Any]] = service.http.get("/v1/models/vec/versions").json()["refused"]
        return versions

    refused = until(list_refused)
    assert refused[-1]["reason"] == "the golden question '[1.0, 0.0]' would no longer get 'one'"
    assert refused[-1]["learned_until"] <= refused[-1]["until"] <= 6
    answer = post(service, ":predict", {"instances": [UP]})
    assert predicted_class(answer) == "one" and answer.json()["model_version"] == one


def test_a_frozen_model_learns_the_waiting_feedback_once_it_is_thawed(start: Start) -> None:
    service = start(VEC)
    teach(service, "one")
    post(service, ":freeze", {"reason": "an odd afternoon"}).raise_for_status()
    assert "an odd afternoon" in run_online("versions", *flags_of(service)).stdout
    with Client(service.url, "vec") as client:
        receipt = client.feedback([{"input": UP, "label": "two"}] * 5)[-1]
        late = post(service, ":predict", {"instances": [UP], "min_offset": receipt["offset"], "timeout_ms": 1_500})
        assert late.status_code == 504
        listed = service.http.get("/v1/models/vec/versions").json()
        assert listed["frozen"]["reason"] == "an odd afternoon"
        post(service, ":thaw", {}).raise_for_status()
        answer = client.predict([UP], min_offset=receipt["offset"], timeout_ms=30_000)
        assert answer["predictions"][0]["label"] == "two"
    assert service.http.get("/v1/models/vec/versions").json()["frozen"] is None


@pytest.mark.long
def test_admin_requests_need_the_admin_key_if_one_is_set(start: Start) -> None:
    service = start(VEC, admin_key="open sesame")
    key = {"X-Admin-Key": "open sesame"}
    service.http.headers.update(key)
    receipt = post(service, ":feedback", {"feedback": [{"input": UP, "label": "one"}]}).json()["receipts"][0]
    one = str(service.wait_learned("vec", receipt["offset"])["model_version_status"][0]["version"])
    del service.http.headers["X-Admin-Key"]
    refused = post(service, ":rollback", {"version": one})
    assert (refused.status_code, "needs a key" in refused.json()["error"]) == (401, True)
    assert post(service, ":freeze", {}, **{"X-Admin-Key": "open sesamE"}).status_code == 401
    assert post(service, ":rollback", {"version": one}, Authorization="Bearer open sesame").status_code == 200
    assert predicted_class(post(service, ":predict", {"instances": [UP]}, **key)) == "one"


def test_without_an_admin_key_admin_requests_are_accepted_only_from_this_machine(start: Start) -> None:
    service = start(VEC)
    teach(service, "one")
    rebound = post(service, ":rollback", {"version": 1}, Host="evil.example:8000")
    other_page = post(service, ":rollback", {"version": 1}, Origin="http://evil.example")
    proxies = ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via", "CF-Connecting-IP")
    proxied = [post(service, ":rollback", {"version": 1}, **{name: "10.0.0.7"}).status_code for name in proxies]
    assert [rebound.status_code, other_page.status_code, *proxied] == [421, 403, *[401] * len(proxies)]
    own = post(service, ":rollback", {"version": 1}, Origin=service.url)
    assert own.status_code == 200


@pytest.mark.long
def test_the_command_line_labels_freezes_and_thaws_and_a_rollback_goes_to_a_label_or_back(start: Start) -> None:
    service, one, newer = teach_two_versions(start(VEC))
    flags = flags_of(service)
    assert f"version {newer} of vec is best" in run_online("label", "best", "latest", *flags).stdout
    until(lambda: post(service, "/labels/best:predict", {"instances": [UP]}).status_code == 200)
    assert "best" in run_online("versions", *flags).stdout
    run_online("label", "best", "--drop", *flags)
    until(lambda: post(service, "/labels/best:predict", {"instances": [UP]}).status_code == 400)
    assert "no version" in run_online("label", "x", "nowhere", *flags).stderr
    run_online("freeze", "--reason", "night", *flags)
    assert "night" in run_online("versions", *flags).stdout
    run_online("thaw", *flags)
    assert "frozen" not in run_online("versions", *flags).stdout
    assert post(service, ":rollback", {"version": "stable"}).json()["version"] == one
    assert predicted_class(post(service, ":predict", {"instances": [UP]})) == "one"
    before = post(service, ":rollback", {}).json()["version"]  # the version before the last rollback
    states = {each["version"]: each["state_sha256"] for each in service.versions("vec")}
    assert int(before) >= int(newer) and states[before] == states[newer]
    assert predicted_class(post(service, ":predict", {"instances": [UP]})) == "two"
    assert f"from version {one}" in run_online("rollback", "stable", *flags).stdout


GUARDED = VEC + "guard = true\n"


def rate(service: Service, points: Sequence[Sequence[float]], flipped: bool) -> None:
    """Predict each point and give its label as feedback, or the opposite label."""
    with Client(service.url, "vec") as client:
        for point in points:
            answer = client.predict([point])
            right = "up" if (point[0] > point[1]) != flipped else "down"
            client.label(answer["prediction_ids"][0], right)


def rate_wrongly(service: Service, points: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Give wrong labels until the guard acts; return its quarantine."""
    for start in range(0, len(points), 20):
        rate(service, points[start : start + 20], flipped=True)
        if rows := quarantines(service):
            return rows[0]
    return until(lambda: quarantines(service), what="a quarantine")[0]  # type: ignore[no-any-return]


def quarantines(service: Service) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = service.http.get("/v1/models/vec/quarantine").json()["quarantines"]
    return rows


@pytest.mark.parametrize("outcome", [pytest.param("dropped", marks=pytest.mark.long), "learned"])
def test_the_guard_rolls_back_when_the_loss_rises_and_waits_for_an_operator(start: Start, outcome: str) -> None:
    service = start(GUARDED)
    draw = np.random.default_rng(7)
    teach(service, "up")  # so that the learner has started
    rate(service, draw.uniform(-1, 1, (300, 2)).tolist(), flipped=False)
    service.wait_learned("vec", 301)
    quarantine = rate_wrongly(service, draw.uniform(-1, 1, (1_000, 2)).tolist())
    assert 250 <= quarantine["since"] <= quarantine["offset"]  # ADWIN is accurate to one of its buckets
    versions = service.http.get("/v1/models/vec/versions").json()["versions"]
    older = next(each for each in versions if each["version"] == str(quarantine["rolled_back_to"]))
    assert 0 < older["learned_until"] < quarantine["since"]
    cause = quarantine["cause"]
    assert cause["code"] == "loss_rose" and cause["figures"]["since"] == quarantine["since"]
    assert cause["figures"].get("before", 0.0) < cause["figures"].get("after", 1.0)
    # it is listed before the roll-back and the freezing that it announces
    until(lambda: predicted_class(post(service, ":predict", {"instances": [UP]})) == "up", what="the roll-back")
    frozen = until(lambda: service.http.get("/v1/models/vec/versions").json()["frozen"], what="freezing")
    assert "the guard" in frozen["reason"] and frozen["cause"]["code"] == "guard"
    head = service.http.get("/v1/models/vec").json()["head"]
    assert post(service, ":thaw", {}).status_code == 409
    ended = post(service, "/quarantine:end", {"outcome": outcome}).raise_for_status().json()
    assert (ended["outcome"], ended["until"] >= head) == (outcome, True)
    if outcome == "dropped":
        status = service.wait_learned("vec", head + 1)
        assert status["learned_until"] > head  # the retractions
    teach(service, "up")
    assert service.http.get("/v1/models/vec/versions").json()["frozen"] is None
    assert post(service, "/quarantine:end", {"outcome": outcome}).status_code == 404


def test_dropped_quarantine_feedback_leaves_no_trace_in_the_state(start: Start, tmp_path: Path) -> None:
    service = start(GUARDED)
    draw = np.random.default_rng(7)
    good = [UP, *draw.uniform(-1, 1, (300, 2)).tolist()]
    teach(service, "up")
    rate(service, good[1:], flipped=False)
    since = rate_wrongly(service, draw.uniform(-1, 1, (1_000, 2)).tolist())["since"]
    with Client(service.url, "vec") as client:
        late = client.feedback([{"id": "late", "input": UP, "label": "down"}])[0]
        assert client.feedback_status("late")["status"] == "quarantined"
    post(service, "/quarantine:end", {"outcome": "dropped"}).raise_for_status()
    service.wait_learned("vec", 2 * late["offset"] - since + 1)
    assert service.stop() == 0
    model = create("classifier", {"input": "vector", "size": 2, "scale": 4.0})
    rows = create_encoder(input_options("classifier", {"input": "vector", "size": 2}), tmp_path).encode(good)
    points = list(enumerate(zip(rows, good, strict=True), 1))
    labelled = [(offset, row, "up" if x > y else "down") for offset, (row, (x, y)) in points if offset < since]
    model.learn([Example(offset, "label", row, label) for offset, row, label in labelled])
    newest = json.loads(run_online("versions", "--json", *flags_of(service)).stdout)["versions"][0]
    assert newest["state_sha256"] == model.fingerprint()


def test_the_shadow_answers_all_traffic_without_being_served(two_versions: tuple[Service, str, str]) -> None:
    service, one, _ = two_versions
    put_label(service, "shadow", one).raise_for_status()
    post(service, ":freeze", {}).raise_for_status()  # so that the live version stays the same
    shadow = "/v1/models/vec/shadow"
    with Client(service.url, "vec") as client:
        for turn in range(30):
            answer = client.predict([UP])
            assert answer["predictions"][0]["label"] == "two"
            if turn < 20:
                client.label(answer["prediction_ids"][0], "one" if turn < 5 else "two")
            elif turn < 25:
                # The shadow gave another answer, so this reward does not judge it.
                client.reward(answer["prediction_ids"][0], 1.0)
    until(lambda: service.http.get(shadow).json()["answered"] == 30)
    report = service.http.get(shadow).json()
    assert report == {"version": one, "answered": 30, "judged": 20, "shadow_right": 5, "live_right": 15}
    service.http.delete("/v1/models/vec/version_labels/shadow").raise_for_status()
    assert service.http.get(shadow).json()["version"] is None
