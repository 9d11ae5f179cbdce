"""Answers of language models in the chat, and the page of routes, in a real Chromium with fake endpoints behind the service."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, check_fits, choose, shoot
from tests.e2e.test_page import ask, correct, new_answer
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_fallback import front
from tests.support import Service, until

QUESTION = "Why is the sky blue?"
SMALL, LARGE = "Because of **Rayleigh**.", "Because air scatters blue light the most."
ROUTES = {"small": f"say:{SMALL}", "large": f"say:{LARGE}"}
LESSON = "Ask at the desk."


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


def start_front(start: Start, upstream: FakeUpstream, routes: dict[str, str]) -> Service:
    service = start(front(upstream, routes))
    service.wait_learned("chat", 1)
    return service


def ratings(service: Service) -> dict[str, float]:
    routes: list[dict[str, Any]] = service.http.get("/v1/models/router/routes").raise_for_status().json()["routes"]
    return {each["name"]: each["ratings"] for each in routes}


def count_answers(service: Service) -> int:
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        return int(store.execute("SELECT count(*) FROM generated_answer").fetchone()[0])


def last_reply(page: Page) -> Locator:
    return page.get_by_role("article", name="Reply").last


def compare(page: Page) -> Locator:
    """Ask, give a thumb down and ask another route; return the reply with both answers."""
    ask(page, QUESTION)
    reply = last_reply(page)
    expect(reply).to_contain_text("answered by small, a language model: may be wrong")
    reply.get_by_role("button", name="Bad answer").click()
    expect(reply.get_by_role("status").filter(has_text="Learned")).to_be_visible()
    reply.get_by_role("button", name="Another answer").click()
    expect(reply.get_by_role("region", name="Answer of large")).to_contain_text(LARGE)
    return reply


def test_an_answer_streams_in_and_can_be_stopped(visits: Visits, start: Start, upstream: FakeUpstream) -> None:
    service = start_front(start, upstream, {"drip": "drip"})
    page = visits.open(service.url)
    ask(page, QUESTION)
    upstream.wait_for_requests()
    upstream.release(2)
    reply = last_reply(page)
    expect(reply).to_contain_text("The answer")
    expect(reply).not_to_contain_text("is")
    expect(reply.get_by_role("button", name="Stop the answer")).to_be_visible()
    page.keyboard.press("Escape")
    expect(reply.get_by_role("button", name="Stop the answer")).to_have_count(0)
    upstream.wait_until_gone("drip")
    expect(reply.get_by_role("button", name="Good answer")).to_be_visible()
    expect(reply.get_by_role("alert")).to_have_count(0)
    until(lambda: count_answers(service) == 1, what="the text of the stopped answer")
    page.reload()
    expect(last_reply(page)).to_contain_text("The answer")


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_the_better_of_two_answers_teaches_the_router_and_is_shown_again(
    visits: Visits, start: Start, upstream: FakeUpstream, width: int, scheme: str
) -> None:
    service = start_front(start, upstream, ROUTES)
    page = visits.open(service.url, width=width, scheme=scheme)
    reply = compare(page)
    boxes = [reply.get_by_role("region", name=f"Answer of {route}").bounding_box() for route in ROUTES]
    assert boxes[0] and boxes[1]
    is_beside = boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    assert is_beside == (width == 1200), boxes
    check_accessible(page)
    shoot(page, f"answers-{width}")

    reply.get_by_role("button", name="This one is better").nth(1).click()
    expect(reply).not_to_contain_text("Rayleigh")
    expect(reply.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
    expect(reply.get_by_role("status").filter(has_text="Learned")).to_be_visible()
    until(lambda: ratings(service) == {"small": 1, "large": 1}, what="what is learned of the choice")

    page.reload()
    again = last_reply(page)
    expect(again).to_contain_text(LARGE)
    expect(again).to_contain_text("answered by large")
    expect(again.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
    again.get_by_role("button", name="Why this language model?").click()
    expect(again.get_by_role("row", name="large")).to_contain_text("$")
    check_accessible(page)
    shoot(page, f"answer-{width}")


def test_when_every_route_has_answered_it_is_said_quietly(visits: Visits, start: Start, upstream: FakeUpstream) -> None:
    service = start_front(start, upstream, {"small": ROUTES["small"]})
    page = visits.open(service.url)
    ask(page, QUESTION)
    reply = last_reply(page)
    expect(reply.locator("strong")).to_have_text("Rayleigh")
    reply.get_by_role("button", name="Bad answer").click()
    reply.get_by_role("button", name="Another answer").click()
    expect(reply.get_by_role("status").filter(has_text="There is no other language model to ask.")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_empty()
    expect(reply).to_contain_text("Rayleigh")


def test_the_right_reply_is_taught_below_the_answer(visits: Visits, start: Start, upstream: FakeUpstream) -> None:
    service = start_front(start, upstream, ROUTES)
    page = visits.open(service.url)
    ask(page, QUESTION)
    reply = last_reply(page)
    expect(reply.get_by_placeholder("The right reply")).to_have_count(0)
    reply.get_by_role("button", name="Know a better reply? Teach it").click()
    expect(reply.get_by_placeholder("The right reply")).to_be_focused()
    correct(reply, LESSON)
    expect(new_answer(reply)).to_contain_text(LESSON)
    ask(page, QUESTION)
    expect(last_reply(page)).to_contain_text(LESSON)
    expect(last_reply(page)).not_to_contain_text("a language model")


def test_without_an_answer_the_page_shows_what_it_did_before(
    visits: Visits, start: Start, upstream: FakeUpstream
) -> None:
    service = start_front(start, upstream, {"broken": "broken"})
    page = visits.open(service.url)
    ask(page, QUESTION)
    reply = last_reply(page)
    expect(reply.get_by_role("status").filter(has_text="No language model could answer now.")).to_be_visible()
    expect(reply).to_contain_text("Can you teach me?")
    expect(reply.get_by_placeholder("The right reply")).to_be_visible()
    check_fits(page)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_the_page_shows_the_routes_their_costs_and_the_budget(
    visits: Visits, start: Start, upstream: FakeUpstream, width: int, scheme: str
) -> None:
    service = start_front(start, upstream, ROUTES)
    page = visits.open(service.url, width=width, height=900, scheme=scheme)
    open_routes(page)
    main = page.get_by_role("main")
    expect(main.get_by_role("region", name="What it costs")).to_contain_text("No question has gone to a route yet.")
    check_fits(page)

    rate_answers(service)
    page.goto(service.url)
    open_routes(page)
    summary = main.get_by_role("region", name="What it costs")
    expect(summary).to_contain_text("The newest 8 answers cost $")
    expect(summary).to_contain_text("8 answers were rated")
    table = main.get_by_role("region", name="Routes", exact=True)
    expect(table.get_by_role("row", name="small")).to_contain_text("$1.00 in, $1.00 out")
    for route in ROUTES:
        share = service_share(service, route)
        expect(table.get_by_role("row", name=route)).to_contain_text(f"{round(100 * share)}\u00a0%")
    expect(main.get_by_role("img", name="Plot of satisfaction against cost")).to_be_visible()
    main.get_by_text("Figures of the plot").click()
    expect(main.get_by_role("region", name="Figures of the plot").get_by_role("row", name="router")).to_contain_text(
        "$"
    )
    check_accessible(page)
    shoot(page, f"routes-{width}")


def test_another_budget_is_previewed_and_set(visits: Visits, start: Start, upstream: FakeUpstream) -> None:
    service = start_front(start, upstream, ROUTES)
    rate_answers(service)
    page = visits.open(service.url)
    open_routes(page)
    budget = page.get_by_role("region", name="Budget")
    expect(budget).to_contain_text("No budget is set.")
    budget.get_by_role("spinbutton", name="US dollars for 1,000 questions").fill("0.25")
    expect(budget.get_by_role("row", name="Cost of 1,000")).to_contain_text("$")
    check_accessible(page)
    budget.get_by_role("button", name="Set budget").click()
    expect(budget).to_contain_text("$0.25 for 1,000 questions")
    assert service.http.get("/v1/models/router/routes").json()["max_cost_per_1k"] == 0.25


def test_a_route_is_switched_off_and_on(visits: Visits, start: Start, upstream: FakeUpstream) -> None:
    service = start_front(start, upstream, ROUTES)
    rate_answers(service)
    page = visits.open(service.url)
    open_routes(page)
    small = page.get_by_role("region", name="Routes", exact=True).get_by_role("row", name="small")
    small.get_by_role("button", name="Switch off small").click()
    page.get_by_role("dialog").get_by_role("button", name="Switch off").click()
    expect(small).to_contain_text("switched off")
    small.get_by_role("button", name="Switch on small").click()
    expect(small).not_to_contain_text("switched off")


def test_a_service_without_a_router_has_no_page_of_routes(visits: Visits, start: Start) -> None:
    page = visits.open(start('[[models]]\nname = "chat"\nkind = "ranker"\n').url)
    pages = page.get_by_role("navigation", name="Pages")
    expect(pages.get_by_role("link", name="Learning")).to_be_visible()
    expect(pages.get_by_role("link", name="Routes")).to_have_count(0)


def open_routes(page: Page) -> None:
    pages = page.get_by_role("navigation", name="Pages")
    if (page.viewport_size or {"width": 0})["width"] < 860:
        choose(pages, "Pages", "Routes")
    else:
        pages.get_by_role("link", name="Routes").click()
    expect(page.get_by_role("heading", name="Routes", level=1)).to_be_focused()


def rate_answers(service: Service) -> None:
    """Ask both routes, and rate their answers."""
    offset = 0
    for place in range(8):
        body = {"model": "router", "messages": [{"role": "user", "content": f"{QUESTION} {place}"}]}
        answer = service.http.post("/v1/chat/completions", json=body).raise_for_status().json()
        items = [{"prediction_id": answer["id"], "reward": place % 4 // 3}]
        given = service.http.post("/v1/models/router:feedback", json={"feedback": items}).raise_for_status()
        offset = given.json()["receipts"][0]["offset"]
        service.wait_learned("router", offset)


def service_share(service: Service, route: str) -> float:
    routes = service.http.get("/v1/models/router/routes/report").raise_for_status().json()["routes"]
    return next(float(each["share"]) for each in routes if each["name"] == route)
