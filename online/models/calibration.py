"""How far a score can be believed: learned from held-out feedback, never from what a head was solved with.

    Holdout      a few hundred examples, chosen by a hash of their offsets: subtract them from the sums, solve, score them
    temperature  softmax(scores / t) is then a probability        (Platt 1999; Guo et al. 2017: one number suffices)
    Confidence   P(the answer is right | its probability, how familiar the input is)

Exact sums make the first step free of charge: what was held out is subtracted for the fit, not withheld from learning.
Shapes: N held-out examples, C classes.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import Example, Part, new_revision, packed, unpacked

Floats = NDArray[np.floating[Any]]

HELD_OUT = 512
ENOUGH = 30  # held-out examples from which a fit says more than the prior
PRIOR_STRENGTH = 4.0  # held-out examples that the prior counts as
COARSE = 2.0 ** np.arange(-8, 9)  # of the temperature's grid: octaves, then a tenth of one around the best
FINE = 2.0 ** np.linspace(-0.9, 0.9, 19)


class Holdout:
    """The examples whose offsets hash lowest: the same ones whatever the order in which they came."""

    def __init__(self, capacity: int = HELD_OUT) -> None:
        self.capacity = capacity
        self._kept: dict[int, Example] = {}  # by hash of the offset
        self._highest = -1
        self.revision = new_revision()

    def __len__(self) -> int:
        return len(self._kept)

    def lowest(self, count: int) -> list[Example]:
        """The `count` first by hash, so that a fit may leave most of a short log to be learned from."""
        return [self._kept[key] for key in sorted(self._kept)[:count]]

    def add(self, examples: Iterable[Example]) -> None:
        room = len(self._kept) < self.capacity
        keyed = ((hashed(example.offset), example) for example in examples)
        lower = {key: example for key, example in keyed if room or key < self._highest}
        if lower:
            both = self._kept | lower
            self._kept = {key: both[key] for key in sorted(both)[: self.capacity]}
            self._highest = max(self._kept)
            self.revision = new_revision()

    def remove(self, examples: Iterable[Example]) -> None:
        for example in examples:
            self._kept.pop(hashed(example.offset), None)
        self._highest = max(self._kept, default=-1)
        self.revision = new_revision()

    def examples(self) -> list[Example]:
        return sorted(self._kept.values(), key=lambda example: example.offset)

    def part(self) -> Part:
        memory = [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.examples()]
        return Part({"examples": packed(memory)}, serving=False, revision=self.revision)

    def recall(self, part: Part) -> None:
        memory = unpacked(part.tensors["examples"])
        self.add(Example(o, kind, bytes.fromhex(f), label, reward=r) for o, kind, f, label, r in memory)


def hashed(offset: int) -> int:
    return int.from_bytes(hashlib.blake2b(offset.to_bytes(8, "little"), digest_size=8).digest(), "little")


def softmax(scores_NC: Floats) -> NDArray[np.float64]:
    """Over the last axis; -inf stays out."""
    odds: NDArray[np.float64] = np.exp(ahead(scores_NC))
    odds /= odds.sum(-1, keepdims=True)
    return odds


def ahead(scores_NC: Floats) -> NDArray[np.float64]:
    """How far each is behind the best of its row: 0 or less."""
    best_N1 = scores_NC.max(-1, keepdims=True)
    return np.asarray(scores_NC - np.where(np.isfinite(best_N1), best_N1, 0), np.float64)


def fitted_temperature(scores_NC: Floats, right_N: NDArray[np.intp], prior: float) -> float:
    """The t for which softmax(scores / t) gives the held-out truth its best likelihood; `prior` where there is little.

    right_N: the right class of each, -1 where it is none of them (these are left out).
    """
    known = right_N >= 0
    scores_NC, right_N = scores_NC[known], right_N[known]
    ahead_NC = ahead(scores_NC)
    truth_N = ahead_NC[np.arange(len(right_N)), right_N]

    def loss(temperature: float) -> float:
        spread_N = np.log(np.exp(ahead_NC / temperature).sum(1))
        surprise = float(np.minimum(spread_N - truth_N / temperature, 20.0).sum())
        return surprise + PRIOR_STRENGTH * math.log(temperature / prior) ** 2

    if not len(right_N):
        return prior
    octave = min((prior * float(step) for step in COARSE), key=loss)
    return min((octave * float(step) for step in FINE), key=loss)


@dataclass(frozen=True, slots=True)
class Confidence:
    """Logistic regression of "the answer is right" on two numbers: log-odds of its probability, and familiarity.

    weights: of (1, log-odds, familiarity in its held-out standard deviations); centre, spread: of the familiarity.
    """

    weights: tuple[float, float, float] = (0.0, 1.0, 0.0)
    centre: float = 0.0
    spread: float = 1.0

    def __call__(self, chance_N: Floats, familiarity_N: Floats) -> NDArray[np.float64]:
        logits_N = self._inputs(chance_N, familiarity_N) @ np.array(self.weights)
        believed: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits_N, -30, 30)))
        return believed

    def _inputs(self, chance_N: Floats, familiarity_N: Floats) -> NDArray[np.float64]:
        odds_N = np.clip(np.log(chance_N + 1e-9) - np.log1p(1e-9 - np.minimum(chance_N, 1.0)), -12, 12)
        strange_N = np.clip((familiarity_N - self.centre) / self.spread, -12, 12)
        return np.stack([np.ones(len(odds_N)), odds_N, strange_N], 1).astype(np.float64)

    @classmethod
    def fitted(cls, chance_N: Floats, familiarity_N: Floats, right_N: NDArray[np.bool_]) -> "Confidence":
        """From held-out answers, whether each was right, by Newton's method; the default where they all agree."""
        if len(right_N) < ENOUGH or right_N.all() or not right_N.any():
            return cls()
        centre, spread = float(np.median(familiarity_N)), float(np.std(familiarity_N)) or 1.0
        x_NK = cls(centre=centre, spread=spread)._inputs(chance_N, familiarity_N)
        weights_K = logistic_regression(x_NK, right_N, np.array(cls().weights))
        one, odds, familiar = map(float, weights_K)
        return cls((one, odds, familiar), centre, spread)


def logistic_regression(
    x_NK: NDArray[np.float64], right_N: NDArray[np.bool_], prior_K: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weights [K], drawn to `prior_K` by a penalty of half their squared distance.

    By Newton's method, its step halved until it gains: where right and wrong can be parted whole steps diverge.
    """
    sign_N = np.where(right_N, 1.0, -1.0)

    def loss(weights_K: NDArray[np.float64]) -> float:
        return float(np.logaddexp(0, -sign_N * (x_NK @ weights_K)).sum() + ((weights_K - prior_K) ** 2).sum() / 2)

    weights_K = prior_K
    for _ in range(25):
        believed_N = 1 / (1 + np.exp(-np.clip(x_NK @ weights_K, -30, 30)))
        slope_K = x_NK.T @ (believed_N - right_N) + (weights_K - prior_K)
        bend_KK = (x_NK * (believed_N * (1 - believed_N))[:, None]).T @ x_NK + np.eye(len(prior_K))
        step_K = np.linalg.solve(bend_KK, slope_K)
        shares = (0.5**halvings for halvings in range(30))
        better = (weights_K - share * step_K for share in shares)
        before = loss(weights_K)
        found = next((candidate_K for candidate_K in better if loss(candidate_K) < before), None)
        if found is None:
            break
        weights_K = found
    return weights_K
