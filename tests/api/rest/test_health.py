"""The verdict on a model over HTTP: a collapse, a roll back, a stopped learner; and versions in pages."""

import os
import random
import re
import signal
from typing import Any

import pytest

from online.client import Client
from tests.api.rest.test_versions import VEC, flags_of, post, teach
from tests.conftest import Start
from tests.support import Service, run_online, until


def health_of(service: Service, model: str = "vec") -> dict[str, Any]:
    response = service.http.get(f"/v1/models/{model}/health")
    assert response.status_code == 200, response.text
    health: dict[str, Any] = response.json()
    return health


def draw_points(count: int, seed: int) -> list[list[float]]:
    draw = random.Random(seed)
    return [[draw.uniform(-1, 1), draw.uniform(-1, 1)] for _ in range(count)]


def label_of(point: list[float]) -> str:
    return "up" if point[0] > point[1] else "down"


def rate(client: Client, count: int, seed: int) -> int:
    """Ask `count` questions at once, and give their right labels; return the last offset."""
    points = draw_points(count, seed)
    answer = client.predict(points)
    pairs = zip(answer["prediction_ids"], points, strict=True)
    return client.feedback([{"prediction_id": id, "label": label_of(point)} for id, point in pairs])[-1]["offset"]


def mislead(client: Client, count: int) -> int:
    """Give wrong labels of inputs that nobody asked about; return the last offset."""
    wrong = {"up": "down", "down": "up"}
    points = draw_points(count, seed=5)
    return client.feedback([{"input": point, "label": wrong[label_of(point)]} for point in points])[-1]["offset"]


def judge(service: Service, shares: list[float], seed: int = 3) -> None:
    """Ask 50 questions for each share, of which that share is called right. Each time, wait until it is learned."""
    draw, client = random.Random(seed), service.client("vec")
    for share in shares:
        ids = client.predict(draw_points(50, seed=draw.randrange(1_000)))["prediction_ids"]
        rewards = [int(index < round(50 * share)) for index in range(50)]
        draw.shuffle(rewards)
        feedback = [{"prediction_id": id, "reward": reward} for id, reward in zip(ids, rewards, strict=True)]
        service.wait_learned("vec", client.feedback(feedback)[-1]["offset"])


SLOW_DECLINE = [0.96] * 12 + [0.9, 0.86, 0.84, 0.8, 0.76, 0.72, 0.7, 0.68]


def codes(health: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in health["reasons"]]


@pytest.fixture
def collapsed(start: Start) -> tuple[Service, int]:
    """A service whose model was right until an offset, and has then been misled."""
    service = start(VEC)
    client = service.client("vec")
    service.wait_learned(
        "vec", client.feedback([{"input": p, "label": label_of(p)} for p in draw_points(50, 4)])[-1]["offset"]
    )
    assert health_of(service)["status"] == "too_little_feedback"
    for seed in range(3):
        until_offset = rate(client, 100, seed)
        service.wait_learned("vec", until_offset)
    good = health_of(service)
    assert good["status"] == "good", good
    assert good["recent"]["count"] == 100 and good["recent"]["mean"] > 0.85
    assert good["lifetime"]["count"] == 300 and len(good["trend"]) == 6
    assert good["guesser_counts"] == dict.fromkeys(good["guessers"], 100)
    service.wait_learned("vec", mislead(client, 1_000))
    service.wait_learned("vec", rate(client, 100, seed=9))
    return service, until_offset


def test_a_collapse_is_reported_and_ends_with_a_roll_back(collapsed: tuple[Service, int]) -> None:
    service, since = collapsed  # no rating follows that offset until the model has been misled
    bad = health_of(service)
    assert bad["status"] == "needs_attention" and codes(bad)[0] == "accuracy_fell", bad
    figures = bad["reasons"][0]["figures"]
    assert abs(figures["since"] - since) <= 10
    first = service.http.get("/v1/models/vec/curve?points=512").json()["points"]
    assert min(each["began"] for each in first) < figures["since_at"] <= max(each["ended"] for each in first)
    assert figures["before"] > 0.85 and figures["after"] < 0.15 and figures["count"] == 100
    assert "accuracy of the last 100 answers fell from 9" in bad["sentence"]
    older = int(figures["roll_back_to"])
    (version,) = [each for each in service.versions("vec") if int(each["version"]) == older]
    assert version["learned_until"] <= since and older < int(bad["version"])

    post(service, ":rollback", {"version": str(older)}).raise_for_status()
    rolled_back = health_of(service)
    assert rolled_back["version"] == str(older) and int(rolled_back["newest_version"]) > older
    assert rolled_back["status"] == "good" and "rolled_back" in codes(rolled_back)
    assert "behind" not in codes(rolled_back)
    held = next(each["figures"] for each in rolled_back["reasons"] if each["code"] == "rolled_back")
    assert since < held["since"] <= rolled_back["head"] and "after" not in held  # nothing was judged since


def judged_until(service: Service, *offsets: int) -> list[int | None]:
    response = service.http.get("/v1/models/vec/curve/judged", params={"offset": offsets})
    assert response.status_code == 200, response.text
    numbers: list[int | None] = response.json()["judged"]
    return numbers


def test_the_number_of_a_judged_answer_is_exact_in_a_log_with_labels_of_no_answer(start: Start) -> None:
    service = start(VEC)
    client = service.client("vec")
    post(service, ":freeze", {}).raise_for_status()  # no version answers the inputs of labels
    client.feedback([{"input": p, "label": label_of(p)} for p in draw_points(50, 4)])
    for seed in range(3):
        rate(client, 100, seed)
    mislead(client, 600)
    head = rate(client, 300, seed=9)
    assert head == 1_251  # with the freeze, which is an event, too
    until(lambda: judged_until(service, head) != [None], what="all answers to be counted")
    assert judged_until(service, 1_100, 952, 951, 401, 351, 51, 52, 0, head, head + 1) == [
        *(449, 301, 300, 300, 300, 0, 1, 0, 600, None)
    ]
    for wrong in ({}, {"offset": "x"}, {"offset": [*range(201)]}):
        assert service.http.get("/v1/models/vec/curve/judged", params=wrong).status_code == 400


@pytest.mark.long
def test_a_slow_decline_has_one_begin_and_the_version_offered_has_learned_nothing_of_it(start: Start) -> None:
    service = start(VEC, retain=100)
    first = service.client("vec").feedback([{"input": p, "label": label_of(p)} for p in draw_points(50, 4)])[-1]
    service.wait_learned("vec", first["offset"])
    judge(service, SLOW_DECLINE)
    health = health_of(service)
    reasons = {reason["code"]: reason["figures"] for reason in health["reasons"]}
    fall, drift = reasons["accuracy_fell"], reasons["drift"]
    (change,) = service.http.get("/v1/models/vec/drift").json()["changes"]
    begin = fall["since"] + 1
    assert drift["since"] == change["since"] == begin
    assert drift["since_at"] == change["since_at"] == fall["since_at"]
    assert begin <= min(alarm["since"] for alarm in change["alarms"])  # the detector alone has it later
    assert fall["roll_back_to"] == change["version_before"]
    (version,) = [each for each in service.versions("vec") if each["version"] == fall["roll_back_to"]]
    assert version["learned_until"] < begin
    assert {"count": fall["count"], "mean": fall["after"]} == {
        name: health["recent"][name] for name in ("count", "mean")
    }


@pytest.mark.long
def test_a_roll_back_that_stops_learning_holds_until_it_is_resumed(collapsed: tuple[Service, int]) -> None:
    service, _ = collapsed
    older = health_of(service)["reasons"][0]["figures"]["roll_back_to"]
    request = {"version": older, "freeze": True, "reason": "wrong labels"}
    post(service, ":rollback", request).raise_for_status()
    held = health_of(service)
    assert held["status"] == "not_learning" and {"frozen", "rolled_back"} <= set(codes(held))
    assert service.http.get("/v1/models/vec/versions").json()["frozen"]["reason"] == "wrong labels"

    offset = service.client("vec").feedback([{"input": [0.5, -0.5], "label": "up"}])[-1]["offset"]
    assert health_of(service)["version"] == older
    post(service, ":thaw", {}).raise_for_status()
    service.wait_learned("vec", offset)
    assert int(health_of(service)["version"]) > int(older)


@pytest.mark.long
def test_a_model_recovers_after_a_roll_back_that_was_followed_by_good_answers(collapsed: tuple[Service, int]) -> None:
    service, _ = collapsed
    client = service.client("vec")
    before = health_of(service)
    older = before["reasons"][0]["figures"]["roll_back_to"]
    assert before["last_roll_back"] is None
    post(service, ":rollback", {"version": older, "freeze": True}).raise_for_status()
    rate(client, 20, seed=20)
    held = health_of(service)
    assert (held["status"], held["last_roll_back"]["version"]) == ("not_learning", older)
    assert held["last_roll_back"]["judged"]["count"] == 20

    repeat = [{"input": point, "label": label_of(point)} for point in draw_points(1_000, seed=5)]
    offset = client.feedback(repeat)[-1]["offset"]  # what was wrong is put right before learning is resumed
    post(service, ":thaw", {}).raise_for_status()
    service.wait_learned("vec", offset)
    red = health_of(service)
    assert int(red["version"]) > int(older) and red["status"] == "needs_attention", red

    service.wait_learned("vec", rate(client, 20, seed=21))
    amber = health_of(service)
    assert (amber["status"], codes(amber)[:2]) == ("good", ["recovering", "accuracy_fell"]), amber
    assert re.fullmatch(
        r"Recovering: \d+ of the 40 answers judged since the roll back were right\.", amber["sentence"]
    ), amber
    assert amber["last_roll_back"]["since"] == held["last_roll_back"]["since"]
    assert amber["last_roll_back"]["judged"]["count"] == 40

    service.wait_learned("vec", rate(client, 80, seed=22))
    good = health_of(service)
    assert good["status"] == "good" and not {"recovering", "accuracy_fell"} & set(codes(good)), good
    assert good["last_roll_back"]["version"] == older


@pytest.mark.long
def test_errors_that_are_rare_again_are_said_in_the_past(start: Start) -> None:
    service = start(VEC)
    client = service.client("vec")
    first = client.feedback([{"input": point, "label": label_of(point)} for point in draw_points(50, seed=4)])[-1]
    service.wait_learned("vec", first["offset"])
    judge(service, [0.95, 0.95, 0.95, 0.95, 0.4, 0.95, 0.95])
    health = health_of(service)
    assert (health["status"], codes(health)) == ("good", ["drift_over"])
    assert health["reasons"][0]["sentence"].endswith("; they are as rare as before")


def test_frozen_and_waiting_models_are_not_learning(start: Start) -> None:
    service = start(VEC)
    teach(service, "one")
    post(service, ":freeze", {"reason": "a look at the labels"}).raise_for_status()
    frozen = health_of(service)
    assert frozen["status"] == "not_learning"
    assert frozen["sentence"] == "Not learning: learning is frozen: a look at the labels."
    post(service, ":thaw", {}).raise_for_status()
    assert health_of(service)["status"] == "too_little_feedback"
    pid = until(service.learner_pid)
    os.kill(pid, signal.SIGKILL)
    restarting = until(lambda: (now := health_of(service))["status"] == "not_learning" and now)
    assert codes(restarting)[0] == "learner_restarting"


@pytest.mark.long
def test_the_verdict_survives_a_restart(collapsed: tuple[Service, int], start: Start) -> None:
    service, _ = collapsed
    before = health_of(service)
    service.stop()
    again = start(VEC)
    until(
        lambda: health_of(again)["reasons"] == before["reasons"], what="the same verdict, once the learner has started"
    )
    assert health_of(again)["recent"] == before["recent"]


def test_versions_are_listed_in_pages(start: Start) -> None:
    service = start(VEC, retain=100)
    for turn in range(12):
        teach(service, "one" if turn % 2 else "two")

    def page(query: str) -> dict[str, Any]:
        answer: dict[str, Any] = service.http.get(f"/v1/models/vec/versions{query}").raise_for_status().json()
        return answer

    whole = page("")
    numbers = [each["version"] for each in whole["versions"]]
    assert whole["version_count"] == len(numbers) > 10 and whole["next_before"] is None
    assert whole["live_version"] in numbers
    listed, before = list[str](), int(numbers[0]) + 1  # a durable version may follow meanwhile
    while before is not None:
        part = page(f"?limit=5&before={before}")
        listed += [each["version"] for each in part["versions"]]
        assert len(part["versions"]) <= 5 and part["version_count"] >= len(numbers)
        assert part["live_version"] != "0"
        before = part["next_before"]
    assert listed == numbers
    for query in ("?limit=0", "?limit=1001", "?before=0", "?before=x"):
        assert service.http.get(f"/v1/models/vec/versions{query}").status_code == 400
    assert numbers[0] in run_online("versions", *flags_of(service)).stdout
