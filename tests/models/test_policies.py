"""A policy says with which probability it chooses, and chooses so."""

from collections import Counter

import numpy as np
import pytest

from online.models.policies import POLICIES, POLICY_OPTIONS, Policy

REWARDS = np.array([0.6, 0.3, 0.08, 0.02])
SCORES = 40 * np.log(REWARDS)
DOUBTS = np.array([10.0, 40.0, 40.0, 10.0])
KEYS = range(4_000)


def policy(name: str, **options: float) -> Policy:
    return Policy.of({**POLICY_OPTIONS, "policy": name, **options})


def choose(chosen: Policy, key: int) -> tuple[int, float]:
    return chosen.choose(REWARDS, SCORES, DOUBTS, key)


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_key_draws_the_same_choice(name: str) -> None:
    assert [choose(policy(name), key) for key in range(50)] == [choose(policy(name), key) for key in range(50)]


def test_greedy_gives_the_best_with_certainty() -> None:
    assert {choose(policy("greedy"), key) for key in KEYS} == {(0, 1.0)}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("epsilon", {"epsilon": 0.2}, [0.85, 0.05, 0.05, 0.05]),
        ("epsilon", {"epsilon": 0.0}, [1.0, 0.0, 0.0, 0.0]),
        ("squarecb", {"gamma": 10.0}, [1 - 1 / 7 - 1 / 9.2 - 1 / 9.8, 1 / 7, 1 / 9.2, 1 / 9.8]),
    ],
)
def test_closed_forms_are_the_shares_in_which_each_is_chosen(
    name: str, options: dict[str, float], expected: list[float]
) -> None:
    made = [choose(policy(name, **options), key) for key in KEYS]
    assert all(propensity == pytest.approx(expected[place]) for place, propensity in made)
    shares = Counter(place for place, _ in made)
    assert [shares[place] / len(KEYS) for place in range(4)] == pytest.approx(expected, abs=0.025)


def test_thompson_sampling_logs_propensities_that_average_to_its_choices() -> None:
    """Inverse propensity weights are unbiased: what was chosen, weighted by 1 / propensity, counts once a question."""
    made = [choose(policy("lin_ts", epsilon=0.2), key) for key in KEYS]
    weights = np.zeros(4)
    for place, propensity in made:
        weights[place] += 1 / propensity / len(KEYS)
    assert weights == pytest.approx([1.0, 1.0, 1.0, 1.0], abs=0.2)


def test_thompson_sampling_never_goes_below_its_floor() -> None:
    assert min(choose(policy("lin_ts", epsilon=0.2), key)[1] for key in KEYS) >= 0.05


def test_thompson_sampling_without_doubt_is_greedy() -> None:
    certain = policy("lin_ts", epsilon=0.0)
    assert {certain.choose(REWARDS, SCORES, np.zeros(4), key) for key in range(100)} == {(0, 1.0)}


@pytest.mark.parametrize("name", POLICIES)
def test_one_candidate_is_chosen_for_certain(name: str) -> None:
    place, propensity = policy(name).choose(np.ones(1), np.zeros(1), np.ones(1), 7)
    assert place == 0
    assert propensity == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"policy": "oracle"}, "unknown policy 'oracle'; one of greedy"),
        ({"epsilon": 1.5}, "epsilon must lie in"),
        ({"gamma": 0.0}, "gamma and draws above 0"),
        ({"draws": 0}, "gamma and draws above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Policy.of({**POLICY_OPTIONS, **options})
