"""One run of a policy over questions: what it earned, and what it spent.

    learned questions, shuffled --> scored questions, shuffled --> mean reward, mean cost, the routes that were chosen

Only the chosen route's answer is seen, while the policy learns and while it is scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.routing.contenders import Contender
from benchmarks.routing.questions import Floats, Questions


@dataclass(frozen=True, slots=True)
class Steps:
    """What happened at each scored question, in order: the route, its reward and its cost."""

    routes: NDArray[np.int64]
    rewards: Floats
    costs: Floats

    @property
    def reward(self) -> float:
        """The mean reward."""
        return float(self.rewards.mean())

    @property
    def cost(self) -> float:
        """The mean cost in US dollars."""
        return float(self.costs.mean())

    def shares(self, count: int) -> Floats:
        """Return the share of each route [K]."""
        shares_K: Floats = np.bincount(self.routes, minlength=count) / len(self.routes)
        return shares_K


@dataclass(frozen=True, slots=True)
class Raters:
    """Who rates: a share of the answers is rated, and a share of these is rated the other way round."""

    rated: float = 1.0
    lying: float = 0.0

    def rate(self, reward: float, rng: np.random.Generator) -> float | None:
        """Return a rating; None for an answer that nobody rates."""
        is_rated, lies = rng.random() < self.rated, rng.random() < self.lying
        return (1 - reward if lies else reward) if is_rated else None


EVERYBODY = Raters()


def run_questions(
    contender: Contender,
    questions: Questions,
    order: Sequence[int],
    rng: np.random.Generator,
    raters: Raters = EVERYBODY,
) -> Steps:
    """Let a policy answer questions in an order."""
    routes, rewards, costs = list[int](), list[float](), list[float]()
    for place in order:
        route = contender.choose(questions, int(place))
        reward, cost = float(questions.reward_NK[place, route]), float(questions.cost_NK[place, route])
        contender.observe(questions, int(place), route, raters.rate(reward, rng), cost)
        routes.append(route)
        rewards.append(reward)
        costs.append(cost)
    return Steps(np.array(routes), np.array(rewards), np.array(costs))


def run_trial(contender: Contender, learned: Questions, scored: Questions, seed: int) -> Steps:
    """Learn the one part of the questions, then score the other one while learning goes on."""
    rng = np.random.default_rng(seed)
    run_questions(contender, learned, rng.permutation(len(learned)).tolist(), rng)
    return run_questions(contender, scored, rng.permutation(len(scored)).tolist(), rng)


def mix_fixed(questions: Questions, cost: float) -> float:
    """Return the best mean reward at a cost that a mix of two fixed routes has, without looking at questions: the zero router."""
    cost_K, reward_K = questions.cost_NK.mean(0), questions.reward_NK.mean(0)
    best = max(
        (float(r) for c, r in zip(cost_K, reward_K, strict=True) if c <= cost), default=float(reward_K[cost_K.argmin()])
    )
    for low in range(len(cost_K)):
        for high in range(len(cost_K)):
            if cost_K[low] < cost < cost_K[high]:
                share = (cost - cost_K[low]) / (cost_K[high] - cost_K[low])
                best = max(best, float((1 - share) * reward_K[low] + share * reward_K[high]))
    return best
