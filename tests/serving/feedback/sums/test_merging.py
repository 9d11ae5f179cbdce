"""Sums from a device to a live version and back: merged, asked about, retracted, erased, exported and replayed."""

import json
from pathlib import Path

import pytest

from online.client import Client, ClientError
from tests.conftest import Start
from tests.serving.feedback.sums.files import Labelled, central_fingerprint, draw, make_file
from tests.support import Service, erase, run_online, until

MODEL = """
[[models]]
name = "lab"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""


@pytest.fixture
def lab(start: Start) -> Service:
    return start(MODEL)


def teach(client: Client, rows: list[Labelled]) -> int:
    receipts = client.feedback([{"input": values, "label": label} for values, label in rows])
    return receipts[-1]["offset"]


def state_at(lab: Service, offset: int) -> str:
    """The hash of the version that has learned the offset."""
    lab.wait_learned("lab", offset)
    manifests = [json.loads(path.read_text()) for path in lab.state.glob("**/manifest.json")]
    newest = max(manifests, key=lambda manifest: int(manifest["version"]))
    assert newest["learned_until"] >= offset
    return str(newest["state_sha256"])


def test_merged_sums_give_the_hash_of_a_model_that_saw_the_examples(lab: Service) -> None:
    rows = draw(60)
    with lab.client("lab") as client:
        teach(client, rows[:20])
        first = client.merge(make_file(rows[20:40]))
        second = client.merge(make_file(rows[40:]), id="phone-7")
        assert (first["status"], second) == ("accepted", {"id": "phone-7", "offset": 22, "status": "accepted"})
        assert state_at(lab, 22) == central_fingerprint(rows)
        status = until(lambda: learned(client, "phone-7"), what="the outcome of the sums")
        assert status["version"] is not None
        back = client.retract("phone-7")
        assert state_at(lab, back["offset"]) == central_fingerprint(rows[:40])
        assert client.retract("phone-7") == back


def learned(client: Client, id: str) -> dict[str, object] | None:
    status = client.feedback_status(id)
    return dict(status) if status["status"] == "learned" else None


def test_the_same_sums_with_the_same_id_have_no_second_effect(lab: Service) -> None:
    rows = draw(20)
    with lab.client("lab") as client:
        receipts = [client.merge(make_file(rows), id="once") for _ in range(3)]
        assert receipts == [receipts[0]] * 3 and receipts[0]["offset"] == 1
        with pytest.raises(ClientError, match="used before for something else") as refused:
            client.merge(make_file(draw(20, seed=1)), id="once")
        assert refused.value.status == 409
        assert state_at(lab, 1) == central_fingerprint(rows)


@pytest.mark.long
def test_sums_are_learned_once_by_a_service_whose_learner_is_killed(start: Start) -> None:
    rows = draw(300)
    lab = start(MODEL, durable_every_s=0.5)
    with lab.client("lab") as client:
        teach(client, rows[:100])
        for number in range(10):
            client.merge(make_file(rows[100 + 20 * number : 120 + 20 * number]), id=f"device {number}")
            if number in (3, 7):
                lab.kill_learner()
        assert state_at(lab, 110) == central_fingerprint(rows)


def test_erasing_a_user_leaves_a_model_that_never_saw_their_sums(lab: Service) -> None:
    rows = draw(60)
    with lab.client("lab") as client, lab.client("lab", user="ann") as ann:
        teach(client, rows[:20])
        ann.merge(make_file(rows[20:40]), id="ann's phone")
        client.merge(make_file(rows[40:]))
        erased = erase(client, "ann")
        assert erased["feedback"] == 1
        head = lab.http.get("/v1/models/lab").json()["learned_until"]
        assert state_at(lab, head) == central_fingerprint([*rows[:20], *rows[40:]])
        statement = client.erasure(erased["id"])["statement"]
        assert statement is not None
        with pytest.raises(ClientError):
            client.feedback_status("ann's phone")
    sums = make_file(rows[20:40])
    database = (lab.state / "online.db").read_bytes() + (lab.state / "online.db-wal").read_bytes()
    assert sums[-400:] not in database


@pytest.mark.long
def test_an_exported_log_with_sums_is_replayed_to_the_same_hash(lab: Service, tmp_path: Path) -> None:
    rows = draw(200)
    with lab.client("lab") as client:
        for n, (values, label) in enumerate(rows[:120]):
            asked = client.predict([values])["prediction_ids"][0]
            client.label(asked, label, id=f"e{n}")  # ids decide which of them are held out
        client.merge(make_file(rows[120:140]), id="kept")
        client.merge(make_file(draw(100, seed=5)), id="back")
        client.retract("back")
        refused = client.merge(make_file(draw(900, seed=7, swapped=True)), id="poisoned")
        hash = state_at(lab, refused["offset"])
        assert hash == central_fingerprint(rows[:140])
        outcome = until(lambda: refused_status(client, "poisoned"), what="the refusal")
        assert "would answer worse" in outcome
    log = tmp_path / "log.jsonl"
    exported = run_online(
        "log", "export", "--config", str(tmp_path / "state.toml"), "--state", str(lab.state), "--output", str(log)
    )
    assert exported.returncode == 0, exported.stderr
    replayed = run_online("replay", str(log), "--model", "classifier", "--json")
    assert replayed.returncode == 0, replayed.stderr
    [result] = json.loads(replayed.stdout)["results"]
    assert result["state_sha256"] == hash
    assert result["examples"] == 120, "sums are not judged"


def refused_status(client: Client, id: str) -> str | None:
    status = client.feedback_status(id)
    return str(status["reason"]) if status["status"] == "refused" else None


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        (":merge", b"", 400, "safetensors"),
        (":merge", b'{"counts": []}', 400, "safetensors"),
        (":merge?id=a%23b", make_file(draw(3)), 400, "id"),
        (":merge?id=", make_file(draw(3)), 400, "id"),
        (":merge", make_file(draw(3), {"input": "vector", "size": 2, "scale": 1.0}), 400, "of other features"),
        (":merge", make_file(draw(3), {"input": "vector", "size": 2, "scale": 4.0, "head": "ridge"}), 400, "9 features, where the model has 8"),
        (":merge", make_file([([0.0, 1.0], "x" * 300)]), 413, "max_label_chars"),
        (":merge", make_file(draw(1_001)), 413, "max_merge_examples"),
        (":merge", bytes(3_000_001), 413, "max_merge_bytes"),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_refused_with_a_reason(
    service: Service, path: str, body: bytes, status: int, error: str
) -> None:
    answer = service.http.post(f"/v1/models/lab{path}", content=body)
    assert answer.status_code == status, answer.text
    assert error in answer.json()["error"]
