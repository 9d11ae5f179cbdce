"""Many replays on a real Ray cluster: what comes out, what dies, what is kept. See also test_finished.py."""

import importlib.util
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from online.errors import SetupError
from online.evaluation.cluster import RETRIES, connected, jobs_of, played_on_ray, replayed
from online.evaluation.finished import Folder
from online.evaluation.race import Played, one_by_one
from online.evaluation.replay import Contender, Span
from online.evaluation.sources import Reads, Source, open_sources
from online.evaluation.table import show_all
from tests.evaluation.test_race import KNN, LINEAR, blobs
from tests.support import absent, run_online, until

ROOT = Path(__file__).parent.parent.parent
DEATHS = "ONLINE_TEST_DEATHS"  # names the file in which workers write that they are about to die
WRONG = Contender("classifier", {"head": "no such head"}, "wrong")
SMALL = {"hidden": [4]}
MORTAL = Contender("tower", {**SMALL, "network": "tests.evaluation.test_cluster:mortal"}, "mortal", every=10)
DOOMED = Contender("tower", {**SMALL, "network": "tests.evaluation.test_cluster:doomed"}, "doomed", every=10)


def mortal(inputs: int) -> torch.nn.Module:
    """Kills the first process that asks for it, as the system kills one that takes too much memory."""
    if not died("mortal"):
        die("mortal")
    return torch.nn.Linear(inputs, 4)


def doomed(inputs: int) -> torch.nn.Module:
    die("doomed")
    return torch.nn.Linear(inputs, 4)


def die(name: str) -> None:
    with open(os.environ[DEATHS], "a") as file:
        file.write(f"{name}\n")
    os.kill(os.getpid(), signal.SIGKILL)


def died(name: str) -> int:
    return Path(os.environ[DEATHS]).read_text().splitlines().count(name)


def quiet(what: str, done: int, of: int) -> None:
    pass


def nobody(words: str) -> None:
    pass


def two_logs(folder: Path) -> list[Source]:
    first, second = blobs(folder, 300), folder / "second.jsonl"
    second.write_text("".join(first.read_text().splitlines(keepends=True)[:100]))
    return open_sources([str(first), str(second)], Reads())


@pytest.fixture(scope="module", autouse=True)
def with_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray, and workers that find these tests."""
    if importlib.util.find_spec("ray") is None:
        absent("Ray is not installed: pip install 'online[ray]'")
    deaths = tmp_path_factory.mktemp("deaths") / "deaths"
    deaths.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DEATHS, str(deaths))
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


class Scene:
    """Two logs and five models, of which two die and one is wrong; played once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.told = folder, list[str]()
        self.sources = two_logs(folder)
        self.contenders = [KNN, LINEAR, WRONG, MORTAL, DOOMED]
        self.ticks = list[int]()
        self.played = self.play()
        self.deaths = {name: died(name) for name in ("mortal", "doomed")}

    def play(self) -> list[Played]:
        kept = Folder.opened(self.folder / "replays", self.told.append)
        return played_on_ray(
            "", kept, self.sources, self.contenders, Span(), lambda _, done, of: self.ticks.append(done)
        )


@pytest.fixture(scope="module")
def scene(with_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("cluster"))


def test_on_ray_come_out_the_figures_states_and_duels_that_come_out_here(scene: Scene) -> None:
    here = one_by_one(scene.sources, [KNN, LINEAR], Span(), 0.0, quiet)
    for there, of_log in zip(scene.played, here, strict=True):
        assert there.log == of_log.log
        for one, other in zip(there.results, of_log.results, strict=False):
            assert one.report is not None and other.report is not None and one.contender == other.contender
            assert one.report.figures == other.report.figures
            assert one.report.state_sha256 == other.report.state_sha256
            assert one.report.details == other.report.details
            assert one.duel == other.duel


def test_a_replay_whose_worker_is_killed_is_made_again(scene: Scene) -> None:
    assert scene.deaths["mortal"] == 1
    for played, examples in zip(scene.played, (300, 100), strict=True):
        report = played.results[3].report
        assert report is not None and report.examples == examples
    assert len([words for words in scene.told if words.startswith("mortal")]) == 1


def test_a_replay_whose_workers_always_die_fails_alone_and_not_for_ever(scene: Scene) -> None:
    assert scene.deaths["doomed"] == (1 + RETRIES) * len(scene.sources)
    for played in scene.played:
        assert played.results[4].report is None
        assert played.results[4].failure == f"its worker died (WorkerCrashedError), {1 + RETRIES} times"


def test_an_error_of_ours_is_told_and_not_tried_again(scene: Scene) -> None:
    for played in scene.played:
        assert "no such head" in str(played.results[2].failure)
    assert not any("wrong" in words for words in scene.told)


def test_the_bar_counts_the_replays(scene: Scene) -> None:
    assert scene.ticks[-1] == 9 and scene.ticks[2:] == sorted(scene.ticks[2:])  # 2: while the logs are looked at


def test_a_second_run_takes_what_is_finished_and_makes_the_rest(scene: Scene) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in (scene.folder / "replays").iterdir()}
    scene.told.clear()
    again = scene.play()
    assert scene.told[0].startswith("6 of 10 replays were finished before")
    assert again == scene.played
    assert {path.name: path.stat().st_mtime_ns for path in (scene.folder / "replays").iterdir()} == before


def test_where_everything_is_finished_no_ray_is_started(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    kept = Folder.opened(scene.folder / "replays", nobody)
    played = played_on_ray("", kept, scene.sources, [KNN, LINEAR], Span(), quiet)
    assert [each.results for each in played] == [each.results[:2] for each in scene.played]


def test_without_ray_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SetupError, match=re.escape("pip install 'online[ray]'")):
        played_on_ray("", Folder.opened(tmp_path, nobody), two_logs(tmp_path), [KNN], Span(), quiet)


def test_the_tables_are_those_of_any_replay(scene: Scene) -> None:
    console = Console(record=True, width=100, file=io.StringIO())
    show_all(scene.played, console)
    shown = console.export_text()
    for words in (
        "second.jsonl",
        "300 examples",
        "100 examples",
        "linear is undecided against knn",
        "doomed: its worker",
    ):
        assert words in shown


# cut short


def test_ctrl_c_keeps_what_is_finished_and_says_so(tmp_path: Path) -> None:
    def interrupt(what: str, done: int, of: int) -> None:
        if what.startswith("1 of"):
            raise KeyboardInterrupt

    told = list[str]()
    sources, folder = two_logs(tmp_path), Folder.opened(tmp_path / "replays", told.append)
    played = played_on_ray("", folder, sources, [KNN, LINEAR], Span(), interrupt)
    reports = [result.report for each in played for result in each.results]
    assert all(each.interrupted for each in played)
    assert sum(report is not None for report in reports) == 1 == len(list((tmp_path / "replays").glob("*.json")))
    assert told == ["1 of 4 replays are finished; the same command goes on"]
    assert "interrupted before it was finished" in [result.failure for each in played for result in each.results]


def finished_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path, short: Path) -> None:
    log, folder = blobs(tmp_path, 1_500), tmp_path / "kept"
    models = ["--model=knn", *(f"--model=tower:hidden=[4],seed={seed}" for seed in range(3))]  # one is done long before
    command = ["replay", str(log), *models, "--engine", "ray", "--results", str(folder), "--json"]
    environment = {**os.environ, "TMPDIR": str(short)}
    process = subprocess.Popen([sys.executable, "-m", "online", *command], env=environment)
    try:
        until(lambda: finished_in(folder), 120, "the first replay")
    finally:
        process.kill()
        process.wait()
    kept = {path: path.read_bytes() for path in finished_in(folder)}
    assert 0 < len(kept) < 4
    done = run_online(*command, env=environment)
    assert f"{len(kept)} of 4 replays were finished before" in done.stderr
    assert len(json.loads(done.stdout)["results"]) == 4 == len(finished_in(folder))
    assert {path: path.read_bytes() for path in kept} == kept


# the cluster


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder of few letters: the names of Ray's sockets have no room for those of pytest."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def head(short: Path) -> Iterator[str]:
    """The address of a cluster that somebody else runs."""
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


def test_a_cluster_that_runs_already_is_used(head: str, tmp_path: Path) -> None:
    sources, folder = two_logs(tmp_path), Folder.opened(tmp_path / "replays", nobody)
    played = played_on_ray(head, folder, sources, [KNN], Span(), quiet)
    assert [result.report.examples for each in played for result in each.results if result.report] == [300, 100]


def test_a_cluster_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SetupError, match=f"there is no Ray cluster at {address}: .*refused"):
            played_on_ray(address, Folder.opened(tmp_path / "kept", nobody), two_logs(tmp_path), [KNN], Span(), quiet)


def test_a_cluster_that_is_started_here_lets_in_nobody_without_its_token() -> None:
    code = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False); print('let in')"
    with connected("") as ray:
        address = ray.get_runtime_context().gcs_address
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        stranger: Any = {"capture_output": True, "text": True, "timeout": 120}
        own = subprocess.run([sys.executable, "-c", code, address], **stranger)
        other = subprocess.run(
            [sys.executable, "-c", code, address],
            env={**environment, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64},
            **stranger,
        )
    assert "let in" in own.stdout and "let in" not in other.stdout and "oken" in other.stderr


def test_a_gpu_that_no_node_has_is_not_waited_for(head: str, tmp_path: Path) -> None:
    with_gpu = [Contender("knn", {}, "knn", device="cuda")]
    with pytest.raises(SetupError, match="has no GPU"):
        played_on_ray(head, Folder.opened(tmp_path / "kept", nobody), two_logs(tmp_path), with_gpu, Span(), quiet)


def test_a_node_that_sees_another_log_says_so(tmp_path: Path) -> None:
    source = two_logs(tmp_path)[0]
    job = jobs_of(source, [KNN], Span())[0]
    blobs(tmp_path, 299)
    assert "differ from those it was started with" in str(replayed(job, job.key))


# asked for in ways that cannot be meant


@pytest.mark.parametrize("flags", [("--results", "kept"), ("--address", "auto")])
def test_what_belongs_to_ray_is_refused_without_it(flags: Sequence[str]) -> None:
    done = run_online("replay", "river:Phishing", "--model", "knn", *flags)
    assert done.returncode == 2 and "belong to --engine ray" in done.stderr


def test_results_that_cannot_be_kept_are_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="finished replays cannot be kept in"):
        Folder.opened(tmp_path / "file" / "kept", nobody)
