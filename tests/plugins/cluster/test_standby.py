"""Two services on one Postgres, and models of which one of them learns at a time: it is killed, and the other goes on."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import Service, measure_slowness, until

CONFIG = """
store = "{url}"
durable_every_s = 0.2

[[models]]
name = "lin"
kind = "logistic"
options = {{ input = "vector", size = 2 }}

[[models]]
name = "rv"
kind = "river"
"""
INPUTS: dict[str, Any] = {"lin": [1.0, 0.0], "rv": {"x": 1}}
TAKEOVER_S = 5.0


@pytest.fixture
def services(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Service]]:
    monkeypatch.setenv("ONLINE_SECRET", "a secret of the test, long enough")
    running = [Service(tmp_path / name, CONFIG.format(url=postgres_url), preloaded=False) for name in "ab"]
    yield running
    for service in running:
        service.process.terminate()
        service.process.wait()


def give(service: Service, model: str, count: int) -> int:
    items = [{"input": INPUTS[model], "label": "ab"[n % 2]} for n in range(count)]
    response = service.http.post(f"/v1/models/{model}:feedback", json={"feedback": items})
    assert response.status_code < 300, response.text
    offset: int = response.json()["receipts"][-1]["offset"]
    return offset


def learned_until(service: Service, model: str) -> int:
    answer = service.http.post(f"/v1/models/{model}:predict", json={"instances": [INPUTS[model]]})
    return int(answer.json()["learned_until"])


def newest_durable(service: Service, model: str) -> int:
    versions = service.http.get(f"/v1/models/{model}/versions?limit=50").json()["versions"]
    return max((int(each["learned_until"]) for each in versions if each["durable"]), default=0)


def kill(service: Service) -> None:
    """End the service, and its learner, which would otherwise give its leases up when it finds the service gone."""
    learner = service.learner_pid()
    assert learner is not None
    for pid in (service.process.pid, learner):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    service.process.wait()


def test_a_standby_goes_on_within_five_seconds_after_a_kill(
    services: list[Service], capsys: pytest.CaptureFixture[str]
) -> None:
    ends = {model: give(services[0], model, 200) for model in INPUTS}
    for service in services:
        for model, end in ends.items():
            until(lambda: learned_until(service, model) >= end, what=f"{model} of all events")  # noqa: B023
    standby = until(lambda: next((each for each in services if each.output.count("standing by") == 2), None), what="it")
    holder = next(each for each in services if each is not standby)
    assert holder.output.count("learning alone") == len(INPUTS) and "learning alone" not in standby.output
    assert "standing by for lin, rv" in until(
        lambda: standby.http.get("/readyz").json()["learner"].get("reason"), what="the state of the standby"
    )
    for model, end in ends.items():
        until(lambda: newest_durable(standby, model) >= end, what=f"a durable version of {model}")  # noqa: B023
    slowness = measure_slowness()
    kill(holder)
    killed_at = time.monotonic()
    ends = {model: give(standby, model, 10) for model in INPUTS}
    took = {}
    for model, end in ends.items():
        until(lambda: learned_until(standby, model) >= end, what="the takeover")  # noqa: B023
        took[model] = time.monotonic() - killed_at
    with capsys.disabled():
        print(f"\ntakeover after kill -9: {', '.join(f'{model} {each:.1f} s' for model, each in took.items())}")
    slowness = max(slowness, measure_slowness())
    assert max(took.values()) <= TAKEOVER_S * slowness, f"{slowness=}\n{standby.output}"
    assert "resumed model=lin version=None" not in standby.output, "it did not begin with a fetched version"
    assert "diverged" not in standby.output
