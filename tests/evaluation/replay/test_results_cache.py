"""The cache of finished replays: it returns stored results unchanged, and ignores damaged and other ones."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.ray_replay import create_jobs
from online.evaluation.replay.replay import Replay, ScoredSpan
from online.evaluation.replay.replay_job import LossArrays, ReplayJob
from online.evaluation.replay.results_cache import ResultsFolder
from online.evaluation.sources.arrival import LabelDelay
from online.evaluation.sources.column_choice import ColumnChoice
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from tests.evaluation.replaying import KNN, LINEAR, write_blobs

DESK = Path(__file__).parents[3] / "data" / "desk.jsonl"


def create_job(
    log: Path | str, model: CandidateSpec = KNN, reads: ReadOptions | None = None, span: ScoredSpan | None = None
) -> ReplayJob:
    return create_jobs(open_source(str(log), reads), [model], span or ScoredSpan())[0]


def fail_on_message(message: str) -> None:
    raise AssertionError(message)


def create_job_with_tasks(folder: Path) -> ReplayJob:
    rows = [{"input": [float(n % 3), n / 60], "label": n % 3, "batch": "ab"[n >= 30]} for n in range(60)]
    (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return create_job(folder / "tasks.jsonl", reads=ReadOptions(task="batch"))


def create_job_of_own_log(folder: Path) -> ReplayJob:
    return create_job(DESK, CandidateSpec("classifier", {}, "ours"))


def create_job_of_numbers(folder: Path) -> ReplayJob:
    return create_job("sklearn:diabetes", CandidateSpec("regressor", {}, "numbers"))


def create_job_with_a_baseline(folder: Path) -> ReplayJob:
    return create_job(write_blobs(folder, 200), replace(KNN, baseline=True))


def create_job_of_classes(folder: Path) -> ReplayJob:
    return create_job(write_blobs(folder, 200))


def create_job_of_a_table(folder: Path) -> ReplayJob:
    """Its columns have profiles, and some of its lines are bad."""
    rows = "".join(f"r{n},2026-01-{1 + n % 28:02},{n % 5},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "table.csv").write_text(f"id,day,size,label\n{rows}r1,2026-01-01,7\n")
    reads = ReadOptions(label="label", max_bad_ratio=0.5)
    return create_job(folder / "table.csv", CandidateSpec("classifier", {"input": "table"}, "table"), reads)


CreateJob = Callable[[Path], ReplayJob]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "create",
    [
        create_job_of_classes,
        create_job_with_a_baseline,
        create_job_of_numbers,
        create_job_of_own_log,
        create_job_with_tasks,
        create_job_of_a_table,
    ],
)
def test_a_stored_result_is_read_unchanged(tmp_path: Path, create: CreateJob) -> None:
    results, job = ResultsFolder.opened(tmp_path / "kept", fail_on_message), create(tmp_path)
    assert results.find(job) is None
    result = job.run()
    results.keep(job, result)
    found = results.find(job)
    assert found is not None and found.report == result.report
    assert repr(found.report) == repr(result.report), "counts remain integers"
    assert found.losses.part(0, 10**6) == result.losses.part(0, 10**6)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "create", [create_job_of_classes, create_job_of_numbers, create_job_of_own_log, create_job_with_tasks]
)
def test_a_job_gives_the_result_of_its_replay(tmp_path: Path, create: CreateJob) -> None:
    job = create(tmp_path)
    replay, result = Replay(job.source, job.candidate), job.run()
    losses = list(replay.losses())
    report = replay.report()
    assert result.losses.part(0, len(losses)) == losses and len(result.losses.offsets_N) == len(losses)
    assert (result.report.figures, result.report.details) == (report.figures, report.details)
    assert result.report.state_sha256 == report.state_sha256


def test_missing_losses_stay_missing() -> None:
    losses = [(1, 0.5), (2, None), (5, 0.0)]
    assert LossArrays.of(losses).part(0, 3) == losses and LossArrays.of(losses).part(1, 2) == [(2, None)]


# damaged


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def change_figure(file: Path) -> None:
    text = file.read_text()
    file.write_text(text.replace('"judged": 200', '"judged": 201'))
    assert file.read_text() != text


def change_loss(file: Path) -> None:
    losses = file.with_suffix(".safetensors")
    data = bytearray(losses.read_bytes())
    data[-8] ^= 1
    losses.write_bytes(data)


def remove_losses(file: Path) -> None:
    file.with_suffix(".safetensors").unlink()


def empty_report(file: Path) -> None:
    file.write_text("[]")


@pytest.mark.parametrize("damage", [truncate, change_figure, change_loss, remove_losses, empty_report])
def test_a_damaged_file_is_reported_and_not_used(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    messages = list[str]()
    results, job = ResultsFolder.opened(tmp_path / "kept", messages.append), create_job_of_classes(tmp_path)
    results.keep(job, job.run())
    assert results.find(job) is not None and not messages
    file = next((tmp_path / "kept").glob("*.json"))
    damage(file)
    assert results.find(job) is None
    assert len(messages) == 1 and messages[0].startswith(f"{file} is damaged") and "knn" in messages[0]
    results.keep(job, job.run())
    assert results.find(job) is not None and len(messages) == 1


def test_only_the_two_files_of_each_result_remain(tmp_path: Path) -> None:
    results, job = ResultsFolder.opened(tmp_path / "kept", fail_on_message), create_job_of_classes(tmp_path)
    results.keep(job, job.run())
    assert {path.name for path in results.path.iterdir()} == {f"{job.key}.json", f"{job.key}.safetensors"}


# keys


def test_results_are_found_after_moving_the_log_or_renaming_the_model(tmp_path: Path) -> None:
    results, job = ResultsFolder.opened(tmp_path / "kept", fail_on_message), create_job_of_classes(tmp_path)
    results.keep(job, job.run())
    moved = create_job(shutil.move(str(job.source.path), tmp_path / "moved.jsonl"), replace(KNN, name="nearest"))
    found = results.find(moved)
    assert found is not None and found.report.name == "nearest"


@pytest.mark.parametrize(
    "other",
    [
        lambda log: create_job(log, LINEAR),
        lambda log: create_job(log, replace(KNN, options={"window": 10})),
        lambda log: create_job(log, replace(KNN, every=11)),
        lambda log: create_job(log, replace(KNN, drift="off")),
        lambda log: create_job(log, replace(KNN, baseline=True)),
        lambda log: create_job(log, reads=ReadOptions(delay=LabelDelay(rows=3))),
        lambda log: create_job(log, reads=ReadOptions(max_bad_ratio=0.5)),
        lambda log: create_job(log, reads=ReadOptions(costs=(0.0, 5.0))),
        lambda log: create_job(log, span=ScoredSpan(start=5)),
        lambda log: create_job(log, span=ScoredSpan(end=5)),
        lambda log: create_job(write_blobs(log.parent, 199)),
        lambda log: create_job("sklearn:iris"),
    ],
)
def test_another_log_model_or_flag_has_another_key(tmp_path: Path, other: Callable[[Path], ReplayJob]) -> None:
    log = write_blobs(tmp_path, 200)
    first = create_job(log)
    assert first.key == create_job(log).key != other(log).key


def test_another_choice_of_columns_has_another_key() -> None:
    choices = [ColumnChoice(), ColumnChoice(drop=("is_popular",)), ColumnChoice(features=("is_popular",))]
    keys = {create_job("river:Phishing", reads=ReadOptions(columns=choice)).key for choice in choices}
    assert len(keys) == 3


def test_another_release_of_the_code_or_of_a_package_has_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, keys = create_job_of_classes(tmp_path), set[str]()
    keys.add(job.key)
    monkeypatch.setattr("online.evaluation.replay.replay_job.hash_code", lambda: "another")
    keys.add(job.key)
    monkeypatch.setattr("online.evaluation.replay.replay_job.list_packages", lambda: {"torch": "1.0"})
    keys.add(job.key)
    assert len(keys) == 3


def test_a_change_of_the_operators_own_code_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    code = tmp_path / "changing_models.py"
    code.write_text("def make(): ...\n")
    own = CandidateSpec("river", {"estimator": "changing_models:make"}, from_operator=True)
    job = create_job(write_blobs(tmp_path, 20), own)
    before = job.key
    assert job.key == before
    code.write_text("def make(): return 1\n")
    assert job.key != before
