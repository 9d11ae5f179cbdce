"""A language model that rates answers of the others."""

from collections.abc import Iterator
from typing import Any

import pytest

from online.plugins.router.judge import draw_share, read_rating
from tests.conftest import Start
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_routed_chat import ask, models
from tests.support import Service, until


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


def list_ratings(service: Service) -> dict[str, float]:
    routes = service.http.get("/v1/models/router/routes").raise_for_status().json()["routes"]
    return {each["name"]: each["ratings"] for each in routes if each["ratings"]}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_judge_rates_the_answers_of_other_routes(start: Start, upstream: FakeUpstream, streamed: bool) -> None:
    routes = {"small": "say:Because of Rayleigh.", "expert": "say:9"}
    options: dict[str, Any] = {"explore": 0.0, "explore_new": 0.0, "judge_share": 1.0}
    service = start(models(upstream, routes, **options).replace("judge_share", 'judge = "expert"\njudge_share'))
    answered = ask(service, "Why is the sky blue?", stream=streamed)
    assert answered.headers["X-Route"] == "small" and answered.text
    until(lambda: list_ratings(service) == {"small": 0.5}, what="the rating of the judge")  # it counts half a thumb
    asked = upstream.requests[-1].body["messages"]
    assert "no instructions" in asked[0]["content"] and "Because of Rayleigh." in asked[1]["content"]
    report = service.http.get("/v1/models/router/routes/report").raise_for_status().json()
    assert report["rated"] == 1 and report["routes"][-1]["satisfaction"]["value"] == 0.9


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("7", 0.7),
        (" **8.5**", 0.85),
        ("10 points", 1.0),
        ("0", 0.0),
        ("11", None),
        ("I give it a 7", None),
        ("", None),
        ("-3", None),
    ],
)
def test_only_a_number_from_0_to_10_is_a_rating(text: str, reward: float | None) -> None:
    completion: Any = {"choices": [{"message": {"content": text}}]}
    assert read_rating(completion) == reward


def test_the_share_is_kept() -> None:
    drawn = [draw_share(f"chatcmpl-{number}") for number in range(10_000)]
    assert abs(sum(each < 0.02 for each in drawn) - 200) < 50
