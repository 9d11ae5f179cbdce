"""The report about a router: estimates of policies from its log, topics, and the views of the API."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from online.plugins.router.inputs import RoutedInput
from online.plugins.router.model import RouterModel
from online.plugins.router.report.logged_answers import GivenFeedback, LoggedAnswer
from online.plugins.router.report.route_report import describe_answers, preview_budget
from online.plugins.router.report.topics import find_topics
from online.plugins.router.report.valuation import Valuation, average, list_examples, value_answers
from tests.conftest import Start
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_routed_chat import ask, models, rate, wait_learned
from tests.support import Service, until

WORTH = {"small": (0.9, 0.2), "large": (0.5, 0.8)}  # of answers to questions of each topic
COSTS = {"small": 0.0001, "large": 0.002}
TOPICS = ("weather rain wind", "taxes invoice money")
OPTIONS: dict[str, Any] = {"text_features": "hashed"}


def draw_log(count: int, chance_of_large: float, seed: int = 0, rated: float = 1.0) -> list[LoggedAnswer]:
    """Return answers of a policy that asks `large` with this probability, whatever the question."""
    random = np.random.default_rng(seed)
    answers = list[LoggedAnswer]()
    for place in range(count):
        topic = int(random.integers(2))
        text_D = np.array(np.clip(random.normal(0, 20, 384), -127, 127))
        text_D[topic] = 120.0
        is_large = random.random() < chance_of_large
        route = "large" if is_large else "small"
        input = RoutedInput(text_D.astype(np.int8), np.zeros(16, np.int8))
        features = input.text_D.tobytes() + input.pack_tail()
        reward = float(random.random() < WORTH[route][topic]) if random.random() < rated else None
        answers.append(
            LoggedAnswer(
                f"{place:06}",
                f"2026-11-{1 + place % 20:02}T00:00:00Z",
                route,
                chance_of_large if is_large else 1 - chance_of_large,
                input,
                features,
                f"{TOPICS[topic]} {place}",
                reward,
                COSTS[route] * random.uniform(0.5, 1.5),
                1.0,
            )
        )
    return answers


def learn(answers: list[LoggedAnswer], **options: Any) -> RouterModel:
    tables = [{"name": "large", "price_out": 10.0}, {"name": "small", "price_out": 1.0}]
    model = RouterModel({**OPTIONS, "routes": tables, **options})
    model.learn([example for place, each in enumerate(answers) for example in list_examples(each, 2 * place)])
    return model


def value(answers: list[LoggedAnswer]) -> Valuation:
    return value_answers(answers, RouterModel(OPTIONS).present(), OPTIONS)


def test_the_interval_of_a_route_that_was_seldom_asked_has_its_true_worth() -> None:
    covered = [0, 0]
    for seed in range(20):
        valuation = value(draw_log(600, 0.2, seed))
        worth = average(valuation.value_rewards(valuation.always("large")))
        cost = average(valuation.value_costs(valuation.always("large")), times=1000.0)
        assert worth is not None and cost is not None
        covered[0] += int(worth.low <= np.mean(WORTH["large"]) <= worth.high)
        covered[1] += int(cost.low <= 1000 * COSTS["large"] <= cost.high)
    assert min(covered) >= 16, covered


def test_answers_that_nobody_rated_do_not_bias_the_estimate() -> None:
    valuation = value(draw_log(4_000, 0.5, 1, rated=0.2))
    worth = average(valuation.value_rewards(valuation.always("small")))
    assert worth is not None and worth.low < np.mean(WORTH["small"]) < worth.high and worth.high - worth.low < 0.15


def test_what_is_saved_is_the_difference_to_the_best_route_alone() -> None:
    answers = draw_log(1_000, 0.5)
    saved = describe_answers(answers, learn(answers).present(), OPTIONS)["saved"]
    expected = 1_000 * 0.5 * (COSTS["large"] - COSTS["small"])
    assert saved["strongest"] == "large"
    assert saved["dollars"]["low"] < expected < saved["dollars"]["high"]
    assert saved["share"]["value"] == pytest.approx(0.475, abs=0.05)


def test_a_preview_of_a_budget_says_what_the_policy_would_have_cost_and_earned() -> None:
    answers = draw_log(1_500, 0.5)
    chooser = learn(answers, explore=0.02, explore_new=0.0).present()
    rich = preview_budget(answers, chooser, OPTIONS, 0.0)["then"]
    poor = preview_budget(answers, chooser, OPTIONS, 0.6)["then"]
    assert rich["satisfaction"]["value"] == pytest.approx(0.85, abs=0.06)  # small for weather, large for taxes
    assert poor["cost_per_1k"]["value"] <= 0.61 and poor["shares"]["large"] < rich["shares"]["large"]
    assert poor["satisfaction"]["value"] < rich["satisfaction"]["value"]


def test_topics_name_themselves_and_rank_the_routes() -> None:
    answers = draw_log(800, 0.5)
    topics = find_topics(answers, value(answers))
    best = Counter[tuple[str, str]]()
    for each in topics:
        route = max(each.worth, key=lambda name: each.worth[name].value)
        best.update({(word, route): each.questions for word in each.words})
    assert best["rain", "small"] > 300 > best["rain", "large"] and best["taxes", "large"] > 300 > best["taxes", "small"]
    assert sum(each.questions for each in topics) == 800


def test_too_few_questions_have_no_topics() -> None:
    answers = draw_log(40, 0.5)
    assert find_topics(answers, value(answers)) == []


def test_an_empty_log_is_reported_as_one() -> None:
    report = describe_answers([], RouterModel(OPTIONS).present(), OPTIONS)
    assert report["answers"] == 0 and report["saved"] is None and report["topics"] == [] and report["since"] is None
    assert preview_budget([], RouterModel(OPTIONS).present(), OPTIONS, 1.0)["then"]["satisfaction"] is None


def test_a_thumb_counts_before_a_signal() -> None:
    given = GivenFeedback()
    for content in ({"reward": 1, "signal": "copy"}, {"outcome": {"cost": 0.5}}, {"reward": 0}, {"reward": 1}):
        given.add(content)
    assert given.read_reward("small") == 0 and given.outcome == {"cost": 0.5}
    labelled = GivenFeedback()
    labelled.add({"label": "large"})
    assert (labelled.read_reward("small"), labelled.read_reward("large")) == (0, 1)


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


def has_outcomes(service: Service) -> bool:
    routes = service.http.get("/v1/models/router/routes").json()["routes"]
    return bool(sum(each["outcomes"] for each in routes) == 12)


def test_the_api_reports_what_was_asked_and_rated(start: Start, upstream: FakeUpstream) -> None:
    service = start(models(upstream, {"small": "say:no", "large": "say:yes"}, explore=0.2))
    empty = service.http.get("/v1/models/router/routes/report").raise_for_status().json()
    assert empty["answers"] == 0 and [each["name"] for each in empty["routes"]] == ["large", "small"]
    offset = 0
    for number in range(12):
        answer = ask(service, f"question {number}")
        offset = rate(service, answer.json(), float(answer.headers["X-Route"] == "large"))
    wait_learned(service, offset)
    until(lambda: has_outcomes(service), what="the outcomes")
    report = service.http.get("/v1/models/router/routes/report").raise_for_status().json()
    assert report["answers"] == report["rated"] == 12 and report["dollars"] > 0
    assert sum(each["answers"] for each in report["routes"]) == 12 and report["days"][0]["answers"] == 12
    assert {each["state"] for each in report["routes"]} == {"closed"}
    preview = service.http.get("/v1/models/router/routes/preview?max_cost_per_1k=0.01").raise_for_status().json()
    assert preview["then"]["max_cost_per_1k"] == 0.01 and preview["now"]["max_cost_per_1k"] is None
    assert service.http.get("/v1/models/router/routes/preview?max_cost_per_1k=x").status_code == 400
