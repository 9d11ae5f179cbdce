"""Intervals hold what they promise to hold, at the end and on the way."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from online.scoring.intervals import (
    AverageSequence,
    LowerSequence,
    PolicySequence,
    bernstein,
    bootstrap,
    percentiles,
    stitched_boundary,
)

RUNS, STEPS = 300, 600


def draws(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def ever_missed(values: NDArray[np.float64], expected: NDArray[np.float64], alpha: float) -> bool:
    """Whether the interval ever lost the average of what was to be expected, looked at after every tenth value."""
    sequence = AverageSequence(alpha)
    for part in range(0, len(values), 10):
        sequence.add(values[part : part + 10])
        low, high = sequence.interval()
        if not low <= expected[: sequence.count].mean() <= high:
            return True
    return False


WAVE = 0.5 + 0.3 * np.sin(np.arange(3_000) / 200)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda rng: (rng.random(3_000) < 0.1).astype(float), np.full(3_000, 0.1)),
        (lambda rng: (rng.random(3_000) < WAVE).astype(float), WAVE),
        (lambda rng: rng.random(STEPS), np.full(STEPS, 0.5)),
        (lambda rng: rng.choice([0.0, 0.5, 1.0], STEPS, p=[0.1, 0.85, 0.05]), np.full(STEPS, 0.475)),
    ],
    ids=["seldom", "a wave", "uniform", "differences"],
)
def test_the_interval_contains_the_average_at_all_times_together(
    draw: Callable[[np.random.Generator], NDArray[np.float64]], expected: NDArray[np.float64]
) -> None:
    missed = sum(ever_missed(draw(draws(seed)), expected, 0.05) for seed in range(RUNS))
    assert missed <= 0.05 * RUNS  # that is what is promised at most; it is far less, since this is a bound


def test_a_fixed_size_interval_fails_when_it_is_checked_at_all_times() -> None:
    """Why a sequence is needed at all: the same looks at the usual 90 % interval."""

    def peeked(values: NDArray[np.float64]) -> bool:
        ends = np.arange(20, STEPS + 1, 20)
        means = values.cumsum()[ends - 1] / ends
        return bool((np.abs(means - 0.5) > 1.645 * np.sqrt(1 / 12 / ends)).any())

    assert sum(peeked(draws(seed).random(STEPS)) for seed in range(RUNS)) > 0.25 * RUNS


def test_the_sequence_shrinks_and_its_mean_is_the_mean() -> None:
    values = draws(1).random(20_000)
    sequence, widths = AverageSequence(), []
    for part in np.split(values, 4):
        sequence.add(part)
        low, high = sequence.interval()
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.04
    assert sequence.count == 20_000 and sequence.mean == pytest.approx(values.mean())


def test_without_values_the_interval_is_the_whole_range() -> None:
    sequence = AverageSequence()
    sequence.add(np.array([]))
    assert sequence.interval() == (0.0, 1.0) and sequence.count == 0


def test_the_interval_narrows_with_more_examples_and_less_variance() -> None:
    calm, wild = AverageSequence(), AverageSequence()
    draw = np.random.default_rng(0)
    calm.add(np.where(draw.random(10_000) < 0.02, 1.0, 0.5))
    wild.add(draw.integers(0, 2, 10_000).astype(float))
    widths = [np.ptp(each.interval()) for each in (calm, wild)]
    assert widths[0] < 0.01 < widths[1] < 0.05


def test_the_interval_does_not_depend_on_chunks() -> None:
    values, whole, parts = np.random.default_rng(0).random(1_000), AverageSequence(), AverageSequence()
    whole.add(values)
    for part in np.split(values, [1, 2, 50, 400]):
        parts.add(part)
    assert parts == whole


def test_the_boundary_is_the_stitched_boundary_of_the_paper() -> None:
    """1.7 sqrt(v (log log 2v + 0.72 log(5.2 / alpha))) + 3.4 (...) bounds it, to their two digits."""
    for variance in (1.0, 10.0, 1_000.0):
        inner = np.log(np.log(2 * variance)) + 0.72 * np.log(5.2 / 0.05)
        rough = 1.7 * np.sqrt(variance * inner) + 3.4 * inner
        assert 0.6 * rough < stitched_boundary(np.array([variance]), 0.05)[0] < 1.01 * rough


def test_one_step_of_the_bound_equals_the_formula() -> None:
    sequence = LowerSequence(0.05)
    sequence.add(np.array([0.9]))
    bet = min(math.sqrt(2 * math.log(20) / (0.25 * math.log(2))), 0.5)
    paid = (-math.log(1 - bet) - bet) * (0.9 - 0.5) ** 2
    assert bet * 0.9 - paid - math.log(20) == pytest.approx(sequence.won - sequence.paid - math.log(20))
    assert sequence.bound == 0.0  # one value says next to nothing


def weighted(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two actions, the second logged in a tenth of the cases and always the target's; it earns 0.7."""
    rare = rng.random(STEPS) < 0.1
    return np.where(rare, 10.0, 0.0), np.where(rare, rng.random(STEPS) < 0.7, 0.2).astype(float)


def test_the_interval_contains_a_policys_value_at_all_times_for_any_weights() -> None:
    missed = 0
    for seed in range(RUNS):
        weights, rewards = weighted(draws(seed))
        sequence, lost = PolicySequence(0.9), False
        for part in np.split(np.arange(STEPS), 30):
            sequence.add(weights[part], rewards[part])
            low, high = sequence.interval()
            lost = lost or not low <= 0.7 <= high
        missed += lost
    assert missed <= 0.1 * RUNS


def test_a_policy_that_is_half_outside_the_log_gets_an_interval_of_at_least_that_half() -> None:
    """Half of the target's choices were never made; the other half earned 0.8: between 0.4 and 0.9 all is possible."""
    rng = draws(3)
    sequence = PolicySequence()
    sequence.add(np.full(50_000, 0.5), (rng.random(50_000) < 0.8).astype(float))
    low, high = sequence.interval()
    assert low == pytest.approx(0.4, abs=0.02) and high == pytest.approx(0.9, abs=0.02)


def test_the_bernstein_interval_is_that_of_maurer_and_pontil() -> None:
    values = np.array([0.0, 1.0] * 200)
    cost = math.log(4 / 0.05)
    reach = math.sqrt(2 * values.var(ddof=1) * cost / 400) + 7 * cost / (3 * 399)
    assert bernstein(values, 0.0, 1.0) == pytest.approx((0.5 - reach, 0.5 + reach))
    wide = bernstein(10 * values, 0.0, 10.0)
    assert wide == pytest.approx((5 - 10 * reach, 5 + 10 * reach))
    assert bernstein(np.array([0.3]), 0.0, 1.0) == (0.0, 1.0)


def test_the_bootstrap_is_seeded_and_as_wide_as_the_normal_interval() -> None:
    values = draws(4).random(2_000)[:, None]
    first, again = (bootstrap(values, 1_000, seed=7)[:, 0] for _ in range(2))
    assert (first == again).all() and (bootstrap(values, 1_000, seed=8)[:, 0] != first).any()
    low, high = percentiles(first)
    expected = 2 * 1.96 * values.std() / math.sqrt(2_000)
    assert high - low == pytest.approx(expected, rel=0.1)  # of 1,000 draws the quantiles are known to some 4 %
