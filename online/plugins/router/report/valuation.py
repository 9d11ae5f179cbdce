"""Estimates of what a policy would have earned and cost on logged answers: doubly robust, by the logged propensities.

    value of a policy pi = mean of   sum_k pi_k q_k   +   w (reward - q_a)      w: pi_a / p_a, 0 where no reward is known; of mean 1

q: predicted by a model of the other folds of the answers, so that no answer is predicted by what it has taught (cross-fitting,
Chernozhukov et al. 2018); for the same reason a policy that learns decides by that model. p: the logged propensity. The weights are
divided by their mean (self-normalised), so that one seldom answer cannot outweigh all others. Answers with a known reward are taken
to be like those without. The estimate is right where the propensities are, however wrong q is (Dudik et al. 2011). Costs the same.

Shapes: N answers, K routes.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Example, Options
from online.plugins.router.choosing import RouteChooser
from online.plugins.router.model import RouterModel
from online.plugins.router.report.logged_answers import LoggedAnswer
from online.plugins.router.solving import Floats

Places = NDArray[np.intp]

FOLDS = 5
LEAST_TERMS = 2  # of an interval
NORMAL_95 = 1.959964
MOST_PRICE = 4.0**8  # of a cost of one budget
PRICE_STEPS = 10


class Interval(NamedTuple):
    """An estimate with its interval of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Valuation:
    """Logged answers, ready to value policies. q_NK, c_NK: expected rewards and costs, cross-fitted. place_N: the route of each answer.

    reward_N, cost_N: NaN where they are not known. folds: the answers of each fold, and what decides by all others.
    """

    routes: Sequence[str]
    q_NK: Floats
    c_NK: Floats
    place_N: Places
    propensity_N: Floats
    reward_N: Floats
    cost_N: Floats
    folds: Sequence[tuple[Places, RouteChooser]]

    def value_rewards(self, policy_NK: Floats) -> Floats:
        """Return a term for each answer, whose mean is the expected reward of a policy."""
        return self._value(policy_NK, self.q_NK, self.reward_N)

    def value_costs(self, policy_NK: Floats) -> Floats:
        """Return a term for each answer, whose mean is the expected cost of a policy, in US dollars."""
        return self._value(policy_NK, self.c_NK, self.cost_N)

    def _value(self, policy_NK: Floats, expected_NK: Floats, seen_N: Floats) -> Floats:
        rows = np.arange(len(seen_N))
        known_N = ~np.isnan(seen_N)
        weight_N = np.where(known_N, policy_NK[rows, self.place_N] / self.propensity_N, 0.0)
        weight_N /= max(weight_N.sum() / max(len(weight_N), 1), 1e-9)
        left_N = np.where(known_N, np.nan_to_num(seen_N) - expected_NK[rows, self.place_N], 0.0)
        terms_N: Floats = (policy_NK * expected_NK).sum(1) + weight_N * left_N
        return terms_N

    def always(self, route: str) -> Floats:
        """Return the policy that always asks one route [N, K]."""
        policy_NK = np.zeros_like(self.q_NK)
        policy_NK[:, self.routes.index(route)] = 1.0
        return policy_NK


def average(terms_N: Floats, low: float = -math.inf, high: float = math.inf, times: float = 1.0) -> Interval | None:
    """Return the mean of terms with its interval; None for too few. low, high: the values that are possible. times: of the result."""
    known_N = terms_N[~np.isnan(terms_N)]
    if len(known_N) < LEAST_TERMS:
        return None
    mean = float(known_N.mean())
    half = NORMAL_95 * float(known_N.std(ddof=1)) / math.sqrt(len(known_N))
    clipped = (min(max(each, low), high) for each in (mean, mean - half, mean + half))
    return Interval(*(times * each for each in clipped))


def value_answers(answers: Sequence[LoggedAnswer], live: RouteChooser, options: Options) -> Valuation:
    """Return logged answers ready to value policies. live: of the model, whose routes and prices count. options: of the model."""
    tables = {each.route: {"name": each.route} for each in answers} | {
        each.name: each.describe() for each in live.routes
    }
    routes = sorted(tables)
    q_NK, c_NK = np.zeros((len(answers), len(routes))), np.zeros((len(answers), len(routes)))
    fold_N, folds = np.arange(len(answers)) % FOLDS, list[tuple[Places, RouteChooser]]()
    for fold in range(min(FOLDS, len(answers))):
        learned = [each for each, of in zip(answers, fold_N, strict=True) if of != fold]
        model = RouterModel({**options, "routes": [tables[name] for name in routes]})
        model.learn([example for place, each in enumerate(learned) for example in list_examples(each, 2 * place)])
        chosen, chooser = np.flatnonzero(fold_N == fold), model.present()
        expected = chooser.expect([answers[place].input for place in chosen.tolist()])
        q_NK[chosen], c_NK[chosen] = expected.reward_BK, expected.cost_BK
        folds.append((chosen, chooser))
    places = {name: place for place, name in enumerate(routes)}
    return Valuation(
        routes,
        q_NK,
        c_NK,
        np.array([places[each.route] for each in answers], np.intp),
        np.array([each.propensity for each in answers]),
        np.array([math.nan if each.reward is None else each.reward for each in answers]),
        np.array([math.nan if each.cost is None else each.cost for each in answers]),
        folds,
    )


def list_examples(answer: LoggedAnswer, offset: int) -> list[Example]:
    """Return what an answer teaches."""
    examples = list[Example]()
    if answer.reward is not None:
        examples.append(Example(offset, "reward", answer.features, answer.route, reward=answer.reward))
    if answer.cost is not None:
        took = json.dumps({"cost": answer.cost, "seconds": answer.seconds or 0.0})
        examples.append(Example(offset + 1, "outcome", answer.features, answer.route, took))
    return examples


def find_policy(answers: Sequence[LoggedAnswer], valuation: Valuation, live: RouteChooser, budget: float) -> Floats:
    """Return the policy of a router under another budget [N, K], at the price that keeps it on these answers.

    live: of the model, whose settings it has. budget: US dollars per request; 0 for none.
    """
    is_active_K = np.isin(valuation.routes, [each.name for each in live.routes])

    def share(price: float) -> Floats:
        shares_NK = np.zeros_like(valuation.q_NK)
        for chosen, chooser in valuation.folds:
            settled = replace(chooser, settings=live.settings).with_budget(budget, price)
            shares_NK[chosen] = settled.share([answers[place].input for place in chosen.tolist()])
        shares_NK *= is_active_K  # none for a route that is retired
        policy_NK: Floats = shares_NK / np.maximum(shares_NK.sum(1, keepdims=True), 1e-12)
        return policy_NK

    def costs(price: float) -> float:
        return float(valuation.value_costs(share(price)).mean()) if len(answers) else 0.0

    low, high = 0.0, 1.0
    if not budget or costs(low) <= budget:
        return share(low)
    while costs(high) > budget and high < MOST_PRICE:
        low, high = high, 4 * high
    for _ in range(PRICE_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if costs(middle) > budget else (low, middle)
    return share(high)
