"""The steps of an erasure, killed after any commit: it ends in the state of a run that never saw the user."""

import multiprocessing
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from online.models import Options
from online.schemas.events import Event
from tests.learning.scene import text_features
from tests.serving.erasure.scene import ErasureScene, open_workspace, state_without_user, teach, vector
from tests.serving.erasure.searching import find_in_folder

EXACT: dict[str, Any] = {"input": "vector", "size": 3, "scale": 4.0}
FITTED: dict[str, Any] = {"input": "vector", "size": 3}


def side(n: int) -> str:
    return "ab"[n % 2]


def number(n: int) -> str:
    return str(n % 2 + n / 100) if n else "0"


def table(n: int) -> bytes:
    return b'{"x": %.3f}' % float(np.random.default_rng(n).normal(n % 2, 0.5))


def reply(n: int) -> str:
    return f"reply {n % 2}"


CASES: list[Any] = [
    pytest.param("classifier", EXACT, vector, side, True, id="classifier"),
    pytest.param("regressor", EXACT | {"target_scale": 8.0}, vector, number, True, id="regressor"),
    pytest.param("knn", FITTED, vector, side, True, id="knn"),
    pytest.param("classifier", FITTED, vector, side, None, id="a classifier whose scale is fitted"),
    pytest.param("river", {}, table, side, None, id="river"),
    pytest.param("tower", FITTED | {"hidden": [8]}, vector, side, None, id="tower"),
    pytest.param("ranker", {}, text_features, reply, True, id="ranker"),
]


@pytest.mark.parametrize(("kind", "options", "features", "label", "is_subtracted"), CASES)
def test_the_state_is_byte_for_byte_that_of_a_run_without_them(
    tmp_path: Path, kind: str, options: Options, features: Any, label: Any, is_subtracted: bool | None
) -> None:
    scene = ErasureScene(open_workspace(tmp_path, kind, options, drift="act"))
    if kind == "ranker":
        scene.append(*(Event(label(n), "reply", features(1_000 + n), label(n), f"Reply {n}.") for n in range(2)))
    teach(scene, 40, features, label)
    scene.learn()
    entries = scene.entries()
    statement = scene.erase()["models"]["m"]
    version = statement["after"]["version"]
    expected = state_without_user(scene.workspace, entries, statement["after"]["learned_until"])
    found = scene.snapshots.load(version, serving_only=False)
    assert found.manifest.state_sha256 == expected.model.fingerprint() == statement["after"]["state_sha256"]
    assert {name: as_bytes(part) for name, part in found.parts.items()} == {
        name: as_bytes(part) for name, part in expected.state().items()
    }
    assert statement["compared"]["is_same"] or not is_subtracted
    assert scene.snapshots.versions()[0] == version, "the older ones are deleted"
    scene.workspace.store.close()


def as_bytes(part: Any) -> dict[str, bytes]:
    return {name: np.asarray(tensor).tobytes() for name, tensor in part.tensors.items()}


def run_until_killed(folder: Path, kill_after: int) -> None:
    """Begin or continue the erasure in a process of its own, which kills itself after some commits."""
    ErasureScene(open_workspace(folder, "classifier", EXACT), kill_after).erase()


def test_an_erasure_that_is_killed_after_every_few_commits_ends_the_same(tmp_path: Path) -> None:
    scene = ErasureScene(open_workspace(tmp_path, "classifier", EXACT))
    teach(scene, 40, vector, side)
    scene.learn()
    entries = scene.entries()
    scene.workspace.store.close()
    rng, steps, killed = random.Random(14), set[str](), 0
    processes = multiprocessing.get_context("forkserver")  # this process has threads, whose locks a fork would copy
    processes.set_forkserver_preload([__name__])
    while True:
        child = processes.Process(target=run_until_killed, args=(tmp_path, rng.randint(1, 3)))
        child.start()
        child.join()
        killed += child.exitcode == -9
        with_erasure = ErasureScene(open_workspace(tmp_path, "classifier", EXACT))
        row, models = with_erasure.work.load("e" * 32)
        steps |= {models[0].step, row.step}
        with_erasure.workspace.store.close()
        if row.ended_at is not None:
            break
        assert child.exitcode == -9
    assert killed >= 8 and steps >= {"retract", "void", "relearn", "done"}
    opened = ErasureScene(open_workspace(tmp_path, "classifier", EXACT))
    live = opened.snapshots.live()
    assert live is not None
    manifest = opened.snapshots.manifest(live.version)
    expected = state_without_user(opened.workspace, entries, manifest.learned_until)
    assert manifest.state_sha256 == expected.model.fingerprint()
    opened.workspace.store.close()
    needles = {"name": b"annasophia", "class": b"anna's own", **{str(n): vector(n) for n in range(1, 40, 3)}}
    assert not find_in_folder(tmp_path / "state", needles)
