"""`online export` writes a folder that answers as served, or nothing."""

import hashlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from online.plugins.export.formats import FORMATS
from online.plugins.export.learner_file import read_learner_file
from tests.conftest import config
from tests.preload import launcher
from tests.support import Service, run_online, until

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "export-a-model.md"
MODELS = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }

[[models]]
name = "txt"
kind = "majority"

[[models]]
name = "rows"
kind = "river"
options = { estimator = "tree.HoeffdingTreeClassifier" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a stopped service."""
    folder = tmp_path_factory.mktemp("export")
    service = Service(folder / "state", config(folder, MODELS))
    for model, inputs in (("vec", [[n % 3, 1.0, 0.0, n % 2] for n in range(12)]), ("txt", ["hello"] * 3)):
        with service.client(model) as client:
            receipts = client.feedback([{"input": each, "label": f"l{n % 3}"} for n, each in enumerate(inputs)])
            client.wait_until_learned(receipts[-1]["offset"], 60)
    assert service.stop() == 0
    return folder


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run_online("export", *arguments, "--state", f"{folder}/state", "--config", f"{folder}/state.toml")


def test_a_folder_holds_the_file_and_its_manifest(folder: Path) -> None:
    process = run(folder, "vec", "--out", f"{folder}/one")
    assert process.returncode == 0, process.stderr
    assert "onnx" in process.stdout and "100.0 %" in process.stdout and f"of vec is in {folder}/one" in process.stdout
    assert sorted(path.name for path in (folder / "one").iterdir()) == ["manifest.json", "model.onnx"]
    manifest = json.loads((folder / "one" / "manifest.json").read_text())
    data = (folder / "one" / "model.onnx").read_bytes()
    assert manifest["sha256"] == hashlib.sha256(data).hexdigest() and manifest["largest_difference"] < 1e-4
    (choice,) = onnxruntime.InferenceSession(data).run(["choice"], {"numbers": np.array([[0.0, 1.0, 0.0, 0.0]])})[0]
    assert manifest["classes"][choice] == "l0"


def examples() -> list[str]:
    """The Python of the manual's page."""
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_example_of_the_manual_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "vec", "--out", f"{folder}/example").returncode == 0
    exec(examples()[0].replace("digits/", f"{folder}/example/").replace("(1, 64)", "(1, 4)"), {})
    label, chance = capsys.readouterr().out.split()
    assert label in ("l0", "l1", "l2") and 1 / 3 < float(chance) <= 1


def test_all_formats_get_a_folder_each_and_those_without_their_extra_are_left_out(folder: Path) -> None:
    process = run(folder, "vec", "--format", "all", "--out", f"{folder}/all", "--json")
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    written = [each["format"] for each in found["exports"]]
    assert {"onnx", "onnx-int8", "safetensors"} <= {*written}
    assert {*written, *found["left_out"]} == {*FORMATS}
    assert sorted(path.name for path in (folder / "all").iterdir()) == sorted(written)


def test_a_file_for_a_learner_has_the_sums_of_the_version(folder: Path) -> None:
    process = run(folder, "vec", "--format", "learner", "--out", f"{folder}/learner", "--json")
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    data = (folder / "learner" / "learner.safetensors").read_bytes()
    assert found["sha256"] == hashlib.sha256(data).hexdigest()
    assert [*read_learner_file(data).statistics.classes] == ["l0", "l1", "l2"]


def test_the_help_names_every_format() -> None:
    text = " ".join(run_online("export", "--help").stdout.split())
    assert f"{', '.join(FORMATS)}; or all" in text


@pytest.mark.long
def test_a_running_service_exports_the_same_bytes(folder: Path) -> None:
    assert run(folder, "vec", "--out", f"{folder}/stopped").returncode == 0
    service = Service(folder / "state", config(folder, MODELS))
    try:
        version = json.loads((folder / "stopped" / "manifest.json").read_text())["version"]
        response = service.http.get(f"/v1/models/vec/versions/{version}/export").raise_for_status()
        assert run(folder, "vec", "--version", str(version), "--out", f"{folder}/running").returncode == 0
        loaded = dict[str, Any]()
        code = examples()[1].replace("http://127.0.0.1:8000", service.url).replace('"digits"', '"vec"')
        exec(code.replace('"stable"', str(version)).replace("onnx-int8", "onnx"), loaded)
    finally:
        service.stop()
    files = [(folder / name / "model.onnx").read_bytes() for name in ("stopped", "running")]
    assert files == [response.content] * 2 == [loaded["file"].data] * 2
    assert loaded["manifest"]["sha256"] == hashlib.sha256(response.content).hexdigest()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("vec", "--format", "onyx"), "use one of onnx, onnx-int8, safetensors, executorch, litert"),
        (("vec", "--version", "999"), "no version 999"),
        (("vec", "--version", "best"), "no version of vec has the label 'best'"),
        (("rows",), "a model of the kind river cannot be exported: its estimator"),
        (("txt", "--format", "learner"), "only a model of kind classifier"),
        (("other",), "there is no model 'other'"),
        ((), "name the model"),
    ],
)
def test_a_refusal_says_why_and_writes_nothing(folder: Path, arguments: tuple[str, ...], reason: str) -> None:
    before = sorted(folder.iterdir())
    process = run(folder, *arguments, "--out", f"{folder}/refused")
    assert process.returncode == 2 and reason in process.stderr and "Traceback" not in process.stderr
    assert sorted(folder.iterdir()) == before


def test_a_folder_that_holds_anything_is_not_touched(folder: Path) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "letter.txt").write_text("mine")
    process = run(folder, "vec", "--out", f"{folder}/full")
    assert process.returncode == 2 and "is not an empty folder; name a new one with --out" in process.stderr
    assert [path.name for path in (folder / "full").iterdir()] == ["letter.txt"]


@pytest.mark.long
def test_an_interruption_leaves_nothing_behind(folder: Path) -> None:
    command = [launcher(), "-m", "online", "export", "vec", "--format", "all", "--out", f"{folder}/stopping"]
    flags = ["--state", f"{folder}/state", "--config", f"{folder}/state.toml"]
    before = sorted(folder.iterdir())
    process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))
    until(lambda: process.poll() is not None or list(folder.glob(".export-*")), what="the folder aside")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was done before the signal arrived")
    assert process.returncode in (130, -signal.SIGINT) and sorted(folder.iterdir()) == before
