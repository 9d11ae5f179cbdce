"""What one caller can do to a service that many use, and what operators see and decide, with a real service."""

from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import config
from tests.support import Service

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0, head = "slda" }
"""
UP, DOWN = [1.0, 0.0], [0.0, 1.0]
ADMIN = {"X-Admin-Key": "open sesame"}


class Person:
    """A client with a key of its own, which may ask and rate."""

    def __init__(self, service: Service, name: str) -> None:
        body = {"name": name, "scopes": ["predict", "feedback"]}
        created = service.http.post("/v1/keys", json=body, headers=ADMIN).raise_for_status().json()
        self.http = httpx.Client(base_url=service.url, headers={"X-API-Key": created["key"]}, timeout=60)

    def ask(self, count: int) -> list[str]:
        answer = self.http.post("/v1/models/vec:predict", json={"instances": [UP] * count}).raise_for_status().json()
        ids: list[str] = answer["prediction_ids"]
        return ids

    def label(self, ids: list[str], label: str) -> httpx.Response:
        items = [{"prediction_id": id, "label": label} for id in ids]
        return self.http.post("/v1/models/vec:feedback", json={"feedback": items})


def state_of(service: Service) -> tuple[int, str]:
    """How far the live version has learned, and what it answers."""
    body = {"instances": [UP]}
    answer = service.http.post("/v1/models/vec:predict", json=body, headers=ADMIN).json()
    return service.http.get("/v1/models/vec", headers=ADMIN).json()["head"], answer["predictions"][0]["label"]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("taught")
    service = Service(folder / "state", config(folder, VEC, admin_key="open sesame"))
    items = [{"input": point, "label": label} for point, label in ((UP, "up"), (DOWN, "down"))] * 5
    answer = service.http.post("/v1/models/vec:feedback", json={"feedback": items}, headers=ADMIN).raise_for_status()
    body = {"instances": [UP], "min_offset": answer.json()["receipts"][-1]["offset"], "timeout_ms": 60_000}
    service.http.post("/v1/models/vec:predict", json=body, headers=ADMIN).raise_for_status()
    yield service
    service.stop()


def test_one_caller_with_any_number_of_thumbs_moves_one_event_and_no_answer(taught: Service) -> None:
    ben = Person(taught, "ben")
    head, answer = state_of(taught)
    statuses = [each["status"] for each in ben.label(ben.ask(90), "down").json()["receipts"]]
    assert statuses == ["accepted"] + ["held"] * 89
    assert ben.label(ben.ask(90), "down").status_code == 429
    assert state_of(taught) == (head + 1, answer)


def test_operators_see_callers_and_drop_all_that_one_said(taught: Service) -> None:
    ann = Person(taught, "ann")
    receipts = ann.label(ann.ask(2), "down").json()["receipts"]
    assert ann.http.get("/v1/models/vec/callers").status_code == 403
    listed = taught.http.get("/v1/models/vec/callers", headers=ADMIN).json()
    assert [
        (row["caller"], row["state"], row["standing"], row["held"])
        for row in listed["callers"]
        if row["caller"] == "key:ann"
    ] == [("key:ann", "new", 1, 1)]
    url = "/v1/models/vec/callers/key:ann"
    dropped = taught.http.post(f"{url}:drop", headers=ADMIN).raise_for_status().json()
    assert (dropped["state"], dropped["standing"], dropped["held"], dropped["decided_by"]) == ("dropped", 0, 0, "admin")
    outcomes = [ann.http.get(f"/v1/models/vec/feedback/{each['id']}").json()["status"] for each in receipts]
    assert outcomes == ["retracted", "rejected"]
    assert ann.label(ann.ask(1), "down").json()["receipts"][0]["status"] == "held"
    released = taught.http.post(f"{url}:release", headers=ADMIN).raise_for_status().json()
    assert (released["state"], released["standing"]) == ("released", 1)
    assert taught.http.post("/v1/models/vec/callers/nobody:drop", headers=ADMIN).status_code == 404
