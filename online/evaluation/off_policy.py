"""What other policies would have earned, from one log: every estimate with its interval, or why there is none.

    decisions --target--> chances --weights--> overlap --enough?--> estimates
                                                  | no
                                                  v
                                    why; and the interval that is true nevertheless

An estimate is withheld where more than 1 % of the target's mass lies on what the logging policy could not have chosen
(a log without propensities is such a one), or where the effective sample size is below 30.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from online.errors import BadInput
from online.evaluation.confidence import Interval, PolicySequence
from online.evaluation.decisions import CERTAIN, Decisions, Floats
from online.evaluation.estimators import (
    ESTIMATORS,
    USUAL,
    Estimate,
    Overlap,
    Weighed,
    estimates,
    overlap,
    terms_of,
    weighed,
)
from online.evaluation.outcomes import Tick, fitted, folds, growing
from online.evaluation.scorers import Scorers
from online.evaluation.targets import Chances, chances

LEAST_ESS = 30.0
LEAST_COVERED = 0.99
SURPRISE = 4.0  # standard errors that the mean weight may lie away from 1


@dataclass(frozen=True, slots=True)
class Asks:
    """clip: 0 is the square root of the number of decisions."""

    estimators: Sequence[str] = USUAL
    clip: float = 0.0
    folds: int = 5
    level: float = 0.95
    resamples: int = 1_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises BadInput."""
        unknown = [name for name in self.estimators if name not in ESTIMATORS]
        if unknown:
            raise BadInput(f"there is no estimator {unknown[0]!r}; one of {', '.join(ESTIMATORS)}")
        if not (0 < self.level < 1 and self.clip >= 0 and self.folds >= 2 and self.resamples >= 100):
            raise BadInput("--level lies between 0 and 1, --clip at 0 or above, --folds from 2, --resamples from 100")


@dataclass(frozen=True, slots=True)
class Judged:
    """anytime: an interval for the value that holds at all times; it is true without overlap too, and then wide.

    withheld: why there are no estimates; "" where there are.
    """

    policy: str
    overlap: Overlap
    anytime: Interval
    estimates: dict[str, Estimate]
    withheld: str
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Evaluation:
    decisions: int
    actions: int
    mean_reward: float
    left_out: dict[str, int]
    notes: list[str]
    level: float
    policies: list[Judged]


def evaluate(decisions: Decisions, policies: Sequence[str], scorers: Scorers, asks: Asks, tick: Tick) -> Evaluation:
    """Raises BadInput for a policy or an estimator that cannot be had of this log."""
    if "replay" in asks.estimators:
        check_uniform(decisions)
    targets = {policy: chances(policy, decisions, scorers) for policy in policies}
    return Evaluation(
        len(decisions),
        len(decisions.actions),
        float(decisions.rewards_N.mean()),
        decisions.left_out,
        decisions.notes,
        asks.level,
        [judge(policy, decisions, target, asks, tick) for policy, target in targets.items()],
    )


def judge(policy: str, decisions: Decisions, target: Chances, asks: Asks, tick: Tick) -> Judged:
    weights_N = target.agreeing_N / decisions.propensities_N
    seen = overlap(decisions, target.chances_M, target.agreeing_N)
    anytime = PolicySequence(asks.level)
    anytime.add(weights_N, decisions.rewards_N)
    withheld = objection(decisions, seen)
    found = {} if withheld else estimated(decisions, target, weights_N, asks, tick)
    return Judged(policy, seen, anytime.interval(), found, withheld, [*target.warnings, *doubts(seen, weights_N)])


def estimated(decisions: Decisions, target: Chances, weights_N: Floats, asks: Asks, tick: Tick) -> dict[str, Estimate]:
    each = beside(decisions, target.chances_M, target.agreeing_N, asks.folds, set(asks.estimators), tick)
    terms = {name: terms_of(name, each, asks.clip) for name in asks.estimators}
    tick("drawing the decisions anew", 0, 1)
    return estimates(terms, asks.level, asks.resamples, asks.seed)


def beside(
    decisions: Decisions, chances_M: Floats, agreeing_N: Floats, parts: int, estimators: set[str], tick: Tick
) -> Weighed:
    """With the models of the rewards that these estimators need."""
    weights_N, count = agreeing_N / decisions.propensities_N, len(decisions)
    before_M = others_M = np.zeros(len(decisions.action_M))
    if {"dr", "switch"} & estimators:
        before_M = fitted(decisions, chances_M, weights_N, growing(count), True, tick)
    if "dm" in estimators:
        others_M = fitted(decisions, chances_M, weights_N, folds(count, parts), False, tick)
    return weighed(decisions, chances_M, agreeing_N, before_M, others_M)


def objection(decisions: Decisions, seen: Overlap) -> str:
    """Why nothing can be estimated; "" where something can."""
    if seen.covered < LEAST_COVERED:
        if (decisions.propensities_N >= CERTAIN).all():
            return "the log has no propensities: every choice was certain, so nothing is known of any other"
        missed = f"{1 - seen.covered:.1%} of its choices are such that the logging policy could not have made them"
        return f"{missed}; more than {1 - LEAST_COVERED:.0%} is too much"
    if seen.ess < LEAST_ESS:
        return f"its effective sample size is {seen.ess:.1f}; below {LEAST_ESS:.0f} no interval can be relied on"
    return ""


def doubts(seen: Overlap, weights_N: Floats) -> list[str]:
    found = list[str]()
    if LEAST_COVERED <= seen.covered < 1 - 1e-9:
        outside = 1 - seen.covered
        found.append(f"{outside:.2%} of its choices could not have been logged: it may be wrong by as much")
    error = float(weights_N.std()) / len(weights_N) ** 0.5
    if seen.covered >= LEAST_COVERED and abs(seen.mean_weight - 1) > SURPRISE * error + 1e-6:
        found.append(f"the mean weight is {seen.mean_weight:.3f} where it should be 1: are the propensities true?")
    return found


def check_uniform(decisions: Decisions) -> None:
    """Raises BadInput where candidates were not all as likely."""
    counts_N = np.diff(decisions.starts_N1)
    if not np.allclose(decisions.propensities_N * counts_N, 1.0, rtol=1e-3):
        raise BadInput(
            "the replay method takes a log whose choices were uniform: with every propensity one in so many "
            "candidates; of this one use snips or dr"
        )
