"""The chat page in a real Chromium: conversations that are kept, other replies, reasons, why, and replies with markup."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.e2e.test_page import CHAT, ask
from tests.support import Service

MARKUP = """**Nine** to *five*, see [the hours](https://example.org/hours).

# On Sundays

- closed <img src="https://example.org/spy.png" alt="a spy" onerror="window.harmed = 1">
- [never](javascript:window.harmed=2) <script>window.harmed = 3</script><style>body { display: none }</style>"""


def opened(visits: Visits, service: Service, **how: object) -> Page:
    service.wait_learned("chat", 1)
    return visits.open(service.url, **how)  # type: ignore[arg-type]


def replies(page: Page) -> Locator:
    return page.get_by_role("article", name="Reply")


def button(where: Page | Locator, name: str) -> Locator:
    return where.get_by_role("button", name=name, exact=True)


def test_a_conversation_is_kept_found_exported_and_deleted(visits: Visits, start: Start) -> None:
    page = opened(visits, start(CHAT))
    ask(page, "When do you open?")
    kept = page.url
    assert "?c=" in kept
    reply = replies(page).last
    button(reply, "Wrong reply").click()
    button(reply, "rude").click()
    expect(reply.get_by_role("status")).to_contain_text("asked again now")

    page.reload()
    expect(reply).to_contain_text("We open at nine.")
    expect(button(reply, "Wrong reply")).to_have_attribute("aria-pressed", "true")
    expect(button(reply, "rude")).to_have_attribute("aria-pressed", "true")
    expect(reply.get_by_role("status")).to_contain_text("learned in version")

    talks = page.get_by_role("navigation", name="Conversations")
    button(talks, "New conversation").click()
    expect(replies(page)).to_have_count(0)
    expect(page.get_by_label("Your question")).to_be_focused()
    ask(page, "Can I print here?")
    expect(talks.get_by_role("listitem")).to_have_count(2)
    expect(talks.get_by_role("listitem").first).to_contain_text("Can I print here?")
    shoot(page, "talk-list")
    check_accessible(page)

    talks.get_by_label("Search conversations").fill("at NINE")
    expect(talks.get_by_role("listitem")).to_have_count(1)
    talks.get_by_role("link").click()
    expect(replies(page)).to_contain_text("We open at nine.")
    assert page.url == kept

    assert "# When do you open?" in exported(page, talks, "Export as Markdown").read_text()
    told = json.loads(exported(page, talks, "Export as JSON").read_text())
    assert [turn["reply"]["text"] for turn in told["said"]] == ["We open at nine."]
    assert [(each["reward"], each["reason"]) for each in told["said"][0]["feedback"]] == [(0, "rude")]

    talks.get_by_label("More about").click()
    button(talks, "Delete…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("What was learned from it stays")
    check_accessible(page)
    button(dialog, "Delete").click()
    expect(talks.get_by_text("None has these words.")).to_be_visible()
    expect(replies(page)).to_have_count(0)
    page.goto(kept)
    expect(page.get_by_role("alert")).to_contain_text("is not here")


def exported(page: Page, talks: Locator, how: str) -> Path:
    talks.get_by_label("More about").click()
    with page.expect_download() as download:
        button(talks, how).click()
    return Path(download.value.path())


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_another_reply_why_it_was_given_and_a_comment(visits: Visits, start: Start, width: int, scheme: str) -> None:
    page = opened(visits, start(CHAT), width=width, scheme=scheme)
    ask(page, "When do you open?")
    reply = replies(page)
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    expect(reply).to_contain_text("reply 2 of 2")
    expect(reply).not_to_contain_text("We open at nine.")
    assert reply.count() == 1

    button(reply, "Why this reply?").click()
    why = reply.get_by_role("region", name="Why this reply")
    expect(why).to_contain_text("explained by version")
    expect(why).to_contain_text("When do you open?")
    expect(why).to_contain_text("this reply")
    shoot(page, f"talk-why-{scheme}")
    check_accessible(page)
    button(reply, "Why this reply?").click()
    expect(why).to_have_count(0)

    page.keyboard.press("d")
    button(reply, "Comment").click()
    page.keyboard.type("That was not my question.")
    page.keyboard.press("Enter")
    expect(reply).to_contain_text("You commented: “That was not my question.”")
    expect(button(reply, "Edit your comment")).to_be_focused()
    expect(reply.get_by_role("status")).to_contain_text("asked again now")
    shoot(page, f"talk-comment-{scheme}")
    check_accessible(page)

    button(reply, "Previous reply").click()
    expect(reply).to_contain_text("We open at nine.")
    page.reload()
    expect(reply).to_contain_text("reply 2 of 2")
    expect(reply).to_contain_text("That was not my question.")
    while button(reply, "Another reply").count():
        place = reply.get_by_text(re.compile(r"^reply \d+ of")).inner_text()
        button(reply, "Another reply").click()
        expect(reply).not_to_contain_text(place)
    expect(reply).to_contain_text("I have no other reply to that.")
    expect(page.get_by_label("Your question")).to_be_focused()
    if width == 360:
        look_into_the_drawer(page)


def look_into_the_drawer(page: Page) -> None:
    button(page, "Conversations").click()
    drawer = page.get_by_role("dialog", name="Conversations")
    expect(drawer.get_by_role("link")).to_contain_text("When do you open?")
    shoot(page, "talk-drawer")
    check_accessible(page)
    button(drawer, "New conversation").click()
    expect(drawer).to_be_hidden()
    expect(replies(page)).to_have_count(0)


def test_a_forgotten_reply_is_given_no_more_until_it_is_brought_back(visits: Visits, start: Start) -> None:
    page = opened(visits, start(CHAT))
    ask(page, "When do you open?")
    status = replies(page).get_by_role("status")
    button(replies(page), "Forget this reply").click()
    expect(status).to_contain_text("not given any more since version")
    expect(status).to_contain_text("before “We open at nine.”, now")
    button(replies(page), "Bring this reply back").click()
    expect(status).to_contain_text("now “We open at nine.”")
    button(replies(page), "Forget this reply").click()
    expect(status).to_contain_text("before “We open at nine.”, now")
    page.keyboard.press("z")
    expect(status).to_contain_text("this reply is back")
    expect(status).to_contain_text("now “We open at nine.”")


def test_the_first_answer_waits_for_what_is_to_be_learned_says_so_and_does_not_wait_for_ever(
    visits: Visits, start: Start
) -> None:
    page = visits.open(start(CHAT, flags=("--no-learner",)).url)  # nobody will ever learn the replies
    page.get_by_label("Your question").fill("When do you open?")
    page.keyboard.press("Enter")
    waiting = page.get_by_text("learning my replies first")
    expect(waiting).to_be_visible()
    shoot(page, "talk-first")
    check_accessible(page)
    expect(replies(page)).to_contain_text("version 0")
    expect(waiting).to_have_count(0)
    with page.expect_request("**/*:predict") as asked:
        ask(page, "Can I print here?")
    assert "min_offset" not in (asked.value.post_data or "")


def test_a_question_is_stopped_edited_and_asked_anew(visits: Visits, start: Start) -> None:
    page = opened(visits, start(CHAT))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/*:predict", hold)
    box = page.get_by_label("Your question")
    box.fill("When do you opne?")
    page.keyboard.press("Enter")
    button(page, "Stop").click()
    expect(box).to_have_value("When do you opne?")
    expect(box).to_be_focused()
    page.unroute("**/*:predict", hold)
    ask(page, "When do you opne?")
    button(page, "Edit this question").click()
    expect(box).to_have_value("When do you opne?")
    expect(box).to_be_focused()
    ask(page, "When do you open?")
    expect(page.get_by_role("log")).to_contain_text("When do you open?")
    expect(replies(page)).to_have_count(2)


def test_a_reply_with_markup_is_shown_and_does_no_harm(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    added = service.http.post("/v1/models/chat/replies", json={"text": MARKUP, "examples": ["What about Sundays?"]})
    service.wait_learned("chat", added.json()["offset"])
    page = opened(visits, service)
    ask(page, "What about Sundays?")
    reply = replies(page)
    expect(reply.locator("strong").first).to_have_text("Nine")
    link = reply.get_by_role("link", name="the hours")
    expect(link).to_have_attribute("href", "https://example.org/hours")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(reply.locator("img, script, style, h1, [onerror]")).to_have_count(0)
    assert reply.get_by_text("never").get_attribute("href") is None
    assert page.evaluate("window.harmed") is None
    shoot(page, "talk-markup")
    check_accessible(page)
