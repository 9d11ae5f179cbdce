"""The options a model is created with, and the check that its kind matches its history."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from online.errors import CorruptSnapshot, SetupError
from online.learning.process import run_learner
from online.models import create, recipe
from online.models.contract import unpack_json
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.state.signing_keys import rotate_signing_keys
from online.state.workspace import Workspace
from online.store import Store
from online.store.events import append_events
from tests.conftest import Start
from tests.support import run_online, until


@pytest.mark.parametrize(("kind", "is_signed"), [("river", True), ("best_of", True), ("classifier", False)])
def test_only_kinds_with_a_signed_state_receive_keys(kind: str, is_signed: bool, tmp_path: Path) -> None:
    workspace = Workspace(Settings(state=tmp_path))
    options = workspace.options(ModelSettings(name="sensor", kind=kind, options={"input": "table"}))
    key = {"key": workspace.keys.derive_keys("river", "sensor")} if is_signed else {}
    assert options == {"input": "table", **key}


def open_with_kind(folder: Path, kind: str, options: dict[str, str] | None = None) -> Workspace:
    model = ModelSettings(name="sensor", kind=kind, options={"input": "table"} if options is None else options)
    return Workspace(Settings(state=folder, models=(model,)))


def test_a_model_without_a_history_may_become_another_kind(tmp_path: Path) -> None:
    for kind in ("classifier", "knn"):
        workspace = open_with_kind(tmp_path, kind)
        workspace.check_kinds()
        workspace.store.close()


def test_a_model_with_a_history_cannot_become_another_kind(tmp_path: Path) -> None:
    workspace = open_with_kind(tmp_path, "classifier")
    workspace.check_kinds()
    event = Event("first", "label", b"{}", "a")
    workspace.store.submit(lambda connection: append_events(connection, "sensor", [event])).result()
    workspace.store.close()
    reopened = open_with_kind(tmp_path, "knn")
    with pytest.raises(SetupError, match=r'configured as a knn.*history as a classifier; set kind = "classifier"'):
        reopened.check_kinds()
    reopened.store.close()


def test_a_model_with_a_history_may_change_its_options(tmp_path: Path) -> None:
    workspace = open_with_kind(tmp_path, "classifier")
    workspace.check_kinds()
    event = Event("first", "label", b"{}", "a")
    workspace.store.submit(lambda connection: append_events(connection, "sensor", [event])).result()
    workspace.store.close()
    reopened = open_with_kind(tmp_path, "classifier", {"input": "table", "head": "ridge"})
    reopened.check_kinds()
    reopened.store.close()


@contextmanager
def running_learner(workspace: Workspace) -> Iterator[None]:
    (spec,), stop = workspace.settings.models, threading.Event()
    learner = threading.Thread(target=run_learner, args=(workspace, spec, "cpu", stop))
    learner.start()
    try:
        yield
    finally:
        stop.set()
        learner.join()


def wait_learned(workspace: Workspace, offset: int) -> None:
    """Wait until a version that has learned this offset is live."""
    (spec,) = workspace.settings.models
    wanted = recipe(spec.kind, workspace.options(spec))
    until(lambda: workspace.snapshots(spec.name).folder.live_until(wanted) >= offset, what="learning")


@pytest.fixture
def river(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace whose river model has learned two versions."""
    workspace = open_with_kind(tmp_path / "state", "river", {})
    with running_learner(workspace):
        for number in (1, 2):
            append_label(workspace, number)
            wait_learned(workspace, number)
    yield workspace
    workspace.store.close()


def append_label(workspace: Workspace, number: int) -> None:
    event = Event(f"e{number}", "label", b'{"x": %d}' % number, "ab"[number % 2])
    workspace.store.submit(lambda connection: append_events(connection, "sensor", [event])).result()
    workspace.event_wakeup("sensor").notify()


def copy_version(workspace: Workspace, source: int, target: int) -> None:
    """Put the files of one version into the place of another, and adapt its manifest."""
    folder = workspace.snapshots("sensor").folder.path
    shutil.rmtree(folder / str(target))
    shutil.copytree(folder / str(source), folder / str(target))
    manifest = folder / str(target) / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": target}))


def test_a_river_state_is_bound_to_its_version(river: Workspace) -> None:
    """Who can write files could otherwise put an older pickle into the place of a newer one."""
    first, *_, last = river.snapshots("sensor").folder.versions()
    copy_version(river, first, last)
    with pytest.raises(CorruptSnapshot, match="not signed by this installation, or for another version"):
        river.snapshots("sensor").folder.load(last)
    assert river.snapshots("sensor").folder.load(first)


def test_a_version_without_its_signature_is_refused(river: Workspace) -> None:
    snapshots = river.snapshots("sensor")
    last = snapshots.folder.versions()[-1]
    (snapshots.folder.path / str(last) / "signature").unlink()
    with pytest.raises(CorruptSnapshot, match="not signed by this installation"):
        snapshots.folder.load(last)


def test_a_river_state_is_bound_to_its_model(river: Workspace) -> None:
    state = river.snapshots("sensor").folder.load(river.snapshots("sensor").folder.versions()[-1]).parts
    create("river", river.options(river.settings.models[0])).restore(state)
    with pytest.raises(ValueError, match="signature does not match"):
        create("river", river.options(ModelSettings(name="other", kind="river"))).restore(state)


def test_a_running_learner_signs_with_a_rotated_key_and_keeps_what_it_has_learned(
    river: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "online.learner")
    with running_learner(river):
        until(lambda: "resumed" in caplog.text, what="the learner's start")
        (rotated,) = rotate_signing_keys(river.state, ["river"])
        until(lambda: "started again" in caplog.text, what="the learner's notice")
        append_label(river, 3)
        wait_learned(river, 3)
    snapshots = river.snapshots("sensor")
    last = snapshots.folder.versions()[-1]
    loaded = snapshots.folder.load(last)
    assert (snapshots.folder.path / str(last) / "signature").read_text().startswith(rotated.id)
    assert loaded.manifest.metrics["events"] == 3 and loaded.manifest.parent is not None
    assert unpack_json(loaded.parts["estimator"].tensors["meta"])["hmac"].startswith(rotated.id)


def test_only_its_user_can_read_what_a_service_writes(start: Start, tmp_path: Path) -> None:
    service = start()
    answer = service.http.post("/v1/models/vec:predict", json={"instances": [[1.0, 0.0, 0.0, 0.0]]}).json()
    feedback = {"prediction_id": answer["prediction_ids"][0], "label": "a"}
    receipt = service.http.post("/v1/models/vec:feedback", json={"feedback": [feedback]}).json()["receipts"][0]
    service.http.get("/v1/models/vec", params={"min_offset": receipt["offset"], "timeout_ms": 30_000})
    written = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert {"online.db", "keys.json", "manifest.json"} <= {path.name for path in written}
    assert [path for path in written if not path.is_symlink() and path.stat().st_mode & 0o077] == []


FIRST_COMMANDS = [
    ("keys", "create", "--name", "web"),
    ("keys", "list"),
    ("audit", "list"),
    ("versions", "--model", "chat"),
    ("log", "export", "--model", "chat"),
    ("label", "best", "latest", "--model", "chat"),
]


def others_can_read(state: Path) -> list[str]:
    """The files of a state folder, and the folder itself, that not only its user can read."""
    written = [path for path in (state, *state.rglob("*")) if not path.is_symlink()]
    return [path.name for path in written if path.stat().st_mode & 0o077]


@pytest.mark.parametrize("command", FIRST_COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_only_its_user_can_read_what_the_first_command_writes(tmp_path: Path, command: tuple[str, ...]) -> None:
    state = tmp_path / "state"
    run_online(*command, "--state", str(state), umask=0o022, cwd=tmp_path)
    assert not state.exists() or others_can_read(state) == []


def test_what_others_could_read_in_a_state_folder_is_made_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    run_online("keys", "create", "--name", "web", "--state", str(state), umask=0o022)
    (state / "jobs").mkdir()
    for path in (state, *state.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    run_online("keys", "list", "--state", str(state), umask=0o022)
    assert others_can_read(state) == []


def test_a_store_outside_the_state_folder_is_private(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/elsewhere.db")
    store.submit(lambda connection: None).result()
    assert [path.name for path in tmp_path.glob("elsewhere.db*") if path.stat().st_mode & 0o077] == []
    store.close()
