"""Calibration: turns scores into probabilities, learned from held-out feedback.

    Holdout      a few hundred examples, chosen by a hash of their offsets: they are subtracted from
                 the sums, the rest is solved, and the result is scored on them
    temperature  softmax(scores / t) is then a probability        (Platt 1999; Guo et al. 2017: one number suffices)
    Confidence   P(the answer is right | its probability, how familiar the input is)

With exact sums the first step costs nothing: held-out examples are subtracted for the fit, not
withheld from learning. Shapes: N held-out examples, C classes, K inputs of a regression.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Example, StatePart, new_revision, pack_json, unpack_json

Floats = NDArray[np.float32 | np.float64]

HELD_OUT = 512
ENOUGH = 30  # held-out examples above which a fit is better than the prior
PRIOR_STRENGTH = 4.0  # number of held-out examples that the prior is worth
COARSE = 2.0 ** np.arange(-8, 9)  # the temperature's grid: octaves, then tenths of an octave around the best
FINE = 2.0 ** np.linspace(-0.9, 0.9, 19)


class Holdout:
    """The examples whose offsets have the lowest hashes, which do not depend on their order."""

    def __init__(self, capacity: int = HELD_OUT) -> None:
        self.capacity = capacity
        self._kept: dict[int, Example] = {}  # by hash of the offset
        self._highest = -1
        self.revision = new_revision()

    def __len__(self) -> int:
        return len(self._kept)

    def lowest(self, count: int) -> list[Example]:
        """Return the `count` examples with the lowest hashes: a fit leaves most of a short log to learn from."""
        return [self._kept[key] for key in sorted(self._kept)[:count]]

    def add(self, examples: Iterable[Example]) -> None:
        """Keep a sample of the examples: those with the smallest hashes of their offsets, whatever the order."""
        for example in examples:
            key = hash_offset(example.offset)
            if len(self._kept) >= self.capacity and key >= self._highest:
                continue
            self._kept[key] = example
            self._highest = max(key, self._highest)
            self.revision = new_revision()
            if len(self._kept) > self.capacity:
                del self._kept[self._highest]
                self._highest = max(self._kept)

    def remove(self, examples: Iterable[Example]) -> None:
        """Remove examples that were retracted."""
        for example in examples:
            self._kept.pop(hash_offset(example.offset), None)
        self._highest = max(self._kept, default=-1)
        self.revision = new_revision()

    def examples(self) -> list[Example]:
        """Return the held-out examples by offset."""
        return sorted(self._kept.values(), key=lambda example: example.offset)

    def part(self) -> StatePart:
        """Return the examples as a part of a snapshot."""
        memory = [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.examples()]
        return StatePart({"examples": pack_json(memory)}, serving=False, revision=self.revision)

    def restore(self, part: StatePart) -> None:
        """Adopt what `part` returned."""
        memory = unpack_json(part.tensors["examples"])
        self.add(Example(o, kind, bytes.fromhex(f), label, reward=r) for o, kind, f, label, r in memory)


def hash_offset(offset: int) -> int:
    """Return a hash that decides whether an example is held out."""
    return int.from_bytes(hashlib.blake2b(offset.to_bytes(8, "little", signed=True), digest_size=8).digest(), "little")


def softmax(scores_NC: Floats) -> NDArray[np.float64]:
    """Return softmax over the last axis; a score of -inf has probability 0."""
    odds: NDArray[np.float64] = np.exp(subtract_best(scores_NC))
    odds /= odds.sum(-1, keepdims=True)
    return odds


def subtract_best(scores_NC: Floats) -> NDArray[np.float64]:
    """Return scores minus the best of their row: 0 or less."""
    best_N1 = scores_NC.max(-1, keepdims=True)
    if not np.isfinite(best_N1).all():
        best_N1 = np.where(np.isfinite(best_N1), best_N1, 0)
    return np.asarray(scores_NC - best_N1, np.float64)


def fit_temperature(scores_NC: Floats, right_N: NDArray[np.intp], prior: float) -> float:
    """Return the t that maximises the likelihood of the held-out truth under softmax(scores / t).

    Drawn toward `prior`, which decides when there are few examples. right_N: the right class of each,
    or -1 for none of them (these are left out).
    """
    known = right_N >= 0
    scores_NC, right_N = scores_NC[known], right_N[known]
    ahead_NC = subtract_best(scores_NC)
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
    """Logistic regression of "the answer is right" on the log-odds of its probability and on familiarity.

    weights: of (1, log-odds, standardised familiarity). centre, spread: median and standard deviation
    of the held-out familiarity.
    """

    weights: tuple[float, float, float] = (0.0, 1.0, 0.0)
    centre: float = 0.0
    spread: float = 1.0

    def __call__(self, chance_N: Floats, familiarity_N: Floats) -> NDArray[np.float64]:
        odds_N, strange_N = self._inputs(chance_N, familiarity_N)
        one, odds, strange = self.weights
        logits_N = limit(one + odds * odds_N + strange * strange_N, 30)
        believed: NDArray[np.float64] = 1 / (1 + np.exp(-logits_N))
        return believed

    def _inputs(self, chance_N: Floats, familiarity_N: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the log-odds and the standardised familiarity."""
        odds_N = np.log(chance_N + 1e-9) - np.log1p(1e-9 - np.minimum(chance_N, 1.0))
        return limit(odds_N, 12), limit((familiarity_N - self.centre) / self.spread, 12)

    @classmethod
    def fit(cls, chance_N: Floats, familiarity_N: Floats, right_N: NDArray[np.bool_]) -> "Confidence":
        """Fit to held-out answers and whether each was right; the default if too few or all agree."""
        if len(right_N) < ENOUGH or right_N.all() or not right_N.any():
            return cls()
        centre, spread = float(np.median(familiarity_N)), float(np.std(familiarity_N)) or 1.0
        inputs = cls(centre=centre, spread=spread)._inputs(chance_N, familiarity_N)
        x_NK = np.stack([np.ones(len(right_N)), *inputs], 1)
        weights_K = fit_logistic_regression(x_NK, right_N, np.array(cls().weights))
        one, odds, familiar = map(float, weights_K)
        return cls((one, odds, familiar), centre, spread)


def limit(values_N: Floats, most: float) -> NDArray[np.float64]:
    """Return values within [-most, most]; several times as fast for few values as np.clip."""
    return np.asarray(np.minimum(np.maximum(values_N, -most), most), np.float64)


def fit_logistic_regression(
    x_NK: NDArray[np.float64], right_N: NDArray[np.bool_], prior_K: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return weights [K], drawn toward `prior_K` by a penalty of half their squared distance.

    Newton's method with step halving, because full steps diverge if right and wrong are separable.
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
