"""Policies to be judged: with which chance each would have chosen each candidate.

    logged                  the policy that chose
    uniform                 any candidate alike
    fixed:REPLY             always this one
    greedy:MODEL            the best by the model's scores
    epsilon:MODEL:0.1       the best, but in a tenth of the decisions any alike
    softmax:MODEL:0.1       by exp(score / temperature)
    thompson:MODEL          as often as it is best when scores are drawn from what the model believes
    python:MODULE:FUNCTION  FUNCTION(Decision) -> {candidate: chance}

MODEL is one of scorers.py. A policy chooses among the candidates that were logged; of what a function or fixed:REPLY
puts elsewhere nothing is known.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from online.errors import BadInput
from online.evaluation.decisions import Decisions, Floats
from online.evaluation.scorers import Scored, Scorers
from online.models.policies import draw_key, wins

DRAWS = 1_000  # posterior draws behind a chance of thompson
EXAMPLES = (
    "logged, uniform, fixed:REPLY, greedy:MODEL, epsilon:MODEL:0.1, softmax:MODEL:0.1, thompson:MODEL, "
    "python:MODULE:FUNCTION"
)


@dataclass(frozen=True, slots=True)
class Chances:
    """[M] of each candidate; agreeing [N]: of what was chosen. warnings: what is to be known beside its figures."""

    chances_M: Floats
    agreeing_N: Floats
    warnings: tuple[str, ...] = ()


def chances(policy: str, decisions: Decisions, scorers: Scorers) -> Chances:
    """Raises BadInput for a policy that there is not, or one that is no distribution."""
    rule, _, rest = policy.partition(":")
    match rule:
        case "logged" if not rest:
            return as_logged(decisions)
        case "uniform" if not rest:
            return over(decisions, uniform(decisions))
        case "fixed" if rest:
            return over(decisions, fixed(decisions, rest))
        case "python" if rest:
            return over(decisions, called(decisions, rest, function(rest)))
        case "greedy" if rest:
            scored = scorers.scored(rest)
            return over(decisions, greedy(decisions, scored), scored)
        case "epsilon" | "softmax" if rest:
            model, _, text = rest.rpartition(":")
            number = within(rule, text)
            scored = scorers.scored(model)
            made = (epsilon if rule == "epsilon" else softmax)(decisions, scored, number)
            return over(decisions, made, scored)
        case "thompson" if rest:
            scored = scorers.scored(rest)
            return over(decisions, thompson(decisions, scored, rest), scored)
    raise BadInput(f"there is no policy {policy!r}; one of {EXAMPLES}")


def over(decisions: Decisions, chances_M: Floats, scored: Scored | None = None) -> Chances:
    return Chances(chances_M, chances_M[decisions.chosen_N], scored.warnings if scored else ())


def within(rule: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if rule == "epsilon" and not 0 <= number <= 1:
        raise BadInput(f"epsilon:MODEL:SHARE takes a share of [0, 1], not {text!r}")
    if rule == "softmax" and not 0 < number < np.inf:
        raise BadInput(f"softmax:MODEL:TEMPERATURE takes a temperature above 0, not {text!r}")
    return number


def as_logged(decisions: Decisions) -> Chances:
    """Where only the propensity of the choice was logged, the choice is a draw from the others' chances."""
    if decisions.logged_M is not None:
        return Chances(decisions.logged_M, decisions.propensities_N)
    drawn_M = np.zeros(len(decisions.action_M))
    drawn_M[decisions.chosen_N] = 1.0
    return Chances(drawn_M, decisions.propensities_N)


def uniform(decisions: Decisions) -> Floats:
    counts_N = np.diff(decisions.starts_N1)
    chances_M: Floats = np.repeat(1 / counts_N, counts_N)
    return chances_M


def fixed(decisions: Decisions, action: str) -> Floats:
    if action not in decisions.actions:
        raise BadInput(f"fixed:{action}: no decision of this log had it among its candidates")
    chances_M: Floats = (decisions.action_M == decisions.actions.index(action)).astype(np.float64)
    return chances_M


def known(decisions: Decisions, scored: Scored) -> Floats:
    """The scores: the lowest of all where there is none, and the same for all where there are none at all."""
    none_N = decisions.summed(np.isfinite(scored.scores_M).astype(np.float64)) == 0
    scores_M = np.where(np.isfinite(scored.scores_M), scored.scores_M, -np.inf)
    return np.where(none_N[decisions.whose], 0.0, scores_M)


def greedy(decisions: Decisions, scored: Scored) -> Floats:
    """Of equals the first, as they were logged; any alike where the model scores none."""
    scores_M = known(decisions, scored)
    top_M = scores_M == np.maximum.reduceat(scores_M, decisions.starts_N1[:-1])[decisions.whose]
    places_M = np.where(top_M, np.arange(len(scores_M)), len(scores_M))
    chances_M = np.zeros(len(scores_M))
    chances_M[np.minimum.reduceat(places_M, decisions.starts_N1[:-1])] = 1.0
    scoreless_N = decisions.summed(np.isfinite(scored.scores_M).astype(np.float64)) == 0
    return np.where(scoreless_N[decisions.whose], uniform(decisions), chances_M)


def epsilon(decisions: Decisions, scored: Scored, share: float) -> Floats:
    mixed: Floats = (1 - share) * greedy(decisions, scored) + share * uniform(decisions)
    return mixed


def softmax(decisions: Decisions, scored: Scored, temperature: float) -> Floats:
    scores_M = known(decisions, scored) / temperature
    highest_N = np.maximum.reduceat(scores_M, decisions.starts_N1[:-1])
    odds_M = np.exp(scores_M - highest_N[decisions.whose])
    chances_M: Floats = odds_M / decisions.summed(odds_M)[decisions.whose]
    return chances_M


def thompson(decisions: Decisions, scored: Scored, model: str) -> Floats:
    """Counted in draws that the decision's own id seeds."""
    if scored.doubts_M is None:
        raise BadInput(f"thompson:{model}: of these models only ridge says how unsure it is: thompson:ridge")
    chances_M = np.empty(len(decisions.action_M))
    for place, id in enumerate(decisions.ids):
        its = slice(*decisions.starts_N1[place : place + 2])
        rng = np.random.Generator(np.random.Philox(key=draw_key(id)))
        chances_M[its] = wins(scored.scores_M[its], scored.doubts_M[its], DRAWS, rng)
    return chances_M


def function(name: str) -> Callable[[Any], Any]:
    """MODULE:FUNCTION, from where the command was called or from what is installed. Raises BadInput."""
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(f"python:{name} cannot be imported: {error}") from None
    if not callable(found):
        raise BadInput(f"python:{name} is no function")
    called: Callable[[Any], Any] = found
    return called


def called(decisions: Decisions, name: str, policy: Callable[[Any], Any]) -> Floats:
    chances_M = np.zeros(len(decisions.action_M))
    for place in range(len(decisions)):
        decision = decisions.one(place)
        given = distribution(policy(decision), f"python:{name}, decision {decision.id}")
        start, stop = decisions.starts_N1[place : place + 2]
        chances_M[start:stop] = [given.get(candidate, 0.0) for candidate in decision.candidates]
    return chances_M


def distribution(given: Any, where: str) -> dict[str, float]:
    """Raises BadInput for what is none."""
    if not isinstance(given, dict) or not all(isinstance(value, (int, float)) for value in given.values()):
        raise BadInput(f"{where}: expected {{candidate: chance}}, not {given!r}")
    total = sum(given.values())
    if not all(value >= 0 for value in given.values()) or not abs(total - 1) <= 1e-6:
        raise BadInput(f"{where}: the chances must be at least 0 and sum to 1, not {total:g}")
    return given
