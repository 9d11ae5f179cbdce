"""Several workers on one port: each answers predictions, the first does everything else, and each may be killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from online.api.core_routers import ROUTES
from online.api.http.forwarding import CALLER_HEADER, ForwardedCaller, Forwarder
from online.settings import Settings
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
    running = Service(folder / "state", config(folder, VEC), "--workers", "3")
    yield running
    running.stop()


def children(pid: int, verb: str) -> list[int]:
    """The ids of the child processes started as `online VERB`."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid and verb in words:
            pids.append(int(folder.name))
    return sorted(pids)


def other_workers(service: Service) -> list[int]:
    return children(service.process.pid, "work")


def listeners(service: Service) -> set[int]:
    """The processes that accept connections to the service.

    The tests' programs run in forks of a preloader (tests/preload), so the process that a worker was started as is
    gone some milliseconds before the one that accepts connections.
    """
    port = f":{httpx.URL(service.url).port:04X}"
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    inodes = {f"socket:[{words[9]}]" for words in sockets if words[1].endswith(port) and words[3] == "0A"}
    pids = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if str(descriptor.readlink()) in inodes:
                pids.add(int(descriptor.parts[2]))
    return pids


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a worker, so that another one accepts the connections."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def client_of_another_worker(service: Service) -> Iterator[httpx.Client]:
    """A client whose only connection was accepted by another worker than the first."""
    limits = httpx.Limits(max_connections=1, keepalive_expiry=60)
    with httpx.Client(base_url=service.url, limits=limits, timeout=30) as client:
        with stopped(service.process.pid):
            assert client.get("/healthz").json() == {"live": True}
        yield client


def metric(service: Service, name: str) -> dict[str, float]:
    # A new connection, because that of service.http may belong to a killed worker.
    text = httpx.get(f"{service.url}/metrics", timeout=30).text
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith(name)]
    return {labels: float(value) for labels, _, value in lines}


def predict_on_new_connection(service: Service) -> httpx.Response:
    """Predict on a new connection, which any running worker may accept."""
    return httpx.post(f"{service.url}/v1/models/vec:predict", json=ROW, timeout=30)


def count_predictions(service: Service) -> float:
    return sum(metric(service, "online_predictions_total").values())


def test_each_worker_answers_predictions_and_all_are_counted(service: Service) -> None:
    assert len(other_workers(service)) == 2
    ids = set()
    with stopped(service.process.pid):
        for _ in range(20):
            ids.add(predict_on_new_connection(service).json()["prediction_ids"][0])
    for pid in other_workers(service):
        with stopped(pid):
            for _ in range(10):
                ids.add(predict_on_new_connection(service).json()["prediction_ids"][0])
    assert len(ids) == 40
    assert count_predictions(service) == 40


def test_another_worker_answers_every_request_as_the_first_does(service: Service) -> None:
    with client_of_another_worker(service) as client:
        answer = client.post("/v1/models/vec:predict", json=ROW).json()
        body = {"feedback": [{"prediction_id": answer["prediction_ids"][0], "label": "up"}]}
        offset = client.post("/v1/models/vec:feedback", json=body).json()["receipts"][0]["offset"]
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
            headers = [{k: v for k, v in each.headers.items() if k != "date"} for each in (by_first, by_this)]
            assert headers[0] == headers[1], path
        frozen = client.post("/v1/models/vec:freeze", json={"reason": "a test"})
        assert frozen.status_code == 200, frozen.text  # the caller is on this machine
        assert client.post("/v1/models/vec:thaw").status_code == 204
        refused = client.post("/v1/models/vec:predict", content=b"{")
        assert refused.status_code == 400 and "error" in refused.json()


def test_another_worker_forwards_events_as_they_happen(service: Service) -> None:
    limits = httpx.Limits(max_connections=1)
    with httpx.Client(base_url=service.url, limits=limits, timeout=30) as client:
        with stopped(service.process.pid):
            client.get("/healthz")
        with client.stream("GET", "/v1/models/vec/events") as events:
            lines = events.iter_lines()
            assert next(lines) == "event: status"
            service.http.post(
                "/v1/models/vec:feedback", json={"feedback": [{"id": "a", "input": [1, 2], "label": "up"}]}
            )
            seen = next(line for line in lines if line.startswith("data:") and '"a"' in line)
            assert json.loads(seen.removeprefix("data:"))["id"] == "a"


def test_each_worker_follows_the_learner_and_reports_its_offset(service: Service) -> None:
    items = [{"input": [n % 5, 1], "label": f"n{n % 5}"} for n in range(50)]
    offset = service.http.post("/v1/models/vec:feedback", json={"feedback": items}).json()["receipts"][-1]["offset"]

    def all_follow() -> bool:
        workers = service.http.get("/readyz").json()["workers"]
        return [each["answers"]["vec"]["learned_until"] for each in workers] == [offset, offset]

    until(all_follow, 30, "the other workers to follow")
    service.wait_learned("vec", offset)
    lags = metric(service, "online_lag_events")
    assert lags == {f'online_lag_events{{model="vec",worker="{n}"}}': 0 for n in range(3)}
    assert len(metric(service, "online_live_version")) == 3


def test_a_first_worker_that_does_not_read_reports_blocks_no_other_worker() -> None:
    """The pipe to the first worker is full: reports are dropped until there is room again."""
    code = """
import asyncio
from types import SimpleNamespace
from online.serving.processes.workers import report_versions

async def main():
    model = SimpleNamespace(current=SimpleNamespace(version=0, learned_until=0))
    reporting = asyncio.create_task(report_versions({"m" * 100: model}))
    for version in range(5_000):
        model.current = SimpleNamespace(version=version, learned_until=version)
        await asyncio.sleep(0)
    reporting.cancel()

from online.serving.processes import workers
workers.REPORT_EVERY_S = 0
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.wait(60) == 0
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    process.stdout.close()
    versions = [json.loads(line)["answers"]["m" * 100]["version"] for line in lines]
    assert 100 < len(versions) < 5_000 and versions == sorted(versions)


def test_a_killed_worker_is_restarted_while_the_others_answer(service: Service) -> None:
    victim, listening = other_workers(service)[0], listeners(service)
    assert len(listening) == 3
    os.kill(victim, signal.SIGKILL)
    # The requests that it had accepted are lost, so the count begins after its end.
    until(lambda: victim not in other_workers(service), 20, "the end of one worker")
    until(lambda: listening - listeners(service), 20, "the end of the process that accepted its connections")
    before, answered_count, ends = count_predictions(service), 0, time.monotonic() + 20
    while time.monotonic() < ends and (len(other_workers(service)) < 2 or answered_count < 20):
        assert predict_on_new_connection(service).status_code == 200
        answered_count += 1
    assert victim not in other_workers(service) and len(other_workers(service)) == 2

    def all_answer() -> bool:
        return all(each["answers"] for each in httpx.get(f"{service.url}/readyz").json()["workers"])

    until(all_answer, 60, "the restarted worker")
    assert count_predictions(service) == before + answered_count


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        signal.SIGKILL,
    ],
)
def test_all_processes_end_when_the_first_worker_ends(tmp_path: Path, number: int) -> None:
    service = Service(tmp_path / "state", config(tmp_path, VEC), "--workers", "2")
    pids = other_workers(service) + children(service.process.pid, "learn")
    assert len(pids) == 2
    service.stop(number)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 30, "the end of the other processes")


@pytest.mark.long
def test_the_port_is_free_at_once_after_the_first_worker_was_killed(tmp_path: Path) -> None:
    service = Service(tmp_path / "state", config(tmp_path, VEC), "--workers", "3")
    port = httpx.URL(service.url).port
    service.stop(signal.SIGKILL)
    again = Service(tmp_path / "state", config(tmp_path, VEC), "--workers", "3", "--port", str(port))
    assert httpx.get(f"{again.url}/healthz").status_code == 200
    again.stop()


@pytest.mark.long
def test_a_single_worker_is_not_listed(tmp_path: Path) -> None:
    service = Service(tmp_path / "state", config(tmp_path, VEC))
    assert "workers" not in service.http.get("/readyz").json()
    assert metric(service, "online_lag_events") == {'online_lag_events{model="vec",worker="0"}': 0}
    service.stop()


async def refuse_request(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("this worker does not answer the request")


def test_a_worker_without_a_first_worker_answers_503() -> None:
    transport = httpx.ASGITransport(Forwarder(refuse_request, 1, ROUTES, Settings()))  # a port without a listener

    async def request_models() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get("/v1/models")

    response = asyncio.run(request_models())
    assert response.status_code == 503 and "first worker does not answer" in response.json()["error"]
    assert response.headers["retry-after"] == "1"


@pytest.mark.parametrize(("port", "caller"), [(7001, ("9.9.9.9", 5)), (8000, ("127.0.0.1", 1))])
def test_the_caller_named_by_a_request_is_trusted_only_from_another_worker(port: int, caller: tuple[str, int]) -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        del message

    headers = [(CALLER_HEADER, b'[["9.9.9.9", 5], "https"]')]
    scope = {
        "type": "http",
        "server": ("127.0.0.1", port),
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "headers": headers,
    }
    asyncio.run(ForwardedCaller(app, 7001)(scope, receive, send))
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
def test_only_predictions_and_health_checks_are_answered_by_every_worker(method: str, path: str, here: bool) -> None:
    forwarder = Forwarder(refuse_request, 1, ROUTES, Settings())
    assert forwarder.is_answered_here({"method": method, "path": path, "headers": []}) is here
    assert not forwarder.is_answered_here({"method": method, "path": f"/prefix{path}", "headers": []})


@pytest.mark.parametrize(
    ("settings", "headers", "is_stripped"),
    [
        (Settings(root_path="/ai"), [], True),
        (Settings(trusted_proxies=["10.0.0.0/8"]), [(b"x-forwarded-prefix", b"/ai")], True),
        (Settings(trusted_proxies=["10.9.0.0/16"]), [(b"x-forwarded-prefix", b"/ai")], False),
    ],
)
def test_every_worker_answers_predictions_behind_a_prefix_that_its_proxy_keeps(
    settings: Settings, headers: list[tuple[bytes, bytes]], is_stripped: bool
) -> None:
    """The path with the prefix was no prediction: the first worker answered all of them, and the others were idle."""
    forwarder = Forwarder(refuse_request, 1, ROUTES, settings)
    scope = {"method": "POST", "path": "/ai/v1/models/chat:predict", "headers": headers, "client": ("10.1.2.3", 5)}
    assert forwarder.is_answered_here(scope) is is_stripped
