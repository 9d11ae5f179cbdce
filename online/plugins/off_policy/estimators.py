"""Estimators of a policy's value, from decisions that another policy made.

For each decision: the target's probability pi and the logged propensity p of the choice, w = pi / p,
the reward r, the reward q predicted by a model that has not seen it (reward_model.py), and
v = the sum over the candidates of pi q:

    ips       mean w r                            Horvitz & Thompson 1952; unbiased, high variance
    clipped   mean min(w, c) r                    Ionides 2008, c = sqrt(N); biased low, less variance
    snips     mean w r / mean w                   Swaminathan & Joachims 2015
    dm        mean v                              as good as the model; its interval ignores model error
    dr        mean v + w (r - q)                  Dudik, Langford & Li 2011
    switch    dr, without the second term where w > c           Wang, Agarwal & Dudik 2017
    replay    mean of r where the choices agree   Li et al. 2011; needs a log of uniform choices

Each is a mean over decisions, or the ratio of two means: `EstimatorTerms`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from online.plugins.off_policy.decisions import Decisions, Floats
from online.scoring.intervals import Interval, bernstein, bootstrap, percentiles

ESTIMATORS = ("ips", "clipped", "snips", "dm", "dr", "switch", "replay")
DEFAULT_ESTIMATORS = ESTIMATORS[:-1]


@dataclass(frozen=True, slots=True)
class EstimatorTerms:
    """One number per decision, in [low, high].

    The estimate is their mean, or its ratio to the mean of `by`.
    """

    values_N: Floats
    low: float = 0.0
    high: float = 1.0
    by_N: Floats | None = None

    @property
    def value(self) -> float:
        """The estimate."""
        return float(self.values_N.mean() / (1 if self.by_N is None else self.by_N.mean()))


@dataclass(frozen=True, slots=True)
class WeighedLog:
    """The inputs of the estimators, for one target.

    agreeing: pi of the choice. max_weight: the largest possible weight. expected: v; predicted: q of
    the choice; modelled: v by the models of the direct method.
    """

    rewards_N: Floats
    agreeing_N: Floats
    weights_N: Floats
    max_weight: float
    expected_N: Floats
    predicted_N: Floats
    modelled_N: Floats


def weigh(
    decisions: Decisions, chances_M: Floats, agreeing_N: Floats, forward_M: Floats, folds_M: Floats
) -> WeighedLog:
    """Weigh the log for a target.

    agreeing: the target's probability of each choice; it equals chances[chosen] unless the chances
    are one draw from the target. forward, folds: rewards predicted by models of earlier decisions,
    and of all other folds.
    """
    weights_N = agreeing_N / decisions.propensities_N
    return WeighedLog(
        decisions.rewards_N,
        agreeing_N,
        weights_N,
        find_largest_weight(decisions, chances_M, weights_N),
        decisions.summed(chances_M * forward_M),
        forward_M[decisions.chosen_N],
        decisions.summed(chances_M * folds_M),
    )


def find_largest_weight(decisions: Decisions, chances_M: Floats, weights_N: Floats) -> float:
    """Return the largest weight possible, by the logged probabilities or the smallest logged propensity."""
    largest = float(weights_N.max())
    if np.allclose(weights_N, 1.0):
        return largest  # the logging policy itself
    if decisions.logged_M is not None:
        possible = decisions.logged_M > 0
        return max(largest, float((chances_M[possible] / decisions.logged_M[possible]).max()))
    return max(largest, float(chances_M.max() / decisions.propensities_N.min()))


def ips(log: WeighedLog) -> EstimatorTerms:
    """Inverse propensity scoring (Horvitz & Thompson 1952)."""
    return EstimatorTerms(log.weights_N * log.rewards_N, 0.0, log.max_weight)


def clipped(log: WeighedLog, clip: float) -> EstimatorTerms:
    """IPS with weights of at most `clip`."""
    return EstimatorTerms(np.minimum(log.weights_N, clip) * log.rewards_N, 0.0, min(clip, log.max_weight))


def snips(log: WeighedLog) -> EstimatorTerms:
    """Self-normalised IPS (Swaminathan & Joachims 2015)."""
    return EstimatorTerms(log.weights_N * log.rewards_N, by_N=log.weights_N)


def direct(log: WeighedLog) -> EstimatorTerms:
    """Return the mean of the modelled rewards."""
    return EstimatorTerms(log.modelled_N)


def doubly_robust(log: WeighedLog) -> EstimatorTerms:
    """Doubly robust (Dudik et al. 2011)."""
    return switched(log, math.inf)


def switched(log: WeighedLog, threshold: float) -> EstimatorTerms:
    """Doubly robust for weights up to the threshold, the direct method above it."""
    trusted_N = np.where(log.weights_N <= threshold, log.weights_N, 0.0)
    bound = min(threshold, log.max_weight)
    return EstimatorTerms(log.expected_N + trusted_N * (log.rewards_N - log.predicted_N), -bound, 1 + bound)


def replay_method(log: WeighedLog) -> EstimatorTerms:
    """Return the mean reward where the policy agrees with the log (Li et al. 2011)."""
    return EstimatorTerms(log.agreeing_N * log.rewards_N, by_N=log.agreeing_N)


def compute_terms(name: str, log: WeighedLog, clip: float) -> EstimatorTerms:
    """Compute an estimator's terms. clip: 0 means sqrt(N).

    The clip must not depend on the rewards: no interval accounts for such a choice.
    """
    clip = clip or math.sqrt(len(log.weights_N))
    by_name: dict[str, Callable[[], EstimatorTerms]] = {
        "ips": lambda: ips(log),
        "clipped": lambda: clipped(log, clip),
        "snips": lambda: snips(log),
        "dm": lambda: direct(log),
        "dr": lambda: doubly_robust(log),
        "switch": lambda: switched(log, clip),
        "replay": lambda: replay_method(log),
    }
    return by_name[name]()


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate and its intervals, all in [0, 1], as every reward.

    A mean of weighed rewards may lie outside of that; no value of a policy does, so it is then given as 0 or 1.
    bernstein: None for a ratio, whose range is unknown.
    """

    value: float
    bootstrap: Interval
    bernstein: Interval | None


def compute_estimates(terms: dict[str, EstimatorTerms], level: float, resamples: int, seed: int) -> dict[str, Estimate]:
    """Compute all estimates from the same resampled decisions."""
    ones_N = np.ones(len(next(iter(terms.values())).values_N))
    columns = [
        column for each in terms.values() for column in (each.values_N, ones_N if each.by_N is None else each.by_N)
    ]
    means_SC = bootstrap(np.column_stack(columns), resamples, seed)
    estimates = dict[str, Estimate]()
    for place, (name, each) in enumerate(terms.items()):
        over, by = means_SC[:, 2 * place], means_SC[:, 2 * place + 1]
        drawn = (over / np.where(by > 0, by, 1.0))[by > 0]
        value, bounded = bring_into_range(each.value), bernstein(each.values_N, each.low, each.high, level)
        estimates[name] = Estimate(
            value,
            enclose(value, percentiles(drawn, level)),
            enclose(value, bounded) if each.by_N is None else None,
        )
    return estimates


def bring_into_range(value: float) -> float:
    """Return the reward nearest to a value."""
    return min(max(value, 0.0), 1.0)


def enclose(value: float, interval: Interval) -> Interval:
    """Return the interval within the range of rewards, widened to the value where resampling left it outside."""
    low, high = map(bring_into_range, interval)
    return min(low, value), max(high, value)


@dataclass(frozen=True, slots=True)
class Overlap:
    """The evidence of a log about a target.

    ess: effective sample size (sum w)^2 / sum w^2. mean_weight: 1 in expectation. covered: the share
    of the target's probability on candidates that the logging policy could have chosen. followed:
    the share of decisions in which the target could have made the logged choice.
    """

    decisions: int
    ess: float
    largest_weight: float
    mean_weight: float
    covered: float
    followed: float


def compute_overlap(decisions: Decisions, chances_M: Floats, agreeing_N: Floats) -> Overlap:
    """Return how well the log covers a policy: effective sample size, largest weight, share of covered choices."""
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
