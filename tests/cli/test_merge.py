"""`online merge` sends a file of sums to a running service, and takes it back."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.cli.operating.merge import wait_for_outcome
from online.client import Client, FeedbackStatus
from online.models.classifier import Classifier
from tests.api.auth.access import ADMIN_KEY
from tests.conftest import config
from tests.serving.feedback.sums.files import OPTIONS, central_fingerprint, draw, make_file
from tests.support import Service, run_online

LAB = f"""
admin_key = "{ADMIN_KEY}"

[[models]]
name = "lab"
kind = "classifier"
options = {{ input = "vector", size = 2, scale = 4.0 }}
"""
ROWS = draw(6)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("merge")
    service = Service(folder / "state", config(folder, LAB))
    service.http.headers["X-Admin-Key"] = ADMIN_KEY
    yield service
    service.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "phone.safetensors"
    path.write_bytes(make_file(ROWS))
    return path


def merge(service: Service, *arguments: str, key: str = ADMIN_KEY) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "ONLINE_KEY": key}
    return run_online("merge", *arguments, "--model", "lab", "--url", service.url, env=environment)


def test_sums_are_learned_once_and_taken_back(service: Service, file: Path) -> None:
    for _ in range(2):
        done = merge(service, str(file), "--wait", "60", "--json")
        assert done.returncode == 0, done.stderr
        outcome = json.loads(done.stdout)
        assert outcome["status"] == "learned" and outcome["id"].startswith("sums-")
        assert service.versions("lab")[0]["state_sha256"] == central_fingerprint(ROWS)
    done = merge(service, "--take-back", outcome["id"], "--wait", "60")
    assert done.returncode == 0 and done.stdout.endswith(": retracted\n"), done.stderr
    assert service.versions("lab")[0]["state_sha256"] == Classifier(OPTIONS).fingerprint()
    for flags in ((), ("--wait", "60")):
        done = merge(service, str(file), *flags)
        assert done.returncode == 1 and done.stdout.endswith(": retracted\n"), done.stderr
        assert "were taken back and are not learned again; to send them again, give another --id" in done.stderr
    done = merge(service, str(file), "--id", "once-more", "--wait", "60")
    assert done.returncode == 0 and done.stdout.endswith(": learned\n"), done.stderr
    assert merge(service, "--take-back", "once-more", "--wait", "60").returncode == 0


def test_waiting_for_what_a_frozen_model_does_not_learn_is_an_error(service: Service, file: Path) -> None:
    assert merge(service, str(file), "--id", "frozen", "--wait", "60").returncode == 0
    service.http.post("/v1/models/lab:freeze", json={}).raise_for_status()
    try:
        taken = merge(service, "--take-back", "frozen", "--wait", "0.5")
        sent = merge(service, str(file), "--id", "frozen-too", "--wait", "0.5")
    finally:
        service.http.post("/v1/models/lab:thaw", json={}).raise_for_status()
    for done in (taken, sent):
        assert done.returncode == 1 and "no version has learned offset" in done.stderr, done.stderr
    for id in ("frozen", "frozen-too"):
        assert merge(service, "--take-back", id, "--wait", "60").returncode == 0


class SecondWorkersClient(Client):
    """Sees the status of feedback late, as from a worker that answers before the first one has written the outcome."""

    late = 3

    def feedback_status(self, feedback_id: str) -> FeedbackStatus:
        self.late -= 1
        status = super().feedback_status(feedback_id)
        return status if self.late < 0 else {**status, "status": "accepted"}


def test_an_outcome_that_is_not_written_yet_is_waited_for(service: Service) -> None:
    with SecondWorkersClient(service.url, "lab", key=ADMIN_KEY) as client:
        receipt = client.merge(make_file(ROWS), "late")
        assert wait_for_outcome(client, receipt, 60)["status"] == "learned"
        assert wait_for_outcome(client, client.retract("late"), 60)["status"] == "retracted"
        client.late = 1_000
        with pytest.raises(TimeoutError):
            wait_for_outcome(client, receipt, 0.2)


def test_the_receipt_is_printed_without_waiting(service: Service, file: Path) -> None:
    done = merge(service, str(file), "--id", "anns-phone")
    assert done.returncode == 0 and done.stdout.startswith("anns-phone of lab, offset "), done.stderr
    assert merge(service, "--take-back", "anns-phone").returncode == 0


def test_a_refusal_of_the_service_is_printed(service: Service, file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(make_file(ROWS, {**OPTIONS, "scale": 2.0}))
    for arguments, key, words in (
        ((str(file),), "wrong", "answered 401"),
        ((str(other),), ADMIN_KEY, "answered 400: the sums are of other features"),
        (("--take-back", "nothing"), ADMIN_KEY, "answered 404"),
    ):
        done = merge(service, *arguments, key=key)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_what_cannot_be_sent_is_refused_with_the_remedy(file: Path) -> None:
    for arguments, words in (
        ((), "name a file of sums to send, or an id with --take-back"),
        ((str(file), "--take-back", "x"), "name a file of sums to send, or an id with --take-back"),
        ((f"{file}.lost",), "cannot be read: No such file"),
        ((str(file), "--url", "http://127.0.0.1:9"), "no service answers at http://127.0.0.1:9"),
        ((str(file), "--url", "nowhere"), "no service answers at nowhere"),
    ):
        done = run_online("merge", *arguments, "--model", "lab")
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, done.stderr
