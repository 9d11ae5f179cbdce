"""Intervals that adapt: how many of a model's own half-widths contain a number as often as promised.

    |number - prediction| / half-width --> the newest WINDOW of these scores --> their quantile: the reach

Split conformal prediction (Vovk et al. 2005) on the newest scores, with the adaptive level of Gibbs &
Candes (2021): after a number outside its interval the next ones are wider, after one inside they
are a little narrower, so that the share outside approaches the promised one in any world. The first
scores are those of normal errors, which a model that is right about its noise makes.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from statistics import NormalDist

WINDOW = 100  # newest scores that count
PRIOR = 20  # scores that are assumed at the start
STEP = 0.01  # of the adaptive level, per number
LOWEST = 0.002  # share outside below which it does not fall
HIGHEST_LEVEL = 0.95  # beyond it, so few scores say nothing: there the tail is assumed to be that of normal errors


class IntervalReach:
    """level: the promised share of numbers inside, at most `HIGHEST_LEVEL`."""

    def __init__(self, level: float) -> None:
        self.outside = self.allowed = 1 - level
        normal = NormalDist()
        half = normal.inv_cdf((1 + level) / 2)
        prior = [normal.inv_cdf((1 + (place + 0.5) / PRIOR) / 2) / half for place in range(PRIOR)]
        self._newest, self._sorted = deque(prior), sorted(prior)

    @property
    def factor(self) -> float:
        """The factor of the half-width for the next interval."""
        count = len(self._sorted)
        place = int((1 - self.outside) * (count + 1))
        return self._sorted[min(place, count - 1)]

    def add(self, score: float) -> None:
        """Adapt to one more interval. score: half-widths to the number."""
        self.outside += STEP * (self.allowed - (score > self.factor))
        self.outside = min(max(self.outside, LOWEST), (1 + self.allowed) / 2)
        self._newest.append(score)
        insort(self._sorted, score)
        if len(self._newest) > WINDOW:
            del self._sorted[bisect_left(self._sorted, self._newest.popleft())]


def student_t(level: float, freedom: int) -> float:
    """Return the t with P(|T| < t) = level: exact for one and two degrees of freedom, then Fisher's expansion.

    Abramowitz & Stegun 26.7.5; at a level of 0.9 within 0.3 % from three degrees on.
    """
    if freedom == 1:
        return math.tan(math.pi * level / 2)
    if freedom == 2:
        return level * math.sqrt(2 / (1 - level**2))
    z, v = NormalDist().inv_cdf((1 + level) / 2), float(freedom)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3
