"""The vote: what each memory makes of the members' losses, and which memory is served."""

import numpy as np
import pytest

from online.models import Answer
from online.models.contract import build_candidates
from online.plugins.ensembles.votes import (
    EAGERNESS_K,
    MEMORIES,
    Ballot,
    MemoryChoice,
    add_losses,
    compute_shares,
    compute_weights,
    extend_losses,
)


def answer(**chances: float) -> Answer:
    candidates = build_candidates([*chances], [*chances.values()])
    return Answer(candidates[0].id, candidates, candidates[0].score)


def test_chances_are_averaged_by_weight_and_members_without_an_answer_do_not_count() -> None:
    losses = [np.log(5 / weight) / EAGERNESS_K for weight in (1.0, 3.0, 5.0)]
    ballot = Ballot([answer(a=0.9, b=0.1), answer(b=0.6, a=0.4), Answer(None, ())], [each.tolist() for each in losses])
    voted = ballot.vote(0)
    assert voted.choice == "a"
    assert [(id, round(score, 3)) for id, score, _ in voted.candidates] == [("a", 0.525), ("b", 0.475)]


def test_the_first_memory_counts_brier_scores_and_the_others_errors_too() -> None:
    once = add_losses([0.0] * len(MEMORIES), 0.5, True)
    assert once == [0.5, 1.5, 1.5, 1.5]
    assert add_losses(once, 0.0, False) == pytest.approx(
        [m.fading * loss for m, loss in zip(MEMORIES, once, strict=True)]
    )


def test_losses_of_few_examples_are_extended_at_their_rate() -> None:
    few, many = [0.0] * len(MEMORIES), [0.0] * len(MEMORIES)
    for place in range(900):
        few = add_losses(few, 0.5, True) if place < 40 else few
        many = add_losses(many, 0.5, True)
    assert extend_losses(few, 40, 900) == pytest.approx(many)


def test_the_shares_of_active_members_add_up_to_one() -> None:
    losses = {name: [loss] * len(MEMORIES) for name, loss in (("a", 1.0), ("b", 3.0), ("rests", 2.0))}
    shares = compute_shares(losses, ["a", "b"], 0)
    assert shares["a"] + shares["b"] == pytest.approx(1)
    assert shares["a"] > shares["rests"] > shares["b"]
    assert compute_weights([[1.0] * 4, [1.0] * 4]).tolist() == [[1.0] * 4] * 2


def test_the_memory_whose_vote_errs_least_is_served() -> None:
    choice = MemoryChoice()
    assert choice.best == 0
    members = [answer(a=0.6, b=0.4), answer(b=0.6, a=0.4)]
    losses = [[9.0, 0.0, 9.0, 9.0], [0.0, 9.0, 0.0, 0.0]]  # only the second memory trusts the first member
    for _ in range(3):
        choice.score(Ballot(members, losses).find_choices(), "a")
    assert choice.best == 1
    assert choice.errors[1] == 0
    choice.score(Ballot([Answer(None, ())], [[0.0] * 4]).find_choices(), "a")
    assert choice.errors[1] == 1
