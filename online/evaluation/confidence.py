"""How far a mean may lie from what was seen: for a sample of fixed size, and at every moment of a stream.

    AverageSequence  values in [0, 1], as they come                  may be looked at whenever one likes
    PolicySequence   importance weights and rewards, as they come    likewise, however large a weight may become
    bernstein        a whole sample in [low, high]                   once, at its end
    bootstrap        a whole sample of anything                      once; approximate, the better the larger it is

The first is the empirical-Bernstein sequence of Howard, Ramdas, McAuliffe & Sekhon (2021, theorem 4) with their stitched
boundary (10). The second rests on Fan's inequality (2015). For y >= -1, 0 <= l < 1 and psi(l) = -log(1 - l) - l,

    exp(l y - psi(l) y^2) <= 1 + l y

so that for values x >= 0 of mean m, and guesses g in [0, 1] and l made from earlier values alone, the product of
exp(l (x - m) - psi(l) (x - g)^2) is a supermartingale. By Ville's inequality it never exceeds 1 / alpha but with chance
alpha, and at every moment

    m >= (sum l x - sum psi(l) (x - g)^2 - log(1 / alpha)) / sum l

The l of Waudby-Smith & Ramdas (2023), the two-sided bound for policies of Waudby-Smith, Wu, Ramdas, Karampatziakis &
Mineiro (2022). Where the mean moves, what is bounded is its average so far, weighted by the l.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Interval = tuple[float, float]

LARGEST_BET = 0.5
ALPHA = 0.05
ETA, POWER = 2.0, 1.4  # of the stitching: the ratio of its epochs, and how it spends alpha among them
ZETA = 3.1055472779775806  # zeta(POWER)
K1, K2 = (ETA**0.25 + ETA**-0.25) / math.sqrt(2), (math.sqrt(ETA) + 1) / 2
BOOTSTRAP_ROWS = 2**22  # resampled indices held at once


@dataclass(slots=True)
class LowerSequence:
    """A bound that the mean, at most 1, of nonnegative values never falls below; at any time, but with chance alpha."""

    alpha: float
    count: int = 0
    total: float = 0.0
    spread: float = 0.0  # sum of (x - the mean up to and with x)^2
    bets: float = 0.0  # sum of l
    won: float = 0.0  # sum of l x
    paid: float = 0.0  # sum of psi(l) (x - g)^2

    def add(self, values: Floats) -> None:
        """The bound is the same however the values are cut into chunks."""
        if not len(values):
            return
        times = self.count + np.arange(1, len(values) + 1)
        totals = running(self.total, values)
        means = np.minimum((0.5 + totals) / (times + 1), 1.0)
        guesses = np.concatenate([[min((0.5 + self.total) / (self.count + 1), 1.0)], means[:-1]])
        spreads = running(self.spread, (values - means) ** 2)
        variances = (0.25 + np.concatenate([[self.spread], spreads[:-1]])) / times
        bets = np.minimum(np.sqrt(2 * math.log(1 / self.alpha) / (variances * times * np.log1p(times))), LARGEST_BET)
        self.count += len(values)
        self.total, self.spread = float(totals[-1]), float(spreads[-1])
        self.bets = last(self.bets, bets)
        self.won = last(self.won, bets * values)
        self.paid = last(self.paid, (-np.log1p(-bets) - bets) * (values - guesses) ** 2)

    @property
    def bound(self) -> float:
        if not self.count:
            return 0.0
        return max((self.won - self.paid - math.log(1 / self.alpha)) / self.bets, 0.0)


def running(start: float, values: Floats) -> Floats:
    """Sums up to each value, one after another, so that cutting into chunks changes no digit."""
    sums: Floats = np.cumsum(np.concatenate([[start], values]))[1:]
    return sums


def last(start: float, values: Floats) -> float:
    return float(running(start, values)[-1])


def boundary(variance_N: Floats, alpha: float) -> Floats:
    """[N]: what a sum of differences from their expectation, each in [-1, 1], exceeds at no time but with chance alpha."""
    variance_N = np.maximum(variance_N, 1.0)
    spent_N = POWER * np.log(np.log(ETA * variance_N)) + math.log(ZETA / (alpha * math.log(ETA) ** POWER))
    bound_N: Floats = np.sqrt(K1**2 * variance_N * spent_N + K2**2 * spent_N**2) + K2 * spent_N
    return bound_N


@dataclass(slots=True)
class AverageSequence:
    """An anytime-valid interval for the average of what was to be expected, of values in [0, 1].

    It is the plain average so far that is bounded, also where the world moves: with guesses g made of earlier values
    alone and V = sum (x - g)^2, it lies within boundary(V) / n of the average seen, at every n.
    """

    alpha: float = ALPHA
    count: int = 0
    total: float = 0.0
    variance: float = 0.0  # V

    def add(self, values_N: Floats) -> tuple[Floats, Floats]:
        """[N], [N]: the interval after each of them. It is the same however the values are cut into chunks."""
        if not len(values_N):
            return np.array([]), np.array([])
        times_N = self.count + np.arange(1, len(values_N) + 1)
        totals_N = running(self.total, values_N)
        guesses_N = (0.5 + np.concatenate([[self.total], totals_N[:-1]])) / times_N
        variance_N = running(self.variance, (values_N - guesses_N) ** 2)
        self.count += len(values_N)
        self.total, self.variance = float(totals_N[-1]), float(variance_N[-1])
        return self._intervals(totals_N / times_N, variance_N, times_N)

    def _intervals(self, mean_N: Floats, variance_N: Floats, times_N: Any) -> tuple[Floats, Floats]:
        reach_N = boundary(variance_N, self.alpha / 2) / times_N
        return np.maximum(mean_N - reach_N, 0.0), np.minimum(mean_N + reach_N, 1.0)

    @property
    def mean(self) -> float:
        return self.total / self.count

    def interval(self) -> Interval:
        if not self.count:
            return 0.0, 1.0
        low, high = self._intervals(np.array([self.mean]), np.array([self.variance]), self.count)
        return float(low[0]), float(high[0])


@dataclass(slots=True)
class PolicySequence:
    """An anytime-valid interval for what a policy would have earned, rewards in [0, 1].

    It asks for no bound on the weights. Where the policy would have chosen what was never logged it is true
    nevertheless: the mean weight is then below 1, and the interval holds every reward that this might have earned.
    """

    level: float = 0.95
    under: LowerSequence = field(init=False)
    over: LowerSequence = field(init=False)

    def __post_init__(self) -> None:
        self.under, self.over = LowerSequence((1 - self.level) / 2), LowerSequence((1 - self.level) / 2)

    def add(self, weights: Floats, rewards: Floats) -> None:
        self.under.add(weights * rewards)
        self.over.add(weights * (1 - rewards))

    def interval(self) -> Interval:
        return min(self.under.bound, 1.0), max(1 - self.over.bound, 0.0)


def bernstein(values: Floats, low: float, high: float, level: float = 0.95) -> Interval:
    """Empirical Bernstein (Maurer & Pontil 2009), for a sample of fixed size of values in [low, high]."""
    count, mean = len(values), float(values.mean())
    if count < 2:
        return low, high
    cost = math.log(4 / (1 - level))
    reach = math.sqrt(2 * float(values.var(ddof=1)) * cost / count) + 7 * (high - low) * cost / (3 * (count - 1))
    return max(low, mean - reach), min(high, mean + reach)


def bootstrap(columns_NC: Floats, resamples: int, seed: int) -> Floats:
    """Means of the columns [resamples, C] in samples drawn anew, with replacement, of the rows (Efron 1979)."""
    count = len(columns_NC)
    draw = np.random.Generator(np.random.Philox(key=seed))
    means_SC = np.empty((resamples, columns_NC.shape[1]))
    together = max(1, BOOTSTRAP_ROWS // count)
    for start in range(0, resamples, together):
        size = min(together, resamples - start)
        drawn_SN = draw.integers(0, count, (size, count)) + count * np.arange(size)[:, None]
        times_SN = np.bincount(drawn_SN.ravel(), minlength=size * count).reshape(size, count)
        means_SC[start : start + size] = times_SN @ columns_NC / count
    return means_SC


def percentiles(values: Floats, level: float = 0.95) -> Interval:
    """What lies within the middle `level` of the values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
