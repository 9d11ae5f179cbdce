"""Intervals around predicted numbers, from the errors of the newest predictions (split conformal prediction).

    each example: |number - prediction| before it is learned --> the newest 256 errors --> their quantile: the reach

The interval holds `level` of the numbers where errors are exchangeable over the newest 256 examples, whatever the
estimator is. Source: Lei et al. (2018), Distribution-free predictive inference for regression.
"""

import math
from collections.abc import Iterable

KEPT = 256


class RecentErrors:
    """The absolute errors of the newest predictions."""

    def __init__(self, level: float, errors: Iterable[float] = ()) -> None:
        self.level = level
        self.errors = list(errors)[-KEPT:]

    def add(self, error: float) -> None:
        """Errors that are not finite are left out."""
        if math.isfinite(error):
            self.errors = [*self.errors, abs(error)][-KEPT:]

    def interval(self, value: float) -> tuple[float, float] | None:
        """Return the interval around a prediction; None before there are two errors."""
        count = len(self.errors)
        if count < 2:
            return None
        rank = min(count, math.ceil((count + 1) * self.level))
        reach = max(sorted(self.errors)[rank - 1], math.ulp(value))
        return value - reach, value + reach
