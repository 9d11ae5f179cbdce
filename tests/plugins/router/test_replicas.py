"""Two routers on one store: one is killed while thumbs come in, and both know the same afterwards."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from tests.conftest import config
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_routed_chat import ask, describe, models, rate, wait_learned
from tests.support import Service, until

THUMBS = 60
KILLED_AFTER = 25


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


@pytest.fixture
def text(tmp_path: Path, upstream: FakeUpstream, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ONLINE_SECRET", "a secret of the test, long enough")
    routes = models(upstream, {"small": "say:from small", "large": "say:from large"}, explore=0.2)
    return config(tmp_path, routes, store=postgres_url)


def kill(service: Service) -> None:
    """End a service and its learner at once."""
    for pid in (service.process.pid, service.learner_pid()):
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    service.process.wait()


def test_no_thumb_is_lost_when_a_router_is_killed_and_all_know_the_same(tmp_path: Path, text: str) -> None:
    running = [Service(tmp_path / name, text) for name in "ab"]
    turns, acknowledged, offset = cycle(running), 0, 0
    for number in range(THUMBS):
        if number == KILLED_AFTER:
            kill(running[0])
        for service in (next(turns), next(turns)):  # as a proxy does, which asks another replica where one is gone
            with suppress(httpx.TransportError):
                offset = max(offset, rate(service, ask(service, f"question {number}").json(), float(number % 2)))
                acknowledged += 1
                break
    assert acknowledged == THUMBS
    left = running[1]
    until(lambda: describe(left)["learned_until"] >= describe(left)["head"] > offset, 60, "the outcomes as well")
    again = Service(tmp_path / "a", text)
    head = describe(left)["head"]
    assert wait_learned(again, head) == wait_learned(left, head)
    for service in (again, left):
        routes = service.http.get("/v1/models/router/routes").json()["routes"]
        assert sum(each["ratings"] for each in routes) == THUMBS
        service.stop()
