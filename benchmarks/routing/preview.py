"""Previews of another budget from the log of one run, beside online runs under that budget.

run at the budget A --answers, propensities--> what would B have earned and cost?  <--> runs at the budget B
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.routing.contenders import OurRouter
from benchmarks.routing.questions import Questions
from benchmarks.routing.trials import run_questions
from online.models.ranker.policies import draw_key
from online.plugins.router.inputs import RoutedInput
from online.plugins.router.report.logged_answers import LoggedAnswer
from online.plugins.router.report.route_report import preview_budget


class Previewed(NamedTuple):
    """An estimate of a run, with its interval: value, low, high of the reward, and of the cost in US dollars."""

    reward: tuple[float, float, float]
    cost: tuple[float, float, float]


def preview(
    learned: Questions, scored: Questions, seed: int, budget: float, others: Sequence[float]
) -> list[Previewed]:
    """Run the router at a budget, and preview others from what was scored. Budgets: US dollars per request."""
    rng = np.random.default_rng(seed)
    router = OurRouter(learned.routes, budget, seed)
    run_questions(router, learned, rng.permutation(len(learned)).tolist(), rng)
    answers = list[LoggedAnswer]()
    for place in rng.permutation(len(scored)).tolist():
        route = router.choose(scored, place)
        (answer,) = router.model.predict([scored.inputs[place]], [draw_key(f"{seed}-{router.answered}")])
        reward, cost = float(scored.reward_NK[place, route]), float(scored.cost_NK[place, route])
        router.observe(scored, place, route, reward, cost)
        answers.append(
            LoggedAnswer(
                str(len(answers)),
                f"{len(answers):06}",
                router.names[route],
                answer.propensity,
                RoutedInput.parse(scored.inputs[place]),
                scored.inputs[place],
                "",
                reward,
                cost,
                1.0,
            )
        )
    router.model.learn(router.waiting)
    chooser, found = router.model.present(), list[Previewed]()
    for other in others:
        then = preview_budget(answers, chooser, router.options, 1_000 * other)["then"]
        found.append(Previewed(read(then["satisfaction"]), read(then["cost_per_1k"], 1_000)))
    return found


def read(shown: dict[str, float], per: float = 1.0) -> tuple[float, float, float]:
    """Return an interval as it is shown: value, low and high, of one request."""
    return shown["value"] / per, shown["low"] / per, shown["high"] / per
