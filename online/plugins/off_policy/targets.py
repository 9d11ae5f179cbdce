"""Target policies: the probability with which each would have chosen each candidate.

    logged                  the policy that wrote the log
    uniform                 all candidates equally likely
    fixed:REPLY             always this candidate
    greedy:MODEL            the candidate with the highest score
    epsilon:MODEL:0.1       greedy, but uniform in a tenth of the decisions
    softmax:MODEL:0.1       in proportion to exp(score / temperature)
    thompson:MODEL          how often a candidate is best when scores are drawn from the posterior
    python:MODULE:FUNCTION  FUNCTION(Decision) -> {candidate: probability}

MODEL is described in scorers.py. A policy chooses among the logged candidates; probability that a
function or fixed:REPLY puts on others is not covered by the log.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from online.errors import BadInput
from online.models.ranker.policies import draw_key, estimate_win_rates
from online.plugins.off_policy.decisions import Decisions, Floats, LoggedChoice
from online.plugins.off_policy.scorers import CandidateScores, Scorers

DRAWS = 1_000  # posterior draws for each probability of thompson
EXAMPLES = (
    "logged, uniform, fixed:REPLY, greedy:MODEL, epsilon:MODEL:0.1, softmax:MODEL:0.1, thompson:MODEL, "
    "python:MODULE:FUNCTION"
)


@dataclass(frozen=True, slots=True)
class TargetProbabilities:
    """A target's probabilities: [M] of each candidate; agreeing [N]: of each logged choice.

    warnings: shown with the estimates.
    """

    chances_M: Floats
    agreeing_N: Floats
    warnings: tuple[str, ...] = ()


def compute_target(policy: str, decisions: Decisions, scorers: Scorers) -> TargetProbabilities:
    """Compute a policy's probabilities. Raises BadInput if it is unknown or gives no distribution."""
    rule, _, rest = policy.partition(":")
    match rule:
        case "logged" if not rest:
            return copy_logged(decisions)
        case "uniform" if not rest:
            return build_target(decisions, uniform_policy(decisions))
        case "fixed" if rest:
            return build_target(decisions, fixed_policy(decisions, rest))
        case "python" if rest:
            return build_target(decisions, call_policy(decisions, rest, import_function(rest)))
        case "greedy" if rest:
            scored = scorers.scored(rest)
            return build_target(decisions, greedy_policy(decisions, scored), scored)
        case "epsilon" | "softmax" if rest:
            model, _, text = rest.rpartition(":")
            number = parse_parameter(rule, text)
            scored = scorers.scored(model)
            chances_M = (epsilon_policy if rule == "epsilon" else softmax_policy)(decisions, scored, number)
            return build_target(decisions, chances_M, scored)
        case "thompson" if rest:
            scored = scorers.scored(rest)
            return build_target(decisions, thompson_policy(decisions, scored, rest), scored)
    raise BadInput(f"there is no policy {policy!r}; one of {EXAMPLES}")


def build_target(decisions: Decisions, chances_M: Floats, scored: CandidateScores | None = None) -> TargetProbabilities:
    """Return the target with the probabilities of its candidates and of the logged choices."""
    return TargetProbabilities(chances_M, chances_M[decisions.chosen_N], scored.warnings if scored else ())


def parse_parameter(rule: str, text: str) -> float:
    """Parse the parameter of a rule. Raises BadInput outside its range."""
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if rule == "epsilon" and not 0 <= number <= 1:
        raise BadInput(f"epsilon:MODEL:SHARE takes a share of [0, 1], not {text!r}")
    if rule == "softmax" and not 0 < number < np.inf:
        raise BadInput(f"softmax:MODEL:TEMPERATURE takes a temperature above 0, not {text!r}")
    return number


def copy_logged(decisions: Decisions) -> TargetProbabilities:
    """Return the logging policy. If only the choice's propensity was logged, the choice stands for the distribution."""
    if decisions.logged_M is not None:
        totals_M = decisions.summed(decisions.logged_M)[decisions.owners]  # not quite 1 where they are rounded
        return TargetProbabilities(decisions.logged_M / totals_M, decisions.propensities_N)
    drawn_M = np.zeros(len(decisions.action_M))
    drawn_M[decisions.chosen_N] = 1.0
    return TargetProbabilities(drawn_M, decisions.propensities_N)


def uniform_policy(decisions: Decisions) -> Floats:
    """Return equal probabilities for all candidates of a decision."""
    counts_N = np.diff(decisions.starts_N1)
    chances_M: Floats = np.repeat(1 / counts_N, counts_N)
    return chances_M


def fixed_policy(decisions: Decisions, action: str) -> Floats:
    """Return probability 1 for one action. Raises BadInput if no decision has it."""
    if action not in decisions.actions:
        raise BadInput(f"fixed:{action}: no decision of this log has it among its candidates")
    chances_M: Floats = (decisions.action_M == decisions.actions.index(action)).astype(np.float64)
    return chances_M


def fill_scores(decisions: Decisions, scored: CandidateScores) -> Floats:
    """Return the scores, with -inf for a missing one, or 0 for all candidates if a decision has none."""
    none_N = decisions.summed(np.isfinite(scored.scores_M).astype(np.float64)) == 0
    scores_M = np.where(np.isfinite(scored.scores_M), scored.scores_M, -np.inf)
    return np.where(none_N[decisions.owners], 0.0, scores_M)


def greedy_policy(decisions: Decisions, scored: CandidateScores) -> Floats:
    """Choose the first of the best, in logged order; uniformly if the model scores none."""
    scores_M = fill_scores(decisions, scored)
    top_M = scores_M == np.maximum.reduceat(scores_M, decisions.starts_N1[:-1])[decisions.owners]
    places_M = np.where(top_M, np.arange(len(scores_M)), len(scores_M))
    chances_M = np.zeros(len(scores_M))
    chances_M[np.minimum.reduceat(places_M, decisions.starts_N1[:-1])] = 1.0
    scoreless_N = decisions.summed(np.isfinite(scored.scores_M).astype(np.float64)) == 0
    return np.where(scoreless_N[decisions.owners], uniform_policy(decisions), chances_M)


def epsilon_policy(decisions: Decisions, scored: CandidateScores, share: float) -> Floats:
    """Return the greedy policy, mixed with a uniform one."""
    mixed: Floats = (1 - share) * greedy_policy(decisions, scored) + share * uniform_policy(decisions)
    return mixed


def softmax_policy(decisions: Decisions, scored: CandidateScores, temperature: float) -> Floats:
    """Return probabilities that grow with the scores."""
    scores_M = fill_scores(decisions, scored) / temperature
    highest_N = np.maximum.reduceat(scores_M, decisions.starts_N1[:-1])
    odds_M = np.exp(scores_M - highest_N[decisions.owners])
    chances_M: Floats = odds_M / decisions.summed(odds_M)[decisions.owners]
    return chances_M


def thompson_policy(decisions: Decisions, scored: CandidateScores, model: str) -> Floats:
    """Count wins in posterior draws, seeded by the decision's id."""
    if scored.doubts_M is None:
        raise BadInput(f"thompson:{model}: only ridge gives standard deviations of its scores; use thompson:ridge")
    chances_M = np.empty(len(decisions.action_M))
    for place, id in enumerate(decisions.ids):
        rows = slice(*decisions.starts_N1[place : place + 2])
        rng = np.random.Generator(np.random.Philox(key=draw_key(id)))
        chances_M[rows] = estimate_win_rates(scored.scores_M[rows], scored.doubts_M[rows], DRAWS, rng)
    return chances_M


def import_function(name: str) -> Callable[[LoggedChoice], object]:
    """Import MODULE:FUNCTION from the working directory or an installed package. Raises BadInput."""
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(f"python:{name} cannot be imported: {error}") from None
    if not callable(function):
        raise BadInput(f"python:{name} is not a function")
    policy: Callable[[LoggedChoice], object] = function
    return policy


def call_policy(decisions: Decisions, name: str, policy: Callable[[LoggedChoice], object]) -> Floats:
    """Return the probabilities that a function returns. Raises BadInput for what is no distribution."""
    chances_M = np.zeros(len(decisions.action_M))
    for place in range(len(decisions)):
        decision = decisions.one(place)
        given = check_distribution(policy(decision), f"python:{name}, decision {decision.id}")
        start, stop = decisions.starts_N1[place : place + 2]
        chances_M[start:stop] = [given.get(candidate, 0.0) for candidate in decision.candidates]
    return chances_M


def check_distribution(given: object, where: str) -> dict[str, float]:
    """Return a policy's answer. Raises BadInput if it is not a distribution."""
    if not isinstance(given, dict) or not all(isinstance(value, (int, float)) for value in given.values()):
        raise BadInput(f"{where}: expected {{candidate: probability}}, not {given!r}")
    total = sum(given.values())
    if not all(value >= 0 for value in given.values()) or not abs(total - 1) <= 1e-6:
        raise BadInput(f"{where}: the probabilities must be at least 0 and sum to 1, not {total:g}")
    return given
