"""The vote of an ensemble's members, weighted by their losses, and the loss of an answer."""

from collections.abc import Mapping, Sequence

import numpy as np

from online.models.contract import Answer, build_candidates

EAGERNESS = 0.3  # how fast the weights of the vote follow the loss


def compute_weights(losses: Sequence[float]) -> list[float]:
    """What each vote counts for, in relation to the best: exp(-EAGERNESS * its distance in fading loss)."""
    best = min(losses)
    weights: list[float] = np.exp([EAGERNESS * (best - loss) for loss in losses]).tolist()
    return weights


def compute_shares(losses: Mapping[str, float], active: Sequence[str]) -> dict[str, float]:
    """The share of the active members' weights that each member's weight is, or would be."""
    best = min(losses[name] for name in active)
    weights = dict(zip(losses, compute_weights([best, *losses.values()])[1:], strict=True))
    total = sum(weights[name] for name in active)
    return {name: weight / total for name, weight in weights.items()}


def vote(answers: Sequence[Answer], weights: Sequence[float]) -> Answer:
    """The weighted vote of the members' chances."""
    chances = dict[str, float]()
    total = 0.0
    for answer, weight in zip(answers, weights, strict=True):
        for label, chance, _ in answer.candidates:
            chances[label] = chances.get(label, 0.0) + weight * chance
        total += weight if answer.candidates else 0.0
    if not chances:
        return Answer(None, ())
    ranked = sorted(((-chance / total, label) for label, chance in chances.items()))
    candidates = build_candidates([label for _, label in ranked], [-chance for chance, _ in ranked])
    return Answer(candidates[0].id, candidates, candidates[0].score)


def brier_score(answer: Answer, label: str) -> float:
    """The squared distance between an answer's chances and the truth, in [0, 2]; 1 without an answer.

    Rounded, because the last bits of a product depend on memory layout and must not reach the state.
    """
    chance = next((score for id, score, _ in answer.candidates if id == label), 0.0)
    return round(sum([score**2 for _, score, _ in answer.candidates]) - 2 * chance + 1, 6)
