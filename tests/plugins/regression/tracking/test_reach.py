"""The width of intervals: it approaches the promised share in a world that changes."""

import numpy as np
import pytest

from online.plugins.regression.tracking.reach import IntervalReach, student_t


def measure_share(scores: list[float], level: float) -> float:
    """How often a score was within the factor that was given before it."""
    reach, inside = IntervalReach(level), []
    for score in scores:
        inside.append(score <= reach.factor)
        reach.add(score)
    return float(np.mean(inside))


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("factor", [0.1, 1.0, 6.0])
def test_scores_that_are_wrong_by_a_factor_are_contained_as_often_as_promised(level: float, factor: float) -> None:
    scores = factor * np.abs(np.random.default_rng(0).normal(size=1_500))
    assert measure_share(scores.tolist(), level) == pytest.approx(level, abs=0.03)


def test_scores_that_become_larger_and_smaller_are_contained_as_often_as_promised() -> None:
    sizes = np.repeat([1.0, 8.0, 0.5, 3.0], 400)
    scores = sizes * np.abs(np.random.default_rng(1).normal(size=1_600))
    assert measure_share(scores.tolist(), 0.9) == pytest.approx(0.9, abs=0.03)


def test_before_any_score_the_width_is_that_of_normal_errors() -> None:
    assert IntervalReach(0.9).factor == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.95])
def test_a_factor_is_finite_for_every_level(level: float) -> None:
    reach = IntervalReach(level)
    for score in (0.0, 1e12, 0.0, 3.0):
        reach.add(score)
        assert 0 <= reach.factor < 1e13


@pytest.mark.parametrize(
    ("level", "table"),  # two-sided, from the tables of the t distribution
    [
        (0.9, {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 10: 1.812, 30: 1.697, 1_000: 1.646}),
        (0.5, {1: 1.000, 2: 0.816, 3: 0.765, 5: 0.727, 30: 0.683}),
        (0.95, {1: 12.706, 2: 4.303, 4: 2.776, 10: 2.228}),
    ],
)
def test_student_t_equals_the_published_tables(level: float, table: dict[int, float]) -> None:
    for freedom, expected in table.items():
        assert student_t(level, freedom) == pytest.approx(expected, rel=0.006)
