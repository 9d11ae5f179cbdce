"""A service says that learning stands still, whatever holds it up, and goes on answering."""

import os
import signal
from typing import Any

import pytest

from tests.conftest import Start
from tests.e2e.test_survival import VECTOR, items
from tests.support import Service, until


def find_standstill(service: Service) -> dict[str, Any] | None:
    found: dict[str, Any] | None = service.http.get("/readyz").json()["models"]["vec"].get("standstill")
    return found


def read_metric(service: Service) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return max(float(line.split()[-1]) for line in lines if line.startswith("online_standstill_seconds{"))


def give(service: Service, count: int) -> int:
    given = service.http.post("/v1/models/vec:feedback", json={"feedback": items(count)[:count]})
    assert given.status_code == 202, given.text
    return int(given.json()["receipts"][-1]["offset"])


@pytest.mark.long
def test_a_learner_that_hangs_is_said_and_the_end_of_it_too(start: Start) -> None:
    service = start(VECTOR, standstill_s=1.0)
    service.wait_learned("vec", give(service, 5))
    assert find_standstill(service) is None and read_metric(service) == 0
    os.kill(until(service.learner_pid), signal.SIGSTOP)
    service.client("vec").feedback([{"input": [1, 1, 1, 1], "label": "late"}] * 3)
    said = until(lambda: find_standstill(service), what="the standstill")
    assert said["events"] == 3 and said["seconds"] >= 1.0
    assert said["reason"].startswith("3 events wait, and nothing was learned for")
    ready = service.http.get("/readyz")
    assert ready.status_code == 200 and ready.json()["ready"] is True, "it answers as before"
    assert service.http.get("/v1/models/vec").json()["standstill"]["events"] == 3
    assert read_metric(service) >= 1.0
    until(lambda: "learning stands still model=vec" in service.output, what="the line")
    os.kill(until(service.learner_pid), signal.SIGCONT)
    until(lambda: find_standstill(service) is None, what="the end")
    until(lambda: "learning stands still: recovered model=vec" in service.output, what="the line of the end")
    assert read_metric(service) == 0 and service.stop() == 0


def test_a_service_without_its_redis_answers_and_learns_from_the_store(start: Start) -> None:
    service = start(VECTOR, standstill_s=1.0, stream="redis://127.0.0.1:1/0")
    service.wait_learned("vec", give(service, 4))
    assert service.client("vec").predict([[0, 1, 0, 0]])["learned_until"] == 4
    assert find_standstill(service) is None
    assert service.stop() == 0
    assert "Redis at 127.0.0.1:1/0 does not answer" in service.output
