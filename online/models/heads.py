"""What is solved on exact sums: which head, how strongly regularised, how far to be believed.

    x int8 [B, D] --Projection--> [1 | random features | x] int8 [B, M] --> sums (ExactStatistics)
                                                     \\______ slda ______/
                                   \\____________ ridge, rp_ridge ______/

All heads read the same sums, slda the block of the inputs alone, so that trying another one costs no second look at
any example. Held-out feedback, subtracted from the sums for the purpose, decides the strength of the ridge, the
temperature, the confidence and, for `best`, the head. Shapes: B examples, C classes, D inputs, M features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from online.models.calibration import ENOUGH, Confidence, ahead, fitted_temperature, softmax
from online.models.exact import ExactStatistics, LinearWeights, solve_slda
from online.models.projection import Projection
from online.models.ridge import RidgeSolver, factorised, solved_ridge

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazily import torch

HEADS = ("slda", "ridge", "rp_ridge", "best")
RIDGE_RATIOS = (1e-4, 3e-4, 1e-3, 1e-2, 1e-1)
JUDGED_WIDTH = 1_024  # the ridge's strength is judged on this many of its features: the same share suits all of them
RECALIBRATE = 1.5  # growth of the log after which what held-out feedback decided is decided anew
PRIOR_TEMPERATURES = {"slda": 4.0, "ridge": 0.06}
HELD_OUT_SHARE = 0.25  # of a short log
ONE = 127  # the constant feature: lets a ridge head have an intercept


@dataclass(frozen=True, slots=True)
class Decided:
    """What held-out feedback decided, and how many examples there were when it did."""

    head: str
    temperature: float
    ridge_ratio: float = 3e-4
    confidence: Confidence = field(default_factory=Confidence)
    at_count: int = 0
    loss: float = 0.0

    @classmethod
    def recalled(cls, memory: dict[str, Any]) -> Decided:
        """From what `asdict` gave."""
        fit = memory["confidence"]
        return cls(**{**memory, "confidence": Confidence(**{**fit, "weights": tuple(fit["weights"])})})


@dataclass(frozen=True, slots=True)
class Judgement:
    """chances [B, C]: calibrated probabilities. confidence [B]: that the likeliest is right."""

    chances: NDArray[np.float64]
    confidence: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Solved:
    """Weights that answer. They look at the features from `start` on."""

    weights: LinearWeights
    start: int
    decided: Decided

    def judge(self, features_BM: NDArray[np.int8]) -> Judgement:
        scores_BC = self.scores(features_BM)
        chances_BC = softmax(scores_BC / self.decided.temperature)
        believed_B = self.decided.confidence(chances_BC.max(1), self.familiarity(scores_BC))
        return Judgement(chances_BC, believed_B)

    def scores(self, features_BM: NDArray[np.int8]) -> NDArray[np.float32]:
        known = features_BM[:, self.start : self.start + len(self.weights.matrix)]
        scores_BC = known.astype(np.float32) @ self.weights.matrix + self.weights.bias
        scores_BC[:, ~self.weights.active] = -np.inf
        return scores_BC

    def familiarity(self, scores_BC: NDArray[np.float32]) -> NDArray[np.float64]:
        """Low for inputs unlike all that was learned: LDA's evidence of the input, or ridge's largest output."""
        best_B: NDArray[np.float64] = scores_BC.max(1).astype(np.float64)
        if self.decided.head == "ridge":
            return best_B
        t = self.decided.temperature
        return np.asarray(best_B / t + np.log(np.exp(ahead(scores_BC) / t).sum(1)), np.float64)


class Head:
    """Sums and what is solved from them. It knows features and class indices, nothing of labels' meaning."""

    def __init__(self, head: str, projection: Projection, shrinkage: float, priors: bool, device: str) -> None:
        self.head, self.projection, self.shrinkage, self.priors = head, projection, shrinkage, priors
        self.start = 0 if head == "slda" else 1 + projection.width  # of the inputs among the features
        self.statistics = ExactStatistics(self.start, device)
        self.solver = RidgeSolver()
        first = "slda" if head in ("slda", "best") else "ridge"
        self.decided = Decided(first, PRIOR_TEMPERATURES[first])

    def name_columns(self, names: Sequence[str]) -> None:
        """The inputs' columns, append-only."""
        self.projection.name_columns(names)
        self.statistics.widen(self.start + len(names))

    def features(self, x_BD: NDArray[np.int8]) -> NDArray[np.int8]:
        """int8 [B, M]"""
        if self.head == "slda":
            return x_BD
        one_B1 = np.full((len(x_BD), 1), ONE, np.int8)
        return np.concatenate([one_B1, self.projection.features(x_BD), x_BD], 1)

    def add(
        self, features_BM: NDArray[np.int8], classes: Sequence[int], negative: bool = False, times: int = 1
    ) -> None:
        self.statistics.add(features_BM, classes, negative, times)
        self.solver.add(features_BM, classes, negative, times)

    @property
    def count(self) -> int:
        """Positive examples in the sums."""
        return int(self.statistics.counts[0].sum())

    def let_go(self, count: int) -> None:
        """So many examples are forgotten for their age: what was decided on them is decided anew sooner."""
        self.decided = replace(self.decided, at_count=max(self.decided.at_count - count, 0))

    @property
    def decides_at(self) -> int:
        """The count at which held-out feedback is asked again: a function of counts alone, whoever looks when."""
        return max(math.ceil(ENOUGH / HELD_OUT_SHARE), math.ceil(RECALIBRATE * self.decided.at_count))

    @property
    def held_out_count(self) -> int:
        """How many held-out examples decide: a quarter of them, so that most of a short log is learned from."""
        return int(HELD_OUT_SHARE * self.count)

    def solved(self, weights: LinearWeights) -> Solved:
        """Weights that were solved before."""
        return Solved(weights, 0 if self.decided.head == "ridge" else self.start, self.decided)

    def solve(self, rested_on: tuple[Tensor, Tensor] | None = None) -> Solved:
        """rested_on: what the means of slda rest on, see `solve_slda`."""
        return self._solved(self.decided, self.statistics, self.solver, rested_on)

    def _solved(
        self,
        decided: Decided,
        statistics: ExactStatistics,
        solver: RidgeSolver,
        rested_on: tuple[Tensor, Tensor] | None = None,
    ) -> Solved:
        if decided.head == "ridge":
            return Solved(solver.solve(statistics, decided.ridge_ratio), 0, decided)
        weights = solve_slda(statistics.block(self.start), self.shrinkage, self.priors, rested_on=rested_on)
        return Solved(weights, self.start, decided)

    # what held-out feedback decides

    def decide(self, held_out_NM: NDArray[np.int8], classes_N: NDArray[np.intp], strange_NM: NDArray[np.int8]) -> None:
        """Judge on held-out examples, of the classes given, and on strange ones that belong to no class."""
        others = self.statistics.copy()
        others.add(held_out_NM, classes_N.tolist(), times=-1)
        heads = ("slda", "ridge") if self.head == "best" else (self.decided.head,)
        candidates = [self._judged(head, others, held_out_NM, classes_N) for head in heads]
        solved = min(candidates, key=lambda solved: solved.decided.loss)
        confidence = self._confidence(solved, held_out_NM, classes_N, strange_NM)
        if solved.decided.ridge_ratio != self.decided.ridge_ratio:
            self.solver.forget()
        self.decided = replace(solved.decided, confidence=confidence, at_count=self.count)

    def _judged(
        self, head: str, others: ExactStatistics, held_out_NM: NDArray[np.int8], classes_N: NDArray[np.intp]
    ) -> Solved:
        prior = PRIOR_TEMPERATURES[head]
        ratio = self._best_ratio(others, held_out_NM, classes_N) if head == "ridge" else self.decided.ridge_ratio
        solved = self._solved(Decided(head, prior, ratio), others, RidgeSolver())
        scores_NC = solved.scores(held_out_NM)
        temperature = fitted_temperature(scores_NC, classes_N, prior)
        loss = log_loss(scores_NC, classes_N, temperature)
        return replace(solved, decided=replace(solved.decided, temperature=temperature, loss=loss))

    def _best_ratio(self, others: ExactStatistics, held_out_NM: NDArray[np.int8], classes_N: NDArray[np.intp]) -> float:
        part = others.block(0, JUDGED_WIDTH)
        x_NM = held_out_NM[:, :JUDGED_WIDTH].astype(np.float32)

        def loss(ratio: float) -> float:
            matrix_MC = solved_ridge(part, factorised(part.gram, ratio)).to(torch.float32).cpu().numpy()
            scores_NC = x_NM @ matrix_MC
            return log_loss(scores_NC, classes_N, fitted_temperature(scores_NC, classes_N, PRIOR_TEMPERATURES["ridge"]))

        return min(RIDGE_RATIOS, key=loss)

    def _confidence(
        self,
        solved: Solved,
        held_out_NM: NDArray[np.int8],
        classes_N: NDArray[np.intp],
        strange_NM: NDArray[np.int8],
    ) -> Confidence:
        scores = solved.scores(np.concatenate([held_out_NM, strange_NM]))
        right = np.concatenate([scores[: len(classes_N)].argmax(1) == classes_N, np.zeros(len(strange_NM), np.bool_)])
        chances = softmax(scores / solved.decided.temperature).max(1)
        return Confidence.fitted(chances, solved.familiarity(scores), right)


def log_loss(scores_NC: NDArray[np.float32], classes_N: NDArray[np.intp], temperature: float) -> float:
    """Mean over the held-out examples; one whose class only they have known counts as a surprise of 1 in 1,000."""
    chances_N = softmax(scores_NC / temperature)[np.arange(len(classes_N)), classes_N]
    return float(-np.log(np.maximum(chances_N, 1e-3)).mean())
