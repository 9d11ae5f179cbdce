"""When a service reports that it is ready, and when it refuses to start."""

import json
from pathlib import Path

import pytest

from online.client import ClientError
from tests.conftest import Start, config
from tests.support import refuse_postgres, run_online, until

CHAT = """
[[models]]
name = "chat"
kind = "ranker"
"""

VECTOR = """
[[models]]
name = "m"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""


@pytest.mark.long
def test_a_service_without_a_learner_is_ready_immediately(start: Start) -> None:
    service = start(CHAT, flags=("--no-learner",))
    ready = service.http.get("/readyz")
    assert ready.status_code == 200 and ready.json()["models"]["chat"]["version"] == "0"


@pytest.mark.long
def test_a_service_with_an_empty_repertoire_is_ready_immediately(start: Start, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    service = start(CHAT, repertoire=str(empty))
    assert service.http.get("/readyz").status_code == 200


@pytest.fixture
def loaded(tmp_path: Path) -> Path:
    """A state folder whose model `m` begins with 200 rows of a file."""
    rows = [{"input": [n % 2 - 0.5, 1.0], "label": "ab"[n % 2]} for n in range(200)]
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "load.toml").write_text(f'state = "{tmp_path}/state"\n{VECTOR}')
    done = run_online("load", "history.jsonl", "--config", "load.toml", "--processes", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.mark.usefixtures("loaded")
def test_a_service_is_ready_once_its_repertoire_is_learned_and_what_was_loaded_is_live(start: Start) -> None:
    service = start(VECTOR + CHAT)
    replied = service.client("chat").predict(["When are you open?"])
    assert int(replied["model_version"]) > 0, service.output
    assert replied["predictions"][0]["reply"] is not None
    answer = service.client("m").predict([[0.5, 1.0]])
    assert answer["predictions"][0]["label"] == "b" and int(answer["model_version"]) > 0
    assert service.http.get("/readyz").status_code == 200


@pytest.mark.usefixtures("loaded")
def test_a_service_that_answers_without_what_was_loaded_is_not_ready_and_says_why(start: Start) -> None:
    service = start(VECTOR, flags=("--no-learner",))
    ready = service.http.get("/readyz")
    assert ready.status_code == 503 and "begins with a base" in ready.json()["models"]["m"]["reason"]
    assert service.http.get("/v1/models/m").json()["ready"] is False


def test_a_service_whose_store_is_down_answers_and_keeps_its_predictions(start: Start, postgres_url: str) -> None:
    service = start(CHAT, store=postgres_url)
    chat = service.client("chat")
    with refuse_postgres(postgres_url):
        ready = service.http.get("/readyz")
        assert ready.status_code == 200 and "store" in ready.json()["models"]["chat"]
        ids = [chat.predict(["When are you open?"])["prediction_ids"][0] for _ in range(20)]
        with pytest.raises(ClientError, match="the store refused the write"):
            chat.feedback([{"prediction_id": ids[0], "reward": 1}])
    until(lambda: "store" not in service.http.get("/readyz").json()["models"]["chat"], what="the store's return")
    until(lambda: "store unavailable: recovered" in service.output, what="the log line")
    assert service.output.count("store unavailable model=chat") == 1
    receipts = chat.feedback([{"prediction_id": id, "reward": 1} for id in ids])
    assert len(receipts) == 20


@pytest.mark.long
def test_a_model_with_a_history_cannot_become_another_kind(start: Start, tmp_path: Path) -> None:
    service = start(CHAT)
    service.stop()
    other = tmp_path / "other.toml"
    other.write_text(config(tmp_path, CHAT.replace('"ranker"', '"classifier"')))
    process = run_online("serve", "--state", str(service.state), "--config", str(other), "--port", "0")
    assert process.returncode != 0 and 'set kind = "ranker" again' in process.stderr
