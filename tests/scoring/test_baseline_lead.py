"""By how much a baseline is ahead of the model, with an interval."""

import numpy as np
import pytest

from online.scoring.baseline_lead import LeadCounts


def test_a_lead_counts_the_examples_that_judge_both() -> None:
    counts = LeadCounts()
    counts.add_all([1.0, 0.0, None, 0.0], [0.0, 1.0, 1.0, None])
    lead = counts.lead("it")
    assert lead is not None and (lead.pairs, lead.model, lead.other) == (2, 0.5, 0.5) and not lead.is_far
    assert LeadCounts().lead("it") is None


def test_a_lead_does_not_depend_on_the_chunks() -> None:
    draw = np.random.default_rng(0)
    model, other = (draw.random(1_000).round(3).tolist() for _ in range(2))
    whole, parts = LeadCounts(numbers=True), LeadCounts(numbers=True)
    whole.add_all(model, other)
    for start in range(0, 1_000, 7):
        parts.add_all(model[start : start + 7], other[start : start + 7])
    assert whole.lead("it") == parts.lead("it")


@pytest.mark.parametrize(("share", "count", "far"), [(0.17, 1_000, True), (0.17, 50, False), (0.02, 20_000, False)])
def test_a_baseline_is_far_ahead_if_its_lead_is_surely_more_than_two_points(
    share: float, count: int, far: bool
) -> None:
    counts, better = LeadCounts(), np.random.default_rng(0).random(count) < share
    counts.add_all([0.0] * count, better.astype(float).tolist())
    lead = counts.lead("it")
    assert lead is not None and lead.is_far is far and lead.size == pytest.approx(better.mean(), abs=1e-5)


def test_of_numbers_the_mean_error_and_the_nearer_answers_must_agree() -> None:
    often, rarely = LeadCounts(numbers=True), LeadCounts(numbers=True)
    often.add_all([2.0] * 500, [1.0] * 500)
    rarely.add_all([1.0] * 499 + [9_000.0], [2.0] * 500)  # nearer on one example alone
    for counts, far in ((often, True), (rarely, False)):
        lead = counts.lead("it")
        assert lead is not None and lead.is_far is far
