"""Contents of expired events: removed from the store and the copy in Redis, and what refers to them goes on."""

import json
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from online.cli.access.stopped_service import learn_everything
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.runs import replay_one
from online.evaluation.replay_table import describe_report
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.log_export import LogExport
from online.evaluation.sources.opening import open_source
from online.installed import ContributedParts
from online.learning.training_state import TrainingState
from online.models import Options
from online.plugins.off_policy.logged_decisions import read_own_log
from online.plugins.reports.model_report import write_model_report
from online.schemas.events import Event
from online.serving.erasure.progress import ErasableModel
from online.serving.erasure.work import ErasureWork
from online.store.callers.held_feedback import HeldFeedbackRow, add_held
from online.store.predictions import load_predictions
from online.stream.redis import RedisStream
from online.stream.relay import relay
from online.stream.sql import SqlStream
from tests.conftest import Start
from tests.learning.expiry_scene import OLD, YOUNG, ExpiryScene
from tests.learning.scene import VECTOR, sums_event, vector_events
from tests.learning.test_base_building import FITTED, make_vector, vector
from tests.serving.erasure.searching import find_in_folder
from tests.serving.test_retention import LONG_AGO, MODELS, give, metric, predict
from tests.support import Service, until

USER = "annasophia"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[ExpiryScene]:
    opened = ExpiryScene(tmp_path)
    yield opened
    opened.workspace.store.close()


def teach(scene: ExpiryScene, old: int = 15, young: int = 5) -> None:
    for n in range(old + young):
        scene.give(make_vector(n), OLD if n < old else YOUNG)


class RedisCopy:
    """The copy of the log in Redis, written again at once."""

    def __init__(self, source: SqlStream, copy: RedisStream) -> None:
        self.source, self.copy, self.rebuilds = source, copy, 0

    def request_rebuild(self) -> None:
        self.copy.clear_all()
        relay(self.source, self.copy)
        self.rebuilds += 1


def test_the_copy_in_redis_loses_the_contents_too(scene: ExpiryScene, redis_url: str) -> None:
    copy = RedisStream(redis_url, "m", f"test:{uuid.uuid4().hex}", b"secret")
    scene.copy = RedisCopy(scene.stream, copy)
    teach(scene)
    relay(scene.stream, copy)
    scene.expire()
    scene.remove()
    assert scene.progress().copied_until == 15 and scene.copy.rebuilds == 1
    assert [entry.kind for entry in copy.read(0, 100)] == ["void"] * 15 + ["label"] * 5
    assert copy.read(0, 100) == scene.entries()
    scene.remove()
    assert scene.copy.rebuilds == 1, "it is written again only after contents were removed"
    copy.clear_all()


@pytest.mark.long
def test_on_postgres_it_is_the_same(tmp_path: Path, postgres_url: str) -> None:
    scene = ExpiryScene(tmp_path, store=postgres_url)
    teach(scene)
    scene.catch_up()
    before = scene.fingerprint()
    scene.remove()
    assert scene.kinds() == ["void"] * 15 + ["label"] * 5
    scene.damage_versions()
    scene.learner = scene.start_learner()
    scene.catch_up()
    assert scene.fingerprint() == before
    scene.workspace.store.close()


def test_expired_sums_stay_learned_and_their_file_is_gone(tmp_path: Path) -> None:
    scene = ExpiryScene(tmp_path)
    teach(scene, old=10, young=0)
    scene.give_sums(sums_event("device", vector_events(20, start=500)), OLD)
    scene.give(make_vector(30), YOUNG)
    scene.expire()
    before = scene.fingerprint()
    assert scene.kinds() == [*["void"] * 11, "label"]
    assert not any(entry.features for entry in scene.entries()[:11])
    scene.damage_versions()
    scene.learner = scene.start_learner()
    scene.catch_up()
    assert scene.fingerprint() == before
    scene.workspace.store.close()


def test_a_prediction_that_held_feedback_is_about_stays(scene: ExpiryScene) -> None:
    teach(scene)
    content = json.dumps({"id": "h", "prediction_id": "asked-e3", "label": "a"})
    held = HeldFeedbackRow(
        model="m", id="h", content=content, question="1", caller="c", user=None, reason="quarantine", created_at="2030"
    )
    scene.workspace.store.submit(lambda connection: add_held(connection, [held])).result()
    scene.expire()
    ids = [f"asked-e{n}" for n in range(20)]
    left = scene.workspace.store.read(lambda connection: load_predictions(connection, "m", ids))
    assert sorted(left) == sorted(["asked-e3", *ids[15:]])


def test_a_later_opinion_about_the_same_prediction_stays_learnable(scene: ExpiryScene) -> None:
    """It is then feedback about an input of its own."""
    teach(scene, young=0)
    scene.give_again("second", "asked-e3", YOUNG)
    scene.expire()
    path = scene.workspace.state / "log.jsonl"
    LogExport(scene.workspace, scene.workspace.settings.models[0]).write(path, lambda done, total: None)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    event = lines[-1]["event"]
    assert (event["id"], "prediction_id" in event, bool(event["features"])) == ("second", False, True)


def test_a_replay_says_from_which_offset_on_contents_exist(scene: ExpiryScene, tmp_path: Path) -> None:
    teach(scene)
    scene.expire()
    spec = scene.workspace.settings.models[0]
    log = tmp_path / "log.jsonl"
    LogExport(scene.workspace, spec).write(log, lambda done, total: None)
    source = open_source(str(log))
    results, _ = replay_one(source, CandidateSpec("classifier", name="c"), ScoredSpan(), 0.0, lambda share, count: None)
    report = results[0].report
    assert report is not None and report.contents_from == 16 and report.examples == 5
    assert any("contents exist from offset 16 on" in line for line in describe_report(report, named=False))
    assert "contents exist from offset 16 on" in read_own_log(source, BadLines(0.0)).notes[0]
    write_model_report(scene.workspace, spec, tmp_path / "page.html", lambda step, done, total: None)
    assert "contents exist from offset 16 on" in (tmp_path / "page.html").read_text()


def erase(scene: ExpiryScene) -> dict[str, Any]:
    spec = scene.workspace.settings.models[0]
    erasable = ErasableModel(spec, scene.snapshots, None, lambda: None)
    work = ErasureWork(scene.workspace, {"m": erasable}, ContributedParts())
    work.begin("e" * 32, USER, ["m"])
    while work.list_unfinished():
        if not work.advance("e" * 32):
            learn_everything(scene.workspace)
    statement: dict[str, Any] = json.loads(work.load("e" * 32)[0].statement or "{}")
    return dict(statement["models"]["m"])


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "closed"])
@pytest.mark.parametrize("options", [VECTOR, FITTED], ids=["exact", "fitted"])
def test_an_erasure_unlearns_what_has_not_expired_and_says_what_it_cannot(
    tmp_path: Path, options: Options, is_removed: bool
) -> None:
    scene = ExpiryScene(tmp_path, "classifier", options)
    for n in range(30):
        user = USER if n % 3 == 1 else "bert"
        scene.give(Event(f"{user}-{n}", "label", vector(n), "ab"[n % 2], choice="a"), OLD if n < 15 else YOUNG, user)
    entries = scene.entries()
    scene.expire() if is_removed else scene.catch_up()
    statement = erase(scene)
    assert statement["expired_events"] == (15 if is_removed else 5)
    assert statement["events"] == (10 if is_removed else 15), "5 of the user and 5 retractions; 5 that were closed"
    for n in range(1, 30, 3):
        assert scene.kinds()[n] == "void"
    scene.workspace.store.close()
    needles = {"name": USER.encode(), **{str(n): vector(n) for n in range(16, 30, 3)}}
    assert not find_in_folder(tmp_path / "state", needles)

    again = ExpiryScene(tmp_path, "classifier", options)
    theirs = [entry for entry in entries if USER not in entry.id or entry.offset <= 15]
    expected = TrainingState("classifier", again.options, "cpu", lambda _: theirs, drift="act")
    expected.apply([*theirs, Event("last", "void", offset=100)])
    assert statement["after"]["state_sha256"] == again.fingerprint() == expected.model.fingerprint()
    again.workspace.store.close()


# in a running service


def make_feedback_old(state: Path) -> None:
    with closing(sqlite3.connect(state / "online.db")) as store, store:
        store.execute("UPDATE feedback SET created_at = ?", [LONG_AGO])


def newest_state(service: Service) -> str:
    return str(service.versions("vec")[0]["state_sha256"])


def test_in_a_service_old_feedback_expires_and_the_model_stays(start: Start) -> None:
    service = start(MODELS)
    asked = predict(service, [[0.5, 1.0], [-1.0, 0.5], [0.25, 0.5]], conversation="c", user="ada")
    receipts = [
        give(service, prediction_id=id, label=label).json()["receipts"][0]
        for id, label in zip(asked, "abc", strict=True)
    ]
    service.wait_learned("vec", receipts[-1]["offset"])
    before = newest_state(service)
    service.stop()
    make_feedback_old(service.state)

    service = start(MODELS, event_retention_days=30)
    bases = service.state / "snapshots" / "vec" / "base"
    until(lambda: list(bases.glob("[0-9]*/manifest.json")), what="the base")
    closed = service.http.delete(f"/v1/models/vec/feedback/{receipts[0]['id']}")
    assert closed.status_code == 400 and "older than event_retention_days" in closed.json()["error"]
    second = give(service, prediction_id=asked[0], label="b")
    assert second.status_code == 400 and "cannot be un-learned" in second.json()["error"]
    service.stop()

    service = start(MODELS, event_retention_days=30)
    until(lambda: metric(service, 'online_pruned_total{what="events"}') >= 3, what="the removal")
    until(lambda: "expired events pruned" in service.output, what="the line of the log")
    gone = service.http.delete(f"/v1/models/vec/feedback/{receipts[0]['id']}")
    assert gone.status_code == 404 and "(event_retention_days)" in gone.json()["error"]
    assert "cannot be un-learned" in gone.json()["error"]
    second = give(service, prediction_id=asked[0], label="b")
    assert second.status_code == 404 and "event_retention_days" in second.json()["error"]
    listed = service.http.get("/v1/models/vec/conversations", headers={"X-User": "ada"}).json()
    assert listed["conversations"] == []
    names = [each["label"] for each in service.http.get("/v1/models/vec/classes").json()["classes"]]
    assert names == ["a", "b", "c"] and newest_state(service) == before
    retired = service.http.delete("/v1/models/vec/classes/c")
    assert retired.status_code == 202
    service.wait_learned("vec", retired.json()["offset"])
    service.kill_learner()
    new = give(service, input=[0.5, 1.0], label="b").json()["receipts"][0]
    service.wait_learned("vec", new["offset"])
    assert "missing_until" not in service.http.get("/readyz").json()["models"]["vec"]
    service.stop()

    shutil.rmtree(bases)
    for version in (service.state / "snapshots" / "vec").glob("[0-9]*"):
        shutil.rmtree(version)
    service = start(MODELS, event_retention_days=30)
    service.wait_learned("vec", new["offset"])
    assert service.http.get("/readyz").json()["models"]["vec"]["missing_until"] == 3
    assert service.http.get("/v1/models/vec").json()["missing_until"] == 3
    assert "learning what is left of the log" in service.output
