"""The report about a router: its routes, what it has saved, its topics and days, and a preview of another budget."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from online.models.contract import Options
from online.plugins.router.choosing import RouteChooser
from online.plugins.router.report.logged_answers import LoggedAnswer
from online.plugins.router.report.topics import Topic, find_topics
from online.plugins.router.report.valuation import Interval, Valuation, average, find_policy, value_answers
from online.scoring.intervals import wilson_interval

PER_1K = 1_000.0
PREVIEWED = 2_000  # newest answers from which another budget is previewed
Json = dict[str, Any]


def describe_answers(answers: Sequence[LoggedAnswer], chooser: RouteChooser, options: Options) -> Json:
    """Return the report about answers, as the API shows it, without the facts of the routes' settings."""
    valuation = value_answers(answers, chooser, options)
    routes = valuation.routes
    return {
        "answers": len(answers),
        "rated": sum(each.reward is not None for each in answers),
        "dollars": sum(each.cost or 0.0 for each in answers),
        "since": answers[0].created_at if answers else None,
        "routes": [describe_route(name, answers) for name in routes],
        "alone": [each for name in routes if (each := describe_alone(name, valuation)) is not None],
        "router": {
            "satisfaction": show(average(valuation.reward_N, 0.0, 1.0)),
            "cost_per_1k": show(average(valuation.cost_N, 0.0, times=PER_1K)),
        },
        "saved": describe_saving(valuation),
        "days": describe_days(answers),
        "topics": [describe_topic(each) for each in find_topics(answers, valuation)],
    }


def describe_route(name: str, answers: Sequence[LoggedAnswer]) -> Json:
    """Return what one route has answered, as it was rated and paid."""
    own = [each for each in answers if each.route == name]
    rewards = [each.reward for each in own if each.reward is not None]
    costs = np.array([np.nan if each.cost is None else each.cost for each in own])
    seconds = [each.seconds for each in own if each.seconds]
    satisfaction = None
    if rewards:
        satisfaction = Interval(sum(rewards) / len(rewards), *wilson_interval(sum(rewards), len(rewards)))
    return {
        "name": name,
        "answers": len(own),
        "share": len(own) / max(len(answers), 1),
        "dollars": sum(each.cost or 0.0 for each in own),
        "cost_per_1k": show(average(costs, 0.0, times=PER_1K)),
        "satisfaction": show(satisfaction),
        "rated": len(rewards),
        "seconds": median(seconds) if seconds else None,
    }


def describe_alone(name: str, valuation: Valuation) -> Json | None:
    """Return what one route would have earned and cost, had it answered everything; None where it has no rating."""
    own_N = valuation.place_N == valuation.routes.index(name)
    if not (own_N & ~np.isnan(valuation.reward_N)).any():
        return None
    policy_NK = valuation.always(name)
    return {
        "route": name,
        "satisfaction": show(average(valuation.value_rewards(policy_NK), 0.0, 1.0)),
        "cost_per_1k": show(average(valuation.value_costs(policy_NK), 0.0, times=PER_1K)),
    }


def describe_saving(valuation: Valuation) -> Json | None:
    """Return what was saved against the route that is best alone; None where no route is rated, or no cost is known."""
    means = {
        name: valuation.value_rewards(valuation.always(name)).mean()
        for place, name in enumerate(valuation.routes)
        if (~np.isnan(valuation.reward_N) & (valuation.place_N == place)).any()
    }
    known_N = ~np.isnan(valuation.cost_N)
    if not means or not known_N.any():
        return None
    strongest = max(means, key=lambda name: means[name])
    alone_N = valuation.value_costs(valuation.always(strongest))
    saved = average(alone_N - valuation.cost_N)
    if saved is None:
        return None
    alone = max(float(alone_N.mean()), 1e-12)
    return {
        "strongest": strongest,
        "dollars": show(Interval(*(float(known_N.sum()) * each for each in saved))),
        "share": show(Interval(*(min(each / alone, 1.0) for each in saved))),
    }


def describe_days(answers: Sequence[LoggedAnswer]) -> list[Json]:
    """Return the answers of each day (UTC), the oldest first."""
    days = defaultdict[str, list[LoggedAnswer]](list)
    for each in answers:
        days[each.created_at[:10]].append(each)
    return [
        {
            "day": day,
            "answers": len(own),
            "dollars": sum(each.cost or 0.0 for each in own),
            "by_route": Counter(each.route for each in own),
        }
        for day, own in sorted(days.items())
    ]


def describe_topic(topic: Topic) -> Json:
    """Return a topic, the best route first."""
    ranked = sorted(topic.worth, key=lambda name: (-topic.worth[name].value, name))
    routes = [
        {
            "route": name,
            "satisfaction": show(topic.worth[name]),
            "answers": topic.answers[name],
            "rated": topic.rated[name],
        }
        for name in ranked
    ]
    return {"words": topic.words, "questions": topic.questions, "example": topic.example, "routes": routes}


def preview_budget(answers: Sequence[LoggedAnswer], chooser: RouteChooser, options: Options, budget: float) -> Json:
    """Return what the newest answers have earned and cost, and what they would have under another budget.

    budget: US dollars per 1,000 requests; 0 for none.
    """
    answers = answers[-PREVIEWED:]
    valuation = value_answers(answers, chooser, options)
    routes = valuation.routes
    policy_NK = find_policy(answers, valuation, chooser, budget / PER_1K)
    took = Counter(each.route for each in answers)
    return {
        "answers": len(answers),
        "rated": int((~np.isnan(valuation.reward_N)).sum()),
        "now": {
            "max_cost_per_1k": PER_1K * chooser.budget or None,
            "satisfaction": show(average(valuation.reward_N, 0.0, 1.0)),
            "cost_per_1k": show(average(valuation.cost_N, 0.0, times=PER_1K)),
            "shares": {name: took[name] / max(len(answers), 1) for name in routes},
        },
        "then": {
            "max_cost_per_1k": budget or None,
            "satisfaction": show(average(valuation.value_rewards(policy_NK), 0.0, 1.0)),
            "cost_per_1k": show(average(valuation.value_costs(policy_NK), 0.0, times=PER_1K)),
            "shares": dict(zip(routes, policy_NK.mean(0).tolist(), strict=True)) if len(answers) else {},
        },
    }


def show(interval: Interval | None) -> Json | None:
    """Return an interval as the API shows it."""
    return None if interval is None else interval._asdict()
