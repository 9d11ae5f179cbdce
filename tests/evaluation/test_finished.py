"""What is kept of finished replays is what came out; what is damaged, or of something else, is not taken for it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from online.evaluation.cluster import jobs_of
from online.evaluation.finished import Folder, Job, Losses
from online.evaluation.replay import Contender, Replay, Span
from online.evaluation.sources import Delay, Reads, open_source
from tests.evaluation.test_race import KNN, LINEAR, blobs

DESK = Path(__file__).parent.parent.parent / "data" / "desk.jsonl"


def job(log: Path | str, model: Contender = KNN, reads: Reads | None = None, span: Span | None = None) -> Job:
    return jobs_of(open_source(str(log), reads), [model], span or Span())[0]


def nobody(words: str) -> None:
    raise AssertionError(words)


def with_tasks(folder: Path) -> Job:
    rows = [{"input": [float(n % 3), n / 60], "label": n % 3, "batch": "ab"[n >= 30]} for n in range(60)]
    (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return job(folder / "tasks.jsonl", reads=Reads(task="batch"))


def of_our_own_log(folder: Path) -> Job:
    return job(DESK, Contender("classifier", {}, "ours"))


def of_numbers(folder: Path) -> Job:
    return job("sklearn:diabetes", Contender("regressor", {}, "numbers"))


def of_labels(folder: Path) -> Job:
    return job(blobs(folder, 200))


Make = Callable[[Path], Job]


@pytest.mark.parametrize("make", [of_labels, of_numbers, of_our_own_log, with_tasks])
def test_what_is_kept_is_found_as_it_was(tmp_path: Path, make: Make) -> None:
    kept, made = Folder.opened(tmp_path / "kept", nobody), make(tmp_path)
    assert kept.find(made) is None
    finished = made.run()
    kept.keep(made, finished)
    found = kept.find(made)
    assert found is not None and found.report == finished.report
    assert repr(found.report) == repr(finished.report), "a count is a count, not 12.0"
    assert found.losses.part(0, 10**6) == finished.losses.part(0, 10**6)


@pytest.mark.parametrize("make", [of_labels, of_numbers, of_our_own_log, with_tasks])
def test_a_job_comes_to_what_its_replay_comes_to(tmp_path: Path, make: Make) -> None:
    made = make(tmp_path)
    replay, finished = Replay(made.source, made.contender), made.run()
    losses = list(replay.losses())
    report = replay.report()
    assert finished.losses.part(0, len(losses)) == losses and len(finished.losses.offsets_N) == len(losses)
    assert (finished.report.figures, finished.report.details) == (report.figures, report.details)
    assert finished.report.state_sha256 == report.state_sha256


def test_what_a_model_is_silent_about_stays_silence() -> None:
    losses = [(1, 0.5), (2, None), (5, 0.0)]
    assert Losses.of(losses).part(0, 3) == losses and Losses.of(losses).part(1, 2) == [(2, None)]


# damaged


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def another_figure(file: Path) -> None:
    text = file.read_text()
    file.write_text(text.replace('"judged": 200', '"judged": 201'))
    assert file.read_text() != text


def another_loss(file: Path) -> None:
    losses = file.with_suffix(".safetensors")
    data = bytearray(losses.read_bytes())
    data[-8] ^= 1
    losses.write_bytes(data)


def no_losses(file: Path) -> None:
    file.with_suffix(".safetensors").unlink()


def no_report(file: Path) -> None:
    file.write_text("[]")


@pytest.mark.parametrize("damage", [cut_off, another_figure, another_loss, no_losses, no_report])
def test_what_is_damaged_is_told_and_not_used(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    told = list[str]()
    kept, made = Folder.opened(tmp_path / "kept", told.append), of_labels(tmp_path)
    kept.keep(made, made.run())
    assert kept.find(made) is not None and not told
    file = next((tmp_path / "kept").glob("*.json"))
    damage(file)
    assert kept.find(made) is None
    assert len(told) == 1 and told[0].startswith(f"{file} is damaged") and "knn" in told[0]
    kept.keep(made, made.run())
    assert kept.find(made) is not None and len(told) == 1


def test_nothing_but_the_two_files_of_each_is_left_behind(tmp_path: Path) -> None:
    kept, made = Folder.opened(tmp_path / "kept", nobody), of_labels(tmp_path)
    kept.keep(made, made.run())
    assert {path.name for path in kept.path.iterdir()} == {f"{made.key}.json", f"{made.key}.safetensors"}


# whose it is


def test_a_log_that_was_moved_and_a_model_that_was_renamed_are_found_again(tmp_path: Path) -> None:
    kept, made = Folder.opened(tmp_path / "kept", nobody), of_labels(tmp_path)
    kept.keep(made, made.run())
    moved = job(shutil.move(str(made.source.path), tmp_path / "moved.jsonl"), replace(KNN, name="nearest"))
    found = kept.find(moved)
    assert found is not None and found.report.name == "nearest"


@pytest.mark.parametrize(
    "other",
    [
        lambda log: job(log, LINEAR),
        lambda log: job(log, replace(KNN, options={"window": 10})),
        lambda log: job(log, replace(KNN, every=11)),
        lambda log: job(log, replace(KNN, drift="off")),
        lambda log: job(log, reads=Reads(delay=Delay(rows=3))),
        lambda log: job(log, reads=Reads(max_bad_ratio=0.5)),
        lambda log: job(log, reads=Reads(costs=(0.0, 5.0))),
        lambda log: job(log, span=Span(start=5)),
        lambda log: job(log, span=Span(end=5)),
        lambda log: job(blobs(log.parent, 199)),
        lambda log: job("sklearn:iris"),
    ],
)
def test_another_log_model_or_flag_is_another_replay(tmp_path: Path, other: Callable[[Path], Job]) -> None:
    log = blobs(tmp_path, 200)
    first = job(log)
    assert first.key == job(log).key != other(log).key


def test_another_release_of_ours_or_of_a_package_is_another_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, keys = of_labels(tmp_path), set[str]()
    keys.add(made.key)
    monkeypatch.setattr("online.evaluation.finished.code_sha256", lambda: "another")
    keys.add(made.key)
    monkeypatch.setattr("online.evaluation.finished.packages", lambda: {"torch": "1.0"})
    keys.add(made.key)
    assert len(keys) == 3
