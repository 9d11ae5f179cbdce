"""Heads on exact sums: which one, how strongly regularised, and how well calibrated.

    x int8 [B, D] --Projection--> [1 | random features | x] int8 [B, M] --> sums (ExactStatistics)
                                                     \\______ slda ______/
                                   \\____________ ridge, rp_ridge ______/

All heads read the same sums, slda only the block of the inputs, so that another head can be tried
without the examples. Held-out feedback, subtracted from the sums for this purpose, decides the
strength of the ridge, the temperature, the confidence and, for `best`, the head.

Shapes: B examples, N held-out examples, C classes, D inputs, M features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from online.models.statistics.calibration import ENOUGH, Confidence, Floats, fit_temperature, softmax, subtract_best
from online.models.statistics.exact import ExactStatistics, LinearWeights
from online.models.statistics.projection import Projection
from online.models.statistics.ridge import RidgeSolver, solve_ridge
from online.models.statistics.slda import MeanSums, SldaSolver, solve_slda
from online.schemas.json_values import JSONObject

HEADS = ("slda", "ridge", "rp_ridge", "best")
RIDGE_RATIOS = (1e-4, 3e-4, 1e-3, 1e-2, 1e-1)
JUDGED_WIDTH = 1_024  # features on which the strength of the ridge is chosen; the same ratio suits all of them
RECALIBRATE = 1.5  # growth of the log after which held-out feedback decides again
PRIOR_TEMPERATURES = {"slda": 4.0, "ridge": 0.06}
HELD_OUT_SHARE = 0.25  # of a short log, used for decisions
ONE = 127  # the constant feature, which gives a ridge head an intercept


@dataclass(frozen=True, slots=True)
class HeadDecision:
    """The decision by held-out feedback, and the number of examples at that time."""

    head: str
    temperature: float
    ridge_ratio: float = 3e-4
    confidence: Confidence = field(default_factory=Confidence)
    at_count: int = 0
    loss: float = 0.0

    @classmethod
    def from_json(cls, memory: JSONObject) -> HeadDecision:
        """Return the inverse of `asdict`."""
        fit = memory["confidence"]
        return cls(**{**memory, "confidence": Confidence(**{**fit, "weights": tuple(fit["weights"])})})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer of a head to B inputs.

    chances [B, C]: calibrated probabilities. confidence [B]: the probability that the likeliest is right; 1 if
    it was not computed.
    """

    chances: NDArray[np.float64]
    confidence: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SolvedHead:
    """Solved weights of one head. start: the first feature that they read.

    The scores of slda are small differences of large numbers: in float32, a chance would differ by 2e-4 with the number of inputs
    that are answered together. So they are computed in float64.
    """

    weights: LinearWeights
    start: int
    decided: HeadDecision
    _wide: list[NDArray[np.float64]] = field(default_factory=list, init=False, repr=False, compare=False)  # cache

    def judge(self, features_BM: NDArray[np.int8], with_confidence: bool = True) -> Judgement:
        """Return probabilities [B, C], and the confidence [B] if wanted."""
        scores_BC, t = self.scores(features_BM), self.decided.temperature
        best_B1 = scores_BC.max(1, keepdims=True)
        odds_BC = np.exp(subtract_best(scores_BC) / t)
        total_B1 = odds_BC.sum(1, keepdims=True)
        if not with_confidence:
            odds_BC /= total_B1
            return Judgement(odds_BC, np.ones(len(odds_BC)))
        familiarity_B1 = best_B1 if self.decided.head == "ridge" else best_B1 / t + np.log(total_B1)
        odds_BC /= total_B1
        return Judgement(odds_BC, self.decided.confidence(1 / total_B1[:, 0], familiarity_B1[:, 0]))

    def scores(self, features_BM: NDArray[np.int8]) -> Floats:
        """Return the scores [B, C]."""
        known = features_BM[:, self.start : self.start + len(self.weights.matrix)]
        scores_BC: Floats = known.astype(self._matrix.dtype) @ self._matrix + self.weights.bias
        if not self.weights.active.all():
            scores_BC[:, ~self.weights.active] = -np.inf
        return scores_BC

    @property
    def _matrix(self) -> Floats:
        """The weights in the type in which scores are computed."""
        if self.decided.head == "ridge":
            return self.weights.matrix
        if not self._wide:
            self._wide.append(self.weights.matrix.astype(np.float64))
        return self._wide[0]

    def familiarity(self, scores_BC: Floats) -> NDArray[np.float64]:
        """Return familiarity [B], low for inputs unlike everything learned.

        The evidence of the input under LDA, or the largest output of a ridge head.
        """
        best_B: NDArray[np.float64] = scores_BC.max(1).astype(np.float64)
        if self.decided.head == "ridge":
            return best_B
        t = self.decided.temperature
        return np.asarray(best_B / t + np.log(np.exp(subtract_best(scores_BC) / t).sum(1)), np.float64)


class Head:
    """The sums and what is solved from them. Knows features and class indices, not what they mean."""

    def __init__(self, head: str, projection: Projection, shrinkage: float, priors: bool, device: str) -> None:
        self.head, self.projection, self.shrinkage, self.priors = head, projection, shrinkage, priors
        self.start = 0 if head == "slda" else 1 + projection.width  # of the inputs among the features
        self.statistics = ExactStatistics(self.start, device)
        self.ridge, self.slda = RidgeSolver(), SldaSolver(shrinkage, priors, self.start)
        self.merged_count = 0  # positive examples in sums that came as sums: none of them is held out
        first = "slda" if head in ("slda", "best") else "ridge"
        self.decided = HeadDecision(first, PRIOR_TEMPERATURES[first])

    def name_columns(self, names: Sequence[str]) -> None:
        """Append the columns of the inputs that are new. `names` begins with the known ones."""
        self.projection.name_columns(names)
        self.statistics.widen(self.start + len(names))

    def features(self, x_BD: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return features int8 [B, M] of inputs int8 [B, D]."""
        if self.head == "slda":
            return x_BD
        one_B1 = np.full((len(x_BD), 1), ONE, np.int8)
        return np.concatenate([one_B1, self.projection.features(x_BD), x_BD], 1)

    def add(
        self, features_BM: NDArray[np.int8], classes: Sequence[int], negative: bool = False, times: int = 1
    ) -> None:
        """Add examples to the sums and to both solvers. times: -1 subtracts."""
        self.statistics.add(features_BM, classes, negative, times)
        self.ridge.add(features_BM, classes, negative, times)
        self.slda.add(features_BM, classes, negative, times)

    def merge(self, sums: ExactStatistics, times: int = 1) -> None:
        """Add the sums of a device (times=-1: subtract them). None of its examples is held out, so they decide nothing."""
        self.statistics.merge(sums, times)
        self.merged_count += times * int(sums.counts[0].sum())
        self.forget_solutions()

    def restore_sums(self, statistics: ExactStatistics, decided: HeadDecision) -> None:
        """Continue from sums of which no example is held out here. The decision holds until they have grown by half."""
        count = max(int(statistics.counts[0].sum()), 0)
        self.statistics, self.merged_count = statistics, count
        self.decided = replace(decided, at_count=round(count * (RECALIBRATE - 1) / RECALIBRATE))

    def forget_solutions(self) -> None:
        """Solve from the sums next time, because what decides the weights changed in another way than by `add`."""
        self.ridge.forget()
        self.slda.forget()

    @property
    def count(self) -> int:
        """The number of positive examples that were learned one by one, so that some of them are held out."""
        return int(self.statistics.counts[0].sum()) - self.merged_count

    def note_expired(self, count: int) -> None:
        """Note that `count` examples expired, so that the next decision comes sooner."""
        self.decided = replace(self.decided, at_count=max(self.decided.at_count - count, 0))

    @property
    def decides_at(self) -> int:
        """The count at which held-out feedback decides again, a function of counts alone."""
        return max(math.ceil(ENOUGH / HELD_OUT_SHARE), math.ceil(RECALIBRATE * self.decided.at_count))

    @property
    def held_out_count(self) -> int:
        """The number of held-out examples that decide: at most a quarter of the log."""
        return int(HELD_OUT_SHARE * self.count)

    def solved(self, weights: LinearWeights) -> SolvedHead:
        """Return the present decision with weights that were solved before."""
        return SolvedHead(weights, 0 if self.decided.head == "ridge" else self.start, self.decided)

    def solve(self, mean_sums: MeanSums | None = None) -> SolvedHead:
        """Bring the weights up to date. mean_sums: what the means of slda are computed from, see `SldaSolver`."""
        if self.decided.head == "ridge":
            return self.solved(self.ridge.solve(self.statistics, self.decided.ridge_ratio))
        return self.solved(self.slda.solve(self.statistics, mean_sums=mean_sums))

    def solve_from_sums(self, mean_sums: MeanSums | None = None) -> SolvedHead:
        """Return the weights to publish: those of slda are a function of the sums, whatever was solved before.

        Those of a ridge head, whose factorisation takes up to a second, are brought up to date.
        """
        if self.decided.head == "ridge":
            return self.solve()
        return self.solved(solve_slda(self.statistics, self.shrinkage, self.priors, None, mean_sums, start=self.start))

    # decisions by held-out feedback

    def decide(self, held_out_NM: NDArray[np.int8], classes_N: NDArray[np.intp], strange_NM: NDArray[np.int8]) -> None:
        """Decide by held-out examples with their classes, and by strange ones that belong to no class.

        Without held-out examples, as after all were retracted, what was decided before stays.
        """
        if not len(classes_N):
            self.decided = replace(self.decided, at_count=self.count)
            return
        others = self.statistics.copy()
        others.add(held_out_NM, classes_N.tolist(), times=-1)
        heads = ("slda", "ridge") if self.head == "best" else (self.decided.head,)
        candidates = [self._evaluate(head, others, held_out_NM, classes_N) for head in heads]
        solved = min(candidates, key=lambda solved: solved.decided.loss)
        confidence = self._confidence(solved, held_out_NM, classes_N, strange_NM)
        if solved.decided.ridge_ratio != self.decided.ridge_ratio:
            self.ridge.forget()
        self.decided = replace(solved.decided, confidence=confidence, at_count=self.count)

    def _evaluate(
        self, head: str, others: ExactStatistics, held_out_NM: NDArray[np.int8], classes_N: NDArray[np.intp]
    ) -> SolvedHead:
        prior = PRIOR_TEMPERATURES[head]
        ratio = self._best_ratio(others, held_out_NM, classes_N) if head == "ridge" else self.decided.ridge_ratio
        solved = self.solve_others(HeadDecision(head, prior, ratio), others)
        scores_NC = solved.scores(held_out_NM)
        temperature = fit_temperature(scores_NC, classes_N, prior)
        loss = log_loss(scores_NC, classes_N, temperature)
        return replace(solved, decided=replace(solved.decided, temperature=temperature, loss=loss))

    def solve_others(
        self, decided: HeadDecision, others: ExactStatistics, mean_sums: MeanSums | None = None
    ) -> SolvedHead:
        """Solve other sums than those of this head, from the sums alone."""
        if decided.head == "ridge":
            return SolvedHead(RidgeSolver().solve(others, decided.ridge_ratio), 0, decided)
        weights = solve_slda(others, self.shrinkage, self.priors, None, mean_sums, start=self.start)
        return SolvedHead(weights, self.start, decided)

    def _best_ratio(self, others: ExactStatistics, held_out_NM: NDArray[np.int8], classes_N: NDArray[np.intp]) -> float:
        part = others.block(0, JUDGED_WIDTH)
        x_NM = held_out_NM[:, :JUDGED_WIDTH].astype(np.float32)

        def loss(ratio: float) -> float:
            scores_NC = x_NM @ solve_ridge(part, ratio)
            return log_loss(scores_NC, classes_N, fit_temperature(scores_NC, classes_N, PRIOR_TEMPERATURES["ridge"]))

        return min(RIDGE_RATIOS, key=loss)

    def _confidence(
        self,
        solved: SolvedHead,
        held_out_NM: NDArray[np.int8],
        classes_N: NDArray[np.intp],
        strange_NM: NDArray[np.int8],
    ) -> Confidence:
        scores = solved.scores(np.concatenate([held_out_NM, strange_NM]))
        right = np.concatenate([scores[: len(classes_N)].argmax(1) == classes_N, np.zeros(len(strange_NM), np.bool_)])
        chances = softmax(scores / solved.decided.temperature).max(1)
        return Confidence.fit(chances, solved.familiarity(scores), right)


def log_loss(scores_NC: Floats, classes_N: NDArray[np.intp], temperature: float) -> float:
    """Return mean log loss over held-out examples.

    A class that only they contain counts as a chance of 1 in 1,000.
    """
    chances_N = softmax(scores_NC / temperature)[np.arange(len(classes_N)), classes_N]
    return float(-np.log(np.maximum(chances_N, 1e-3)).mean())
