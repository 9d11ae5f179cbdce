"""The chat page in a real Chromium: conversations, other replies, comments, explanations, and replies with markup."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.conftest import Start
from tests.e2e.browsing import SIZES, Visits, check_accessible, shoot
from tests.e2e.test_page import CHAT, ask
from tests.support import Service

MARKUP = """**Nine** to *five*, see [the hours](https://example.org/hours).

# On Sundays

- closed <img src="https://example.org/spy.png" alt="a spy" onerror="window.harmed = 1">
- [never](javascript:window.harmed=2) <script>window.harmed = 3</script><style>body { display: none }</style>"""


def open_page(visits: Visits, service: Service, **options: object) -> Page:
    service.wait_learned("chat", 1)
    return visits.open(service.url, **options)  # type: ignore[arg-type]


def replies(page: Page) -> Locator:
    return page.get_by_role("article", name="Reply")


def button(where: Page | Locator, name: str) -> Locator:
    return where.get_by_role("button", name=name, exact=True)


def test_a_conversation_is_kept_found_exported_and_deleted(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT))
    ask(page, "When do you open?")
    url = page.url
    assert "?c=" in url
    reply = replies(page).last
    button(reply, "Wrong reply").click()
    expect(reply.get_by_role("status")).to_contain_text("asked again now")
    with page.expect_response("**:feedback"):  # the page is not left before the reason is stored
        button(reply, "rude").click()

    page.reload()
    expect(reply).to_contain_text("We open at nine.")
    expect(button(reply, "Wrong reply")).to_have_attribute("aria-pressed", "true")
    expect(button(reply, "rude")).to_have_attribute("aria-pressed", "true")
    expect(reply.get_by_role("status")).to_contain_text("learned in version")

    conversations = page.get_by_role("navigation", name="Conversations")
    button(conversations, "New conversation").click()
    expect(replies(page)).to_have_count(0)
    expect(page.get_by_label("Your question")).to_be_focused()
    ask(page, "Can I print here?")
    expect(conversations.get_by_role("listitem")).to_have_count(2)
    expect(conversations.get_by_role("listitem").first).to_contain_text("Can I print here?")
    shoot(page, "talk-list")
    check_accessible(page)

    conversations.get_by_label("Search conversations").fill("at NINE")
    expect(conversations.get_by_role("listitem")).to_have_count(1)
    conversations.get_by_role("link").click()
    expect(replies(page)).to_contain_text("We open at nine.")
    assert page.url == url

    assert "# When do you open?" in export_conversation(page, conversations, "Export as Markdown").read_text()
    content = json.loads(export_conversation(page, conversations, "Export as JSON").read_text())
    assert [turn["reply"]["text"] for turn in content["said"]] == ["We open at nine."]
    assert [(each["reward"], each["reason"]) for each in content["said"][0]["feedback"]] == [(0, "rude")]

    conversations.get_by_label("Actions for").click()
    button(conversations, "Delete…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("What the model learned from it stays")
    check_accessible(page)
    button(dialog, "Delete").click()
    expect(conversations.get_by_text("No conversations match.")).to_be_visible()
    expect(replies(page)).to_have_count(0)
    page.goto(url)
    expect(page.get_by_role("alert")).to_contain_text("does not exist")


def export_conversation(page: Page, conversations: Locator, how: str) -> Path:
    conversations.get_by_label("Actions for").click()
    with page.expect_download() as download:
        button(conversations, how).click()
    return Path(download.value.path())


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_another_reply_an_explanation_and_a_comment(visits: Visits, start: Start, width: int, scheme: str) -> None:
    service = start(CHAT)
    also = {"text": "On Sundays we open at noon.", "examples": ["When do you open on Sundays?"]}
    service.wait_learned("chat", service.http.post("/v1/models/chat/replies", json=also).json()["offset"])
    page = open_page(visits, service, width=width, scheme=scheme)
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
    expect(reply).to_contain_text("I do not know a better reply.")
    expect(page.get_by_label("Your question")).to_be_focused()
    if width == 360:
        check_drawer(page)


def check_drawer(page: Page) -> None:
    button(page, "Conversations").click()
    drawer = page.get_by_role("dialog", name="Conversations")
    expect(drawer.get_by_role("link")).to_contain_text("When do you open?")
    shoot(page, "talk-drawer")
    check_accessible(page)
    button(drawer, "New conversation").click()
    expect(drawer).to_be_hidden()
    expect(replies(page)).to_have_count(0)


def test_a_retired_reply_is_not_given_until_it_is_restored(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT))
    ask(page, "When do you open?")
    status = replies(page).get_by_role("status")
    button(replies(page), "Retire this reply").click()
    expect(status).to_contain_text("no longer given since version")
    expect(status).to_contain_text("before “We open at nine.”, now")
    button(replies(page), "Restore this reply").click()
    expect(status).to_contain_text("now “We open at nine.”")
    button(replies(page), "Retire this reply").click()
    expect(status).to_contain_text("before “We open at nine.”, now")
    page.keyboard.press("z")
    expect(status).to_contain_text("reply restored")
    expect(status).to_contain_text("now “We open at nine.”")


def test_the_first_answer_waits_a_limited_time_for_the_replies_to_be_learned(visits: Visits, start: Start) -> None:
    page = visits.open(start(CHAT, flags=("--no-learner",)).url)  # the replies are never learned
    page.get_by_label("Your question").fill("When do you open?")
    page.keyboard.press("Enter")
    waiting = page.get_by_text("learning its replies first")
    expect(waiting).to_be_visible()
    shoot(page, "talk-first")
    check_accessible(page)
    expect(replies(page)).to_contain_text("version 0")
    expect(waiting).to_have_count(0)
    with page.expect_request("**/*:predict") as request:
        ask(page, "Can I print here?")
    assert "min_offset" not in (request.value.post_data or "")


def test_a_question_is_stopped_edited_and_asked_again(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT))
    routes: list[Route] = []

    def hold(route: Route) -> None:
        routes.append(route)

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


def test_a_reply_with_markup_is_sanitised(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    added = service.http.post("/v1/models/chat/replies", json={"text": MARKUP, "examples": ["What about Sundays?"]})
    service.wait_learned("chat", added.json()["offset"])
    page = open_page(visits, service)
    ask(page, "What about Sundays?")
    reply = replies(page)
    expect(reply.locator("strong").first).to_have_text("Nine")
    link = reply.get_by_role("link", name="the hours")
    expect(link).to_have_attribute("href", "https://example.org/hours")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(reply.locator("img, script, style, h1, [onerror]")).to_have_count(0)
    assert reply.get_by_text("never").get_attribute("href") is None
    assert page.evaluate("window.harmed") is None
    assert all(each.endswith("The action has been blocked.") for each in visits.failed), (
        "by the policy, while it was parsed"
    )
    visits.failed.clear()
    shoot(page, "talk-markup")
    check_accessible(page)
