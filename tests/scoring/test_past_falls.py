"""Falls of the accuracy along a curve: found where they are, and not where chance makes them."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from online.scoring.falls import find_past_fall
from online.scoring.prequential import Curve, CurveSegment
from online.scoring.recent_outcomes import OutcomeSpan


def draw_curve(*stretches: tuple[int, float], seed: int = 0) -> Sequence[CurveSegment]:
    """stretches: numbers of answers, each with the chance that one is right."""
    rng, curve, offset = random.Random(seed), Curve(), 0
    for count, share in stretches:
        for _ in range(count):
            offset += 1
            curve.add({"model": float(rng.random() < share)}, offset)
    return curve.segments()


def test_a_fall_is_found_near_the_event_where_it_began() -> None:
    fall = find_past_fall(draw_curve((900, 0.94), (100, 0.03)))
    assert fall is not None and abs(fall.fall.since - 900) <= 10 and not fall.has_recovered
    assert fall.fall.before.mean > 0.9 and fall.fall.after.mean < 0.1 and fall.now == fall.fall.after


def test_a_fall_after_which_the_accuracy_came_back_has_recovered() -> None:
    fall = find_past_fall(draw_curve((2_000, 0.9), (400, 0.3), (2_000, 0.9)))
    assert fall is not None and abs(fall.fall.since - 2_000) <= 20 and fall.has_recovered and fall.now.mean > 0.85


def test_a_fall_that_is_over_says_where_it_lasted_and_matters_if_it_was_deep_or_long_or_is_hardly_over() -> None:
    deep = find_past_fall(draw_curve((800, 0.96), (150, 0.01), (400, 0.96)))
    assert deep is not None and deep.has_recovered and deep.matters and not deep.has_hardly_recovered
    assert abs(deep.fall.since - 800) <= 5 and deep.until is not None and abs(deep.until - 950) <= 5
    assert abs(deep.fallen - 150) <= 5 and deep.total == 1_350 and deep.now.count == pytest.approx(400, abs=5)
    long = find_past_fall(draw_curve((2_000, 0.95), (1_000, 0.82), (2_000, 0.95)))
    assert long is not None and long.has_recovered and long.matters
    short = find_past_fall(draw_curve((3_000, 0.95), (250, 0.77), (500, 0.95)))
    assert short is not None and short.has_recovered and not short.matters
    assert replace(short, now=OutcomeSpan(90, 0.95)).matters and replace(short, now=OutcomeSpan(500, 0.8)).matters


def test_learning_is_no_fall() -> None:
    assert find_past_fall(draw_curve((300, 0.2), (300, 0.6), (2_000, 0.9))) is None
    assert find_past_fall([]) is None and find_past_fall(draw_curve((1, 1.0))) is None


def test_chance_alone_makes_no_fall() -> None:
    found = [find_past_fall(draw_curve((1_500, 0.7), seed=seed)) for seed in range(100)]
    assert found == [None] * 100
