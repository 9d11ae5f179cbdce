"""A replay says where a model is far behind a simple one, which learns beside it, and what helps."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from online.evaluation.caveats import warn_of_leads
from online.evaluation.conclusion import say_all
from online.evaluation.remarks import describe_skipped
from online.evaluation.replay import baseline
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.model_setup import ModelSetup
from online.evaluation.replay.replay import Replay, ScoredSpan
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.replay.runs import replay_all
from online.evaluation.sources.arrival import LabelDelay
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.evaluation.words import IN_ENGLISH
from online.scoring.baseline_lead import Lead
from tests.evaluation.replaying import KNN, ignore_progress, run_replay, write_blobs

ROWS, CONCEPT_ROWS = 2_000, 500
WATCHING = CandidateSpec("classifier", {"input": "table"}, "watching", drift="watch", every=20, baseline=True)


def write_moving_table(folder: Path, count: int = ROWS, moves: bool = True) -> Path:
    """Write rows whose classes a line separates, another one after every CONCEPT_ROWS rows; 5 % of the labels are wrong."""
    draw = np.random.default_rng(1)
    rows_NK = draw.normal(size=(count, 4))
    lines_CK = draw.normal(size=(count // CONCEPT_ROWS + 1, 4))
    lines_NK = lines_CK[np.arange(count) // CONCEPT_ROWS if moves else np.zeros(count, int)]
    ups_N = ((rows_NK * lines_NK).sum(1) > 0) ^ (draw.random(count) < 0.05)
    path = folder / "moving.jsonl"
    lines = [
        {"input": {f"x{place}": round(value, 3) for place, value in enumerate(row)}, "label": "up" if up else "down"}
        for row, up in zip(rows_NK.tolist(), ups_N.tolist(), strict=True)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_moving_table(tmp_path_factory.mktemp("moving"))


@pytest.fixture(scope="module")
def watched(moving: Path) -> ReplayReport:
    """The report on a classifier that only watches for drift, on a table that moves."""
    return run_replay(moving, WATCHING).report()


def warn(reports: Sequence[ReplayReport]) -> list[str]:
    return [say_all(remark, IN_ENGLISH) for remark in warn_of_leads(reports)]


def find_lead(report: ReplayReport, name: str = "logistic") -> Lead:
    return next(lead for lead in report.leads if lead.baseline == name)


def test_a_classifier_far_behind_a_logistic_model_is_told_so_with_what_helps(watched: ReplayReport) -> None:
    lead = find_lead(watched)
    assert lead.pairs == ROWS and lead.model == watched.figures["accuracy"]
    assert lead.other - lead.model > 0.1 and lead.low > 0.02
    warning = " ".join(warn([watched]))
    assert warning.startswith(f"watching is {100 * (lead.other - lead.model):.1f} points behind a logistic model")
    for remedy in (
        'drift = "act" (--drift act)',
        'kind = "best_of"',
        'kind = "logistic", options = { drift = 0.001 }',
    ):
        assert remedy in warning


def test_the_baseline_is_the_logistic_model_that_anybody_can_replay(watched: ReplayReport, moving: Path) -> None:
    alone = run_replay(moving, CandidateSpec("logistic", drift="watch", every=WATCHING.every)).report()
    assert find_lead(watched).other == pytest.approx(alone.figures["accuracy"], abs=1e-6)
    assert watched.figures["logistic_accuracy"] == alone.figures["accuracy"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "remedy",
    [
        replace(WATCHING, drift="act"),
        CandidateSpec("logistic", {"drift": 0.001}),
    ],
)
def test_each_remedy_does_better_on_the_table(watched: ReplayReport, moving: Path, remedy: CandidateSpec) -> None:
    accuracy = run_replay(moving, remedy).report().figures["accuracy"]
    assert (accuracy or 0) > find_lead(watched).model + 0.1


def test_what_is_set_already_is_no_remedy(moving: Path, watched: ReplayReport) -> None:
    source = open_source(str(moving))

    def find(spec: CandidateSpec) -> str:
        return " ".join(baseline.find_remedies(ModelSetup(source, spec), watched.leads))

    assert "drift" not in find(replace(WATCHING, drift="act")).partition("options")[0]
    assert "best_of" not in find(CandidateSpec("best_of"))
    assert "logistic" not in find(CandidateSpec("logistic", {"drift": 0.01}))


def test_a_world_that_stands_still_brings_no_warning(tmp_path: Path) -> None:
    report = run_replay(write_moving_table(tmp_path, 600, moves=False), WATCHING).report()
    assert find_lead(report).pairs == 600 and not warn([report]) and not report.remedies


def test_the_model_learns_the_same_with_and_without_a_baseline(watched: ReplayReport, moving: Path) -> None:
    without = run_replay(moving, replace(WATCHING, baseline=False)).report()
    assert without.state_sha256 == watched.state_sha256
    assert "logistic_accuracy" not in without.figures
    assert {name: watched.figures[name] for name in without.figures} == without.figures


def test_labels_that_come_late_reach_the_baseline_as_late(tmp_path: Path) -> None:
    """Nothing arrives before the last row is answered, so neither model is ever right."""
    path = write_moving_table(tmp_path, 40)
    report = run_replay(path, replace(WATCHING, every=1), ReadOptions(delay=LabelDelay(rows=40))).report()
    assert (find_lead(report).pairs, find_lead(report).other, find_lead(report).model) == (40, 0, 0)


def test_a_long_log_costs_the_baseline_stretches_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(baseline, "WHOLE", 100)
    monkeypatch.setattr(baseline, "STRETCH", 20)
    monkeypatch.setattr(baseline, "ONE_IN", 4)
    path, spec = write_moving_table(tmp_path, 300), CandidateSpec("majority", baseline=True)
    assert find_lead(run_replay(path, spec).report()).pairs == 100 + 20 * 2  # of the stretches from 160 and 240
    in_batches = run_replay(path, replace(spec, every=20)).report()
    assert find_lead(in_batches).pairs == 100 + 20 * 2


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"input": "some text", "label": "a"}], "it reads no texts"),
        ([{"input": [1.0] * 300, "label": "a"}], baseline.TOO_LARGE),
        ([{"input": {f"x{n}": 1.0 for n in range(120)}, "label": str(n)} for n in range(8)], baseline.TOO_LARGE),
        ([{"input": {"x": 1.0}, "label": str(n)} for n in range(101)], "more than 100 classes (option max_labels)"),
    ],
)
def test_a_baseline_that_does_not_run_is_reported(tmp_path: Path, rows: list[object], reason: str) -> None:
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    report = run_replay(tmp_path / "log.jsonl", CandidateSpec("majority", {}, baseline=True)).report()
    assert report.baseline_skipped == reason and reason in describe_skipped(reason)


def test_a_warning_about_the_last_class_names_what_was_ahead_of_it() -> None:
    lead = Lead("no_change", 9_000, 0.763, 0.853, 0.08, 0.101)
    setup = ModelSetup(open_source("river:Phishing"), replace(WATCHING, options={}))
    assert [remedy.partition(" (")[0] for remedy in baseline.find_remedies(setup, [lead])] == [
        'kind = "best_of"',
        'kind = "logistic", options = { drift = 0.001 }',
    ]
    assert len(baseline.find_remedies(setup, [replace(lead, baseline="majority")])) == 1


def test_no_baseline_runs_beside_itself_or_where_numbers_are_predicted(tmp_path: Path) -> None:
    itself = Replay(open_source(str(write_blobs(tmp_path, 10))), CandidateSpec("logistic", baseline=True))
    numbers = Replay(open_source("river:TrumpApproval"), CandidateSpec("regressor", baseline=True))
    assert itself.baseline is None and numbers.baseline is None
    other = Replay(itself.source, CandidateSpec("logistic", {"drift": 0.01}, baseline=True))
    assert other.baseline is not None


def test_models_in_parallel_have_the_baseline_that_each_has_alone(tmp_path: Path) -> None:
    source = open_source(str(write_blobs(tmp_path)))
    candidates = [replace(KNN, baseline=True), CandidateSpec("majority", {}, "majority", every=10, baseline=True)]
    results, _ = replay_all(source, candidates, ScoredSpan(), 0.0, ignore_progress)
    for result in results:
        alone = Replay(source, result.candidate)
        alone.run()
        assert result.report is not None and result.report.leads == alone.report().leads
        assert result.report.remedies == alone.report().remedies
    (warning,) = warn([result.report for result in results if result.report is not None])
    assert warning.startswith("majority is ") and "knn" not in warning


def test_a_regressor_far_behind_the_last_number_is_told_so(tmp_path: Path) -> None:
    rows = [{"input": {"x": n % 7}, "label": n // 50 * 10.0} for n in range(400)]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    still = run_replay(tmp_path / "log.jsonl", CandidateSpec("regressor", {"follow": False}, every=20)).report()
    (warning,) = warn([still])
    assert "is far behind a baseline that repeats the last number: mean absolute error" in warning
    assert "follow = true (--option follow=true)" in warning
