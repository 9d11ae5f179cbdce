"""The paired comparison of two models, valid at every moment with an error probability of at most 5 %."""

import numpy as np
import pytest

from online.scoring.paired_comparison import PairedComparison


def test_losses_are_paired_by_example_in_any_order_of_arrival() -> None:
    comparison = PairedComparison(numbers=False)
    comparison.add([(1, 1.0), (2, 0.0), (4, None)], [(1, 0.0)])
    comparison.add([(3, 1.0)], [(2, 0.0), (3, 0.0), (4, 0.0)])
    assert comparison.as_dict()["pairs"] == 3 and comparison.as_dict()["difference"] == pytest.approx(2 / 3)
    assert comparison.verdict == "undecided"
    assert comparison.waiting == ({}, {})  # an example without a loss is no longer waited for


def test_the_better_model_gets_the_verdict_better() -> None:
    comparison, other = PairedComparison(numbers=False), PairedComparison(numbers=False)
    rng = np.random.default_rng(0)
    for part in range(0, 2_000, 100):
        good, bad = ([(part + n, float(rng.random() < rate)) for n in range(100)] for rate in (0.1, 0.3))
        comparison.add(bad, good)
        other.add(good, bad)
    assert (comparison.verdict, other.verdict) == ("better", "worse")
    assert comparison.decided_at == other.decided_at and 0 < (comparison.decided_at or 0) < 2_000


def test_decided_at_is_the_pair_that_decided() -> None:
    rng = np.random.default_rng(0)
    good, bad = ([(n, float(rng.random() < rate)) for n in range(2_000)] for rate in (0.1, 0.3))
    at_once, one_by_one = PairedComparison(numbers=False), PairedComparison(numbers=False)
    at_once.add(bad, good)
    for one, other in zip(bad, good, strict=True):
        one_by_one.add([one], [other])
        if one_by_one.verdict != "undecided":
            break
    assert at_once.decided_at == one_by_one.decided_at == one_by_one.sequence.count


def test_for_numbers_only_the_smaller_error_counts() -> None:
    comparison = PairedComparison(numbers=True)
    comparison.add([(1, 1e9), (2, 0.1), (3, 5.0)], [(1, 0.0), (2, 0.2), (3, 5.0)])
    assert comparison.as_dict()["difference"] == 0
