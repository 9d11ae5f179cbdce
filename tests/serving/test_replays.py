"""Logs that are sent to be replayed: taken to disk, replayed beside the service, and nothing of theirs is trusted."""

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Start, config
from tests.support import Service, run_online, until

DONE_S = 120.0
MOST = 100_000
MODELS = """
[[models]]
name = "numbers"
kind = "classifier"
options = { input = "vector", size = 2, scale = 10.0 }
"""
SLOW = {"model": "river:estimator=arf", "label": "side", "name": "slow.csv"}  # takes minutes


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("replays")
    running = Service(folder / "state", config(folder, MODELS, max_log_bytes=MOST, replays_kept=2))
    yield running
    running.stop()


def table(rows: int, columns: int = 2) -> bytes:
    """A CSV of numbers; the sum says on which side a row is."""
    draw, lines = random.Random(5), [",".join([*(f"x{n}" for n in range(columns)), "side"])]
    for _ in range(rows):
        row = [draw.uniform(-1, 1) for _ in range(columns)]
        lines.append(",".join([*(f"{value:.3f}" for value in row), "right" if sum(row) > 0 else "left"]))
    return "\n".join(lines).encode()


def send(service: Service, log: bytes, **query: Any) -> dict[str, Any]:
    response = service.http.post("/v1/replays", content=log, params={"name": "log.jsonl", **query})
    assert response.status_code == 202, response.text
    sent: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"/v1/replays/{sent['id']}"
    return sent


def look(service: Service, id: str) -> dict[str, Any]:
    shown: dict[str, Any] = service.http.get(f"/v1/replays/{id}").json()
    return shown


def ended(service: Service, sent: dict[str, Any]) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        shown = look(service, sent["id"])
        return shown if shown["state"] in ("done", "failed") else None

    found: dict[str, Any] = until(over, DONE_S, "the replay")
    return found


def failure(service: Service, log: bytes, **query: Any) -> str:
    shown = ended(service, send(service, log, **query))
    assert shown["state"] == "failed", shown
    return str(shown["error"])


def processes(state: Path) -> list[int]:
    """Those that replay a log of this service, and those that they started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            group = os.getpgid(int(folder.name))
        except (OSError, ValueError):
            continue
        if b"log\0replay" in command and str(state).encode() in command:
            found.append(group)
    return found


def running(service: Service, sent: dict[str, Any]) -> None:
    until(lambda: look(service, sent["id"])["progress"]["what"] == "replaying it", DONE_S, "its start")


def test_a_log_of_ours_comes_to_what_was_served_on_the_model_that_wrote_it(service: Service, tmp_path: Path) -> None:
    with service.client("numbers") as client:
        for number in range(12):
            asked = client.predict([[number % 3, 1]])
            receipt = client.label(asked["prediction_ids"][0], f"n{number % 3}")
    service.wait_learned("numbers", receipt["offset"])
    settings = service.state.parent / f"{service.state.name}.toml"
    log = tmp_path / "own.jsonl.zst"
    flags = ("--state", str(service.state), "--config", str(settings), "--output", str(log))
    assert run_online("log", "export", *flags).returncode == 0

    shown = ended(service, send(service, log.read_bytes(), name="own.jsonl.zst"))
    assert (shown["state"], shown["models"], shown["name"]) == ("done", ["classifier"], "own.jsonl.zst")
    page = service.http.get(f"/v1/replays/{shown['id']}/report")
    assert "gave 12 of 12 answers as they were served" in page.text and "<h1>own.jsonl.zst</h1>" in page.text
    assert page.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    kept = sorted(path.name for path in (service.state / "replays" / shown["id"]).iterdir())
    assert kept == ["asked.json", "ended.json", "report.html"]  # the log itself is gone


def test_a_table_is_replayed_on_the_kinds_that_fit_and_on_those_that_are_asked_for(service: Service) -> None:
    waiting = send(service, table(120), name="sides.csv", label="side")
    assert waiting["state"] in ("waiting", "running") and waiting["progress"]["percent"] == 0
    page = service.http.get(f"/v1/replays/{waiting['id']}/report")
    assert page.status_code == 202 and "The replay of sides.csv is being made" in page.text
    assert ended(service, waiting)["models"] == ["classifier", "logistic", "knn"]
    page = service.http.get(f"/v1/replays/{waiting['id']}/report")
    assert page.status_code == 200 and "120 examples" in page.text and "<td>logistic</td>" in page.text

    chosen = ["knn:neighbours=3", "logistic"]
    assert ended(service, send(service, table(60), name="sides.csv", label="side", model=chosen))["models"] == chosen


def test_what_is_wrong_with_a_log_is_told_by_its_line_and_the_name_its_sender_gave_it(service: Service) -> None:
    lines = [json.dumps({"input": [n, 1], "label": "a"}) for n in range(5)]
    lines[2] = '{"input": [1, 2]}'
    bad = "\n".join(lines).encode()
    assert failure(service, bad, name="mine.jsonl") == 'mine.jsonl, line 3: expected {"input": ..., "label": ...}'
    borne = ended(service, send(service, bad, name="mine.jsonl", max_bad_ratio=0.5, model="knn"))
    assert borne["state"] == "done"
    assert "mine.csv has no column 'y'; it has x0, x1, side" in failure(service, table(3), name="mine.csv", label="y")
    assert "mine.jsonl.gz cannot be read" in failure(service, b"no gzip at all", name="mine.jsonl.gz")
    assert "line 1 is not JSON" in failure(service, b"?\n", name="mine.jsonl")


def test_what_cannot_be_meant_is_refused_at_the_door(service: Service) -> None:
    def refused(status: int, log: Any, **query: Any) -> str:
        response = service.http.post("/v1/replays", content=log, params={"name": "a.jsonl", **query})
        assert response.status_code == status, response.text
        return str(response.json()["error"])

    assert "unknown model kind 'oracle'" in refused(400, b"{}", model="oracle")
    assert "say which of its columns is the label" in refused(400, b"a,b", name="a.csv.gz")
    assert "the log is empty" in refused(400, b"")
    assert f"at most {MOST:,} are taken (max_log_bytes)" in refused(413, b"x" * (MOST + 1))
    assert "max_log_bytes" in refused(413, iter([b"x" * MOST, b"x"]))  # which does not say beforehand how long it is
    assert not list((service.state / "replays").glob(".*"))
    for id in ("0" * 32, "secret"):
        assert service.http.get(f"/v1/replays/{id}").status_code == 404
        assert service.http.delete(f"/v1/replays/{id}").status_code == 404


def test_no_name_of_a_sender_becomes_a_path(service: Service) -> None:
    before = {path for path in service.state.parent.rglob("*") if "replays" not in path.parts}
    shown = ended(service, send(service, table(30), name="../../../evil.csv", label="side", model="logistic"))
    assert shown["state"] == "done" and shown["name"] == "../../../evil.csv"
    folder = service.state / "replays" / shown["id"]
    assert sorted(path.name for path in folder.iterdir()) == ["asked.json", "ended.json", "report.html"]
    new = {path for path in service.state.parent.rglob("*") if "replays" not in path.parts} - before
    assert not [path for path in new if "evil" in path.name]


def test_code_that_a_log_or_its_sender_names_is_not_run(service: Service, tmp_path: Path) -> None:
    row = json.dumps({"input": [1.0, 2.0], "label": "a"}).encode()
    assert "'network' of a tower is mlp or cnn" in failure(service, row, model="tower:network=os:abort")
    header = {
        "format": "online-log/2",
        "model": "m",
        "kind": "tower",
        "options": {"input": "vector", "size": 2, "network": "os:abort"},
        "drift": "watch",
        "feature_epoch": "",
    }
    assert "'network' of a tower is mlp or cnn" in failure(service, json.dumps(header).encode())


def test_only_the_newest_are_kept(service: Service) -> None:
    sent = [send(service, table(30), name="a.csv", label="side", model="knn")["id"] for _ in range(3)]
    until(lambda: look(service, sent[-1])["state"] == "done", DONE_S, "the last one")

    def kept() -> bool:
        return [each["id"] for each in service.http.get("/v1/replays").json()["replays"]] == sent[:0:-1]

    until(kept, what="that older ones are dropped")
    assert service.http.get(f"/v1/replays/{sent[0]}").status_code == 404


def test_one_that_is_dropped_ends_at_once_and_the_next_one_has_its_turn(start: Start) -> None:
    service = start(MODELS)
    first = send(service, table(20_000, 12), **{**SLOW, "model": ["river:estimator=arf", "knn"]})
    running(service, first)
    second = send(service, table(30), name="b.csv", label="side", model="knn")
    assert look(service, second["id"])["state"] == "waiting"
    assert processes(service.state)
    group = processes(service.state)[0]
    assert service.http.delete(f"/v1/replays/{first['id']}").json() == {"id": first["id"]}
    with pytest.raises(ProcessLookupError):  # nor any that it had started
        until(lambda: os.killpg(group, 0), what="the end of all its processes")
    assert ended(service, second)["state"] == "done"
    assert [path.name for path in (service.state / "replays").iterdir()] == [second["id"]]


def test_a_service_that_is_killed_in_the_middle_says_so_and_takes_the_next_log(start: Start) -> None:
    service = start(MODELS)
    sent = send(service, table(20_000, 12), **SLOW)
    running(service, sent)
    assert processes(service.state)
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    until(lambda: not processes(service.state), what="the end of what the service had started")
    again = start(MODELS)
    shown = look(again, sent["id"])
    assert shown["state"] == "failed" and "the service stopped before it was done" in shown["error"]
    assert ended(again, send(again, table(30), name="a.csv", label="side", model="knn"))["state"] == "done"
    assert again.http.delete(f"/v1/replays/{sent['id']}").status_code == 200
