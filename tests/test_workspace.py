"""The options a model is created with, and the check that its kind matches its history."""

from pathlib import Path

import pytest

from online.errors import SetupError
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.store.events import append_events
from online.workspace import Workspace
from tests.conftest import Start


@pytest.mark.parametrize(("kind", "is_signed"), [("river", True), ("best_of", True), ("classifier", False)])
def test_only_kinds_with_a_signed_state_receive_the_secret(kind: str, is_signed: bool, tmp_path: Path) -> None:
    workspace = Workspace(Settings(state=tmp_path))
    options = workspace.options(ModelSettings(name="sensor", kind=kind, options={"input": "table"}))
    assert options == {"input": "table", **({"key": workspace.secret} if is_signed else {})}


def open_with_kind(folder: Path, kind: str, options: dict[str, str] | None = None) -> Workspace:
    model = ModelSettings(name="sensor", kind=kind, options=options or {"input": "table"})
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


def test_only_its_user_can_read_what_a_service_writes(start: Start, tmp_path: Path) -> None:
    service = start()
    answer = service.http.post("/v1/models/vec:predict", json={"instances": [[1.0, 0.0, 0.0, 0.0]]}).json()
    feedback = {"prediction_id": answer["prediction_ids"][0], "label": "a"}
    receipt = service.http.post("/v1/models/vec:feedback", json={"feedback": [feedback]}).json()["receipts"][0]
    service.http.get("/v1/models/vec", params={"min_offset": receipt["offset"], "timeout_ms": 30_000})
    written = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert {"online.db", "secret", "manifest.json"} <= {path.name for path in written}
    assert [path for path in written if not path.is_symlink() and path.stat().st_mode & 0o077] == []
