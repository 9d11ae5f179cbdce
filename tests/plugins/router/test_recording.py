"""Answers that a language model has given elsewhere: recorded, rated, and learned from."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import Start
from tests.plugins.router.test_routed_chat import describe, rate, wait_learned
from tests.support import Service, erase, run_online

OWN = '[[models]]\nname = "router"\nkind = "router"\noptions = { text_features = "hashed", explore = 0.0, explore_new = 0.0 }\n'
DECLARED = OWN + '[[models.routes]]\nname = "small"\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"\n'


@pytest.fixture
def service(start: Start) -> Service:
    return start(OWN)


def record(service: Service, **fields: Any) -> httpx.Response:
    body = {"question": "Why is the sky blue?", "answer": "Because of Rayleigh.", "source": "small", **fields}
    return service.http.post("/v1/models/router:record", json=body)


def choose(service: Service, text: str) -> dict[str, Any]:
    answer = service.http.post("/v1/models/router:predict", json={"instances": [text]}).raise_for_status().json()
    prediction: dict[str, Any] = answer["predictions"][0]
    return prediction


def run(*arguments: str) -> str:
    """Return what a command prints."""
    done = run_online(*arguments)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_thumbs_on_answers_of_own_models_teach_which_one_answers_better(service: Service) -> None:
    offset = 0
    for source, reward in [("small", 0.0), ("large", 1.0)] * 4:
        recorded = record(service, source=source, propensity=0.5)
        assert recorded.status_code == 201, recorded.text
        offset = rate(service, {"id": recorded.json()["prediction_id"]}, reward)
    wait_learned(service, offset)
    assert choose(service, "Why is the sky blue?")["route"] == "large"


def test_the_propensity_is_kept_for_the_evaluation_of_policies(service: Service) -> None:
    id = record(service, propensity=0.25).json()["prediction_id"]
    rate(service, {"id": id}, 1.0)
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        query = "SELECT propensity, choice FROM prediction WHERE id = ?"
        assert store.execute(query, [id]).fetchone() == (0.25, "small")


def test_what_the_answer_has_cost_is_learned(service: Service) -> None:
    before = describe(service)["head"]
    record(service, cost=0.002, seconds=1.5).raise_for_status()
    wait_learned(service, before + 1)
    (route,) = service.http.get("/v1/models/router/routes").raise_for_status().json()["routes"]
    assert (route["name"], route["state"]) == ("small", "elsewhere")
    assert route["dollars"] == pytest.approx(0.002) and route["outcomes"] == 1


def test_the_text_of_an_answer_goes_with_its_user(service: Service) -> None:
    record(service, user="ada").raise_for_status()
    query = "SELECT count(*) FROM generated_answer"
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        assert store.execute(query).fetchone()[0] == 1
        erase(service.client("router"), "ada")
        assert store.execute(query).fetchone()[0] == 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"question": ""}, "question"),
        ({"source": ""}, "source"),
        ({"propensity": 0}, "propensity"),
        ({"propensity": 1.5}, "propensity"),
        ({"cost": -1}, "cost"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_its_name(service: Service, fields: dict[str, Any], reason: str) -> None:
    refused = record(service, **fields)
    assert refused.status_code == 400 and reason in refused.json()["error"]


def test_a_source_that_is_no_route_is_refused(start: Start) -> None:
    service = start(DECLARED)
    assert record(service).status_code == 201
    refused = record(service, source="other")
    assert refused.status_code == 400 and "its routes are small" in refused.json()["error"]


def test_only_a_router_records_answers(start: Start) -> None:
    service = start('[[models]]\nname = "router"\nkind = "ranker"\n')
    refused = record(service)
    assert refused.status_code == 400 and "has no routes" in refused.json()["error"]


def test_kept_answers_are_listed_with_their_ratings_page_by_page(service: Service) -> None:
    ids = [record(service, question=f"question {n}", answer=f"answer {n}").json()["prediction_id"] for n in range(5)]
    rate(service, {"id": ids[1]}, 0.0)
    found, after = list[dict[str, Any]](), ""
    for _ in range(3):
        query = f"limit=2&after={quote(after)}"
        page = service.http.get(f"/v1/models/router/answers?{query}").raise_for_status().json()
        found += page["answers"]
        after = page["next"]
    assert after is None and [each["prediction_id"] for each in found] == ids
    assert [each["reward"] for each in found] == [None, 0, None, None, None]
    assert (found[1]["question"], found[1]["answer"], found[1]["route"]) == ("question 1", "answer 1", "small")
    assert service.http.get("/v1/models/router/answers?after=x").status_code == 400


def test_the_log_tells_what_each_source_alone_would_have_earned_and_cost(start: Start, tmp_path: Path) -> None:
    service = start(DECLARED + DECLARED.removeprefix(OWN).replace("small", "large"))
    worth, costs, offset = {"small": 0.0, "large": 1.0}, {"small": 0.001, "large": 0.01}, 0
    for number in range(80):
        source = "large" if number % 2 else "small"
        fields = {"question": f"question {number}", "source": source, "propensity": 0.5, "cost": costs[source]}
        offset = rate(service, {"id": record(service, **fields).json()["prediction_id"]}, worth[source])
    wait_learned(service, offset)
    log, of_state = tmp_path / "log.jsonl", ("--state", str(service.state), "--config", f"{service.state}.toml")
    run("log", "export", "--model", "router", "--output", str(log), *of_state)
    policies = ("--policy", "logged", "--policy", "fixed:small", "--policy", "fixed:large")
    found = json.loads(run("evaluate", str(log), *policies, "--json"))
    logged, small, large = found["policies"]
    assert small["estimates"]["dr"]["value"] < 0.2 < 0.8 < large["estimates"]["dr"]["value"]
    assert large["cost_per_1k"]["value"] == pytest.approx(10.0) and small["cost_per_1k"]["value"] == pytest.approx(1.0)
    assert logged["cost_per_1k"]["interval"][0] < 5.5 < logged["cost_per_1k"]["interval"][1]
    assert "US dollars per 1,000" in run("evaluate", str(log), *policies)
    (replayed,) = json.loads(
        run("replay", str(log), "--model", "router", "--option", "text_features=hashed", "--json")
    )["results"]
    assert replayed["events"] == 160
