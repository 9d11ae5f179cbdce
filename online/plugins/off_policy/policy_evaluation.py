"""Estimates the value of other policies from one log, each with an interval, or says why it cannot.

    decisions --target--> probabilities --weights--> overlap --enough?--> estimates
                                                        | no
                                                        v
                                    the reason, and the interval that is valid anyway

Estimates are withheld if more than 1 % of the target's probability lies on candidates that the
logging policy could not have chosen (as in a log without propensities), or if the effective sample
size is below 30.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from online.errors import BadInput
from online.io.progress import Progress
from online.plugins.off_policy.decisions import CERTAIN, Decisions, Floats
from online.plugins.off_policy.estimators import (
    DEFAULT_ESTIMATORS,
    ESTIMATORS,
    Estimate,
    EstimatorTerms,
    Overlap,
    WeighedLog,
    compute_estimates,
    compute_overlap,
    compute_terms,
    weigh,
)
from online.plugins.off_policy.reward_model import assign_folds, assign_growing_stretches, predict_rewards
from online.plugins.off_policy.scorers import Scorers
from online.plugins.off_policy.targets import TargetProbabilities, compute_target
from online.scoring.intervals import Interval, PolicySequence

MIN_ESS = 30.0
MIN_COVERED = 0.99
MAX_DEVIATION = 4.0  # standard errors by which the mean weight may differ from 1


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """The estimators and their parameters. clip: 0 means the square root of the number of decisions."""

    estimators: Sequence[str] = DEFAULT_ESTIMATORS
    clip: float = 0.0
    folds: int = 5
    level: float = 0.95
    resamples: int = 1_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise BadInput for an unknown estimator or a parameter out of range."""
        unknown = [name for name in self.estimators if name not in ESTIMATORS]
        if unknown:
            raise BadInput(f"there is no estimator {unknown[0]!r}; one of {', '.join(ESTIMATORS)}")
        if not (0 < self.level < 1 and self.clip >= 0 and self.folds >= 2 and self.resamples >= 100):
            raise BadInput("--level lies between 0 and 1, --clip at 0 or above, --folds from 2, --resamples from 100")


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The cost of 1,000 decisions in US dollars, with its bootstrap interval."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The estimates for one policy.

    anytime: an interval for the value that is valid at every length of the log, also without overlap
    (it is then wide). withheld: why there are no estimates; "" if there are.
    """

    policy: str
    overlap: Overlap
    anytime: Interval
    estimates: dict[str, Estimate]
    withheld: str
    warnings: list[str]
    cost_per_1k: CostEstimate | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The estimates for all policies. left_out: the number of records not used, by reason."""

    decisions: int
    actions: int
    mean_reward: float
    left_out: dict[str, int]
    notes: list[str]
    level: float
    policies: list[PolicyResult]


def evaluate(
    decisions: Decisions, policies: Sequence[str], scorers: Scorers, options: EvaluationOptions, tick: Progress
) -> Evaluation:
    """Evaluate the policies. Raises BadInput for a policy or an estimator that this log does not support."""
    if "replay" in options.estimators:
        check_uniform(decisions)
    targets = {policy: compute_target(policy, decisions, scorers) for policy in policies}
    return Evaluation(
        len(decisions),
        len(decisions.actions),
        float(decisions.rewards_N.mean()),
        decisions.left_out,
        decisions.notes,
        options.level,
        [evaluate_policy(policy, decisions, target, options, tick) for policy, target in targets.items()],
    )


def evaluate_policy(
    policy: str, decisions: Decisions, target: TargetProbabilities, options: EvaluationOptions, tick: Progress
) -> PolicyResult:
    """Return the estimates of one policy, or why there are none."""
    weights_N = target.agreeing_N / decisions.propensities_N
    overlap = compute_overlap(decisions, target.chances_M, target.agreeing_N)
    anytime = PolicySequence(options.level)
    anytime.add(weights_N, decisions.rewards_N)
    withheld = find_objection(decisions, overlap)
    estimates = {} if withheld else estimate(decisions, target, weights_N, options, tick)
    warnings = [*target.warnings, *list_warnings(overlap, weights_N, decisions)]
    cost = None if withheld else estimate_cost(decisions.costs_N, weights_N, options)
    return PolicyResult(policy, overlap, anytime.interval(), estimates, withheld, warnings, cost)


def estimate_cost(costs_N: Floats | None, weights_N: Floats, options: EvaluationOptions) -> CostEstimate | None:
    """Return the cost of a policy (self-normalised, by the decisions whose cost is known); None where none is known."""
    if costs_N is None:
        return None
    known_N = ~np.isnan(costs_N)
    most = float(costs_N[known_N].max()) or 1.0
    terms = EstimatorTerms(weights_N[known_N] * costs_N[known_N] / most, by_N=weights_N[known_N])
    found = compute_estimates({"cost": terms}, options.level, options.resamples, options.seed)["cost"]
    scale = 1_000 * most
    return CostEstimate(scale * found.value, (scale * found.bootstrap[0], scale * found.bootstrap[1]))


def estimate(
    decisions: Decisions, target: TargetProbabilities, weights_N: Floats, options: EvaluationOptions, tick: Progress
) -> dict[str, Estimate]:
    """Return an estimate with its intervals by each estimator."""
    log = weigh_with_models(
        decisions, target.chances_M, target.agreeing_N, options.folds, set(options.estimators), tick
    )
    terms = {name: compute_terms(name, log, options.clip) for name in options.estimators}
    tick("resampling the decisions", 0, 1)
    return compute_estimates(terms, options.level, options.resamples, options.seed)


def weigh_with_models(
    decisions: Decisions, chances_M: Floats, agreeing_N: Floats, parts: int, estimators: set[str], tick: Progress
) -> WeighedLog:
    """Return the weighed log, with the reward predictions that these estimators need."""
    weights_N, count = agreeing_N / decisions.propensities_N, len(decisions)
    forward_M = folds_M = np.zeros(len(decisions.action_M))
    if {"dr", "switch"} & estimators:
        forward_M = predict_rewards(decisions, chances_M, weights_N, assign_growing_stretches(count), True, tick)
    if "dm" in estimators:
        folds_M = predict_rewards(decisions, chances_M, weights_N, assign_folds(count, parts), False, tick)
    return weigh(decisions, chances_M, agreeing_N, forward_M, folds_M)


def find_objection(decisions: Decisions, overlap: Overlap) -> str:
    """Return why nothing can be estimated, or ""."""
    if overlap.covered < MIN_COVERED:
        if (decisions.propensities_N >= CERTAIN).all():
            return (
                "the log has no propensities: every choice was certain, so it holds no evidence about any other choice"
            )
        missed = f"the logging policy could not have made {1 - overlap.covered:.1%} of its choices"
        return f"{missed}; at most {1 - MIN_COVERED:.0%} is allowed"
    if overlap.ess < MIN_ESS:
        return f"its effective sample size is {overlap.ess:.1f}; below {MIN_ESS:.0f} no interval is reliable"
    return ""


def list_warnings(overlap: Overlap, weights_N: Floats, decisions: Decisions) -> list[str]:
    """Return what is doubtful. Propensities that are rounded as far as their digits show raise no doubt."""
    warnings = list[str]()
    if MIN_COVERED <= overlap.covered < 1 - 1e-9:
        outside = 1 - overlap.covered
        warnings.append(
            f"{outside:.2%} of its choices could not have been logged: the estimate may be wrong by as much"
        )
    error = float(weights_N.std()) / len(weights_N) ** 0.5
    rounded = float((weights_N * decisions.roundings / decisions.propensities_N).mean())
    if overlap.covered >= MIN_COVERED and abs(overlap.mean_weight - 1) > MAX_DEVIATION * error + rounded + 1e-6:
        warnings.append(f"the mean weight is {overlap.mean_weight:.3f} and should be 1: are the propensities correct?")
    return warnings


def check_uniform(decisions: Decisions) -> None:
    """Raise BadInput unless all candidates were equally likely."""
    counts_N = np.diff(decisions.starts_N1)
    slack_N = np.maximum(1e-3, decisions.roundings * counts_N)
    if (abs(decisions.propensities_N * counts_N - 1) > slack_N).any():
        raise BadInput(
            "the replay method needs a log of uniform choices, in which every propensity is 1 / the number of "
            "candidates; use snips or dr for this log"
        )
