"""The chat page in a real Chromium: conversations, other replies, comments, explanations, and replies with markup."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.conftest import Start
from tests.e2e.browsing import SIZES, Visits, check_accessible, choose, shoot
from tests.e2e.test_page import CHAT, ask, new_answer
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
    expect(reply).to_contain_text("I know no better reply. What should it be?")
    with page.expect_response("**:feedback"):  # the page is not left before the reason is stored
        button(reply, "Rude").click()

    page.reload()
    expect(reply).to_contain_text("We open at nine.")
    expect(button(reply, "Wrong reply")).to_have_attribute("aria-pressed", "true")
    expect(button(reply, "Rude")).to_have_attribute("aria-pressed", "true")
    expect(reply.get_by_role("status")).to_contain_text("Learned")

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

    assert "# When do you open?" in export_conversation(page, conversations, "Download as Markdown").read_text()
    content = json.loads(export_conversation(page, conversations, "Download as JSON").read_text())
    assert [turn["reply"]["text"] for turn in content["said"]] == ["We open at nine."]
    assert [(each["reward"], each["reason"]) for each in content["said"][0]["feedback"]] == [(0, "rude")]

    choose(conversations, "Actions for “When do you open?”", "Delete…")
    dialog = page.get_by_role("dialog", name="Delete this conversation?")
    expect(dialog).to_contain_text("What was learned from it stays")
    check_accessible(page)
    button(dialog, "Delete").click()
    expect(conversations.get_by_text("No conversations match.")).to_be_visible()
    expect(replies(page)).to_have_count(0)
    page.goto(url)
    expect(page.get_by_role("alert")).to_contain_text("does not exist")


@pytest.mark.long
def test_a_conversation_is_renamed_pinned_and_shared_until_that_is_ended(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT))
    ask(page, "When do you open?")
    conversations = page.get_by_role("navigation", name="Conversations")
    choose(conversations, "Actions for “When do you open?”", "Rename")
    expect(page.get_by_label("New title")).to_be_focused()
    page.keyboard.type("Opening hours")
    page.keyboard.press("Enter")
    link = conversations.get_by_role("link", name="Opening hours")
    expect(link).to_be_focused()
    choose(conversations, "Actions for “Opening hours”", "Pin")
    expect(conversations.get_by_role("list", name="Pinned").get_by_role("link")).to_have_text("Opening hours")

    conversations.get_by_role("button", name="Actions for “Opening hours”").click()
    check_accessible(page)
    shoot(page, "talk-menu")
    page.keyboard.press("Escape")
    choose(conversations, "Actions for “Opening hours”", "Share…")
    dialog = page.get_by_role("dialog", name="Share this conversation")
    button(dialog, "Create a link").click()
    address = dialog.get_by_label("Link to the conversation").input_value()
    check_accessible(page)
    shoot(page, "talk-share")
    button(dialog, "Close").click()
    ask(page, "Can I print here?")

    reader = visits.open(address, width=360, scheme="dark")
    expect(reader.get_by_role("heading", name="Opening hours", level=1)).to_be_visible()
    expect(replies(reader)).to_have_text("We open at nine.")  # what was asked later is not shared
    check_accessible(reader)
    shoot(reader, "talk-shared")
    choose(conversations, "Actions for “Opening hours”", "Share…")
    button(dialog, "Stop sharing").click()
    expect(page.get_by_text("The link no longer works.")).to_be_visible()
    reader.reload()
    expect(reader.get_by_role("alert")).to_contain_text("This link does not work.")


def export_conversation(page: Page, conversations: Locator, how: str) -> Path:
    with page.expect_download() as download:
        choose(conversations, "Actions for “When do you open?”", how)
    return Path(download.value.path())


@pytest.mark.long
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

    choose(reply, "More actions", "Why this reply?")
    why = reply.get_by_role("region", name="Why this reply")
    expect(why).to_contain_text("When do you open?")
    expect(why).to_contain_text("this reply")
    expect(why.get_by_text("How the replies compare")).to_be_in_viewport(ratio=1)
    shoot(page, f"talk-why-{scheme}")
    check_accessible(page)
    choose(reply, "More actions", "Why this reply?")
    expect(why).to_have_count(0)

    page.keyboard.press("d")
    button(reply, "Comment").click()
    page.keyboard.type("That was not my question.")
    page.keyboard.press("Enter")
    expect(reply).to_contain_text("You commented: “That was not my question.”")
    expect(button(reply, "Edit your comment")).to_be_focused()
    expect(reply.get_by_role("status")).to_contain_text("Learned")
    shoot(page, f"talk-comment-{scheme}")
    check_accessible(page)

    button(reply, "Previous reply").click()
    expect(reply).to_contain_text("We open at nine.")
    page.reload()
    expect(reply).to_contain_text("reply 2 of 2")
    expect(reply).to_contain_text("That was not my question.")
    while reply.get_by_text("I have no better reply.").count() == 0:
        place = reply.get_by_text(re.compile(r"^reply \d+ of")).inner_text()
        choose(reply, "More actions", "Another reply")
        expect(reply).not_to_contain_text(place)
    expect(reply).to_contain_text("I have no better reply.")
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


@pytest.mark.long
def test_a_retired_reply_is_not_given_until_it_is_restored(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT))
    ask(page, "When do you open?")
    reply = replies(page)
    status = reply.get_by_role("status")
    choose(reply, "More actions", "Stop using this reply…")
    dialog = page.get_by_role("dialog", name="Stop using this reply?")
    expect(dialog).to_contain_text("Nobody will get this reply any more.")
    check_accessible(page)
    button(dialog, "Cancel").click()
    expect(status).to_be_empty()
    retire(page)
    expect(status).to_contain_text("No longer used")
    expect(new_answer(reply)).to_contain_text("Before We open at nine.")
    choose(reply, "More actions", "Use this reply again")
    expect(new_answer(reply).get_by_text("Now")).to_be_visible()
    expect(new_answer(reply)).to_contain_text("Now We open at nine.")
    retire(page)
    expect(new_answer(reply)).to_contain_text("Before We open at nine.")
    page.keyboard.press("z")
    expect(status).to_contain_text("Used again")
    expect(new_answer(reply)).to_contain_text("Now We open at nine.")


def retire(page: Page) -> None:
    choose(replies(page), "More actions", "Stop using this reply…")
    button(page.get_by_role("dialog"), "Stop using it").click()


@pytest.mark.long
def test_the_first_answer_waits_a_limited_time_for_the_replies_to_be_learned(visits: Visits, start: Start) -> None:
    page = visits.open(start(CHAT, flags=("--no-learner",)).url)  # the replies are never learned
    page.get_by_label("Your question").fill("When do you open?")
    page.keyboard.press("Enter")
    waiting = page.get_by_text("the replies are being learned first")
    expect(waiting).to_be_visible()
    shoot(page, "talk-first")
    check_accessible(page)
    expect(replies(page)).to_have_count(1)
    expect(waiting).to_have_count(0)
    with page.expect_request("**/*:predict") as request:
        ask(page, "Can I print here?")
    assert "min_offset" not in (request.value.post_data or "")


@pytest.mark.long
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
    editor = page.get_by_label("Edit your question")
    expect(editor).to_be_focused()
    editor.fill("Something else")
    check_accessible(page)
    shoot(page, "talk-edit")
    page.keyboard.press("Escape")
    expect(page.get_by_role("log")).to_contain_text("When do you opne?")
    expect(button(page, "Edit this question")).to_be_focused()

    ask(page, "Can I print here?")
    button(page, "Edit this question").first.click()
    editor.fill("When do you open?")
    page.keyboard.press("Enter")
    log = page.get_by_role("log")
    expect(log).to_contain_text("question 2 of 2")
    expect(replies(page)).to_have_count(1)
    expect(log).not_to_contain_text("Can I print here?")
    ask(page, "Is there wifi?")
    page.reload()  # the branches are stored
    expect(log).to_contain_text("Is there wifi?")
    button(page, "Previous version of the question").click()
    expect(log).to_contain_text("Can I print here?")
    expect(log).not_to_contain_text("Is there wifi?")
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


@pytest.mark.long
def test_nothing_moves_under_the_pointer_after_a_thumb(visits: Visits, start: Start) -> None:
    """Where there is room for what it opens; test_corrections.py has a longer conversation."""
    page = open_page(visits, start(CHAT), height=700)
    ask(page, "When do you open?")
    reply = replies(page).last
    thumb = button(reply, "Wrong reply")
    expect(thumb).to_be_in_viewport(ratio=1)
    before = thumb.bounding_box()
    thumb.click()
    rude = button(reply, "Rude")
    expect(rude).to_be_attached()
    reason = rude.bounding_box()
    expect(reply.get_by_text("I know no better reply. What should it be?")).to_be_attached()
    assert (thumb.bounding_box(), rude.bounding_box()) == (before, reason)


@pytest.mark.long
def test_a_question_that_is_too_long_is_told_in_plain_words_and_kept(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT, max_text_chars="100"))
    page.get_by_label("Your question").fill("x" * 1_234)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Too long: 1,234 of 100 characters.")
    expect(page.get_by_label("Your question")).to_have_value("x" * 1_234)


@pytest.mark.long
def test_the_page_speaks_german_where_the_browser_or_the_person_asks_for_it(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT))
    choose(page.get_by_role("banner"), "Settings", "Deutsch")
    expect(page.get_by_label("Ihre Frage")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "de"
    page.reload()
    choose(page.get_by_role("banner"), "Einstellungen", "Dunkel")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.get_by_label("Ihre Frage").fill("When do you open?")
    page.keyboard.press("Enter")
    button(replies_in_german(page), "Falsche Antwort").click()
    expect(replies_in_german(page).get_by_role("status")).to_contain_text("Gelernt")
    check_accessible(page)
    shoot(page, "talk-german")


def replies_in_german(page: Page) -> Locator:
    return page.get_by_role("article", name="Antwort")
