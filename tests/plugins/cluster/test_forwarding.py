"""Replicas that have a part of the models each: requests for the others are forwarded."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.settings import ModelSettings, Settings
from online.settings.fields import owns
from tests.support import Service, until

CONFIG = """
store = "{store}"
secret = "a secret for tests"
own_models = ["{own}"]
admin_key = "a key for tests"

[[models]]
name = "first"
kind = "classifier"
options = {{ input = "vector", size = 2, scale = 4.0 }}

[[models]]
name = "second"
kind = "classifier"
options = {{ input = "vector", size = 2, scale = 4.0 }}
"""


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[tuple[Service, Service]]:
    one = Service(tmp_path / "one", CONFIG.format(store=postgres_url, own="first"))
    two = Service(tmp_path / "two", CONFIG.format(store=postgres_url, own="sec*"))
    for service in (one, two):
        service.http.headers["Authorization"] = "Bearer a key for tests"
    yield one, two
    for service in (one, two):
        service.stop()


def test_a_request_for_a_model_of_another_replica_is_answered_by_it(pair: tuple[Service, Service]) -> None:
    one, two = pair
    assert list(one.http.get("/readyz").json()["models"]) == ["first"]
    assert list(two.http.get("/readyz").json()["models"]) == ["second"]
    until(lambda: one.http.get("/v1/models/second").status_code == 200, what="the other replica to be known")
    items = [{"id": uuid.uuid4().hex, "input": [n, -n], "label": "ab"[n % 2]} for n in range(6)]
    given = one.http.post("/v1/models/second:feedback", json={"feedback": items})
    assert given.status_code == 202 and [each["offset"] for each in given.json()["receipts"]] == [*range(1, 7)]
    body = {"instances": [[1, -1]], "min_offset": 6, "timeout_ms": 10_000}
    answered = one.http.post("/v1/models/second:predict", json=body)
    assert answered.status_code == 200 and answered.json()["learned_until"] == 6
    assert two.http.get("/v1/models/second").json()["learned_until"] == 6
    assert two.http.post("/v1/models/first:predict", json={"instances": [[1, -1]]}).status_code == 200
    assert one.http.get("/v2/models/second/ready").status_code == 200


def test_a_model_that_no_replica_has_is_unknown_and_one_whose_replica_is_gone_is_unavailable(
    pair: tuple[Service, Service],
) -> None:
    one, two = pair
    until(lambda: one.http.get("/v1/models/second").status_code == 200, what="the other replica to be known")
    unknown = one.http.get("/v1/models/third")
    assert unknown.status_code == 404 and "third" in unknown.json()["error"]
    two.process.kill()
    two.process.wait()
    gone = one.http.post("/v1/models/second:predict", json={"instances": [[1, -1]]})
    assert gone.status_code == 503 and "second" in gone.json()["error"] + str(gone.request.url)
    assert "is served by" in gone.json()["error"]


def test_a_request_that_was_forwarded_is_not_forwarded_again(pair: tuple[Service, Service]) -> None:
    one, _ = pair
    until(lambda: one.http.get("/v1/models/second").status_code == 200, what="the other replica to be known")
    assert one.http.get("/v1/models/second", headers={"X-Online-Replica": "another"}).status_code == 404


def test_a_request_without_a_key_is_forwarded_and_refused_by_the_owner_as_from_elsewhere(
    pair: tuple[Service, Service],
) -> None:
    """The replicas of this test are on one machine, which must not make a forwarded request a local one."""
    one, _ = pair
    until(lambda: one.http.get("/v1/models/second").status_code == 200, what="the other replica to be known")
    assert one.http.get("/v1/models/second", headers={"Authorization": ""}).status_code == 401


def test_the_shares_of_all_replicas_are_all_models_and_each_once() -> None:
    names = [f"model-{number}" for number in range(300)]
    shares = [{name for name in names if owns(f"{share}/3", name)} for share in (1, 2, 3)]
    assert sum(map(len, shares)) == 300 and set().union(*shares) == {*names}
    assert min(map(len, shares)) > 60


def test_own_models_that_name_nothing_are_refused() -> None:
    spec = ModelSettings.model_validate({"name": "m", "kind": "classifier"})
    with pytest.raises(ValueError, match="own_models names none of the models: x"):
        Settings(models=(spec,), own_models=("x",)).select_own()
    with pytest.raises(ValueError, match="'4/3' is no share of the models"):
        Settings(models=(spec,), own_models=("4/3",))
