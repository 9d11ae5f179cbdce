"""Real processes, killed and stopped at any moment: no feedback is lost or counted twice, and no request fails."""

import json
import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from online.models import Example, create
from tests.conftest import Start
from tests.support import Service, replay_json, run_online, until

OPTIONS = {"input": "vector", "size": 4}
VECTOR = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 4 }
"""
REQUEST_ITEMS = 25  # feedback items of one request
WAIT_MS = 60_000


def items(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Feedback items with their inputs; 5 % are repeated."""
    rng = np.random.default_rng(seed)
    unique = []
    for n in range(count):
        label = int(rng.integers(3))
        values = rng.normal(label, 1.0, 4).round(4).tolist()
        unique.append({"id": f"item-{n}", "input": values, "label": f"class {label}"})
    repeats = random.Random(seed)
    return [repeated for item in unique for repeated in ([item, item] if repeats.random() < 0.05 else [item])]


def expected_state(stream: list[dict[str, Any]]) -> str:
    """The state hash of a model that learned each item once, in this process."""
    model = create("classifier", OPTIONS)
    unique = {item["id"]: item for item in stream}
    model.learn(
        [
            Example(offset, "label", np.array(item["input"], np.float64).tobytes(), item["label"])
            for offset, item in enumerate(unique.values(), 1)
        ]
    )
    return model.fingerprint()


class PredictLoop:
    """Send predictions in a thread until it is stopped; keep the failures."""

    def __init__(self, url: str) -> None:
        self.url, self.answered, self.failures = url, 0, list[str]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        with httpx.Client(base_url=self.url, timeout=30) as http:
            while not self._stop.is_set():
                response = http.post("/v1/models/vec:predict", json={"instances": [[0, 0, 0, 0]]})
                self.answered += 1
                if response.status_code != 200:
                    self.failures.append(response.text)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def test_a_learner_that_is_killed_reaches_the_same_state(start: Start) -> None:
    kill_learners_while_learning(start, events=1_000, kills=3)


def kill_learners_while_learning(start: Start, events: int, kills: int) -> None:
    """Kill several learners while feedback arrives, and compare the state with that of an undisturbed model."""
    service = start(VECTOR, durable_every_s=0.2, restart_max_s=0.2)
    stream, predict_loop = items(events), PredictLoop(service.url)
    kill_at = set(random.Random(1).sample(range(0, len(stream), REQUEST_ITEMS), kills))
    killed: list[int] = []
    for first in range(0, len(stream), REQUEST_ITEMS):
        response = service.http.post(
            "/v1/models/vec:feedback", json={"feedback": stream[first : first + REQUEST_ITEMS]}
        )
        assert response.status_code == 202, response.text
        if first in kill_at:
            killed.append(kill_another(service, killed))
    status = service.wait_learned("vec", events)
    predict_loop.stop()
    assert len(set(killed)) == kills
    assert status["head"] == events, "the log contains no duplicates"
    assert predict_loop.failures == [] and predict_loop.answered > events / 10
    live = until(lambda: next((v for v in service.versions("vec") if v["live"] and v["learned_until"] == events), None))
    assert live["state_sha256"] == expected_state(stream)
    assert service.stop() == 0


def kill_another(service: Service, killed: list[int]) -> int:
    """Kill a learner that was not killed yet; return its process id."""
    pid: int = until(
        lambda: service.learner_pid() if service.learner_pid() not in killed else None, what="a new learner"
    )
    os.kill(pid, signal.SIGKILL)
    return pid


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def test_a_killed_service_ends_its_learner_and_keeps_all_acknowledged_feedback(start: Start) -> None:
    stream = items(400, seed=3)
    service = start(VECTOR)
    for item in stream[:200]:
        assert service.http.post("/v1/models/vec:feedback", json={"feedback": [item]}).status_code == 202
    learner = until(service.learner_pid)
    service.process.kill()
    service.process.wait()
    until(lambda: has_ended(learner), what="the learner's end")
    service = start(VECTOR)
    assert service.http.post("/v1/models/vec:feedback", json={"feedback": stream[200:]}).status_code == 202
    head = len({item["id"] for item in stream})
    assert service.wait_learned("vec", head)["head"] == head
    live = until(lambda: next((v for v in service.versions("vec") if v["live"] and v["learned_until"] == head), None))
    assert live["state_sha256"] == expected_state(stream)
    service.stop()


@pytest.mark.long
def test_serving_continues_and_reports_that_the_learner_is_restarting(start: Start) -> None:
    service = start(VECTOR, restart_max_s=0.2)
    until(service.learner_pid)
    events = service.client("vec").events(timeout_s=60)
    states = (data["learner"]["state"] for name, data in events if name == "status")
    assert next(states) == "running"
    service.kill_learner()
    assert [next(states), next(states)] == ["restarting", "running"]
    assert service.http.get("/readyz").json()["ready"] is True
    assert "learner_restarts_total 1.0" in service.http.get("/metrics").text
    service.stop()


def test_a_rollback_answers_from_the_old_version_and_learning_continues(start: Start) -> None:
    service = start(VECTOR, durable_every_s=0.1)
    client = service.client("vec")
    first = client.feedback([{"input": [1, 1, 1, 1], "label": "old"}])[0]
    old = client.predict([[1, 1, 1, 1]], min_offset=first["offset"], timeout_ms=WAIT_MS)
    second = client.feedback([{"input": [1, 1, 1, 1], "label": "new"}] * 5)[-1]
    new = client.predict([[1, 1, 1, 1]], min_offset=second["offset"], timeout_ms=WAIT_MS)
    assert old["predictions"][0]["label"] == "old" and new["predictions"][0]["label"] == "new"
    assert client.roll_back(old["model_version"])["version"] == old["model_version"]
    back = client.predict([[1, 1, 1, 1]])
    assert (back["model_version"], back["predictions"]) == (old["model_version"], old["predictions"])
    third = client.feedback([{"input": [9, 9, 9, 9], "label": "far"}])[0]
    ahead = client.predict([[1, 1, 1, 1]], min_offset=third["offset"], timeout_ms=WAIT_MS)
    assert int(ahead["model_version"]) > int(new["model_version"]) and ahead["learned_until"] == third["offset"]
    assert ahead["predictions"][0]["label"] == "new"
    service.stop()


def test_ctrl_c_stops_both_processes_and_leaves_the_state_durable(start: Start, tmp_path: Path) -> None:
    service = start(VECTOR)
    client = service.client("vec")
    receipt = client.feedback([{"input": [1, 1, 1, 1], "label": "a"}])[0]
    client.wait_until_learned(receipt["offset"], 60)
    pid = until(service.learner_pid)
    event_stream = service.client("vec").events(timeout_s=60)
    next(event_stream)  # an open event stream must not delay the end
    assert service.stop(signal.SIGINT) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    listed = json.loads(
        run_online("versions", "--state", str(tmp_path / "state"), "--config", config_path(tmp_path), "--json").stdout
    )
    assert any(v["durable"] and v["learned_until"] == receipt["offset"] for v in listed["versions"])


def config_path(folder: Path) -> str:
    return str(folder / "state.toml")


@pytest.mark.long
def test_a_damaged_live_version_is_skipped_at_start(start: Start, tmp_path: Path) -> None:
    service = start(VECTOR)
    client = service.client("vec")
    for n in range(3):
        receipt = client.feedback([{"input": [n, 1, 1, 1], "label": f"l{n}"}])[0]
        client.wait_until_learned(receipt["offset"], 60)
    live = client.status()["model_version_status"][0]["version"]
    service.stop()
    damaged = tmp_path / "state" / "snapshots" / "vec" / live / "weights.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    service = start(VECTOR)
    client = service.client("vec")
    receipt = client.feedback([{"input": [1, 1, 1, 1], "label": "l1"}])[0]
    assert client.predict([[1, 1, 1, 1]], min_offset=receipt["offset"], timeout_ms=WAIT_MS)["learned_until"] == 4
    assert live in service.http.get("/readyz").json()["damaged"].get("vec", {live: ""})
    service.stop()


@pytest.mark.long
def test_the_exported_log_replays_to_the_live_state(start: Start, tmp_path: Path) -> None:
    models = VECTOR + '[[models]]\nname = "chat"\nkind = "ranker"\n[[models]]\nname = "rv"\nkind = "river"\n'
    service = start(models)
    states = {name: live_state(service, name) for name in give_mixed_feedback(service)}
    service.stop()
    for name, kind in (("vec", "classifier"), ("chat", "ranker"), ("rv", "river")):
        log = str(tmp_path / f"{name}.jsonl")
        flags = ["--state", str(tmp_path / "state"), "--config", config_path(tmp_path)]
        process = run_online("log", "export", "--model", name, "--output", log, *flags)
        assert process.returncode == 0, process.stderr
        assert replay_json(log, "--model", kind)["state_sha256"] == states[name], name
    report = replay_json(str(tmp_path / "vec.jsonl"), "--model", "river")
    assert report["examples"] == 260


def give_mixed_feedback(service: Service) -> dict[str, int]:
    """Give feedback of every kind, some of it retracted or refused; return the last offset of each model."""
    stream = items(260, seed=5)
    vec = service.client("vec")
    vec.feedback(stream)
    vec.retract(stream[3]["id"])
    last = {"vec": vec.retract(stream[250]["id"])["offset"]}
    chat = service.client("chat", user="somebody")
    service.wait_learned("chat", 1)
    ids = chat.predict(["When do you open?", "Is there tea?", "Do you lend skis?"])["prediction_ids"]
    chat.reward(ids[0], 1.0)
    wrong = chat.reward(ids[0], 0.0)
    chat.teach(ids[1], "Tea is in the cafe.")
    retracted = chat.teach(ids[2], "We lend skis in winter.")
    chat.retract(wrong["id"])
    last["chat"] = chat.retract(retracted["id"])["offset"]
    rv = service.client("rv")
    receipts = rv.feedback([{"input": {"x": n % 7, "kind": "abc"[n % 3]}, "label": "ab"[n % 7 > 3]} for n in range(40)])
    rv.feedback([{"input": {"x": 1e300}, "label": "a"}])
    last["rv"] = rv.retract(receipts[11]["id"])["offset"]
    for name, offset in last.items():
        service.wait_learned(name, offset)
    return last


def live_state(service: Service, model: str) -> str:
    return str(next(version for version in service.versions(model) if version["live"])["state_sha256"])
