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
from tests.serving.erasure.scene import ID, USER, ErasureScene, open_workspace, state_without_user, teach, vector
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


@pytest.mark.few(4)
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
    found = scene.snapshots.folder.load(version, serving_only=False)
    assert found.manifest.state_sha256 == expected.model.fingerprint() == statement["after"]["state_sha256"]
    assert {name: as_bytes(part) for name, part in found.parts.items()} == {
        name: as_bytes(part) for name, part in expected.state().items()
    }
    assert statement["compared"]["is_same"] or not is_subtracted
    assert scene.snapshots.folder.versions()[0] == version, "the older ones are deleted"
    scene.workspace.store.close()


def test_it_goes_on_only_from_versions_that_are_on_the_disk(tmp_path: Path) -> None:
    """It deletes the older ones, and a loss of power may damage one that is not there yet."""
    scene = ErasureScene(open_workspace(tmp_path, "classifier", EXACT))
    teach(scene, 12, vector, side)
    scene.learn()
    scene.work.begin(ID, USER, ["m"])
    while scene.work.advance(ID):
        pass
    scene.learn()
    for note in scene.snapshots.folder.path.glob("[0-9]*/on-disk"):
        note.unlink()
    versions = scene.snapshots.folder.versions()
    assert not scene.work.advance(ID), "no version that it may rely on"
    assert scene.snapshots.folder.versions() == versions
    scene.learn()
    statement = scene.erase()["models"]["m"]
    assert statement["after"]["version"] > versions[-1]
    assert scene.snapshots.folder.versions()[0] == statement["after"]["version"]
    scene.workspace.store.close()


def as_bytes(part: Any) -> dict[str, bytes]:
    return {name: np.asarray(tensor).tobytes() for name, tensor in part.tensors.items()}


@pytest.mark.parametrize("is_noticed", [True, False], ids=["set aside before", "noticed by the erasure"])
@pytest.mark.parametrize("user", [USER, "bert"], ids=["in the log", "only in the lost log"])
def test_versions_that_were_learned_from_a_lost_log_are_deleted_too(
    tmp_path: Path, user: str, is_noticed: bool
) -> None:
    scene = ErasureScene(open_workspace(tmp_path, "classifier", EXACT))
    for n in range(10):
        scene.give(user if n % 3 == 1 else "bert", f"{user}-{n}", vector(n), side(n))
    scene.learn()
    for n in range(10, 15):
        scene.give(USER, f"{USER}-{n}", vector(n), "anna's own")
    scene.learn()
    scene.lose(5)
    if is_noticed:
        scene.learn()
        assert find_in_folder(scene.snapshots.folder.path / "set-aside", {"class": b"anna's own"})
    statement = scene.erase()["models"]["m"]
    assert statement["set_aside_removed"] >= 1
    needles = {"class": b"anna's own", **{str(n): vector(n) for n in range(10, 15)}}
    assert not find_in_folder(tmp_path / "state", needles)
    notice = scene.snapshots.aside.find()
    assert notice is not None and notice.deleted and notice.versions
    assert scene.snapshots.folder.next_version() > max(notice.versions), "their numbers are not used again"
    scene.workspace.store.close()


def run_until_killed(folder: Path, kill_after: int) -> None:
    """Begin or continue the erasure in a process of its own, which kills itself after some commits."""
    ErasureScene(open_workspace(folder, "classifier", EXACT), kill_after).erase()


def test_an_erasure_that_is_killed_after_every_few_commits_ends_the_same(tmp_path: Path) -> None:
    scene = ErasureScene(open_workspace(tmp_path, "classifier", EXACT))
    teach(scene, 43, vector, side)
    scene.learn()
    scene.lose(3)
    scene.learn()
    entries, aside = scene.entries(), scene.snapshots.folder.path / "set-aside"
    scene.workspace.store.close()
    needles = {"name": b"annasophia", "class": b"anna's own", **{str(n): vector(n) for n in range(1, 43, 3)}}
    assert find_in_folder(aside, needles)
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
    live = opened.snapshots.folder.live()
    assert live is not None
    manifest = opened.snapshots.folder.manifest(live.version)
    expected = state_without_user(opened.workspace, entries, manifest.learned_until)
    assert manifest.state_sha256 == expected.model.fingerprint()
    opened.workspace.store.close()
    assert not find_in_folder(tmp_path / "state", needles)
