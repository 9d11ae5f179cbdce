"""Predictions that wait in the journal of a running service: nothing is missed, refused or forgotten because of that."""

import os
import shutil
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from online.io.cache import cache_folder
from online.journal import MAGIC, SUFFIX, JournalFrame, JournalRow, JournalWriter, list_segments
from online.models.encoders.text import TextEncoder
from online.plugins.encoder_tuning.adoption import adopt
from online.store.predictions import load_predictions
from tests.conftest import Start, config
from tests.plugins.encoder_tuning.test_adoption import ignore_progress, open_workspace, write_encoder
from tests.serving.erasure.searching import find_in_folder
from tests.support import Service, refuse_postgres, run_online, until

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
CHAT = """
[[models]]
name = "chat"
kind = "ranker"
"""
BAR = """
[[models]]
name = "bar"
kind = "classifier"
"""
USER = "annasophia"


def predict(service: Service, **more: Any) -> str:
    answer = service.http.post("/v1/models/vec:predict", json={"instances": [[0.5, 1.0]], **more})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["prediction_ids"][0])


def give(service: Service, *ids: str, label: str = "a") -> Any:
    return service.http.post(
        "/v1/models/vec:feedback", json={"feedback": [{"prediction_id": id, "label": label} for id in ids]}
    )


def stored_ids(state: Path) -> list[str]:
    with closing(sqlite3.connect(state / "online.db")) as store:
        return [id for (id,) in store.execute("SELECT id FROM prediction ORDER BY id")]


def journal_bytes(service: Service) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return max(float(line.split()[-1]) for line in lines if line.startswith("online_journal_bytes"))


def kill(service: Service) -> None:
    """Kill a service with its copier."""
    os.kill(until(service.copier_pid), signal.SIGKILL)
    service.process.kill()
    service.process.wait()


@pytest.mark.long
def test_feedback_does_not_wait_for_the_copier(start: Start) -> None:
    service = start(VEC)
    with service.stopped_copier():
        ids = [predict(service) for _ in range(10)]
        assert stored_ids(service.state) == [] and journal_bytes(service) > 10 * 50
        assert give(service, ids[3]).status_code == 202
        assert give(service, *ids).status_code == 202
        unknown = give(service, "0" * 32)
        assert unknown.status_code == 404 and "has no prediction" in unknown.json()["error"]
        head = service.http.get("/v1/models/vec").json()["head"]
    assert give(service, predict(service)).status_code == 202  # behind what the process was asked while it stood still
    assert service.http.get("/v1/models/vec").json()["head"] == head + 1, "nothing is recorded a second time"


def test_a_killed_service_finds_its_journal_again(start: Start) -> None:
    service = start(VEC)
    with service.stopped_copier():
        ids = [predict(service) for _ in range(10)]
        kill(service)
    again = start(VEC)
    until(lambda: stored_ids(again.state) == ids, what="the copy")
    assert give(again, *ids).status_code == 202
    assert again.stop() == 0
    assert list_segments(again.state / "journal") == [], "a service that stops copies everything"


@pytest.mark.long
def test_a_service_starts_beside_a_damaged_and_an_unreadable_segment(start: Start) -> None:
    service = start(VEC)
    with service.stopped_copier():
        kept = predict(service)
        kill(service)
    journal = service.state / "journal"
    (journal / f"{0:016x}-0{SUFFIX}").mkdir()
    (journal / f"{1:016x}-0{SUFFIX}").write_bytes(b"somebody's notes")
    (journal / f"{2:016x}-0{SUFFIX}").write_bytes(MAGIC[:5])
    again = start(VEC)
    assert again.http.get("/readyz").status_code == 200
    assert give(again, kept, predict(again)).status_code == 202
    until(lambda: "a segment of the journal cannot be read" in again.output)
    until(lambda: "a segment of the journal is damaged" in again.output)
    assert (journal / f"{1:016x}-0.damaged").read_bytes() == b"somebody's notes"
    refused = again.http.delete(f"/v1/users/{USER}")
    assert refused.status_code == 503 and "make it readable, or move it away" in refused.json()["error"]


def test_an_export_and_an_erasure_read_what_waits_in_the_journal(start: Start, tmp_path: Path) -> None:
    service = start(VEC)
    flags = ("--state", str(service.state), "--config", str(service.state.with_suffix(".toml")))
    with service.stopped_copier():
        id = predict(service, user=USER)
        exported = run_online("log", "export", "--model", "vec", "--output", str(tmp_path / "log.jsonl"), *flags)
        assert exported.returncode == 0, exported.stderr
        assert stored_ids(service.state) == [id]
        predict(service, user=USER)
        (service.state / "journal" / "old.damaged").write_text(USER)
        erased = service.http.delete(f"/v1/users/{USER}")
        assert erased.status_code == 202, erased.text
        with closing(sqlite3.connect(service.state / "online.db")) as store:
            assert store.execute("SELECT count(*) FROM prediction WHERE user = ?", [USER]).fetchone() == (0,)
        assert find_in_folder(service.state, {"name": USER.encode()}, "journal/*") == set()


@pytest.mark.long
def test_a_state_folder_without_a_journal_gets_one(start: Start) -> None:
    service = start(VEC)
    before = predict(service)
    service.stop()
    shutil.rmtree(service.state / "journal")
    again = start(VEC)
    assert give(again, before, predict(again)).status_code == 202


@pytest.mark.long
def test_what_waits_during_an_adoption_gets_the_features_of_the_new_encoder(start: Start) -> None:
    service = start(BAR)
    client = service.client("bar")
    receipt = client.feedback([{"input": "rum, please", "label": "rum"}, {"input": "tea", "label": "tea"}])[-1]
    client.wait_until_learned(receipt["offset"], 60)
    service.stop()
    with open_workspace(service) as workspace:
        waiting = JournalRow(
            "w" * 32, None, b'"more tea"', TextEncoder(cache_folder()).encode(["more tea"])[0], "tea", 1.0, [], []
        )
        JournalWriter(workspace.journal).append(
            JournalFrame("bar", 1, receipt["offset"], "", "2026-01-01T00:00:00+00:00", [waiting])
        )
        adopt(workspace, workspace.settings.models[0], encoder := write_encoder(workspace), ignore_progress)
        workspace.copy_journal()
        row = workspace.store.read(lambda connection: load_predictions(connection, "bar", [waiting.id]))[waiting.id]
        assert row.features == TextEncoder(cache_folder(), tuned=encoder).encode(["more tea"])[0] != waiting.features
    again = start(BAR)
    given = again.http.post("/v1/models/bar:feedback", json={"feedback": [{"prediction_id": row.id, "label": "tea"}]})
    assert given.status_code == 202, given.text
    again.wait_learned("bar", given.json()["receipts"][0]["offset"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB. Only root can make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_of_the_journal_refuses_what_is_to_be_recorded_until_there_is_room(
    start: Start, small_disk: Path, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "journal").symlink_to(small_disk)
    service = start(VEC)
    body = {"instances": [[0.5, 1.0]] * 100}
    with service.stopped_copier():
        answers = [service.http.post("/v1/models/vec:predict", json=body) for _ in range(40)]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert 5 < len(refused) < 40 and {answer.status_code for answer in refused} == {503}
        assert "the journal of predictions cannot be written: No space left" in refused[0].json()["error"]
        unrecorded = service.http.post("/v1/models/vec:predict", json={**body, "record": False})
        assert unrecorded.status_code == 200
    answered = [id for answer in answers if answer.status_code == 200 for id in answer.json()["prediction_ids"]]
    until(lambda: stored_ids(service.state) == sorted(answered), what="the copy")
    assert give(service, *answered[::50]).status_code == 202
    until(lambda: service.http.post("/v1/models/vec:predict", json=body).status_code == 200, what="room")


@pytest.fixture
def machines(tmp_path: Path, postgres_url: str) -> Iterator[list[Service]]:
    """Two services with state folders of their own, on one store."""
    started = list[Service]()
    for name, flags in (("one", ()), ("two", ("--no-learner",))):
        folder = tmp_path / name
        folder.mkdir()
        shared = {"store": postgres_url, "secret": "the same on both machines"}
        started.append(Service(folder / "state", config(folder, CHAT + VEC, **shared), *flags))
    yield started
    for service in started:
        service.process.kill()
        service.process.wait()


@pytest.mark.long
def test_feedback_waits_for_a_prediction_of_another_machine(machines: list[Service]) -> None:
    one, two = machines
    answers = list[Any]()

    def ask(id: str, chat_id: str) -> None:
        answers.append(give(two, id))
        answers.append(two.http.get(f"/v1/models/chat/predictions/{chat_id}/why"))

    with one.stopped_copier():
        id = predict(one)
        chat_id = one.client("chat").predict(["When do you open?"])["prediction_ids"][0]
        thread = threading.Thread(target=ask, args=(id, chat_id))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "the prediction is in the journal of another machine"
    thread.join()
    assert [answer.status_code for answer in answers] == [202, 200], [answer.text for answer in answers]
    unknown = give(two, "0" * 32)
    assert unknown.status_code == 404


def test_a_long_outage_of_the_store_loses_nothing(machines: list[Service], postgres_url: str) -> None:
    service = machines[0]
    with refuse_postgres(postgres_url):
        body = {"instances": [[0.5, 1.0]] * 500}
        answers = [service.http.post("/v1/models/vec:predict", json=body) for _ in range(40)]
        ids = [id for answer in answers for id in answer.json()["prediction_ids"]]
        assert give(service, ids[0]).status_code == 503
        assert journal_bytes(service) > 20_000 * 50
    until(lambda: give(service, ids[-1]).status_code == 202, what="the store's return")
    assert give(service, *ids[::40]).status_code == 202
    store = create_engine(postgres_url)
    with closing(store.connect()) as connection:
        until(lambda: connection.scalar(text("SELECT count(*) FROM prediction")) == len(ids), what="the copy")
    store.dispose()
