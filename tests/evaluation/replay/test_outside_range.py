"""Answers about numbers outside the range that a model had seen: counted, said, and with what helps."""

import csv
from pathlib import Path

import numpy as np
import pytest

from online.evaluation.conclusion import conclude
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.replay_report import ReplayResult
from online.evaluation.replay.runs import replay_all
from online.evaluation.replay_files import result_as_json
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.plugins.reports.languages import ALL_WORDS
from tests.evaluation.replaying import ignore_progress

ROWS, FAR_EACH = 600, 20


def write_loads(folder: Path, number: bool = False, far: float = 40_000.0) -> Path:
    """Loads of up to 10, and each 20th after the 300th far away; the label is the double, or whether it is heavy."""
    loads = np.random.default_rng(5).uniform(0, 10, ROWS)
    loads[300::FAR_EACH] = far * np.exp2(np.arange(len(loads[300::FAR_EACH])))
    path = folder / "loads.csv"
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["load", "label"])
        rows.writerows([load, 2 * load if number else "heavy" if load > 5 else "light"] for load in loads.tolist())
    return path


def replay(path: Path, candidate: CandidateSpec) -> list[ReplayResult]:
    return replay_all(
        open_source(str(path), ReadOptions(label="label")), [candidate], ScoredSpan(), 0.0, ignore_progress
    )[0]


@pytest.mark.parametrize("kind", ["classifier", "logistic"])
def test_a_replay_counts_answers_about_numbers_outside_the_range(kind: str, tmp_path: Path) -> None:
    report = replay(write_loads(tmp_path), CandidateSpec(kind))[0].report
    assert report is not None
    assert report.outside == (ROWS - 300) // FAR_EACH


def test_numbers_to_predict_that_are_cut_off_are_counted(tmp_path: Path) -> None:
    far = write_loads(tmp_path, number=True, far=1e12)
    report = replay(far, CandidateSpec("regressor", {"target_scale": 20.0}))[0].report
    assert report is not None
    assert report.targets_outside == (ROWS - 300) // FAR_EACH


def test_a_log_without_such_numbers_says_nothing(tmp_path: Path) -> None:
    results = replay(write_loads(tmp_path, far=1e-9), CandidateSpec("classifier"))
    assert not [each for each in result_as_json(results[0])["warnings"] if "outside" in each]
    assert result_as_json(results[0])["outside"] == 0


def test_the_verdict_says_it_with_what_helps_in_every_language(tmp_path: Path) -> None:
    results = replay(write_loads(tmp_path), CandidateSpec("classifier"))
    for words in ALL_WORDS:
        verdict = conclude(results, words=words)
        assert words("warn.outside", model="classifier", count=15, share=2.5) in verdict.next
        assert words("next.outside_classes") in verdict.next


def test_the_advice_about_a_declared_scale_is_a_larger_one(tmp_path: Path) -> None:
    results = replay(write_loads(tmp_path), CandidateSpec("classifier", {"scale": 10.0}))
    assert "Declare a larger `scale`" in conclude(results).next
    assert any("outside the range" in each for each in result_as_json(results[0])["warnings"])
