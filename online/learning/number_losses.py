"""Losses of 0 and 1 for a model that predicts numbers, so that a detector of rising losses can observe it.

    recorded number, right number --> |error| --above the threshold--> 1, else 0

The threshold follows the upper quartile of the errors slowly (a quantile by stochastic approximation,
in the logarithm, so that the unit of the numbers does not matter). A rise of the errors is a rise of
the losses until the threshold has followed, after some hundreds of numbers. After an improvement the
losses fall and come back to a quarter: that is no drift, and `is_drift` says so. A detector finds
one change several times while its window shrinks; it is reported once.
"""

import math
from collections.abc import Sequence
from statistics import quantiles
from typing import Any

from online.learning.detectors import ChangePoint
from online.models import parse_number
from online.schemas.events import Event

NOMINAL = 0.25  # share of errors above the threshold in a world that stands still
FIRST = 64  # errors that fix the first threshold; they are no losses
RATE = 0.004  # of the threshold's way, per error
LEAST_RISE = 1.5  # times the nominal share, below which more losses are no drift
TINY = 1e-300


class NumberLosses:
    """first: the errors so far, until there are enough for a threshold. threshold: its logarithm; None before.

    reported: the offset at which a change was last reported.
    """

    def __init__(self) -> None:
        self.first: list[float] = []
        self.threshold: float | None = None
        self.reported = -1

    def add_all(self, events: Sequence[Event]) -> list[int | None]:
        """Return the loss of each event's recorded answer, in order; None if there is none yet."""
        return [None if error is None else self._add(error) for error in map(compute_error, events)]

    def _add(self, error: float) -> int | None:
        size = math.log(max(error, TINY))
        if self.threshold is None:
            self.first.append(size)
            if len(self.first) == FIRST:
                self.threshold, self.first = quantiles(self.first, n=4)[2], []
            return None
        loss = int(size > self.threshold)
        self.threshold += RATE * (loss - NOMINAL)
        return loss

    def is_drift(self, change: ChangePoint, offset: int) -> bool:
        """Whether a change of the losses, found at `offset`, is a rise of the errors that was not reported yet."""
        if change.after <= LEAST_RISE * NOMINAL or change.since <= self.reported:
            return False
        self.reported = offset
        return True

    def numbers(self) -> list[Any]:
        return [self.first, self.threshold, self.reported]

    def restore(self, numbers: list[Any]) -> None:
        self.first, self.threshold, self.reported = numbers


def compute_error(event: Event) -> float | None:
    """Return how far the recorded number was from the right one; None without an answer or a label."""
    if event.choice is None or event.kind != "label":
        return None
    try:
        return abs(parse_number(event.choice) - parse_number(event.label))
    except ValueError:
        return None  # no number: the learner refuses such a label
