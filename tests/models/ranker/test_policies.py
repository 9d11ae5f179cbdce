"""Policies: the propensity that each reports, and that its choices have that frequency."""

from collections import Counter

import numpy as np
import pytest

from online.models.options import defaults
from online.models.ranker.policies import POLICIES, POLICY_OPTIONS, Policy

REWARDS = np.array([0.6, 0.3, 0.08, 0.02])
SCORES = 40 * np.log(REWARDS)
DEVIATIONS = np.array([10.0, 40.0, 40.0, 10.0])
KEYS = range(4_000)


def policy(name: str, **options: float) -> Policy:
    return Policy.of({**defaults(POLICY_OPTIONS), "policy": name, **options})


def choose(chooser: Policy, key: int) -> tuple[int, float]:
    return chooser.choose(REWARDS, SCORES, DEVIATIONS, key)


@pytest.mark.parametrize("name", POLICIES)
def test_equal_keys_give_equal_choices(name: str) -> None:
    assert [choose(policy(name), key) for key in range(50)] == [choose(policy(name), key) for key in range(50)]


def test_greedy_always_chooses_the_best_candidate() -> None:
    assert {choose(policy("greedy"), key) for key in KEYS} == {(0, 1.0)}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("epsilon", {"epsilon": 0.2}, [0.85, 0.05, 0.05, 0.05]),
        ("epsilon", {"epsilon": 0.0}, [1.0, 0.0, 0.0, 0.0]),
        ("squarecb", {"gamma": 10.0}, [1 - 1 / 7 - 1 / 9.2 - 1 / 9.8, 1 / 7, 1 / 9.2, 1 / 9.8]),
    ],
)
def test_each_candidate_is_chosen_as_often_as_its_propensity_says(
    name: str, options: dict[str, float], expected: list[float]
) -> None:
    decisions = [choose(policy(name, **options), key) for key in KEYS]
    assert all(propensity == pytest.approx(expected[index]) for index, propensity in decisions)
    shares = Counter(index for index, _ in decisions)
    assert [shares[index] / len(KEYS) for index in range(4)] == pytest.approx(expected, abs=0.025)


def test_thompson_sampling_logs_unbiased_propensities() -> None:
    """The choices of each candidate, weighted by 1 / propensity, add up to the number of questions."""
    decisions = [choose(policy("lin_ts", epsilon=0.2), key) for key in KEYS]
    weights = np.zeros(4)
    for index, propensity in decisions:
        weights[index] += 1 / propensity / len(KEYS)
    assert weights == pytest.approx([1.0, 1.0, 1.0, 1.0], abs=0.2)


def test_a_propensity_of_thompson_sampling_is_never_below_its_floor() -> None:
    assert min(choose(policy("lin_ts", epsilon=0.2), key)[1] for key in KEYS) >= 0.05


def test_thompson_sampling_without_uncertainty_is_greedy() -> None:
    sampler = policy("lin_ts", epsilon=0.0)
    assert {sampler.choose(REWARDS, SCORES, np.zeros(4), key) for key in range(100)} == {(0, 1.0)}


@pytest.mark.parametrize("name", POLICIES)
def test_a_single_candidate_is_chosen_with_certainty(name: str) -> None:
    index, propensity = policy(name).choose(np.ones(1), np.zeros(1), np.ones(1), 7)
    assert index == 0
    assert propensity == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "oracle"}, "unknown policy 'oracle'; use one of optimistic, greedy"),
        ({"epsilon": 1.5}, "epsilon must lie in"),
        ({"gamma": 0.0}, "gamma and draws above 0"),
        ({"draws": 0}, "gamma and draws above 0"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Policy.of({**defaults(POLICY_OPTIONS), **options})
