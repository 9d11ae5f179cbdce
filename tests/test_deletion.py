"""Deleting the folder of a plugin deletes its feature and breaks nothing else; the core answers and learns without any."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from online.installed import list_plugins

ONLINE = Path(__file__).parent.parent / "online"
OURS = sorted(path.parent.name for path in (ONLINE / "plugins").glob("*/plugin.py"))
SERVE = """
import sys
from contextlib import closing
from pathlib import Path
from fastapi.testclient import TestClient
from online.api.app import create_app
from online.settings import ModelSettings, Settings

models = (
    ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2}),
    ModelSettings(name="rows", kind="logistic", options={"input": "table"}),
)
settings = Settings(state=Path(sys.argv[1]), models=models, admin_key="k" * 32)
with TestClient(create_app(settings, with_learner=False), headers={"X-API-Key": "k" * 32}) as http:
    answer = http.post("/v1/models/vec:predict", json={"instances": [[1.0, 2.0]]})
    assert answer.status_code == 200, answer.text
    item = {"prediction_id": answer.json()["prediction_ids"][0], "label": "a"}
    stored = http.post("/v1/models/vec:feedback", json={"feedback": [item]})
    assert stored.status_code == 202, stored.text
    key = http.post("/v1/keys", json={"name": "ann", "scopes": ["predict", "feedback", "teach"]}).json()["key"]
    of_ann = {"X-API-Key": key}
    answer = http.post("/v1/models/vec:predict", json={"instances": [[1.0, 2.0]]}, headers=of_ann)
    items = [{"prediction_id": answer.json()["prediction_ids"][0], "label": "a"}, {"input": [2.0, 1.0], "label": "b"}]
    stored = http.post("/v1/models/vec:feedback", json={"feedback": items}, headers=of_ann)
    assert stored.status_code == 202 and {each["status"] for each in stored.json()["receipts"]} <= {"accepted"}, stored.text
    paths = http.get("/openapi.json").json()["paths"]
from online.learning.building import create_learner
from online.state.workspace import Workspace

workspace = Workspace(settings)
model = settings.models[0]
with closing(workspace.sql_stream("vec", "")) as stream:
    learner = create_learner(workspace, model, workspace.options(model), stream, "cpu")
    learner.start()
    learner.step()
    learner.save()
    assert learner.training.learned_until == 3
print(*sorted(paths))
"""


def leave_out(names: Collection[str], folder: Path) -> Path:
    """Make a package `online` in a folder, with links to everything of ours but these plugins; return the folder."""
    plugins = folder / "online" / "plugins"
    plugins.mkdir(parents=True)
    for path in ONLINE.iterdir():
        if path.name not in ("plugins", "__pycache__"):
            (folder / "online" / path.name).symlink_to(path)
    for path in (ONLINE / "plugins").iterdir():
        if path.name not in names and path.name != "__pycache__":
            (plugins / path.name).symlink_to(path)
    return folder


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    process = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def find_dependents(name: str) -> set[str]:
    """Return a plugin and those that need it, directly or through others."""
    found = {name}
    while more := {plugin.name for plugin in list_plugins() if found & {*plugin.requires}} - found:
        found |= more
    return found


def test_the_core_alone_answers_records_and_learns(tmp_path: Path) -> None:
    folder = leave_out(OURS, tmp_path)
    paths = run(folder, "-c", SERVE, str(tmp_path / "state")).split()
    assert "/v1/models/{model}:feedback" in paths and "/v1/models/{model}/report" not in paths
    assert "replay" in run(folder, "-m", "online", "--help") and "predict " not in run(folder, "-m", "online", "--help")


def test_an_option_of_a_deleted_plugin_is_refused_with_a_remedy(tmp_path: Path) -> None:
    code = """
from online.models import create
try:
    create("classifier", {"input": "table", "challenger": {}})
except ValueError as error:
    print(error)
"""
    refusal = run(leave_out(find_dependents("ensembles"), tmp_path), "-c", code)
    assert refusal.startswith("unknown option 'challenger'; ")
    assert refusal.endswith("; remove it, or install the plugin that it is an option of\n")


@pytest.mark.long
@pytest.mark.parametrize("name", OURS)
def test_a_deleted_plugin_takes_its_feature_with_it_and_nothing_else(tmp_path: Path, name: str) -> None:
    folder = leave_out(find_dependents(name), tmp_path)
    run(folder, "-m", "online", "--help")
    assert "/v1/models/{model}:predict" in run(folder, "-c", SERVE, str(tmp_path / "state")).split()
