"""The vote of an ensemble's members, weighted by their losses, and the memory that the weights have.

    answers of M members -> chances [M, C] --weights of each memory--> votes [K, C] -> the one that erred least

A memory says what counts as a loss (the Brier score, alone or beside 0 or 1 for an error), how fast it
fades, and how eagerly the weights follow it. No single memory suits both a world that moves and one
that stands still, so all of them vote, and the one whose votes erred least lately is served.

Shapes: M members, C classes, K memories.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Answer, build_candidates

Floats = NDArray[np.float64]


class VoteMemory(NamedTuple):
    """The length of the memory of losses, and how fast weights follow them: exp(-eagerness * loss).

    fading: share of the loss kept per scored example. errors: whether an error adds 1 to the Brier score.
    """

    fading: float
    eagerness: float
    errors: bool = True


MEMORIES = (VoteMemory(0.99, 0.3, errors=False), VoteMemory(0.997, 0.15), VoteMemory(0.999, 0.1), VoteMemory(0.97, 0.3))
EAGERNESS_K = np.array([memory.eagerness for memory in MEMORIES])
CHOICE_FADING = 0.999  # of the errors that decide which memory's vote is served


def add_losses(losses: Sequence[float], brier: float, is_error: bool) -> list[float]:
    """Return a member's losses, one per memory, after another example."""
    known = zip(MEMORIES, losses, strict=True)
    return [fading * loss + brier + (errors and is_error) for (fading, _, errors), loss in known]


def extend_losses(losses: Sequence[float], seen: int, as_if_seen: int) -> list[float]:
    """Return what losses over `seen` examples would be, at the same rate, over `as_if_seen`.

    A long memory would otherwise prefer a member that has been scored for a short time.
    """
    known = zip(MEMORIES, losses, strict=True)
    return [loss * (1 - memory.fading**as_if_seen) / (1 - memory.fading**seen) for memory, loss in known]


def compute_weights(losses_MK: Sequence[Sequence[float]]) -> Floats:
    """Return what each vote counts for in each memory, in relation to the best, [M, K]: exp(-eagerness * its distance in fading loss)."""
    known_MK = np.array(losses_MK)
    weights_MK: Floats = np.exp(EAGERNESS_K * (np.minimum.reduce(known_MK) - known_MK))
    return weights_MK


def compute_shares(losses: Mapping[str, Sequence[float]], active: Sequence[str], memory: int) -> dict[str, float]:
    """Return the share of the active members' weights in a memory that each member's weight is, or would be.

    losses: of each member, one per memory.
    """
    best = min(losses[name][memory] for name in active)
    eagerness = MEMORIES[memory].eagerness
    distances = [eagerness * (best - each[memory]) for each in losses.values()]
    weights: dict[str, float] = dict(zip(losses, np.exp(distances).tolist(), strict=True))
    total = sum([weights[name] for name in active])
    return {name: weight / total for name, weight in weights.items()}


class Ballot:
    """The answers of M members to one input, and the votes that each memory counts. losses_MK: of their members."""

    def __init__(self, answers: Sequence[Answer], losses_MK: Sequence[Sequence[float]]) -> None:
        self.classes, chances_MC = tabulate(answers)
        self.has_answer_M = [bool(answer.candidates) for answer in answers]
        self.weights_MK = compute_weights(losses_MK)
        weighted_MKC = self.weights_MK[:, :, None] * chances_MC[:, None, :]
        # accumulated, because a sum adds in an order that depends on the shape, and so has other last bits
        self.votes_KC: Floats = np.add.accumulate(weighted_MKC)[-1]

    def vote(self, memory: int) -> Answer:
        """Return the weighted vote of the members' chances in a memory."""
        if not self.classes:
            return Answer(None, ())
        weights = zip(self.weights_MK[:, memory].tolist(), self.has_answer_M, strict=True)
        total = sum([weight for weight, has_answer in weights if has_answer])
        chances = (self.votes_KC[memory] / total).tolist()
        ranked = sorted([(-chance, label) for label, chance in zip(self.classes, chances, strict=True)])
        candidates = build_candidates([label for _, label in ranked], [-chance for chance, _ in ranked])
        return Answer(candidates[0].id, candidates, candidates[0].score)

    def find_choices(self) -> list[str | None]:
        """Return what each memory's vote chooses: the class with the most votes, or None without an answer."""
        if not self.classes:
            return [None] * len(MEMORIES)
        return [self.classes[place] for place in self.votes_KC.argmax(1).tolist()]


def tabulate(answers: Sequence[Answer]) -> tuple[list[str], Floats]:
    """Return all classes that any member names, and the members' chances [M, C]."""
    classes = sorted({candidate[0] for answer in answers for candidate in answer.candidates})
    place, rows = {label: at for at, label in enumerate(classes)}, []
    for answer in answers:
        row = [0.0] * len(classes)
        for label, chance, _ in answer.candidates:
            row[place[label]] = chance
        rows.append(row)
    return classes, np.array(rows).reshape(len(answers), len(classes))


def brier_score(answer: Answer, label: str) -> float:
    """Return the squared distance between an answer's chances and the truth, in [0, 2]; 1 without an answer.

    Rounded, because the last bits of a product depend on memory layout and must not reach the state.
    """
    chance, squares = 0.0, 0.0
    for id, score, _ in answer.candidates:
        squares += score**2
        if id == label:
            chance = score
    return round(squares - 2 * chance + 1, 6)


class MemoryChoice:
    """The choice of the memory whose vote is served. errors: the fading number of errors of each memory's vote."""

    def __init__(self) -> None:
        self.errors = [0.0] * len(MEMORIES)

    @property
    def best(self) -> int:
        """The memory whose vote erred least; among equals the first."""
        return self.errors.index(min(self.errors))

    def score(self, choices: Sequence[str | None], label: str) -> None:
        """Update the errors by an example's label. choices: of each memory's vote."""
        scored = zip(self.errors, choices, strict=True)
        self.errors = [CHOICE_FADING * errors + (choice != label) for errors, choice in scored]
