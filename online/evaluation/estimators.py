"""What a policy would have earned, from decisions that another one made.

With the target's chance pi and the logged propensity p of what was chosen, w = pi / p, the reward r, the reward q that
a model expects which has not seen it (outcomes.py), and the sum v = sum over candidates of pi q:

    ips       mean w r                            Horvitz & Thompson 1952; unbiased, however wild
    clipped   mean min(w, c) r                    Ionides 2008, c = sqrt(N): too low rather than wild
    snips     mean w r / mean w                   Swaminathan & Joachims 2015
    dm        mean v                              as good as the model, which no interval knows
    dr        mean v + w (r - q)                  Dudik, Langford & Li 2011
    switch    the same, without the second term where w > c     Wang, Agarwal & Dudik 2017
    replay    mean of r where the choices agree   Li et al. 2011; logs that are uniform

Each is a mean over decisions, or the ratio of two: `Terms`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from online.evaluation.confidence import Interval, bernstein, bootstrap, percentiles
from online.evaluation.decisions import Decisions, Floats

ESTIMATORS = ("ips", "clipped", "snips", "dm", "dr", "switch", "replay")
USUAL = ESTIMATORS[:-1]


@dataclass(frozen=True, slots=True)
class Terms:
    """One number a decision, within [low, high]; their mean is the estimate, or its ratio to the mean of `by`."""

    values_N: Floats
    low: float = 0.0
    high: float = 1.0
    by_N: Floats | None = None

    @property
    def value(self) -> float:
        return float(self.values_N.mean() / (1 if self.by_N is None else self.by_N.mean()))


@dataclass(frozen=True, slots=True)
class Weighed:
    """A target beside the log. most: the largest weight there can be. agreeing: pi of what was chosen.

    expected: v; predicted: q of what was chosen; modelled: v by the models of the direct method.
    """

    rewards_N: Floats
    agreeing_N: Floats
    weights_N: Floats
    most: float
    expected_N: Floats
    predicted_N: Floats
    modelled_N: Floats


def weighed(decisions: Decisions, chances_M: Floats, agreeing_N: Floats, before_M: Floats, others_M: Floats) -> Weighed:
    """agreeing: the target's chance of what was chosen, which is chances[chosen] unless those are but a draw of it.

    before, others: rewards expected by models of what came before, and of all others.
    """
    weights_N = agreeing_N / decisions.propensities_N
    return Weighed(
        decisions.rewards_N,
        agreeing_N,
        weights_N,
        largest_weight(decisions, chances_M, weights_N),
        decisions.summed(chances_M * before_M),
        before_M[decisions.chosen_N],
        decisions.summed(chances_M * others_M),
    )


def largest_weight(decisions: Decisions, chances_M: Floats, weights_N: Floats) -> float:
    """That could have come up: by the logged chances, or by the smallest propensity that was logged."""
    seen = float(weights_N.max())
    if np.allclose(weights_N, 1.0):
        return seen  # the logging policy itself
    if decisions.logged_M is not None:
        possible = decisions.logged_M > 0
        return max(seen, float((chances_M[possible] / decisions.logged_M[possible]).max()))
    return max(seen, float(chances_M.max() / decisions.propensities_N.min()))


def ips(each: Weighed) -> Terms:
    return Terms(each.weights_N * each.rewards_N, 0.0, each.most)


def clipped(each: Weighed, clip: float) -> Terms:
    return Terms(np.minimum(each.weights_N, clip) * each.rewards_N, 0.0, min(clip, each.most))


def snips(each: Weighed) -> Terms:
    return Terms(each.weights_N * each.rewards_N, by_N=each.weights_N)


def direct(each: Weighed) -> Terms:
    return Terms(each.modelled_N)


def doubly_robust(each: Weighed) -> Terms:
    return switched(each, math.inf)


def switched(each: Weighed, threshold: float) -> Terms:
    """Doubly robust where the weight is at most the threshold, the direct method beyond it."""
    trusted_N = np.where(each.weights_N <= threshold, each.weights_N, 0.0)
    most = min(threshold, each.most)
    return Terms(each.expected_N + trusted_N * (each.rewards_N - each.predicted_N), -most, 1 + most)


def replayed(each: Weighed) -> Terms:
    return Terms(each.agreeing_N * each.rewards_N, by_N=each.agreeing_N)


def terms_of(name: str, each: Weighed, clip: float) -> Terms:
    """clip: 0 is sqrt(N). It is not chosen by what was earned: an interval would not know of that choice."""
    clip = clip or math.sqrt(len(each.weights_N))
    by_name: dict[str, Callable[[], Terms]] = {
        "ips": lambda: ips(each),
        "clipped": lambda: clipped(each, clip),
        "snips": lambda: snips(each),
        "dm": lambda: direct(each),
        "dr": lambda: doubly_robust(each),
        "switch": lambda: switched(each, clip),
        "replay": lambda: replayed(each),
    }
    return by_name[name]()


@dataclass(frozen=True, slots=True)
class Estimate:
    """bootstrap and bernstein: intervals for this sample.

    bernstein: within [0, 1], where every reward lies; None for ratios, whose range is not known.
    """

    value: float
    bootstrap: Interval
    bernstein: Interval | None


def estimates(terms: dict[str, Terms], level: float, resamples: int, seed: int) -> dict[str, Estimate]:
    """All on the same resampled decisions."""
    ones_N = np.ones(len(next(iter(terms.values())).values_N))
    columns = [
        column for each in terms.values() for column in (each.values_N, ones_N if each.by_N is None else each.by_N)
    ]
    means_SC = bootstrap(np.column_stack(columns), resamples, seed)
    found = dict[str, Estimate]()
    for place, (name, each) in enumerate(terms.items()):
        over, by = means_SC[:, 2 * place], means_SC[:, 2 * place + 1]
        drawn = (over / np.where(by > 0, by, 1.0))[by > 0]
        low, high = bernstein(each.values_N, each.low, each.high, level)
        known = (max(low, 0.0), min(high, 1.0)) if each.by_N is None else None
        found[name] = Estimate(each.value, percentiles(drawn, level), known)
    return found


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much the log says about the target.

    ess: effective sample size (sum w)^2 / sum w^2. mean_weight: 1, but for chance. covered: how much of the target's
    mass lies on what the logging policy could have chosen. followed: how often the target might have chosen as it did.
    """

    decisions: int
    ess: float
    largest_weight: float
    mean_weight: float
    covered: float
    followed: float


def overlap(decisions: Decisions, chances_M: Floats, agreeing_N: Floats) -> Overlap:
    weights_N = agreeing_N / decisions.propensities_N
    squares = float((weights_N**2).sum())
    return Overlap(
        len(weights_N),
        float(weights_N.sum()) ** 2 / squares if squares else 0.0,
        float(weights_N.max()),
        float(weights_N.mean()),
        float(chances_M[decisions.possible].sum()) / len(weights_N),
        float((agreeing_N > 0).mean()),
    )
