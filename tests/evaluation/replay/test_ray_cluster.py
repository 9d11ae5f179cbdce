"""Many replays on a real Ray cluster. Several runs, several clusters: tests/long/test_ray_clusters.py."""

import io
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from online.errors import SetupError
from online.evaluation.replay.ray_replay import create_jobs, replay_on_ray, run_job
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.results_cache import ResultsFolder
from online.evaluation.replay.runs import replay_logs
from online.evaluation.replay_table import print_results
from tests.evaluation.replay.ray_scene import (  # noqa: F401
    MORTAL,
    WRONG,
    Scene,
    count_deaths,
    ignore_message,
    two_logs,
    with_ray,
)
from tests.evaluation.replaying import KNN, LINEAR, ignore_progress, write_blobs
from tests.support import run_online


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("cluster"), [KNN, LINEAR, WRONG, MORTAL])


@pytest.mark.long
def test_ray_gives_the_same_figures_states_and_comparisons_as_a_local_replay(scene: Scene) -> None:
    local = replay_logs(scene.sources, [KNN, LINEAR], ScoredSpan(), 0.0, ignore_progress)
    for on_ray, of_log in zip(scene.replayed, local, strict=True):
        assert on_ray.log == of_log.log
        for one, other in zip(on_ray.results, of_log.results, strict=False):
            assert one.report is not None and other.report is not None and one.candidate == other.candidate
            assert one.report.figures == other.report.figures
            assert one.report.state_sha256 == other.report.state_sha256
            assert one.report.details == other.report.details
            assert one.comparison == other.comparison


@pytest.mark.long
def test_a_replay_whose_worker_is_killed_is_retried(scene: Scene) -> None:
    assert count_deaths("mortal") == 1
    for replayed, examples in zip(scene.replayed, (300, 100), strict=True):
        report = replayed.results[3].report
        assert report is not None and report.examples == examples
    assert len([message for message in scene.messages if message.startswith("mortal")]) == 1


@pytest.mark.long
def test_an_error_of_the_replay_is_reported_and_not_retried(scene: Scene) -> None:
    for replayed in scene.replayed:
        assert "no such head" in str(replayed.results[2].failure)
    assert not any("wrong" in message for message in scene.messages)


@pytest.mark.long
def test_the_progress_bar_counts_replays(scene: Scene) -> None:
    assert scene.ticks[-1] == 7 and scene.ticks[2:] == sorted(scene.ticks[2:])  # 2: while the logs are looked at


@pytest.mark.long
def test_ray_is_not_started_if_every_replay_is_finished(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    results = ResultsFolder.opened(scene.folder / "replays", ignore_message)
    replayed = replay_on_ray("", results, scene.sources, [KNN, LINEAR], ScoredSpan(), ignore_progress)
    assert [each.results for each in replayed] == [each.results[:2] for each in scene.replayed]


def test_without_ray_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SetupError, match=re.escape("pip install 'online[ray]'")):
        replay_on_ray(
            "", ResultsFolder.opened(tmp_path, ignore_message), two_logs(tmp_path), [KNN], ScoredSpan(), ignore_progress
        )


@pytest.mark.long
def test_the_tables_are_those_of_any_replay(scene: Scene) -> None:
    console = Console(record=True, width=100, file=io.StringIO())
    print_results(scene.replayed, console)
    screen = console.export_text()
    for message in ("second.jsonl", "300 examples", "100 examples", "linear is undecided against knn", "no such head"):
        assert message in screen


# the cluster


@pytest.mark.long
def test_a_missing_cluster_is_reported_at_once(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SetupError, match=f"there is no Ray cluster at {address}: .*refused"):
            replay_on_ray(
                address,
                ResultsFolder.opened(tmp_path / "kept", ignore_message),
                two_logs(tmp_path),
                [KNN],
                ScoredSpan(),
                ignore_progress,
            )


@pytest.mark.long
def test_a_node_with_another_log_reports_it(tmp_path: Path) -> None:
    source = two_logs(tmp_path)[0]
    job = create_jobs(source, [KNN], ScoredSpan())[0]
    write_blobs(tmp_path, 299)
    assert "differ from those it was started with" in str(run_job(job, job.key))


# invalid combinations of flags


@pytest.mark.few(1)
@pytest.mark.parametrize("flags", [("--results", "kept"), ("--address", "auto")])
def test_flags_of_ray_are_refused_without_the_ray_engine(flags: Sequence[str]) -> None:
    done = run_online("replay", "river:Phishing", "--model", "knn", *flags)
    assert done.returncode == 2 and "--address and --results need --engine ray" in done.stderr


def test_an_unwritable_results_folder_is_reported_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="finished replays cannot be kept in"):
        ResultsFolder.opened(tmp_path / "file" / "kept", ignore_message)
