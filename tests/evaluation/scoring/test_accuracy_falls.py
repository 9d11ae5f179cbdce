"""Falls of the accuracy along a curve: found where they are, and not where chance makes them."""

import random
from collections.abc import Sequence

from online.evaluation.scoring.accuracy_falls import find_fall
from online.prequential import Curve, CurveSegment


def draw_curve(*stretches: tuple[int, float], seed: int = 0) -> Sequence[CurveSegment]:
    """stretches: numbers of answers, each with the chance that one is right."""
    rng, curve, offset = random.Random(seed), Curve(), 0
    for count, share in stretches:
        for _ in range(count):
            offset += 1
            curve.add({"model": float(rng.random() < share)}, offset)
    return curve.segments()


def test_a_fall_is_found_near_the_event_where_it_began() -> None:
    fall = find_fall(draw_curve((900, 0.94), (100, 0.03)))
    assert fall is not None and abs(fall.offset - 900) <= 10 and not fall.has_recovered
    assert fall.before > 0.9 and fall.after < 0.1 and fall.now == fall.after


def test_a_fall_after_which_the_accuracy_came_back_has_recovered() -> None:
    fall = find_fall(draw_curve((2_000, 0.9), (400, 0.3), (2_000, 0.9)))
    assert fall is not None and abs(fall.offset - 2_000) <= 20 and fall.has_recovered and fall.now > 0.85


def test_learning_is_no_fall() -> None:
    assert find_fall(draw_curve((300, 0.2), (300, 0.6), (2_000, 0.9))) is None
    assert find_fall([]) is None and find_fall(draw_curve((1, 1.0))) is None


def test_chance_alone_makes_no_fall() -> None:
    found = [find_fall(draw_curve((1_500, 0.7), seed=seed)) for seed in range(100)]
    assert found == [None] * 100
