"""Is a challenger better than the champion? Their losses on the same examples, at every moment of a stream.

    differences d of losses, scaled into [0, 1], and guesses g made of earlier ones alone:    V = sum (d - g)^2

    average of what was to be expected  =  average seen  +-  boundary(V) / n      with probability 1 - alpha, at every n

The empirical-Bernstein sequence of Howard, Ramdas, McAuliffe & Sekhon (2021, theorem 4) with their stitched boundary (10). It
bounds the plain average so far, also where the world moves and the models learn, and may be looked at whenever one likes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.evaluation.replay import Loss

ALPHA = 0.05
ETA, POWER, ZETA = (
    2.0,
    1.4,
    3.1055472779775806,
)  # of the stitching: ratio of its epochs, how it spends alpha; zeta(POWER)
K1, K2 = (ETA**0.25 + ETA**-0.25) / math.sqrt(2), (math.sqrt(ETA) + 1) / 2


def boundary(variance: float, alpha: float) -> float:
    """What a sum of differences from their expectation, each in [-1, 1], exceeds at no time but with chance alpha."""
    variance = max(variance, 1.0)
    spent = POWER * math.log(math.log(ETA * variance)) + math.log(ZETA / (alpha * math.log(ETA) ** POWER))
    return math.sqrt(K1**2 * variance * spent + K2**2 * spent**2) + K2 * spent


@dataclass(slots=True)
class AverageSequence:
    """The average of values in [0, 1] that come one after another."""

    alpha: float = ALPHA
    count: int = 0
    total: float = 0.0
    variance: float = 0.0  # V

    def add(self, values: NDArray[np.float64]) -> None:
        """The interval is the same however the values are cut into chunks, but for rounding."""
        before = self.total + np.concatenate([[0.0], np.cumsum(values)[:-1]])
        guesses = (0.5 + before) / (1 + self.count + np.arange(len(values)))
        self.variance += float(((values - guesses) ** 2).sum())
        self.total += float(values.sum())
        self.count += len(values)

    @property
    def mean(self) -> float:
        return self.total / self.count

    def interval(self) -> tuple[float, float]:
        if not self.count:
            return 0.0, 1.0
        reach = boundary(self.variance, self.alpha / 2) / self.count
        return max(self.mean - reach, 0.0), min(self.mean + reach, 1.0)


@dataclass(slots=True)
class Duel:
    """A challenger against the champion. The difference: how much less the challenger loses, an example.

    numbers: errors of numbers have no bound: there the difference is who was nearer, -1, 0 or 1. decided_at: the number
    of pairs after which 0 was outside of the interval for the first time. waiting: losses whose other is not there yet.
    """

    numbers: bool
    sequence: AverageSequence = field(default_factory=AverageSequence)
    decided_at: int | None = None
    waiting: tuple[dict[int, float | None], dict[int, float | None]] = field(default_factory=lambda: ({}, {}))

    def add(self, champion: Sequence[Loss], challenger: Sequence[Loss]) -> None:
        for side, losses in zip(self.waiting, (champion, challenger), strict=True):
            side.update(losses)
        both = sorted(self.waiting[0].keys() & self.waiting[1].keys())
        pairs = [(self.waiting[0].pop(offset), self.waiting[1].pop(offset)) for offset in both]
        judged = [self._scaled(one, other) for one, other in pairs if one is not None and other is not None]
        if judged:
            self.sequence.add(np.array(judged))
            if self.decided_at is None and self.verdict != "undecided":
                self.decided_at = self.sequence.count

    def _scaled(self, champion: float, challenger: float) -> float:
        """In [0, 1], 0.5 where they are alike."""
        gain = float(np.sign(champion - challenger)) if self.numbers else champion - challenger
        return (gain + 1) / 2

    @property
    def interval(self) -> tuple[float, float]:
        low, high = self.sequence.interval()
        return 2 * low - 1, 2 * high - 1

    @property
    def verdict(self) -> str:
        low, high = self.interval
        return "better" if low > 0 else "worse" if high < 0 else "undecided"

    def told(self) -> dict[str, Any]:
        low, high = self.interval
        count = self.sequence.count
        told = {"pairs": count, "difference": 2 * self.sequence.mean - 1 if count else None, "low": low, "high": high}
        return {**told, "verdict": self.verdict, "decided_at": self.decided_at}
