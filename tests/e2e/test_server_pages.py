"""The pages that the server renders, in a browser: the form of a feedback URL, and an address that does not exist."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.plugins.feedback_links.test_feedback_links import ask
from tests.support import Service

LOOKS = [(1440, "light"), (768, "dark"), (390, "light"), (320, "dark")]


def set_look(page: Page, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")


def test_a_rating_by_a_feedback_url_is_given_seen_and_taken_back(visits: Visits, service: Service) -> None:
    service.wait_learned("chat", 1)
    page = visits.open(ask(service, instance="Is there wifi?")[1])
    up, down = page.get_by_role("button", name="Helpful", exact=True), page.get_by_role("button", name="Not helpful")
    expect(page.get_by_role("figure")).to_contain_text("The network is called Guest.")
    expect(up).to_have_attribute("aria-pressed", "false")
    down.click()
    expect(page.get_by_role("status")).to_be_focused()  # so that a screen reader reads it
    expect(page.get_by_role("status")).to_contain_text("did not help")
    expect(down).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Why? (optional)").fill("it asks for a password")
    page.get_by_role("button", name="Send").first.click()
    expect(page.get_by_label("Why? (optional)")).to_have_value("it asks for a password")
    for width, scheme in LOOKS:
        set_look(page, width, scheme)
        check_accessible(page)
        shoot(page, f"feedback-url-{width}-{scheme}")
    up.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Thank you!")
    page.get_by_role("button", name="Take it back").click()
    expect(page.get_by_role("status")).to_have_text("Your feedback was taken back.")
    expect(up).to_have_attribute("aria-pressed", "false")


@pytest.mark.long
def test_a_pressed_thumb_of_a_feedback_url_is_seen_in_forced_colors(visits: Visits, service: Service) -> None:
    service.wait_learned("chat", 1)
    page = visits.open(ask(service, instance="Is there wifi?")[1])
    page.emulate_media(forced_colors="active")
    up, down = page.get_by_role("button", name="Helpful", exact=True), page.get_by_role("button", name="Not helpful")
    up.click()
    background = "(button) => getComputedStyle(button).backgroundColor"
    assert up.evaluate(background) != down.evaluate(background)
    check_accessible(page)
    page.get_by_role("button", name="Take it back").click()


@pytest.mark.long
@pytest.mark.parametrize("model", ["lab", "num"])
def test_the_forms_of_other_models_are_accessible(visits: Visits, service: Service, model: str) -> None:
    page = visits.open(ask(service, model, [1, 1])[1])
    for width, scheme in LOOKS:
        set_look(page, width, scheme)
        check_accessible(page)
    shoot(page, f"feedback-url-{model}")


@pytest.mark.long
def test_an_address_that_does_not_exist_leads_home(visits: Visits, service: Service) -> None:
    page = visits.open(f"{service.url}/nothing")
    expect(page.get_by_role("heading", level=1)).to_have_text("This page does not exist")
    for width, scheme in LOOKS:
        set_look(page, width, scheme)
        check_accessible(page)
        shoot(page, f"not-found-{width}-{scheme}")
        fill = page.locator("svg.mark path").evaluate("(mark) => getComputedStyle(mark).fill")
        assert fill == ("rgb(112, 210, 177)" if scheme == "dark" else "rgb(23, 105, 79)")  # the accent of the mode
    page.get_by_role("link", name="Go to the start page").click()
    expect(page.get_by_label("Your question")).to_be_visible()
