"""The router as a model: what it expects, how it draws, how it keeps a budget, and what leaves no trace."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from online.models import Answer, Example, recipe
from online.models.kinds import explore_user_share
from online.models.ranker.policies import draw_key
from online.plugins.router.choosing import MOST_AT_ONCE
from online.plugins.router.inputs import StatedFacts, build_tail
from online.plugins.router.model import RouterModel
from online.plugins.router.options import UNLEARNED
from online.plugins.router.sums import BLOCK, BLOCKS, TARGETS, WIDTH, BlockSums
from tests.models.synthetic import text

SMALL = {"name": "small", "price_in": 0.1, "price_out": 0.1}
LARGE = {"name": "large", "price_in": 1.0, "price_out": 10.0}
CHEAP, DEAR = 1e-4, 1e-2  # US dollars of an answer


def question(topic: int, variant: int = 1, **facts: Any) -> bytes:
    return text(topic, variant) + build_tail("what is it?", StatedFacts(facts), 0)


def rating(offset: int, features: bytes, route: str, reward: float, signal: str = "") -> Example:
    return Example(offset, "reward", features, route, reward=reward, signal=signal)


def outcome(offset: int, features: bytes, route: str, cost: float, unit: float = 0.0) -> Example:
    took = {"cost": cost, "seconds": 1.0, **({"unit": unit} if unit else {})}
    return Example(offset, "outcome", features, route, json.dumps(took))


def router(*examples: Example, **options: Any) -> RouterModel:
    model = RouterModel({"routes": [SMALL, LARGE], "explore": 0.0, **options})
    model.learn(examples)
    return model


def choices(model: RouterModel, features: bytes, count: int = 400) -> list[Answer]:
    return model.predict([features] * count, [draw_key(str(number)) for number in range(count)])


def two_topics(offset: int = 1) -> list[Example]:
    """Questions about topic 0, which both routes answer, and about topic 1, which only the large one does."""
    examples = list[Example]()
    for number in range(60):
        for topic in (0, 1):
            for route in ("small", "large"):
                reward = 1.0 if topic == 0 or route == "large" else 0.0
                examples.append(rating(offset + len(examples), question(topic, number + 1), route, reward))
    return examples


def test_each_topic_goes_where_it_is_answered_well_and_the_rest_where_it_costs_less() -> None:
    costs = [
        outcome(1_000 + n, question(n % 2, n + 1), ("small", "large")[n // 2 % 2], (CHEAP, DEAR)[n // 2 % 2])
        for n in range(80)
    ]
    model = router(*two_topics(), *costs, cost_weight=0.03)
    answers = model.predict([question(topic, 99) for topic in (0, 1)])
    assert [answer.choice for answer in answers] == ["small", "large"]


def test_a_route_that_was_not_rated_is_expected_to_do_better_than_one_that_failed() -> None:
    assert router(rating(1, question(0), "small", 0.0)).predict([question(0)])[0].choice == "large"
    assert router(rating(1, question(0), "small", 1.0)).predict([question(0)])[0].choice == "small"


def test_every_route_is_tried_as_often_as_the_option_says_and_the_propensity_is_true() -> None:
    model = router(*two_topics(), explore=0.2, explore_new=0.0)
    answers = choices(model, question(1, 99), 4_000)
    drawn = Counter(answer.choice for answer in answers)
    assert {answer.choice: round(answer.propensity, 6) for answer in answers} == {"large": 0.9, "small": 0.1}
    assert drawn["small"] / 4_000 == pytest.approx(0.1, abs=0.02)
    assert all(sum(each.score for each in answer.candidates) == pytest.approx(1.0) for answer in answers)


def test_a_class_of_questions_has_its_own_share_of_exploration() -> None:
    model = router(*two_topics(), explore=0.2, explore_new=0.0)
    assert choices(model, question(1, 99, explore=0.0), 1)[0].propensity == 1.0
    assert {answer.propensity for answer in choices(model, question(1, 99, explore=0.1))} == {0.95, 0.05}


def test_a_route_that_cannot_answer_is_never_chosen() -> None:
    model = router(*two_topics(), explore=0.2)
    answers = choices(model, question(1, 99, exclude=["large"]))
    assert {answer.choice for answer in answers} == {"small"} and answers[0].propensity == 1.0
    nothing = choices(model, question(1, 99, exclude=["large", "small"]), 1)[0]
    assert nothing.choice is None and nothing.abstained


def test_a_retired_route_is_gone_at_once_and_comes_back() -> None:
    model = router(*two_topics())
    retired = Example(900, "retire", b"", "large")
    model.learn([retired])
    assert model.predict([question(1, 99)])[0].choice == "small"
    model.learn([Example(901, "restore", b"", "large")])
    assert model.predict([question(1, 99)])[0].choice == "large"


def test_a_declared_route_starts_from_its_price_and_its_prior() -> None:
    model = router(*two_topics(), cost_weight=0.01)
    better = {"price_in": 0.2, "price_out": 0.2, "prior": 1.0}
    model.learn([Example(900, "declare", b"", "new", json.dumps(better))])
    (first, *_) = model.explain(question(1, 99))
    assert (first.route, first.ratings) == ("new", 0.0) and first.reward == pytest.approx(1.0)
    assert 0 < first.cost < DEAR


def test_a_declared_price_counts_at_once() -> None:
    costs = [outcome(1_000 + n, question(0, n + 1), "large", DEAR, unit=5.5) for n in range(50)]
    model = router(*costs)

    def cost() -> float:
        return next(each.cost for each in model.explain(question(0, 99)) if each.route == "large")

    assert cost() == pytest.approx(DEAR, rel=0.1)
    model.learn([Example(2_000, "declare", b"", "large", json.dumps({"price_in": 0.1, "price_out": 1.0}))])
    assert cost() == pytest.approx(DEAR / 10, rel=0.1)


def test_the_mean_cost_stays_at_the_budget() -> None:
    budget = 2e-3  # between both routes: about a fifth of the questions may go to the large one
    model, spent, rng = router(*two_topics(), max_cost_per_1k=1_000 * budget), list[float](), np.random.default_rng(0)
    waiting = list[Example]()
    for number in range(3_000):
        features = question(int(rng.integers(2)), number + 100)
        (answer,) = model.predict([features], [draw_key(str(number))])
        cost = (DEAR if answer.choice == "large" else CHEAP) * float(rng.uniform(0.5, 1.5))
        spent.append(cost)
        waiting.append(outcome(10_000 + number, features, str(answer.choice), cost))
        if len(waiting) == 20:
            model.learn(waiting)
            waiting = []
    assert np.mean(spent) / budget == pytest.approx(1.0, abs=0.02)
    assert np.mean(spent[1_000:]) / budget < 1.01


def test_a_request_costs_a_few_budgets_at_most_on_average_whatever_the_price() -> None:
    costs = [outcome(1_000 + n, question(1, n + 1), ("small", "large")[n % 2], (CHEAP, DEAR)[n % 2]) for n in range(80)]
    budget = DEAR / 50
    model = router(*two_topics(), *costs[::2], *costs[1::2][:20], max_cost_per_1k=1_000 * budget)
    estimates = model.explain(question(1, 99))
    assert sum(each.probability * each.cost for each in estimates) <= (MOST_AT_ONCE + 1) * budget


def test_a_model_that_grows_worse_in_silence_loses_its_questions_within_some_ratings() -> None:
    model = router(*two_topics())
    assert model.predict([question(1, 99)])[0].choice == "large"
    model.learn([rating(10_000 + n, question(1, n + 200), "large", 0.0) for n in range(60)])
    model.learn([rating(10_100 + n, question(1, n + 300), "small", 0.6) for n in range(20)])
    assert model.predict([question(1, 99)])[0].choice == "small"


def test_a_team_has_preferences_of_its_own() -> None:
    likes = [
        rating(5_000 + 2 * n + k, question(0, n + 1, group="team"), route, reward)
        for n in range(20)
        for k, (route, reward) in enumerate((("small", 0.0), ("large", 1.0)))
    ]
    model = router(*two_topics(), *likes, cost_weight=0.0)
    (of_team, *_), (of_others, *_) = (model.explain(question(0, 99, group=name)) for name in ("team", "others"))
    assert (of_team.route, of_team.preference > 0.1, of_others.preference) == ("large", True, 0.0)


def test_a_conversation_stays_where_it_is_unless_another_route_is_clearly_better() -> None:
    rated = [rating(n, question(0, n), ("small", "large")[n % 2], 0.99 if n % 2 else 1.0) for n in range(1, 81)]
    model = router(*rated)
    assert model.predict([question(0, 99)])[0].choice == "small"
    assert model.predict([question(0, 99, held="large")])[0].choice == "large"
    assert router(*two_topics()).predict([question(1, 99, held="small")])[0].choice == "large"


def test_signals_count_by_their_weights() -> None:
    def expected(signal: str, **options: Any) -> float:
        model = router(rating(1, question(0), "small", 0.0, signal), **options)
        return next(each.reward for each in model.explain(question(0)) if each.route == "small")

    assert expected("") < expected("regenerate") < expected("copy")
    assert expected("copy", signal_weights={"copy": 1.0}) == expected("")
    with pytest.raises(ValueError, match="signal_weights"):
        router(signal_weights={"sigh": 1.0})


def test_settings_that_are_not_learned_leave_snapshots_as_they_are() -> None:
    plain: dict[str, Any] = {"text_features": "hashed"}
    assert recipe("router", plain) == recipe("router", {**plain, "max_cost_per_1k": 3.0, "routes": [SMALL]})
    assert recipe("router", plain) != recipe("router", {**plain, "signal_weights": {"copy": 1.0}})
    assert "signal_weights" not in UNLEARNED


def test_an_old_example_is_subtracted_although_its_block_is_no_longer_kept() -> None:
    sums = BlockSums(WIDTH)
    z_D, targets = np.ones(WIDTH, np.int64), np.ones(TARGETS, np.int64)
    for place in range(BLOCKS + 1):
        sums.add(place * BLOCK, 1, targets, z_D)
    sums.add(BLOCKS * BLOCK, -1, targets, z_D)
    newest = sums.sum_newest(10 * BLOCKS)[0]
    sums.add(0, -1, targets, z_D)
    assert sums.sum_newest(10 * BLOCKS)[0] == newest == BLOCKS - 1


def test_a_user_gets_what_the_policy_draws_however_often_that_is_not_the_best_route() -> None:
    assert explore_user_share("router", {}) == 1.0
    assert explore_user_share("ranker", {}) < 1.0


def erase(model: RouterModel, examples: Sequence[Example]) -> str:
    model.unlearn(examples)
    return model.fingerprint()


def test_what_is_unlearned_leaves_no_trace_in_answers_and_prices() -> None:
    own = [
        each
        for n in range(30)
        for each in (
            outcome(6_000 + 2 * n, question(1, n + 500, group="ann"), "large", DEAR),
            rating(6_001 + 2 * n, question(1, n + 500, group="ann"), "large", 0.0),
        )
    ]
    never, model = router(*two_topics(), max_cost_per_1k=1.0), router(*two_topics(), *own, max_cost_per_1k=1.0)
    assert model.explain(question(1, 99)) != never.explain(question(1, 99))
    assert erase(model, own) == never.fingerprint()
    assert model.explain(question(1, 99, group="ann")) == never.explain(question(1, 99, group="ann"))
    assert model.facts() == never.facts()
