"""CLINC150, class by class, on the frozen encoder: the accuracy of the exact heads, and its measures."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from benchmarks.clinc150 import examples_of, shuffled, split, tasks_of
from benchmarks.learning import (
    SLDA,
    SplitScores,
    ece_percent,
    highest_threshold,
    percent,
    score_split,
    summarize_accuracies,
    train_model,
)


@pytest.mark.long
def test_class_by_class_is_as_good_as_all_at_once(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_SHARED_DATA", str(shared_data))
    examples = examples_of(split("train"))
    incremental = train_model(SLDA, list(chain.from_iterable(tasks_of(examples))), batch=64)
    joint = train_model(SLDA, shuffled(examples), batch=1_000)
    assert incremental.fingerprint() == joint.fingerprint(), "nothing is forgotten"
    assert percent(score_split(incremental, split("test")).right_N) >= 92.5


def test_forgetting_is_the_mean_loss_from_a_tasks_best() -> None:
    final, anytime, forgotten = summarize_accuracies([[90.0], [80.0, 100.0], [85.0, 70.0, 60.0]])
    assert final == pytest.approx((85 + 70 + 60) / 3)
    assert anytime == pytest.approx((90 + 90 + (85 + 70 + 60) / 3) / 3)
    assert forgotten == pytest.approx((5 + 30 + 0) / 3)


def test_accurate_probabilities_have_no_calibration_error() -> None:
    right = np.arange(1_000) % 10 < 7
    assert ece_percent(np.full(1_000, 0.7), right) == pytest.approx(0, abs=1e-9)
    assert ece_percent(np.full(1_000, 0.9), right) == pytest.approx(20)
    assert ece_percent(np.ones(1_000), right) == pytest.approx(30)


def test_the_threshold_is_the_highest_that_keeps_enough_right_answers() -> None:
    confidence = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    scores = SplitScores(np.zeros((5, 0)), np.zeros((5, 0)), confidence, np.array([True, False, True, True, True]))
    assert highest_threshold(scores, 60.0) == 0.3
    assert highest_threshold(scores, 61.0) == 0.1
    assert highest_threshold(scores, 90.0) == 0.0, "even with no threshold there are not as many"
