"""Several processes behind one port: each answers by itself, all else is the first one's, and any of them may be killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from online.serving.handing import CALLER, Handing, Received, answered_here
from tests.conftest import config
from tests.support import Service, until

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
ROW = {"instances": [[1, 2]]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("workers")
    made = Service(folder / "state", config(folder, VEC), "--workers", "3")
    yield made
    made.stop()


def children(pid: int, verb: str) -> list[int]:
    """Process ids of those that a process started with `online VERB`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid and verb in words:
            found.append(int(folder.name))
    return sorted(found)


def others(service: Service) -> list[int]:
    return children(service.process.pid, "work")


@contextmanager
def asleep(pid: int) -> Iterator[None]:
    """While it is stopped it takes no connection, so whoever connects is another's."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def by_another(service: Service) -> Iterator[httpx.Client]:
    """A client whose one connection was taken by one of the others."""
    limits = httpx.Limits(max_connections=1, keepalive_expiry=60)
    with httpx.Client(base_url=service.url, limits=limits, timeout=30) as client:
        with asleep(service.process.pid):
            assert client.get("/healthz").json() == {"live": True}
        yield client


def metric(service: Service, name: str) -> dict[str, float]:
    text = httpx.get(f"{service.url}/metrics", timeout=30).text  # not by a connection that a killed one may have taken
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith(name)]
    return {labels: float(value) for labels, _, value in lines}


def asked_anew(service: Service) -> httpx.Response:
    """By a connection of its own: whoever is awake takes it."""
    return httpx.post(f"{service.url}/v1/models/vec:predict", json=ROW, timeout=30)


def predictions(service: Service) -> float:
    return sum(metric(service, "online_predictions_total").values())


def test_each_answers_by_itself_and_they_are_counted_together(service: Service) -> None:
    assert len(others(service)) == 2
    ids = set()
    with asleep(service.process.pid):
        for _ in range(20):
            ids.add(asked_anew(service).json()["prediction_ids"][0])
    for pid in others(service):
        with asleep(pid):
            for _ in range(10):
                ids.add(asked_anew(service).json()["prediction_ids"][0])
    assert len(ids) == 40
    assert predictions(service) == 40


def test_whatever_another_is_asked_is_answered_as_by_the_first(service: Service) -> None:
    with by_another(service) as client:
        asked = client.post("/v1/models/vec:predict", json=ROW).json()
        told = {"feedback": [{"prediction_id": asked["prediction_ids"][0], "label": "up"}]}
        offset = client.post("/v1/models/vec:feedback", json=told).json()["receipts"][0]["offset"]
        again = client.post("/v1/models/vec:predict", json={**ROW, "min_offset": offset, "timeout_ms": 30_000}).json()
        assert again["predictions"][0]["label"] == "up"
        for path in (
            "/",
            "/v1/models/vec",
            "/v1/models/vec/versions",
            "/openapi.json",
            "/nothing",
            "/v1/nothing?a=b%20c",
        ):
            by_first, by_this = service.http.get(path), client.get(path)
            assert (by_first.status_code, by_first.content) == (by_this.status_code, by_this.content), path
            assert len(by_this.headers.get_list("date")) == 1
            told_by_each = [{k: v for k, v in each.headers.items() if k != "date"} for each in (by_first, by_this)]
            assert told_by_each[0] == told_by_each[1], path
        frozen = client.post("/v1/models/vec:freeze", json={"reason": "a test"})
        assert frozen.status_code == 200, frozen.text  # it is somebody at this machine who asks
        assert client.post("/v1/models/vec:thaw").status_code == 204
        refused = client.post("/v1/models/vec:predict", content=b"{")
        assert refused.status_code == 400 and "error" in refused.json()


def test_events_come_through_another_as_they_happen(service: Service) -> None:
    limits = httpx.Limits(max_connections=1)
    with httpx.Client(base_url=service.url, limits=limits, timeout=30) as client:
        with asleep(service.process.pid):
            client.get("/healthz")
        with client.stream("GET", "/v1/models/vec/events") as events:
            lines = events.iter_lines()
            assert next(lines) == "event: status"
            service.http.post(
                "/v1/models/vec:feedback", json={"feedback": [{"id": "a", "input": [1, 2], "label": "up"}]}
            )
            seen = next(line for line in lines if line.startswith("data:") and '"a"' in line)
            assert json.loads(seen.removeprefix("data:"))["id"] == "a"


def test_each_follows_and_says_how_far(service: Service) -> None:
    items = [{"input": [n % 5, 1], "label": f"n{n % 5}"} for n in range(50)]
    offset = service.http.post("/v1/models/vec:feedback", json={"feedback": items}).json()["receipts"][-1]["offset"]

    def all_follow() -> bool:
        workers = service.http.get("/readyz").json()["workers"]
        return [each["answers"]["vec"]["learned_until"] for each in workers] == [offset, offset]

    until(all_follow, 30, "the others to follow")
    service.wait_learned("vec", offset)
    lags = metric(service, "online_lag_events")
    assert lags == {f'online_lag_events{{model="vec",worker="{n}"}}': 0 for n in range(3)}
    assert len(metric(service, "online_live_version")) == 3


def test_a_first_that_does_not_read_keeps_nobody_from_answering() -> None:
    """Its pipe is full: what is said is dropped, and said when there is room again."""
    code = """
import asyncio
from types import SimpleNamespace
from online.serving.workers import say

async def main():
    model = SimpleNamespace(current=SimpleNamespace(version=0, learned_until=0))
    saying = asyncio.create_task(say({"m" * 100: model}))
    for version in range(5_000):
        model.current = SimpleNamespace(version=version, learned_until=version)
        await asyncio.sleep(0)
    saying.cancel()

from online.serving import workers
workers.SAID_EVERY_S = 0
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.wait(60) == 0
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    process.stdout.close()
    versions = [json.loads(line)["answers"]["m" * 100]["version"] for line in lines]
    assert 100 < len(versions) < 5_000 and versions == sorted(versions)


def test_one_that_is_killed_comes_back_and_the_others_answer_meanwhile(service: Service) -> None:
    victim = others(service)[0]
    os.kill(victim, signal.SIGKILL)
    until(lambda: victim not in others(service), 20, "the end of one")  # what it had taken until then is lost with it
    before, answered, ends = predictions(service), 0, time.monotonic() + 20
    while time.monotonic() < ends and (len(others(service)) < 2 or answered < 20):
        assert asked_anew(service).status_code == 200
        answered += 1
    assert victim not in others(service) and len(others(service)) == 2

    def all_answer() -> bool:
        return all(each["answers"] for each in httpx.get(f"{service.url}/readyz").json()["workers"])

    until(all_answer, 60, "the one that was killed")
    assert predictions(service) == before + answered


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_when_the_first_ends_all_end(tmp_path: Path, number: int) -> None:
    service = Service(tmp_path / "state", config(tmp_path, VEC), "--workers", "2")
    pids = others(service) + children(service.process.pid, "learn")
    assert len(pids) == 2
    service.stop(number)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 30, "the others' end")


def test_one_alone_says_nothing_of_workers(tmp_path: Path) -> None:
    service = Service(tmp_path / "state", config(tmp_path, VEC))
    assert "workers" not in service.http.get("/readyz").json()
    assert metric(service, "online_lag_events") == {'online_lag_events{model="vec",worker="0"}': 0}
    service.stop()


def test_a_worker_that_no_first_answers_says_so() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nothing of this is answered here")

    transport = httpx.ASGITransport(Handing(app, 1))  # a port that nobody listens on

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get("/v1/models")

    answered = asyncio.run(ask())
    assert answered.status_code == 503 and "first worker does not answer" in answered.json()["error"]
    assert answered.headers["retry-after"] == "1"


@pytest.mark.parametrize(("port", "caller"), [(7001, ("9.9.9.9", 5)), (8000, ("127.0.0.1", 1))])
def test_only_another_worker_is_believed_who_asks(port: int, caller: tuple[str, int]) -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        del message

    headers = [(CALLER, b'[["9.9.9.9", 5], "https"]')]
    scope = {
        "type": "http",
        "server": ("127.0.0.1", port),
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "headers": headers,
    }
    asyncio.run(Received(app, 7001)(scope, receive, send))
    assert seen[0]["client"] == caller


@pytest.mark.parametrize(
    ("method", "path", "here"),
    [
        ("POST", "/v1/models/chat:predict", True),
        ("POST", "/v1/models/chat/versions/3:predict", True),
        ("POST", "/v1/models/chat/labels/stable:classify", True),
        ("POST", "/v2/models/chat/infer", True),
        ("POST", "/v1/chat/completions", True),
        ("GET", "/healthz", True),
        ("GET", "/v1/models/chat:predict", False),
        ("POST", "/v1/models/chat:feedback", False),
        ("POST", "/v1/models/chat:batchPredict", False),
        ("GET", "/readyz", False),
        ("GET", "/", False),
    ],
)
def test_predictions_alone_are_answered_by_whoever_is_asked(method: str, path: str, here: bool) -> None:
    assert answered_here(method, path) is here
