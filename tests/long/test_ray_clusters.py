"""Replays on Ray that are interrupted, killed and continued, and on existing clusters. See also test_ray_cluster.py."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from online.errors import SetupError
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.ray_replay import RETRIES, replay_on_ray
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.results_cache import ResultsFolder
from online.io.ray_cluster import connect
from tests.evaluation.replay.ray_scene import (  # noqa: F401
    DOOMED,
    MORTAL,
    Scene,
    count_deaths,
    ignore_message,
    two_logs,
    with_ray,
)
from tests.evaluation.replaying import KNN, LINEAR, ignore_progress, write_blobs
from tests.support import run_online, until


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("clusters"), [KNN, MORTAL, DOOMED])


def test_only_the_replay_whose_workers_always_die_fails(scene: Scene) -> None:
    assert count_deaths("doomed") == (1 + RETRIES) * len(scene.sources)
    for replayed in scene.replayed:
        assert replayed.results[2].report is None
        assert replayed.results[2].failure == f"its worker died (WorkerCrashedError), {1 + RETRIES} times"


def test_a_second_run_reuses_finished_replays_and_runs_the_rest(scene: Scene) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in (scene.folder / "replays").iterdir()}
    scene.messages.clear()
    second_run = scene.replay_all()
    assert scene.messages[0].startswith("4 of 6 replays were finished before")
    assert second_run == scene.replayed
    assert {path.name: path.stat().st_mtime_ns for path in (scene.folder / "replays").iterdir()} == before


# interruptions


def test_ctrl_c_keeps_finished_replays_and_reports_them(tmp_path: Path) -> None:
    def interrupt(what: str, done: int, of: int) -> None:
        if what.startswith("1 of"):
            raise KeyboardInterrupt

    messages = list[str]()
    sources, folder = two_logs(tmp_path), ResultsFolder.opened(tmp_path / "replays", messages.append)
    replayed = replay_on_ray("", folder, sources, [KNN, LINEAR], ScoredSpan(), interrupt)
    reports = [result.report for each in replayed for result in each.results]
    assert all(each.interrupted for each in replayed)
    assert sum(report is not None for report in reports) == 1 == len(list((tmp_path / "replays").glob("*.json")))
    assert messages == ["1 of 4 replays are finished; the same command goes on"]
    assert "interrupted before it was finished" in [result.failure for each in replayed for result in each.results]


def finished_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def test_a_killed_run_continues_where_it_stopped(tmp_path: Path, short: Path) -> None:
    log, folder = write_blobs(tmp_path, 1_500), tmp_path / "kept"
    models = [
        "--model=knn",
        *(f"--model=tower:hidden=[4],seed={seed}" for seed in range(3)),
    ]  # knn finishes long before the towers
    command = ["replay", str(log), *models, "--engine", "ray", "--results", str(folder), "--json"]
    environment = {**os.environ, "TMPDIR": str(short)}
    process = subprocess.Popen([sys.executable, "-m", "online", *command], env=environment)
    try:
        until(lambda: finished_in(folder), 120, "the first replay")
    finally:
        process.kill()
        process.wait()
    finished = {path: path.read_bytes() for path in finished_in(folder)}
    assert 0 < len(finished) < 4
    second_run = run_online(*command, env=environment)
    assert f"{len(finished)} of 4 replays were finished before" in second_run.stderr
    assert len(json.loads(second_run.stdout)["results"]) == 4 == len(finished_in(folder))
    assert {path: path.read_bytes() for path in finished} == finished


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path, because pytest's are too long for the names of Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def head(short: Path) -> Iterator[str]:
    """The address of an existing cluster."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = Path(sys.executable).with_name("ray")
    flags = ["--include-dashboard=false", "--disable-usage-stats", "--num-cpus=1", f"--temp-dir={short}", "--block"]
    process = subprocess.Popen([ray, "start", "--head", f"--port={port}", *flags], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert any("Ray runtime started" in line for line in process.stdout), "the head's start"
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def test_an_existing_cluster_is_used(head: str, tmp_path: Path) -> None:
    sources, folder = two_logs(tmp_path), ResultsFolder.opened(tmp_path / "replays", ignore_message)
    replayed = replay_on_ray(head, folder, sources, [KNN], ScoredSpan(), ignore_progress)
    assert [result.report.examples for each in replayed for result in each.results if result.report] == [300, 100]


def test_a_local_cluster_refuses_clients_without_its_token() -> None:
    code = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False); print('let in')"
    with connect("") as ray:
        address = ray.get_runtime_context().gcs_address
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        options: Any = {"capture_output": True, "text": True, "timeout": 120}
        own = subprocess.run([sys.executable, "-c", code, address], **options)
        other = subprocess.run(
            [sys.executable, "-c", code, address],
            env={**environment, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64},
            **options,
        )
    assert "let in" in own.stdout and "let in" not in other.stdout and "oken" in other.stderr


def test_a_missing_gpu_is_reported_immediately(head: str, tmp_path: Path) -> None:
    with_gpu = [CandidateSpec("knn", {}, "knn", device="cuda")]
    with pytest.raises(SetupError, match="has no GPU"):
        replay_on_ray(
            head,
            ResultsFolder.opened(tmp_path / "kept", ignore_message),
            two_logs(tmp_path),
            with_gpu,
            ScoredSpan(),
            ignore_progress,
        )
