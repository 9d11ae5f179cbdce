"""Another encoder for a service that stands still: all of one encoder, proven before, and the way back."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from online.errors import SetupError
from online.learning.adopting import Attempt, adopt
from online.models import create, minilm
from online.models.adapter import Tuning
from online.models.encoder import TextEncoder
from online.settings import Settings, load
from online.store import encoder_of
from online.workspace import Workspace
from tests.conftest import Start
from tests.learning.test_adapting import DRINKS, QUICK, orders
from tests.support import Service, run_online

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
    assert choice["reply"]["text"] == "Two chargers stand behind the library."


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


def test_a_service_that_runs_is_not_encoded_anew(start: Start, tmp_path: Path) -> None:
    service = start(BAR, flags=("--no-learner",))
    flags = ["--state", str(service.state), "--config", str(tmp_path / "state.toml")]
    done = run_online("adapt", "--publish", *flags)
    assert done.returncode == 2 and "a service runs on it" in done.stderr and "Traceback" not in done.stderr
    looked = run_online("adapt", *flags)
    assert looked.returncode == 2 and "0 questions were taught" in looked.stderr


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
