"""Intervals for means that may be looked at as often as one likes."""

import math

import numpy as np
from numpy.typing import NDArray


class MeanSequence:
    """The mean of variables in [0, 1]: predictable plug-in empirical-Bernstein confidence sequence (Waudby-Smith & Ramdas 2023).

    With probability 1 - alpha the interval holds the (weighted) mean at every moment at once.
    """

    def __init__(self, alpha: float = 0.05) -> None:
        self.alpha = alpha
        self.count, self.total, self.squares = 0, 0.0, 0.0
        self.weight = self.weighted = self.spent = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        for value in values.tolist():
            mean = (0.5 + self.total) / (self.count + 1)
            variance = (0.25 + self.squares) / (self.count + 1)
            self.count += 1
            bet = math.sqrt(2 * math.log(2 / self.alpha) / (variance * self.count * math.log(1 + self.count)))
            bet = min(bet, 0.5)
            self.weight += bet
            self.weighted += bet * value
            self.spent += 4 * (value - mean) ** 2 * (-math.log(1 - bet) - bet) / 4
            self.total += value
            self.squares += (value - (0.5 + self.total) / (self.count + 1)) ** 2

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.5

    def interval(self) -> tuple[float, float]:
        if not self.weight:
            return 0.0, 1.0
        centre, margin = self.weighted / self.weight, (math.log(2 / self.alpha) + self.spent) / self.weight
        return max(0.0, centre - margin), min(1.0, centre + margin)
