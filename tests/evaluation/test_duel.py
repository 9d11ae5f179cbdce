"""Who is better, told at every moment with at most one chance in twenty of ever being wrong."""

import numpy as np
import pytest

from online.evaluation.duel import AverageSequence, Duel, boundary


def ever_outside(seed: int, drifting: bool) -> bool:
    """Whether the average of the chances ever lay outside of the interval."""
    draw, sequence, expected = np.random.default_rng(seed), AverageSequence(), 0.0
    chances = 0.5 + 0.3 * np.sin(np.arange(3_000) / 200) if drifting else np.full(3_000, 0.1)
    for part in range(0, 3_000, 10):
        now = chances[part : part + 10]
        sequence.add((draw.random(10) < now).astype(float))
        expected += float(now.sum())
        low, high = sequence.interval()
        if not low <= expected / sequence.count <= high:
            return True
    return False


@pytest.mark.parametrize("drifting", [False, True])
def test_the_interval_holds_the_average_at_every_moment(drifting: bool) -> None:
    assert sum(ever_outside(seed, drifting) for seed in range(300)) <= 0.05 * 300


def test_it_narrows_with_the_examples_and_with_little_variance() -> None:
    calm, wild = AverageSequence(), AverageSequence()
    draw = np.random.default_rng(0)
    calm.add(np.where(draw.random(10_000) < 0.02, 1.0, 0.5))
    wild.add(draw.integers(0, 2, 10_000).astype(float))
    widths = [np.ptp(each.interval()) for each in (calm, wild)]
    assert widths[0] < 0.01 < widths[1] < 0.05


def test_how_values_are_cut_into_chunks_does_not_matter() -> None:
    values, whole, parts = np.random.default_rng(0).random(1_000), AverageSequence(), AverageSequence()
    whole.add(values)
    for part in np.split(values, [1, 2, 50, 400]):
        parts.add(part)
    assert parts.interval() == pytest.approx(whole.interval(), abs=1e-12)


def test_the_boundary_is_the_stitched_one_of_the_paper() -> None:
    """1.7 sqrt(v (log log 2v + 0.72 log(5.2 / alpha))) + 3.4 (...) bounds it, to their two digits."""
    for variance in (1.0, 10.0, 1_000.0):
        inner = np.log(np.log(2 * variance)) + 0.72 * np.log(5.2 / 0.05)
        rough = 1.7 * np.sqrt(variance * inner) + 3.4 * inner
        assert 0.6 * rough < boundary(variance, 0.05) < 1.01 * rough


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


def test_for_numbers_it_is_who_was_nearer() -> None:
    duel = Duel(numbers=True)
    duel.add([(1, 1e9), (2, 0.1), (3, 5.0)], [(1, 0.0), (2, 0.2), (3, 5.0)])
    assert duel.told()["difference"] == 0
