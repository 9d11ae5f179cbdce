"""Confidence intervals of a mean: for a sample of fixed size, and at every moment of a stream.

    AverageSequence  a stream of values in [0, 1]                  valid at every moment
    PolicySequence   a stream of importance weights and rewards    valid at every moment, for weights of any size
    wilson_interval  a share of a whole sample                     valid once, at its end
    bernstein        a whole sample in [low, high]                 valid once, at its end
    bootstrap        a whole sample of any values                  valid once; approximate, better for larger samples

The first is the empirical-Bernstein sequence of Howard, Ramdas, McAuliffe & Sekhon (2021, theorem 4)
with their stitched boundary (10). The second uses Fan's inequality (2015). For y >= -1, 0 <= l < 1
and psi(l) = -log(1 - l) - l,

    exp(l y - psi(l) y^2) <= 1 + l y

so for values x >= 0 of mean m, and guesses g in [0, 1] and l computed from earlier values only, the
product of exp(l (x - m) - psi(l) (x - g)^2) is a supermartingale. By Ville's inequality it exceeds
1 / alpha with probability at most alpha, so at every moment

    m >= (sum l x - sum psi(l) (x - g)^2 - log(1 / alpha)) / sum l

The l are those of Waudby-Smith & Ramdas (2023); the two-sided bound for policies is that of
Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro (2022). If the mean changes over time, the bound is
for its average so far, weighted by l.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Interval = tuple[float, float]

MAX_BET = 0.5
ALPHA = 0.05
ETA, POWER = 2.0, 1.4  # of the stitching: the ratio of its epochs, and how alpha is spent among them
ZETA = 3.1055472779775806  # zeta(POWER)
K1, K2 = (ETA**0.25 + ETA**-0.25) / math.sqrt(2), (math.sqrt(ETA) + 1) / 2
BOOTSTRAP_ROWS = 2**22  # resampled indices held at once


@dataclass(slots=True)
class LowerSequence:
    """A lower bound of the mean, at most 1, of nonnegative values.

    The probability that it is wrong at any moment is at most alpha.
    """

    alpha: float
    count: int = 0
    total: float = 0.0
    spread: float = 0.0  # sum of (x - the mean up to and including x)^2
    bets: float = 0.0  # sum of l
    won: float = 0.0  # sum of l x
    paid: float = 0.0  # sum of psi(l) (x - g)^2

    def add(self, values: Floats) -> None:
        """Add values. The bound does not depend on how they are cut into chunks."""
        if not len(values):
            return
        times = self.count + np.arange(1, len(values) + 1)
        totals = running_sums(self.total, values)
        means = np.minimum((0.5 + totals) / (times + 1), 1.0)
        guesses = np.concatenate([[min((0.5 + self.total) / (self.count + 1), 1.0)], means[:-1]])
        spreads = running_sums(self.spread, (values - means) ** 2)
        variances = (0.25 + np.concatenate([[self.spread], spreads[:-1]])) / times
        bets = np.minimum(np.sqrt(2 * math.log(1 / self.alpha) / (variances * times * np.log1p(times))), MAX_BET)
        self.count += len(values)
        self.total, self.spread = float(totals[-1]), float(spreads[-1])
        self.bets = last_sum(self.bets, bets)
        self.won = last_sum(self.won, bets * values)
        self.paid = last_sum(self.paid, (-np.log1p(-bets) - bets) * (values - guesses) ** 2)

    @property
    def bound(self) -> float:
        """The lower bound, valid at every moment."""
        if not self.count:
            return 0.0
        return max((self.won - self.paid - math.log(1 / self.alpha)) / self.bets, 0.0)


def running_sums(start: float, values: Floats) -> Floats:
    """Return the sums up to each value, added in order, so that chunking changes no digit."""
    sums: Floats = np.cumsum(np.concatenate([[start], values]))[1:]
    return sums


def last_sum(start: float, values: Floats) -> float:
    """Return the last running sum, added in order."""
    return float(running_sums(start, values)[-1])


def stitched_boundary(variance_N: Floats, alpha: float) -> Floats:
    """Return the boundary [N] that a sum of centred values in [-1, 1] ever exceeds with chance alpha at most."""
    variance_N = np.maximum(variance_N, 1.0)
    spent_N = POWER * np.log(np.log(ETA * variance_N)) + math.log(ZETA / (alpha * math.log(ETA) ** POWER))
    bound_N: Floats = np.sqrt(K1**2 * variance_N * spent_N + K2**2 * spent_N**2) + K2 * spent_N
    return bound_N


@dataclass(slots=True)
class AverageSequence:
    """An anytime-valid interval for the average of the expectations of values in [0, 1].

    The interval is for the plain average so far, also if the expectation changes over time. With
    guesses g computed from earlier values only and V = sum (x - g)^2, that average lies within
    boundary(V) / n of the observed average at every n.
    """

    alpha: float = ALPHA
    count: int = 0
    total: float = 0.0
    variance: float = 0.0  # V

    def add(self, values_N: Floats) -> tuple[Floats, Floats]:
        """Add values; return the interval after each, [N] and [N]. It does not depend on the chunks."""
        if not len(values_N):
            return np.array([]), np.array([])
        times_N = self.count + np.arange(1, len(values_N) + 1)
        totals_N = running_sums(self.total, values_N)
        guesses_N = (0.5 + np.concatenate([[self.total], totals_N[:-1]])) / times_N
        variance_N = running_sums(self.variance, (values_N - guesses_N) ** 2)
        self.count += len(values_N)
        self.total, self.variance = float(totals_N[-1]), float(variance_N[-1])
        return self._intervals(totals_N / times_N, variance_N, times_N)

    def _intervals(self, mean_N: Floats, variance_N: Floats, times_N: NDArray[np.int64] | int) -> tuple[Floats, Floats]:
        reach_N = stitched_boundary(variance_N, self.alpha / 2) / times_N
        return np.maximum(mean_N - reach_N, 0.0), np.minimum(mean_N + reach_N, 1.0)

    @property
    def mean(self) -> float:
        """The mean so far."""
        return self.total / self.count

    def interval(self) -> Interval:
        """Return the interval, valid at every moment."""
        if not self.count:
            return 0.0, 1.0
        low, high = self._intervals(np.array([self.mean]), np.array([self.variance]), self.count)
        return float(low[0]), float(high[0])


@dataclass(slots=True)
class PolicySequence:
    """An anytime-valid interval for the value of a policy, with rewards in [0, 1].

    The weights need no bound. The interval is valid even if the policy chooses candidates that were
    never logged: the mean weight is then below 1, and the interval covers every reward that those
    candidates could have earned.
    """

    level: float = 0.95
    under: LowerSequence = field(init=False)
    over: LowerSequence = field(init=False)

    def __post_init__(self) -> None:
        self.under, self.over = LowerSequence((1 - self.level) / 2), LowerSequence((1 - self.level) / 2)

    def add(self, weights: Floats, rewards: Floats) -> None:
        """Add weighted rewards."""
        self.under.add(weights * rewards)
        self.over.add(weights * (1 - rewards))

    def interval(self) -> Interval:
        """Return the interval, valid at every moment."""
        low, high = min(self.under.bound, 1.0), max(1 - self.over.bound, 0.0)
        return min(low, high), max(low, high)  # they cross only where the weights cannot be right


def wilson_interval(right: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927), for a sample of fixed size."""
    z = 1.96
    middle = (right + z * z / 2) / (count + z * z)
    reach = z * math.sqrt(right * (count - right) / count + z * z / 4) / (count + z * z)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def bernstein(values: Floats, low: float, high: float, level: float = 0.95) -> Interval:
    """Return the empirical Bernstein interval (Maurer & Pontil 2009) of a whole sample in [low, high]."""
    count, mean = len(values), float(values.mean())
    if count < 2:
        return low, high
    cost = math.log(4 / (1 - level))
    reach = math.sqrt(2 * float(values.var(ddof=1)) * cost / count) + 7 * (high - low) * cost / (3 * (count - 1))
    return max(low, mean - reach), min(high, mean + reach)


def bootstrap(columns_NC: Floats, resamples: int, seed: int) -> Floats:
    """Return the column means [resamples, C] of samples of the rows, with replacement (Efron 1979)."""
    count = len(columns_NC)
    draw = np.random.Generator(np.random.Philox(key=seed))
    means_SC = np.empty((resamples, columns_NC.shape[1]))
    chunk = max(1, BOOTSTRAP_ROWS // count)
    for start in range(0, resamples, chunk):
        size = min(chunk, resamples - start)
        drawn_SN = draw.integers(0, count, (size, count)) + count * np.arange(size)[:, None]
        times_SN = np.bincount(drawn_SN.ravel(), minlength=size * count).reshape(size, count)
        means_SC[start : start + size] = times_SN @ columns_NC / count
    return means_SC


def percentiles(values: Floats, level: float = 0.95) -> Interval:
    """Return the quantiles that enclose the middle `level` of the values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
