"""Calibration: the held-out examples, the temperature and the confidence."""

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import Example
from online.models.statistics.calibration import ENOUGH, Confidence, Holdout, fit_temperature, softmax
from tests.support import first_of

EXAMPLES = [Example(offset, "label", bytes([offset % 256]), f"label {offset % 7}") for offset in range(1, 301)]


def held_out(*parts: list[Example], capacity: int = 64) -> Holdout:
    holdout = Holdout(capacity)
    for part in parts:
        holdout.add(part)
    return holdout


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_the_same_examples_are_held_out_in_any_order(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(EXAMPLES))
    another = held_out(*([EXAMPLES[index]] for index in order))
    assert another.examples() == held_out(EXAMPLES).examples()
    assert another.lowest(10) == held_out(EXAMPLES).lowest(10)


def test_no_more_examples_are_held_out_than_the_capacity() -> None:
    holdout = Holdout(64)
    for example in EXAMPLES:
        holdout.add([example])
        assert len(holdout) == min(example.offset, 64)


def test_the_lowest_are_those_that_a_smaller_holdout_keeps() -> None:
    few = sorted(held_out(EXAMPLES).lowest(10), key=lambda example: example.offset)
    assert few == held_out(EXAMPLES, capacity=10).examples()


def test_held_out_examples_are_spread_evenly_over_the_stream() -> None:
    first_half = sum(example.offset <= 150 for example in held_out(EXAMPLES, capacity=100).examples())
    assert 35 <= first_half <= 65


def test_a_retracted_example_is_no_longer_held_out() -> None:
    holdout = held_out(EXAMPLES)
    retracted = holdout.examples()[:5]
    holdout.remove(retracted)
    assert not set(retracted) & set(holdout.examples())
    assert len(holdout) == 59
    holdout.add(retracted)
    assert holdout.examples() == held_out(EXAMPLES).examples()


def test_a_restored_holdout_continues_unchanged() -> None:
    holdout, another = held_out(EXAMPLES), Holdout(64)
    another.restore(holdout.part())
    assert another.examples() == holdout.examples()
    later = [Example(offset, "label", b"", "later") for offset in range(1_000, 1_100)]
    holdout.add(later)
    another.add(later)
    assert another.examples() == holdout.examples()


def test_its_revision_changes_only_with_the_held_out_examples() -> None:
    holdout = held_out(EXAMPLES)
    before = holdout.revision
    highest = next(e for e in EXAMPLES if e not in holdout.examples())
    holdout.add([highest])
    assert holdout.revision == before
    holdout.remove(holdout.examples()[:1])
    assert holdout.revision != before


# temperature


def draw_scores(temperature: float, count: int = 1_500) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Scores, and classes drawn from softmax(scores / temperature)."""
    draw = np.random.default_rng(0)
    logits_NC = draw.normal(0, 2, (count, 5))
    truth_N = (softmax(logits_NC).cumsum(1) < draw.random((count, 1))).sum(1)
    return temperature * logits_NC, truth_N


@pytest.mark.parametrize("temperature", [0.05, 1.0, 10.0])
@pytest.mark.parametrize("prior", [0.06, 4.0])
def test_fitting_finds_the_temperature_of_the_scores(temperature: float, prior: float) -> None:
    scores_NC, truth_N = draw_scores(temperature)
    assert fit_temperature(scores_NC, truth_N, prior) == pytest.approx(temperature, rel=0.15)


def test_without_held_out_examples_the_temperature_is_the_prior() -> None:
    assert fit_temperature(np.zeros((0, 3)), np.zeros(0, np.intp), 4.0) == 4.0


def test_examples_without_a_known_class_do_not_change_the_temperature() -> None:
    scores_NC, truth_N = draw_scores(3.0)
    outliers_NC = np.concatenate([scores_NC, 50 * np.eye(5)])
    with_outliers = fit_temperature(outliers_NC, np.concatenate([truth_N, np.full(5, -1)]), 4.0)
    assert with_outliers == fit_temperature(scores_NC, truth_N, 4.0)


def test_a_score_of_minus_infinity_has_probability_0() -> None:
    np.testing.assert_array_equal(softmax(np.array([[1.0, -np.inf, 1.0]])), [[0.5, 0.0, 0.5]])


# confidence


def draw_answers(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Probabilities, familiarities in another unit, and whether each answer is right, which depends on both."""
    draw = np.random.default_rng(seed)
    odds_N, familiar_N = draw.normal(2, 1.5, count), draw.normal(0, 1, count)
    right_N = draw.random(count) < 1 / (1 + np.exp(-(odds_N + 2 * familiar_N)))
    return 1 / (1 + np.exp(-odds_N)), 300 + 40 * familiar_N, right_N


def test_right_answers_get_a_higher_confidence_than_wrong_ones() -> None:
    fit = Confidence.fit(*draw_answers(400, seed=0))
    probability_N, familiar_N, right_N = draw_answers(400, seed=1)
    by_fit, by_probability = fit(probability_N, familiar_N), probability_N
    assert compute_auc(by_fit, right_N) > max(0.85, compute_auc(by_probability, right_N) + 0.05)


def compute_auc(confidence_N: NDArray[np.float64], right_N: NDArray[np.bool_]) -> float:
    """How often a right answer has a higher confidence than a wrong one."""
    return float((confidence_N[right_N][:, None] > confidence_N[~right_N]).mean())


def test_a_confidence_is_the_share_of_right_answers() -> None:
    fit = Confidence.fit(*draw_answers(1_000, seed=0))
    probability_N, familiar_N, right_N = draw_answers(4_000, seed=1)
    confidence_N = fit(probability_N, familiar_N)
    for low in (0.2, 0.4, 0.6, 0.8):
        within = (confidence_N >= low) & (confidence_N < low + 0.2)
        assert right_N[within].mean() == pytest.approx(confidence_N[within].mean(), abs=0.08)


@pytest.mark.parametrize("right", [True, False])
def test_the_confidence_is_the_probability_if_all_answers_are_right_or_all_are_wrong(right: bool) -> None:
    probability_N, familiar_N, _ = draw_answers(400, seed=0)
    fit = Confidence.fit(probability_N, familiar_N, np.full(400, right))
    assert fit == Confidence()
    np.testing.assert_allclose(fit(probability_N, familiar_N), probability_N, atol=1e-5)


@pytest.mark.parametrize("apart", [1.0, 20.0, 200.0])
def test_perfectly_separable_answers_are_separated(apart: float) -> None:
    """Full Newton steps diverge here."""
    right_N = np.arange(400) < 300
    probability_N = np.where(right_N, 1 - 1e-7, 0.9)
    familiar_N = np.where(right_N, apart, -apart) + np.random.default_rng(0).normal(0, 0.1, 400)
    confidence_N = Confidence.fit(probability_N, familiar_N, right_N)(probability_N, familiar_N)
    assert confidence_N[right_N].min() > 0.95 and confidence_N[~right_N].max() < 0.2


def test_too_few_answers_fit_no_confidence() -> None:
    assert Confidence.fit(*draw_answers(ENOUGH - 1, seed=0)) == Confidence()
    assert Confidence.fit(*draw_answers(ENOUGH, seed=0)) != Confidence()


def test_a_constant_familiarity_gives_finite_confidences() -> None:
    probability_N, _, right_N = draw_answers(400, seed=0)
    assert np.isfinite(
        Confidence.fit(probability_N, np.full(400, 7.0), right_N)(probability_N, np.full(400, 7.0))
    ).all()


@pytest.mark.parametrize("probability", [0.0, 1e-300, 1.0])
def test_extreme_probabilities_give_a_confidence_within_0_and_1(probability: float) -> None:
    confidence = Confidence()(np.array([probability]), np.array([1e300]))
    assert 0 <= confidence[0] <= 1
