"""Votes of others about the same question, and the test behind a quarantine."""

from fractions import Fraction
from math import comb

import pytest

from online.plugins.moderation.callers.agreement import (
    AgreementTally,
    Verdict,
    is_at_odds,
    judge,
    probability_of_at_most,
)
from online.plugins.moderation.callers.statements import Statement


def says(label: str, is_for: bool = True) -> Statement:
    return Statement("f", "h", b"", label, is_for, None, "2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    "statement, others, verdict",
    [
        (says("a"), [(says("a"), 1.0), (says("a"), 1.0), (says("b"), 1.0)], True),
        (says("b"), [(says("a"), 1.0), (says("a"), 1.0), (says("b"), 1.0)], False),
        (says("a", is_for=False), [(says("a"), 1.0), (says("a"), 1.0)], False),
        (says("a", is_for=False), [(says("b"), 1.0), (says("b"), 1.0)], True),
        (says("a"), [(says("a", is_for=False), 1.0)], False),
        (says("a"), [(says("b", is_for=False), 1.0)], None),  # nobody says what is right
        (says("a"), [(says("b"), 0.25)], None),  # one new holder is not enough
        (says("a"), [(says("b"), 0.25), (says("b"), 0.25)], False),
        (says("a"), [(says("b"), 0.25), (says("b"), 0.25), (says("b"), 0.25), (says("a"), 1.0)], True),
        (says("a"), [], None),
    ],
)
def test_others_decide_by_the_weight_of_their_votes(
    statement: Statement, others: list[tuple[Statement, float]], verdict: Verdict
) -> None:
    assert judge(statement, others) is verdict


@pytest.mark.parametrize("successes, trials, probability", [(0, 10, 0.5), (3, 40, 0.3), (70, 300, 0.25), (5, 5, 0.9)])
def test_the_tail_of_the_binomial_is_exact(successes: int, trials: int, probability: float) -> None:
    p = Fraction(probability)
    expected = float(sum(comb(trials, n) * p**n * (1 - p) ** (trials - n) for n in range(successes + 1)))
    assert probability_of_at_most(successes, trials, probability) == pytest.approx(expected, rel=1e-9)


def test_a_few_disagreements_are_no_reason_to_set_a_caller_apart() -> None:
    assert not is_at_odds(AgreementTally(5, 0), 0.9)  # too few to judge
    assert not is_at_odds(AgreementTally(20, 11), 0.9)
    assert is_at_odds(AgreementTally(20, 4), 0.9)
