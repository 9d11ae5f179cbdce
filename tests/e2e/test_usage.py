"""The use of a model on the learning page in a real Chromium: figures, ranges, the most asked questions and the file."""

import re

import pytest
from playwright.sync_api import expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.plugins.alerts.receiver import receive
from tests.support import Service

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'


def ask(service: Service, question: str, times: int, rewards: list[int]) -> None:
    """Ask a question several times; the first answers get these rewards."""
    client = service.client("chat")
    ids = client.predict([question] * times)["prediction_ids"]
    for id, reward in zip(ids, rewards, strict=False):
        client.feedback([{"prediction_id": id, "reward": reward}])


@pytest.mark.long
def test_the_use_is_shown_for_the_days_that_a_person_chooses(visits: Visits, start: Start) -> None:
    with receive() as receiver:
        service = start(CHAT, alert_webhooks=[receiver.url])
        service.wait_learned("chat", 1)
        ask(service, "When do you open?", 12, [1] * 8 + [0])
        ask(service, "Is there wifi?", 6, [0, 0, 0, 1])
        ask(service, "qwertz uiop asdf", 5, [])
        page = visits.open(f"{service.url}/learning", width=1440)
        use = page.get_by_role("region", name="Use", exact=True)
        expect(use.get_by_text("9 of 13").or_(use.get_by_text("69", exact=False)).first).to_be_visible()
        expect(use).to_contain_text("between")
        for name in ("24 hours", "7 days"):
            use.get_by_role("button", name=name).click()
            expect(use.get_by_role("button", name=name)).to_have_attribute("aria-pressed", "true")
            expect(use).to_have_attribute("aria-busy", "false")
        top = use.get_by_role("region", name="Asked most")
        expect(top.get_by_role("row").nth(1)).to_contain_text("When do you open?")
        expect(top.get_by_role("row").filter(has_text="wifi")).to_contain_text("25")
        use.get_by_text("As a table").first.click()
        expect(use.get_by_role("region", name="Satisfaction over time, as a table")).to_be_visible()
        with page.expect_download() as download:
            use.get_by_role("button", name="Download as CSV").first.click()
        assert download.value.suggested_filename == "chat-usage.csv"
        assert re.search(r"^since,until,asked", download.value.path().read_text("utf-8-sig"))
        webhooks = page.get_by_role("region", name="Alerts")
        webhooks.get_by_role("button", name="Send a test").click()
        expect(webhooks).to_contain_text("accepted the test")
        check_accessible(page)
        use.get_by_role("heading", name="Use", exact=True).scroll_into_view_if_needed()
        shoot(page, "usage-light")
        page.set_viewport_size({"width": 320, "height": 800})
        page.emulate_media(color_scheme="dark")
        check_accessible(page)
        use.get_by_role("heading", name="Use", exact=True).scroll_into_view_if_needed()
        shoot(page, "usage-dark")
        use.get_by_role("button", name="Other dates").click()
        use.get_by_label("To", exact=True).fill("2020-01-01")
        expect(use.get_by_role("alert")).to_contain_text("The first day is after the last one.")
        use.get_by_label("From", exact=True).fill("2019-12-25")
        expect(use).to_contain_text("Nobody asked anything in this time.")
        use.get_by_role("button", name="30 days").click()
        top.get_by_role("link", name="Improve the reply to “When do you open?”").click()
        expect(page).to_have_url(re.compile("repertoire.*reply="))


@pytest.mark.long
def test_two_webhooks_of_one_host_are_told_apart_and_each_shows_how_its_test_went(visits: Visits, start: Start) -> None:
    with receive() as receiver:
        service = start(CHAT, alert_webhooks=[receiver.url, f"{receiver.url}-of-another-channel"])
        page = visits.open(f"{service.url}/learning", width=390)
        webhooks = page.get_by_role("region", name="Alerts")
        expect(webhooks.get_by_role("listitem")).to_contain_text(["/… (1)", "/… (2)"])  # the paths may be secret
        receiver.statuses = [500]
        webhooks.get_by_role("button", name="Send a test").click()
        outcomes = webhooks.get_by_role("status").get_by_role("paragraph")
        expect(outcomes).to_have_count(2)
        expect(outcomes.locator("svg")).to_have_count(2)
        expect(outcomes.filter(has_text="did not accept the test: ")).to_have_class(re.compile("failed"))
        expect(outcomes.filter(has_text="accepted the test.")).to_have_class(re.compile("accepted"))
        check_accessible(page)
        shoot(page, "webhooks")


@pytest.mark.long
def test_the_action_for_a_frequent_question_is_reached_without_scrolling_sideways(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    ask(service, "When do you open?", 2, [1])
    page = visits.open(f"{service.url}/learning", width=768)
    page.evaluate("localStorage.setItem('online.language', 'de')")
    page.reload()
    top = page.get_by_role("region", name="Am häufigsten gefragt")
    action = top.get_by_role("link", name=re.compile("When do you open"))
    for width in (1440, 1000, 768, 320):
        page.set_viewport_size({"width": width, "height": 800})
        expect(action).to_have_count(1)
        shown, inside = action.bounding_box(), top.bounding_box()
        assert shown and inside and shown["x"] + shown["width"] <= inside["x"] + inside["width"]
        check_accessible(page)
        top.scroll_into_view_if_needed()
        shoot(page, f"usage-de-{width}")
