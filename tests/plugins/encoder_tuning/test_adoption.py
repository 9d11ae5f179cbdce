"""Adopting another encoder in a running or stopped service: it is evaluated first, complete and reversible."""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from online.client import ClientError
from online.errors import EncoderMoved, SetupError
from online.io.cache import cache_folder
from online.learning.training_state import TrainingState
from online.models import create, recipe
from online.models.encoders import minilm
from online.models.encoders.text import TextEncoder
from online.plugins.encoder_tuning.adapter import TuningOptions
from online.plugins.encoder_tuning.adoption import AdaptationRun, adopt, wait_for_version
from online.plugins.encoder_tuning.text_events import read_text_events
from online.plugins.encoder_tuning.tuning import MIN_JUDGED
from online.settings import Settings, load
from online.state.workspace import Workspace
from online.store.encoder_moves import begin_move, check_encoder, encoder_of, encoder_since
from online.store.predictions import PREDICTIONS
from tests.conftest import Start
from tests.plugins.encoder_tuning.test_tuning import DRINKS, QUICK, orders
from tests.preload import launcher
from tests.support import Service, run_online, until

BAR = '[[models]]\nname = "bar"\nkind = "classifier"\n'
CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'


def load_settings(service: Service) -> Settings:
    return load(service.state.parent / f"{service.state.name}.toml", state=service.state)


@contextmanager
def open_workspace(service: Service) -> Iterator[Workspace]:
    workspace = Workspace(load_settings(service))
    with closing(workspace.store):
        yield workspace


def ignore_progress(what: str, done: int, of: int) -> None:
    """Report progress to nothing."""


def live_manifest(workspace: Workspace, name: str) -> Any:
    snapshots = workspace.snapshots(name)
    current = snapshots.folder.live()
    assert current is not None
    return snapshots.folder.manifest(current.version)


def write_encoder(workspace: Workspace) -> Path:
    """Write an encoder that differs from the frozen one."""
    weights = minilm.read_weights(minilm.package_folder())
    name = f"encoder.layer.{minilm.LAYERS - 1}.output.dense.weight"
    return minilm.write_tuned(workspace.encoders.folder, {name: weights[name] * 1.5})


def load_features(workspace: Workspace, name: str) -> list[tuple[bytes, str]]:
    with closing(workspace.sql_stream(name)) as stream:
        return [(each.features, each.id) for each in stream.read(0, 10_000) if each.kind != "control"]


@pytest.mark.long
def test_a_better_encoder_is_adopted_and_serves(start: Start) -> None:
    service = start(BAR)
    client = service.client("bar")
    receipts = client.feedback([{"input": text, "label": drink} for text, drink in orders()])
    client.wait_until_learned(receipts[-1]["offset"], 60)
    response = client.predict(["bring me rum instead of tea"])
    before = service.versions("bar")[0]
    service.stop()
    with open_workspace(service) as workspace:
        outcome = AdaptationRun(workspace, "bar", QUICK).run(True, ignore_progress)
        assert outcome.verdict is not None and outcome.verdict.better and outcome.verdict.judged == len(orders())
        assert outcome.version == live_manifest(workspace, "bar").version
        assert outcome.encoder[:16] in live_manifest(workspace, "bar").feature_epoch

    second = start(BAR)
    client = second.client("bar")
    tuned = client.predict([text for text, _ in orders()])
    assert tuned["model_version"] == str(outcome.version)
    pairs = zip(tuned["predictions"], orders(), strict=True)
    right = [prediction["label"] == drink for prediction, (_, drink) in pairs]
    assert sum(right) > 0.8 * len(right)
    # The prediction has features of the frozen encoder; the tuned one learns from its label.
    receipt = client.label(response["prediction_ids"][0], "rum")
    client.wait_until_learned(receipt["offset"], 60)
    assert client.predict(["bring me rum instead of tea"])["predictions"][0]["label"] == "rum"
    retracted = client.retract(receipt["id"])
    client.wait_until_learned(retracted["offset"], 60)
    second.stop()
    with open_workspace(second) as workspace:
        tuned_state = live_manifest(workspace, "bar").state_sha256
        encoder = TextEncoder(
            workspace.state / "cache", tuned=workspace.encoders.folder / f"{outcome.encoder}.safetensors"
        )
        assert {data for data, _ in load_features(workspace, "bar")} <= {
            *encoder.encode([text for text, _ in orders()]),
            *encoder.encode(["bring me rum instead of tea"]),
        }
        AdaptationRun(workspace, "bar").go_back(ignore_progress)
        assert live_manifest(workspace, "bar").state_sha256 == before["state_sha256"] != tuned_state
        assert live_manifest(workspace, "bar").feature_epoch == before["feature_epoch"] == TextEncoder.epoch


@pytest.mark.long
def test_a_ranker_learns_its_whole_log_again_after_an_adoption(start: Start) -> None:
    service = start(CHAT)
    client = service.client("chat")
    response = client.predict(["Can I charge my car?"])
    receipt = client.teach(response["prediction_ids"][0], "Two chargers stand behind the library.")
    client.wait_until_learned(receipt["offset"], 60)
    taken_back = client.retract(client.reward(client.predict(["Is there wifi?"])["prediction_ids"][0], 1.0)["id"])
    client.wait_until_learned(taken_back["offset"], 60)
    service.stop()
    with open_workspace(service) as workspace:
        spec = workspace.settings.models[0]
        version = adopt(workspace, spec, write_encoder(workspace), ignore_progress)
        manifest = live_manifest(workspace, "chat")
        assert (manifest.version, manifest.learned_until) == (version, taken_back["offset"] + 1)  # with the adoption
        assert manifest.feature_epoch == create("ranker", workspace.options(spec)).feature_epoch() != TextEncoder.epoch
    client = start(CHAT).client("chat")
    choice = client.predict(["Can I charge my car?"])["predictions"][0]
    assert choice["reply"] is not None and choice["reply"]["text"] == "Two chargers stand behind the library."


@pytest.mark.long
def test_an_encoder_that_is_not_better_is_not_adopted(start: Start) -> None:
    service = start(BAR)
    receipts = service.client("bar").feedback(
        [{"input": f"{text}, {n}", "label": DRINKS[n % 7]} for n, (text, _) in enumerate(orders())]
    )
    service.client("bar").wait_until_learned(receipts[-1]["offset"], 60)
    service.stop()
    with open_workspace(service) as workspace:
        before, features = live_manifest(workspace, "bar"), load_features(workspace, "bar")
        outcome = AdaptationRun(workspace, "bar", TuningOptions(epochs=1)).run(True, ignore_progress)
        assert outcome.verdict is not None and not outcome.verdict.better and outcome.version is None
        assert live_manifest(workspace, "bar") == before and load_features(workspace, "bar") == features
        assert workspace.store.read(lambda connection: encoder_of(connection, "bar")) == ""


class Traffic:
    """Two threads that send predictions and feedback without a pause until `stop`.

    versions: the versions that answered each thread, in order. failures: the bodies of failed responses.
    """

    def __init__(self, service: Service) -> None:
        self.failures = list[str]()
        self.versions = [[0], [0]]
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(service.url, n)) for n in range(2)]
        for thread in self._threads:
            thread.start()

    def _run(self, url: str, lane: int) -> None:
        turn = 0
        with httpx.Client(base_url=url, timeout=30) as http:
            while not self._stop.is_set():
                turn += 1
                drink, text = DRINKS[turn % 7], f"I would like number {lane}.{turn % 60}"
                response = self._send(http, ":predict", {"instances": [f"{text}, please"]})
                rewarded = {"prediction_id": response["prediction_ids"][0], "label": drink}
                self._send(http, ":feedback", {"feedback": [rewarded, {"input": text, "label": drink}]})
                self.versions[lane].append(int(response["model_version"]))

    def _send(self, http: httpx.Client, verb: str, body: Any) -> Any:
        response = http.post(f"/v1/models/bar{verb}", json=body)
        if response.status_code >= 300:
            self.failures.append(response.text)
        return response.json()

    def wait_for_turns(self, count: int) -> None:
        """Wait for `count` more requests."""
        before = len(self.versions[0])
        until(lambda: len(self.versions[0]) >= before + count or self.failures)

    def wait_for(self, version: int) -> None:
        """Wait until this version or a later one answers."""
        until(lambda: self.versions[0][-1] >= version or self.failures)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def assert_one_encoder(workspace: Workspace, encoder: str) -> None:
    """Check that all features are those of this encoder, and the live version that of the whole log."""
    name, spec = workspace.settings.models[0].name, workspace.settings.models[0]
    assert workspace.store.read(lambda connection: encoder_of(connection, name)) == encoder
    text_encoder = TextEncoder(cache_folder(), tuned=workspace.tuned(encoder))
    events = read_text_events(workspace.store, name)
    for each in events:
        assert each.event.features == (text_encoder.encode([each.text])[0] if each.text else b""), each
    rows = workspace.store.read(lambda c: c.execute(select(PREDICTIONS.c.input, PREDICTIONS.c.features)).all())
    for text, features in rows:
        assert features == text_encoder.encode([json.loads(text)])[0], text
    training = TrainingState(spec.kind, workspace.options(spec), "cpu", lambda until: ())
    training.apply([each.event for each in events])
    manifest = live_manifest(workspace, name)
    assert manifest.learned_until == len(events) and manifest.recipe == recipe(spec.kind, workspace.options(spec))
    assert manifest.state_sha256 == training.model.fingerprint()


def wait_all_learned(service: Service, name: str) -> None:
    service.wait_learned(name, service.http.get(f"/v1/models/{name}").json()["head"])


@pytest.mark.long
def test_adopting_an_encoder_under_traffic_fails_no_request(start: Start, redis_url: str) -> None:
    """With a copy of the log in Redis, which is written again. Without one, and on Postgres: tests/long/test_encoder_tuning.py."""
    check_adoption_under_traffic(start(BAR, stream=redis_url))


def check_adoption_under_traffic(service: Service) -> None:
    service.client("bar").feedback([{"input": text, "label": drink} for text, drink in orders()])
    wait_all_learned(service, "bar")
    traffic = Traffic(service)
    with open_workspace(service) as workspace:
        spec, tuned = workspace.settings.models[0], write_encoder(workspace)
        for encoder in (tuned, None, tuned):
            traffic.wait_for_turns(25)
            traffic.wait_for(adopt(workspace, spec, encoder, ignore_progress))
        assert service.http.get("/v1/models/bar").json()["encoder"] == tuned.stem
        traffic.stop()
        wait_all_learned(service, "bar")
        assert traffic.failures == []
        assert all(versions == sorted(versions) for versions in traffic.versions)
        service.stop()
        assert_one_encoder(workspace, tuned.stem)


ADOPT_AND_DIE = """
import os, signal, sys
from pathlib import Path
from online.plugins.encoder_tuning import adoption
from online.plugins.encoder_tuning import reencoding
from online.settings import Settings
from online.state.workspace import Workspace

call, tuned = sys.argv[1:]
module, function = call.split(".")
calls = vars({"adoption": adoption, "reencoding": reencoding}[module])
assert function in calls, call
calls[function] = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
workspace = Workspace(Settings.model_validate_json(sys.stdin.read()))
adoption.adopt(workspace, workspace.settings.models[0], Path(tuned), lambda what, done, of: None)
"""


def adopt_killed(workspace: Workspace, call: str, tuned: Path) -> None:
    """Adopt an encoder in another process, which is killed when it calls `call`, a MODULE.FUNCTION."""
    command, settings = [launcher(), "-c", ADOPT_AND_DIE, call, str(tuned)], workspace.settings.dump_with_secrets()
    assert subprocess.run(command, input=settings, text=True, check=False, timeout=120).returncode == -signal.SIGKILL


def send_feedback(service: Service) -> list[tuple[str, str]]:
    """Predict a few texts and send a label for each. Returns (text, label)."""
    examples = orders()[:20]
    client = service.client("bar")
    ids = client.predict([text for text, _ in examples])["prediction_ids"]
    client.feedback([{"prediction_id": id, "label": drink} for id, (_, drink) in zip(ids, examples, strict=True)])
    wait_all_learned(service, "bar")
    return examples


@pytest.mark.long
@pytest.mark.parametrize("call", ["adoption.check_gate", "reencoding.finish_move"])
def test_a_process_killed_before_the_switch_has_changed_nothing(start: Start, call: str) -> None:
    service = start(BAR)
    send_feedback(service)
    with open_workspace(service) as workspace:
        tuned = write_encoder(workspace)
        adopt_killed(workspace, call, tuned)
        receipt = service.client("bar").feedback([{"input": "one more tea", "label": "tea"}])[0]
        service.wait_learned("bar", receipt["offset"])
        assert_one_encoder(workspace, "")
        adopt(workspace, workspace.settings.models[0], tuned, ignore_progress)
        assert_one_encoder(workspace, tuned.stem)
        service.stop()


@pytest.mark.parametrize(
    "killed", [*(pytest.param(each, marks=pytest.mark.long) for each in ("none", "learner")), "service"]
)
@pytest.mark.long
def test_the_switch_is_completed_if_any_process_is_killed_right_after_it(start: Start, killed: str) -> None:
    service = start(BAR)
    send_feedback(service)
    until(service.learner_pid)
    with open_workspace(service) as workspace:
        tuned = write_encoder(workspace)
        adopt_killed(workspace, "adoption.wait_for_version", tuned)
        if killed == "learner":
            service.kill_learner()
        if killed == "service":
            service.process.kill()
            service.process.wait()
            service = start(BAR)
        receipt = service.client("bar").feedback([{"input": "one more tea", "label": "tea"}])[0]
        service.wait_learned("bar", receipt["offset"])
        service.stop()
        assert_one_encoder(workspace, tuned.stem)


@pytest.mark.long
@pytest.mark.parametrize("restarted", [False, True])
def test_the_old_version_answers_with_its_own_encoder_until_another_is_learned(start: Start, restarted: bool) -> None:
    service = start(BAR)
    (text, _), *_ = send_feedback(service)
    before = service.client("bar").predict([text])
    service.stop()
    service = start(BAR, flags=("--no-learner",))
    client = service.client("bar")
    with open_workspace(service) as workspace:
        tuned = write_encoder(workspace)
        adopt_killed(workspace, "adoption.wait_for_version", tuned)
        if restarted:
            service.process.kill()
            service.process.wait()
            service = start(BAR, flags=("--no-learner",))
            client = service.client("bar")
        current = client.predict([text])
        assert current["predictions"] == before["predictions"] and current["model_version"] == before["model_version"]
        client.label(current["prediction_ids"][0], "tea")
        client.retract(client.feedback([{"input": "what is new here", "label": "milk"}])[0]["id"])
        with pytest.raises(ClientError, match="with other options"):
            client.roll_back(before["model_version"])
        wait_for_version(workspace, workspace.settings.models[0], ignore_progress)
        wait_all_learned(service, "bar")
        service.stop()
        assert_one_encoder(workspace, tuned.stem)


def test_features_of_another_encoder_are_not_written(tmp_path: Path) -> None:
    spec = {"name": "m", "kind": "classifier"}
    workspace = Workspace(Settings.model_validate({"state": tmp_path / "state", "models": [spec]}))
    with closing(workspace.store):
        workspace.store.submit(lambda connection: begin_move(connection, "m", "f" * 64, 7)).result()
        with pytest.raises(EncoderMoved, match="has changed in the meantime"):
            workspace.store.submit(lambda connection: check_encoder(connection, "m", "")).result()
        assert workspace.store.read(lambda connection: encoder_since(connection, "m")) == 7
        assert workspace.options(workspace.settings.models[0]) == {"encoder": "f" * 64}


@pytest.mark.long
def test_a_service_tunes_its_encoder_by_itself_and_stops_at_once(start: Start) -> None:
    service = start(BAR + '[[models]]\nname = "rv"\nkind = "river"\n', encoder_adapt=True, encoder_adapt_every_s=0.2)
    assert service.http.get("/v1/models/bar").json()["adaptation"] is None
    assert "adaptation" not in service.http.get("/v1/models/rv").json()
    client, enough = service.client("bar"), orders()[:MIN_JUDGED]
    events = client.events(timeout_s=120)
    client.feedback([{"input": text, "label": drink} for text, drink in enough])
    outcome = next(data for name, data in events if name == "adapted")
    assert outcome["judged"] == len(enough)
    adaptation = client.status()["adaptation"] or {}
    assert adaptation["judged_until"] == len(enough) and adaptation["gained"] == outcome["gained"]
    assert client.status()["encoder"] == outcome["encoder"] == adaptation["encoder"]
    assert (outcome["version"] is not None) == outcome["better"]
    client.feedback([{"input": f"{text}, please", "label": drink} for text, drink in enough])
    pids = until(lambda: re.findall(r"tuning model=bar pid=(\d+)", service.output)[1:], what="another attempt")
    assert service.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0]), 0)
    assert "model=rv" not in "".join(line for line in service.output.splitlines() if "tuner" in line)


@pytest.mark.long
def test_the_adapt_command_works_with_a_running_service(start: Start, tmp_path: Path) -> None:
    service = start(BAR)
    flags = ["--state", str(service.state), "--config", str(tmp_path / "state.toml")]
    too_few = run_online("adapt", *flags)
    assert too_few.returncode == 2 and "0 questions have feedback" in too_few.stderr
    send_feedback(service)
    with open_workspace(service) as workspace:
        adopt(workspace, workspace.settings.models[0], write_encoder(workspace), ignore_progress)
        with workspace.lock_adapting():
            refused = run_online("adapt", "--frozen", *flags)
        assert refused.returncode == 2 and "another `online adapt` is at work" in refused.stderr
        adopted = run_online("adapt", "--frozen", *flags)
        assert adopted.returncode == 0 and "is live, with the frozen encoder" in adopted.stdout, adopted.stderr
        service.stop()
        assert_one_encoder(workspace, "")


def test_a_model_without_texts_has_no_encoder_to_tune(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "online.toml").write_text('[[models]]\nname = "rv"\nkind = "river"\n')
    done = run_online("adapt", "--state", str(tmp_path / "state"), "--config", str(tmp_path / "online.toml"))
    assert done.returncode == 2 and "rv does not read texts, so it has no text encoder to tune" in done.stderr


def test_an_encoder_named_in_a_file_is_refused(tmp_path: Path) -> None:
    spec = {"name": "m", "kind": "ranker", "options": {"encoder": "0" * 64}}
    workspace = Workspace(Settings.model_validate({"state": tmp_path / "state", "models": [spec]}))
    with closing(workspace.store), pytest.raises(SetupError, match="set by `online adapt`"):
        workspace.options(workspace.settings.models[0])
