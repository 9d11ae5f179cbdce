"""Another encoder, for a service that runs or stands still: all of one encoder, proven before, and the way back."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from online.client import ClientError
from online.errors import EncoderMoved, SetupError
from online.learning.adapting import read_all
from online.learning.adopting import Attempt, adopt, learned
from online.learning.learner import Pupil
from online.models import create, minilm, recipe
from online.models.adapter import Tuning
from online.models.encoder import TextEncoder
from online.settings import Settings, load
from online.store import PREDICTIONS, begin_move, check_encoder, encoder_of, encoder_since
from online.workspace import Workspace, cache_folder
from tests.conftest import Start
from tests.learning.test_adapting import DRINKS, QUICK, orders
from tests.support import Service, run_online, until

BAR = '[[models]]\nname = "bar"\nkind = "classifier"\n'
CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'


def settings_of(service: Service) -> Settings:
    return load(service.state.parent / f"{service.state.name}.toml", state=service.state)


def opened(service: Service) -> Iterator[Workspace]:
    made = Workspace(settings_of(service))
    with closing(made.store):
        yield made


def tick(what: str, done: int, of: int) -> None:
    """Nobody watches."""


def live(workspace: Workspace, name: str) -> Any:
    snapshots = workspace.snapshots(name)
    now = snapshots.live()
    assert now is not None
    return snapshots.manifest(now.version)


def any_encoder(workspace: Workspace) -> Path:
    """Tuned to nothing in particular."""
    weights = minilm.read_weights(minilm.package_folder())
    name = f"encoder.layer.{minilm.LAYERS - 1}.output.dense.weight"
    return minilm.write_tuned(workspace.encoders, {name: weights[name] * 1.5})


def features_in(workspace: Workspace, name: str) -> list[tuple[bytes, str]]:
    with closing(workspace.sql_stream(name)) as stream:
        return [(entry.event.features, entry.event.id) for entry in stream.read(0, 10_000)]


def test_a_proven_encoder_is_taken_up_and_serves(start: Start) -> None:
    service = start(BAR)
    client = service.client("bar")
    receipts = client.feedback([{"input": text, "label": drink} for text, drink in orders()])
    client.wait_until_learned(receipts[-1]["offset"], 60)
    asked = client.predict(["bring me rum instead of tea"])
    before = service.versions("bar")[0]
    service.stop()
    for workspace in opened(service):
        outcome = Attempt(workspace, "bar", QUICK).run(True, tick)
        assert outcome.verdict is not None and outcome.verdict.better and outcome.verdict.judged == len(orders())
        assert outcome.version == live(workspace, "bar").version
        assert outcome.encoder[:16] in live(workspace, "bar").feature_epoch

    again = start(BAR)
    client = again.client("bar")
    answered = client.predict([text for text, _ in orders()])
    assert answered["model_version"] == str(outcome.version)
    right = [given["label"] == drink for given, (_, drink) in zip(answered["predictions"], orders(), strict=True)]
    assert sum(right) > 0.8 * len(right)
    receipt = client.label(asked["prediction_ids"][0], "rum")  # asked of the frozen encoder, learned by the tuned one
    client.wait_until_learned(receipt["offset"], 60)
    assert client.predict(["bring me rum instead of tea"])["predictions"][0]["label"] == "rum"
    retracted = client.retract(receipt["id"])
    client.wait_until_learned(retracted["offset"], 60)
    again.stop()
    for workspace in opened(again):
        taught = live(workspace, "bar").state_sha256
        encoder = TextEncoder(workspace.state / "cache", tuned=workspace.encoders / f"{outcome.encoder}.safetensors")
        assert {data for data, _ in features_in(workspace, "bar")} <= {
            *encoder.encode([text for text, _ in orders()]),
            *encoder.encode(["bring me rum instead of tea"]),
        }
        Attempt(workspace, "bar").go_back(tick)
        assert live(workspace, "bar").state_sha256 == before["state_sha256"] != taught
        assert live(workspace, "bar").feature_epoch == before["feature_epoch"] == TextEncoder.epoch


def test_a_ranker_learns_all_of_its_log_anew(start: Start) -> None:
    service = start(CHAT)
    client = service.client("chat")
    asked = client.predict(["Can I charge my car?"])
    receipt = client.teach(asked["prediction_ids"][0], "Two chargers stand behind the library.")
    client.wait_until_learned(receipt["offset"], 60)
    taken_back = client.retract(client.reward(client.predict(["Is there wifi?"])["prediction_ids"][0], 1.0)["id"])
    client.wait_until_learned(taken_back["offset"], 60)
    service.stop()
    for workspace in opened(service):
        spec = workspace.settings.models[0]
        version = adopt(workspace, spec, any_encoder(workspace), tick)
        shown = live(workspace, "chat")
        assert (shown.version, shown.learned_until) == (version, taken_back["offset"])
        assert shown.feature_epoch == create("ranker", workspace.options(spec)).feature_epoch() != TextEncoder.epoch
    client = start(CHAT).client("chat")
    choice = client.predict(["Can I charge my car?"])["predictions"][0]
    assert choice["reply"] is not None and choice["reply"]["text"] == "Two chargers stand behind the library."


def test_what_is_not_proven_changes_nothing(start: Start) -> None:
    service = start(BAR)
    receipts = service.client("bar").feedback(
        [{"input": f"{text}, {n}", "label": DRINKS[n % 7]} for n, (text, _) in enumerate(orders())]
    )
    service.client("bar").wait_until_learned(receipts[-1]["offset"], 60)
    service.stop()
    for workspace in opened(service):
        before, features = live(workspace, "bar"), features_in(workspace, "bar")
        outcome = Attempt(workspace, "bar", Tuning(epochs=1)).run(True, tick)
        assert outcome.verdict is not None and not outcome.verdict.better and outcome.version is None
        assert live(workspace, "bar") == before and features_in(workspace, "bar") == features
        assert workspace.store.read(lambda connection: encoder_of(connection, "bar")) == ""


class Traffic:
    """Asks and teaches without a pause until told to stop; remembers what failed."""

    def __init__(self, service: Service) -> None:
        self.failures = list[str]()
        self.versions = [[0], [0]]  # that answered, in the order of each thread
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._go, args=(service.url, n)) for n in range(2)]
        for thread in self._threads:
            thread.start()

    def _go(self, url: str, lane: int) -> None:
        number = 0
        with httpx.Client(base_url=url, timeout=30) as http:
            while not self._stop.is_set():
                number += 1
                drink, words = DRINKS[number % 7], f"I would like number {lane}.{number % 60}"
                asked = self._sent(http, ":predict", {"instances": [f"{words}, please"]})
                rewarded = {"prediction_id": asked["prediction_ids"][0], "label": drink}
                self._sent(http, ":feedback", {"feedback": [rewarded, {"input": words, "label": drink}]})
                self.versions[lane].append(int(asked["model_version"]))

    def _sent(self, http: httpx.Client, verb: str, body: Any) -> Any:
        response = http.post(f"/v1/models/bar{verb}", json=body)
        if response.status_code >= 300:
            self.failures.append(response.text)
        return response.json()

    def go_on(self, count: int) -> None:
        """Return after so many more turns."""
        then = len(self.versions[0])
        until(lambda: len(self.versions[0]) >= then + count or self.failures)

    def wait_for(self, version: int) -> None:
        """Return once it answers, or one after it."""
        until(lambda: self.versions[0][-1] >= version or self.failures)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def check_all_is_of_one_encoder(workspace: Workspace, encoder: str) -> None:
    """Every feature in the store is that of its text, and the live version that of the log learned from nothing."""
    name, spec = workspace.settings.models[0].name, workspace.settings.models[0]
    assert workspace.store.read(lambda connection: encoder_of(connection, name)) == encoder
    made = TextEncoder(cache_folder(), tuned=workspace.tuned(encoder))
    said = read_all(workspace.store, name)
    for each in said:
        assert each.event.features == (made.encode([each.text])[0] if each.text else b""), each
    asked = workspace.store.read(lambda c: c.execute(select(PREDICTIONS.c.input, PREDICTIONS.c.features)).all())
    for text, features in asked:
        assert features == made.encode([json.loads(text)])[0], text
    pupil = Pupil(spec.kind, workspace.options(spec), "cpu", lambda until: ())
    pupil.apply([each.entry for each in said])
    shown = live(workspace, name)
    assert shown.learned_until == len(said) and shown.recipe == recipe(spec.kind, workspace.options(spec))
    assert shown.state_sha256 == pupil.model.fingerprint()


def wait_all_learned(service: Service, name: str) -> None:
    service.wait_learned(name, service.http.get(f"/v1/models/{name}").json()["head"])


@pytest.mark.parametrize("where", ["one file", "postgres and redis"])
def test_an_encoder_is_taken_up_under_traffic_and_nobody_notices(
    start: Start, where: str, request: pytest.FixtureRequest
) -> None:
    elsewhere = {"store": "postgres_url", "stream": "redis_url"} if where != "one file" else {}
    service = start(BAR, **{name: request.getfixturevalue(fixture) for name, fixture in elsewhere.items()})
    service.client("bar").feedback([{"input": text, "label": drink} for text, drink in orders()])
    wait_all_learned(service, "bar")
    traffic = Traffic(service)
    for workspace in opened(service):
        spec, tuned = workspace.settings.models[0], any_encoder(workspace)
        for encoder in (tuned, None, tuned):
            traffic.go_on(25)
            traffic.wait_for(adopt(workspace, spec, encoder, tick))
        assert service.http.get("/v1/models/bar").json()["encoder"] == tuned.stem
        traffic.stop()
        wait_all_learned(service, "bar")
        assert traffic.failures == []
        assert all(versions == sorted(versions) for versions in traffic.versions)
        service.stop()
        check_all_is_of_one_encoder(workspace, tuned.stem)


KILLED = """
import json, os, signal, sys
from pathlib import Path
from online.learning import adopting
from online.settings import Settings
from online.workspace import Workspace

at, tuned = sys.argv[1:]
setattr(adopting, at, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
workspace = Workspace(Settings.model_validate_json(sys.stdin.read()))
adopting.adopt(workspace, workspace.settings.models[0], Path(tuned), lambda what, done, of: None)
"""


def adopt_killed(workspace: Workspace, at: str, tuned: Path) -> None:
    """Another process takes an encoder up, and is killed in the moment it calls `at`."""
    command, given = [sys.executable, "-c", KILLED, at, str(tuned)], workspace.settings.model_dump_json()
    assert subprocess.run(command, input=given, text=True, check=False, timeout=120).returncode == -signal.SIGKILL


def taught(service: Service) -> list[tuple[str, str]]:
    """A few questions, answered and taught."""
    asked = orders()[:20]
    client = service.client("bar")
    ids = client.predict([text for text, _ in asked])["prediction_ids"]
    client.feedback([{"prediction_id": id, "label": drink} for id, (_, drink) in zip(ids, asked, strict=True)])
    wait_all_learned(service, "bar")
    return asked


@pytest.mark.parametrize("at", ["check_gate", "finish_move"])
def test_who_is_killed_before_the_switch_has_changed_nothing(start: Start, at: str) -> None:
    service = start(BAR)
    taught(service)
    for workspace in opened(service):
        tuned = any_encoder(workspace)
        adopt_killed(workspace, at, tuned)
        receipt = service.client("bar").feedback([{"input": "one more tea", "label": "tea"}])[0]
        service.wait_learned("bar", receipt["offset"])
        check_all_is_of_one_encoder(workspace, "")
        adopt(workspace, workspace.settings.models[0], tuned, tick)
        check_all_is_of_one_encoder(workspace, tuned.stem)
        service.stop()


@pytest.mark.parametrize("gone", ["nobody", "learner", "service"])
def test_whoever_is_killed_right_after_the_switch_it_is_completed(start: Start, gone: str) -> None:
    service = start(BAR)
    taught(service)
    until(service.learner_pid)
    for workspace in opened(service):
        tuned = any_encoder(workspace)
        adopt_killed(workspace, "learned", tuned)
        if gone == "learner":
            service.kill_learner()
        if gone == "service":
            service.process.kill()
            service.process.wait()
            service = start(BAR)
        receipt = service.client("bar").feedback([{"input": "one more tea", "label": "tea"}])[0]
        service.wait_learned("bar", receipt["offset"])
        service.stop()
        check_all_is_of_one_encoder(workspace, tuned.stem)


@pytest.mark.parametrize("started_again", [False, True])
def test_until_another_version_is_learned_the_old_one_answers_by_its_own_encoder(
    start: Start, started_again: bool
) -> None:
    service = start(BAR)
    (text, _), *_ = taught(service)
    before = service.client("bar").predict([text])
    service.stop()
    service = start(BAR, flags=("--no-learner",))
    client = service.client("bar")
    for workspace in opened(service):
        tuned = any_encoder(workspace)
        adopt_killed(workspace, "learned", tuned)
        if started_again:
            service.process.kill()
            service.process.wait()
            service = start(BAR, flags=("--no-learner",))
            client = service.client("bar")
        now = client.predict([text])
        assert now["predictions"] == before["predictions"] and now["model_version"] == before["model_version"]
        client.label(now["prediction_ids"][0], "tea")
        client.retract(client.feedback([{"input": "what is new here", "label": "milk"}])[0]["id"])
        with pytest.raises(ClientError, match="by other options"):
            client.roll_back(before["model_version"])
        learned(workspace, workspace.settings.models[0], tick)
        wait_all_learned(service, "bar")
        service.stop()
        check_all_is_of_one_encoder(workspace, tuned.stem)


def test_features_of_another_encoder_are_not_written(tmp_path: Path) -> None:
    spec = {"name": "m", "kind": "classifier"}
    workspace = Workspace(Settings.model_validate({"state": tmp_path / "state", "models": [spec]}))
    with closing(workspace.store):
        workspace.store.submit(lambda connection: begin_move(connection, "m", "f" * 64, 7)).result()
        with pytest.raises(EncoderMoved, match="another encoder by now"):
            workspace.store.submit(lambda connection: check_encoder(connection, "m", "")).result()
        assert workspace.store.read(lambda connection: encoder_since(connection, "m")) == 7
        assert workspace.options(workspace.settings.models[0]) == {"encoder": "f" * 64}


def test_a_service_tunes_its_encoder_by_itself_and_stops_at_once(start: Start) -> None:
    service = start(BAR + '[[models]]\nname = "rv"\nkind = "river"\n', encoder_adapt=True, encoder_adapt_every_s=0.2)
    assert service.http.get("/v1/models/bar").json()["adaptation"] is None
    assert "adaptation" not in service.http.get("/v1/models/rv").json()
    client = service.client("bar")
    told = client.events(timeout_s=120)
    client.feedback([{"input": text, "label": drink} for text, drink in orders()])
    outcome = next(data for name, data in told if name == "adapted")
    assert outcome["judged"] == len(orders())
    adaptation = client.status()["adaptation"] or {}
    assert adaptation["judged_until"] == len(orders()) and adaptation["gained"] == outcome["gained"]
    assert client.status()["encoder"] == outcome["encoder"] == adaptation["encoder"]
    assert (outcome["version"] is not None) == outcome["better"]
    client.feedback([{"input": f"{text}, please", "label": drink} for text, drink in orders()])
    pids = until(lambda: re.findall(r"tuning model=bar pid=(\d+)", service.output)[1:], what="another attempt")
    assert service.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0]), 0)
    assert "model=rv" not in "".join(line for line in service.output.splitlines() if "tuner" in line)


def test_adapting_by_hand_beside_a_running_service(start: Start, tmp_path: Path) -> None:
    service = start(BAR)
    flags = ["--state", str(service.state), "--config", str(tmp_path / "state.toml")]
    looked = run_online("adapt", *flags)
    assert looked.returncode == 2 and "0 questions were taught" in looked.stderr
    taught(service)
    for workspace in opened(service):
        adopt(workspace, workspace.settings.models[0], any_encoder(workspace), tick)
        with workspace.lock_adapting():
            refused = run_online("adapt", "--frozen", *flags)
        assert refused.returncode == 2 and "another `online adapt` is at work" in refused.stderr
        done = run_online("adapt", "--frozen", *flags)
        assert done.returncode == 0 and "is live, with the frozen encoder" in done.stdout, done.stderr
        service.stop()
        check_all_is_of_one_encoder(workspace, "")


def test_a_model_without_texts_has_no_encoder_to_tune(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "online.toml").write_text('[[models]]\nname = "rv"\nkind = "river"\n')
    done = run_online("adapt", "--state", str(tmp_path / "state"), "--config", str(tmp_path / "online.toml"))
    assert done.returncode == 2 and "rv is a river that reads no texts" in done.stderr


def test_an_encoder_named_in_a_file_is_refused(tmp_path: Path) -> None:
    spec = {"name": "m", "kind": "ranker", "options": {"encoder": "0" * 64}}
    workspace = Workspace(Settings.model_validate({"state": tmp_path / "state", "models": [spec]}))
    with closing(workspace.store), pytest.raises(SetupError, match="set by `online adapt`"):
        workspace.options(workspace.settings.models[0])
