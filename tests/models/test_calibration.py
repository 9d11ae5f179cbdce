"""How far scores are believed: what is held out, the temperature, the confidence."""

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import Example
from online.models.calibration import ENOUGH, Confidence, Holdout, fitted_temperature, softmax

EXAMPLES = [Example(offset, "label", bytes([offset % 256]), f"label {offset % 7}") for offset in range(1, 301)]


def held_out(*parts: list[Example], capacity: int = 64) -> Holdout:
    made = Holdout(capacity)
    for part in parts:
        made.add(part)
    return made


@pytest.mark.parametrize("seed", range(3))
def test_the_same_examples_are_held_out_whatever_their_order(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(EXAMPLES))
    other = held_out(*([EXAMPLES[place]] for place in order))
    assert other.examples() == held_out(EXAMPLES).examples()
    assert other.lowest(10) == held_out(EXAMPLES).lowest(10)


def test_no_more_are_held_out_than_there_is_room_for() -> None:
    made = Holdout(64)
    for example in EXAMPLES:
        made.add([example])
        assert len(made) == min(example.offset, 64)


def test_the_lowest_are_those_that_a_smaller_holdout_would_keep() -> None:
    few = sorted(held_out(EXAMPLES).lowest(10), key=lambda example: example.offset)
    assert few == held_out(EXAMPLES, capacity=10).examples()


def test_which_are_held_out_has_nothing_to_do_with_when_they_came() -> None:
    first_half = sum(example.offset <= 150 for example in held_out(EXAMPLES, capacity=100).examples())
    assert 35 <= first_half <= 65


def test_what_was_retracted_is_no_longer_held_out() -> None:
    made = held_out(EXAMPLES)
    gone = made.examples()[:5]
    made.remove(gone)
    assert not set(gone) & set(made.examples())
    assert len(made) == 59
    made.add(gone)
    assert made.examples() == held_out(EXAMPLES).examples()


def test_a_holdout_is_recalled_as_it_was() -> None:
    made, other = held_out(EXAMPLES), Holdout(64)
    other.recall(made.part())
    assert other.examples() == made.examples()
    later = [Example(offset, "label", b"", "later") for offset in range(1_000, 1_100)]
    made.add(later)
    other.add(later)
    assert other.examples() == made.examples()


def test_its_revision_changes_only_with_what_is_held_out() -> None:
    made = held_out(EXAMPLES)
    before = made.revision
    highest = next(e for e in EXAMPLES if e not in made.examples())
    made.add([highest])
    assert made.revision == before
    made.remove(made.examples()[:1])
    assert made.revision != before


# temperature


def asked_and_answered(temperature: float, count: int = 1_500) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Scores, and truths drawn from softmax(scores / temperature)."""
    draw = np.random.default_rng(0)
    logits_NC = draw.normal(0, 2, (count, 5))
    truth_N = (softmax(logits_NC).cumsum(1) < draw.random((count, 1))).sum(1)
    return temperature * logits_NC, truth_N


@pytest.mark.parametrize("temperature", [0.05, 1.0, 10.0])
@pytest.mark.parametrize("prior", [0.06, 4.0])
def test_the_temperature_of_the_scores_is_found(temperature: float, prior: float) -> None:
    scores_NC, truth_N = asked_and_answered(temperature)
    assert fitted_temperature(scores_NC, truth_N, prior) == pytest.approx(temperature, rel=0.15)


def test_without_held_out_examples_the_temperature_is_the_prior() -> None:
    assert fitted_temperature(np.zeros((0, 3)), np.zeros(0, np.intp), 4.0) == 4.0


def test_examples_of_no_class_say_nothing_of_the_temperature() -> None:
    scores_NC, truth_N = asked_and_answered(3.0)
    strange_NC = np.concatenate([scores_NC, 50 * np.eye(5)])
    with_strange = fitted_temperature(strange_NC, np.concatenate([truth_N, np.full(5, -1)]), 4.0)
    assert with_strange == fitted_temperature(scores_NC, truth_N, 4.0)


def test_a_class_that_is_out_of_the_question_has_no_chance() -> None:
    np.testing.assert_array_equal(softmax(np.array([[1.0, -np.inf, 1.0]])), [[0.5, 0.0, 0.5]])


# confidence


def answers(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Chances, familiarities in a unit of their own, and whether each answer was right: both have a say in it."""
    draw = np.random.default_rng(seed)
    odds_N, familiar_N = draw.normal(2, 1.5, count), draw.normal(0, 1, count)
    right_N = draw.random(count) < 1 / (1 + np.exp(-(odds_N + 2 * familiar_N)))
    return 1 / (1 + np.exp(-odds_N)), 300 + 40 * familiar_N, right_N


def test_right_answers_get_the_higher_confidence() -> None:
    fit = Confidence.fitted(*answers(400, seed=0))
    chance_N, familiar_N, right_N = answers(400, seed=1)
    by_fit, by_chance = fit(chance_N, familiar_N), chance_N
    assert ordered(by_fit, right_N) > max(0.85, ordered(by_chance, right_N) + 0.05)


def ordered(confidence_N: NDArray[np.float64], right_N: NDArray[np.bool_]) -> float:
    """How often a right answer stands above a wrong one."""
    return float((confidence_N[right_N][:, None] > confidence_N[~right_N]).mean())


def test_a_confidence_can_be_taken_at_its_word() -> None:
    fit = Confidence.fitted(*answers(1_000, seed=0))
    chance_N, familiar_N, right_N = answers(4_000, seed=1)
    believed_N = fit(chance_N, familiar_N)
    for low in (0.2, 0.4, 0.6, 0.8):
        within = (believed_N >= low) & (believed_N < low + 0.2)
        assert right_N[within].mean() == pytest.approx(believed_N[within].mean(), abs=0.08)


@pytest.mark.parametrize("right", [True, False])
def test_where_all_answers_agree_the_chance_itself_is_the_confidence(right: bool) -> None:
    chance_N, familiar_N, _ = answers(400, seed=0)
    fit = Confidence.fitted(chance_N, familiar_N, np.full(400, right))
    assert fit == Confidence()
    np.testing.assert_allclose(fit(chance_N, familiar_N), chance_N, atol=1e-5)


@pytest.mark.parametrize("apart", [1.0, 20.0, 200.0])
def test_answers_that_can_be_told_apart_without_exception_are(apart: float) -> None:
    """Newton's whole steps diverge here."""
    right_N = np.arange(400) < 300
    chance_N = np.where(right_N, 1 - 1e-7, 0.9)
    familiar_N = np.where(right_N, apart, -apart) + np.random.default_rng(0).normal(0, 0.1, 400)
    believed_N = Confidence.fitted(chance_N, familiar_N, right_N)(chance_N, familiar_N)
    assert believed_N[right_N].min() > 0.95 and believed_N[~right_N].max() < 0.2


def test_too_few_answers_teach_no_confidence() -> None:
    assert Confidence.fitted(*answers(ENOUGH - 1, seed=0)) == Confidence()
    assert Confidence.fitted(*answers(ENOUGH, seed=0)) != Confidence()


def test_a_familiarity_that_never_varies_is_no_obstacle() -> None:
    chance_N, _, right_N = answers(400, seed=0)
    assert np.isfinite(Confidence.fitted(chance_N, np.full(400, 7.0), right_N)(chance_N, np.full(400, 7.0))).all()


@pytest.mark.parametrize("chance", [0.0, 1e-300, 1.0])
def test_the_most_extreme_chances_have_a_confidence(chance: float) -> None:
    believed = Confidence()(np.array([chance]), np.array([1e300]))
    assert 0 <= believed[0] <= 1
