"""Who is better, told at every moment with at most one chance in twenty of ever being wrong."""

import numpy as np
import pytest

from online.evaluation.duel import Duel


def test_losses_are_paired_by_their_example_whenever_they_come() -> None:
    duel = Duel(numbers=False)
    duel.add([(1, 1.0), (2, 0.0), (4, None)], [(1, 0.0)])
    duel.add([(3, 1.0)], [(2, 0.0), (3, 0.0), (4, 0.0)])
    assert duel.told()["pairs"] == 3 and duel.told()["difference"] == pytest.approx(2 / 3)
    assert duel.verdict == "undecided"
    assert duel.waiting == ({}, {})  # what one of them is silent about is waited for no longer


def test_the_better_one_is_told_from_the_worse_one() -> None:
    duel, other = Duel(numbers=False), Duel(numbers=False)
    draw = np.random.default_rng(0)
    for part in range(0, 2_000, 100):
        good, bad = ([(part + n, float(draw.random() < rate)) for n in range(100)] for rate in (0.1, 0.3))
        duel.add(bad, good)
        other.add(good, bad)
    assert (duel.verdict, other.verdict) == ("better", "worse")
    assert duel.decided_at == other.decided_at and 0 < (duel.decided_at or 0) < 2_000


def test_a_verdict_is_told_of_the_very_pair_that_decided_it() -> None:
    draw = np.random.default_rng(0)
    good, bad = ([(n, float(draw.random() < rate)) for n in range(2_000)] for rate in (0.1, 0.3))
    at_once, one_by_one = Duel(numbers=False), Duel(numbers=False)
    at_once.add(bad, good)
    for one, other in zip(bad, good, strict=True):
        one_by_one.add([one], [other])
        if one_by_one.verdict != "undecided":
            break
    assert at_once.decided_at == one_by_one.decided_at == one_by_one.sequence.count


def test_for_numbers_it_is_who_was_nearer() -> None:
    duel = Duel(numbers=True)
    duel.add([(1, 1e9), (2, 0.1), (3, 5.0)], [(1, 0.0), (2, 0.2), (3, 5.0)])
    assert duel.told()["difference"] == 0
