"""`online load` lets a model begin with the rows of files."""

import json
from pathlib import Path

import pytest

from online.errors import SetupError
from online.learning.history import check_can_load
from online.models import create
from online.settings import ModelSettings
from tests.learning.scene import VECTOR, Scene, vector_events
from tests.support import run_online

MODEL = '[[models]]\nname = "m"\nkind = "classifier"\noptions = { input = "vector", size = 3, scale = 4.0 }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "online.toml").write_text(f'state = "{tmp_path}/state"\n{MODEL}')
    rows = [{"input": [n % 2 - 0.5, n % 5 / 5, 1.0], "label": "ab"[n % 2]} for n in range(500)]
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_learner_begins_with_what_was_loaded_and_learns_on(folder: Path) -> None:
    done = run_online("load", "history.jsonl", "--model", "m", "--processes", "1", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert loaded["examples"] == 500
    scene = Scene(folder)
    assert scene.fingerprint() == loaded["sha256"]
    assert scene.live_until() == 0
    scene.learn(*vector_events(20))
    assert scene.fingerprint() != loaded["sha256"]
    before = scene.fingerprint()
    assert scene.start_learner().training.model.fingerprint() == before


def test_a_history_is_not_used_by_a_model_with_other_options(folder: Path) -> None:
    assert run_online("load", "history.jsonl", "--processes", "1", cwd=folder).returncode == 0
    scene = Scene(folder, options={**VECTOR, "shrinkage": 0.5})
    assert scene.fingerprint() == create("classifier", {**VECTOR, "shrinkage": 0.5}).fingerprint()


def test_a_model_that_has_begun_is_refused_and_keeps_its_versions(folder: Path) -> None:
    scene = Scene(folder)
    scene.learn(*vector_events(5))
    scene.workspace.store.close()
    done = run_online("load", "history.jsonl", "--processes", "1", cwd=folder)
    assert done.returncode == 2
    assert "a history comes before the first" in done.stderr
    assert not scene.snapshots.has_base


def test_a_load_that_fails_leaves_no_base(folder: Path) -> None:
    with (folder / "history.jsonl").open("a") as file:
        file.write("nonsense\n")
    done = run_online("load", "history.jsonl", "--processes", "1", cwd=folder)
    assert done.returncode == 2
    assert "history.jsonl, line 501" in done.stderr
    assert not (folder / "state" / "snapshots" / "m" / "base").exists()


def test_a_kind_without_sums_is_refused_by_name(tmp_path: Path) -> None:
    options = {"input": "vector", "size": 3}
    scene = Scene(tmp_path, "logistic", options)
    spec = ModelSettings.model_validate({"name": "m", "kind": "logistic", "options": options})
    with pytest.raises(SetupError, match="'m' is a logistic, whose examples cannot be summed apart"):
        check_can_load(scene.workspace, spec, options)


def test_serving_at_an_address_for_workers_without_a_key_is_refused_at_the_start(folder: Path) -> None:
    done = run_online("serve", "--set", "learn_address=127.0.0.1:7000", "--port", "0", cwd=folder)
    assert done.returncode == 2
    assert "set workers_key" in done.stderr
