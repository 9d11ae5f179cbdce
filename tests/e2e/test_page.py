"""The chat page in a real Chromium, on a real service with the starter repertoire: feedback with a visible effect."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import Start
from tests.e2e.browsing import SLOW_MS, Visits, check_accessible, choose, shoot

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
QUESTION, OTHER_WORDS = "Where can I charge my electric car?", "Is there a charging point for an electric vehicle?"
LESSON = "Two chargers for electric cars stand behind the library."
STARTER = Path(__file__).parent.parent.parent / "data" / "repertoire.jsonl"


def ask(page: Page, question: str) -> None:
    replies = page.get_by_role("article", name="Reply")
    count = replies.count()
    page.get_by_label("Your question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(replies).to_have_count(count + 1, timeout=SLOW_MS)


def new_answer(reply: Locator) -> Locator:
    """The card with the answer before and after feedback."""
    return reply.get_by_role("region", name="The answer to this question")


def correct(reply: Locator, text: str) -> None:
    """Write the right reply into the form for it."""
    reply.get_by_placeholder("The right reply").fill(text)
    reply.get_by_role("button", name="Teach", exact=True).click()


def show_details(page: Page) -> None:
    """Show the versions, which only operators see."""
    choose(page.get_by_role("banner"), "Settings", "Show model details")


def version_of(page: Page) -> int:
    caption = page.get_by_role("article", name="Reply").last.get_by_text("version").first.inner_text()
    return int("".join(letter for letter in caption if letter.isdigit()))


@pytest.mark.long
def test_a_correction_is_given_to_the_same_question_in_other_words(visits: Visits, start: Start) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = visits.open(service.url)
    show_details(page)

    ask(page, QUESTION)
    wrong = page.get_by_role("article", name="Reply").last
    expect(wrong).not_to_contain_text(LESSON)
    before = version_of(page)
    wrong.get_by_role("button", name="Wrong reply").click()
    expect(wrong.get_by_role("button", name="Wrong reply")).to_have_attribute("aria-pressed", "true")
    expect(wrong.get_by_role("status")).to_contain_text("Learned in version", timeout=SLOW_MS)
    shoot(page, "1-thumb-down")

    correct(wrong, LESSON)
    expect(new_answer(wrong)).to_contain_text(LESSON, timeout=SLOW_MS)
    shoot(page, "2-taught")
    check_accessible(page)

    ask(page, OTHER_WORDS)
    expect(page.get_by_role("article", name="Reply").last).to_contain_text(LESSON)
    assert version_of(page) > before
    shoot(page, "3-asked-in-other-words")


def test_the_page_is_used_by_keyboard_only_on_a_narrow_dark_screen(visits: Visits, start: Start) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = visits.open(service.url, width=360, scheme="dark")
    page.get_by_label("Your question").focus()
    page.keyboard.type("how do i renew a book")
    page.keyboard.press("Enter")
    reply = page.get_by_role("article", name="Reply").last
    expect(reply).to_contain_text("renew", timeout=SLOW_MS)
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    see = reply.get_by_role("button", name="See new answer")
    expect(see).to_be_visible(timeout=SLOW_MS)
    expect(new_answer(reply)).to_have_count(0)  # it may be wrong as well, so it is shown on request
    see.focus()
    page.keyboard.press("Enter")
    expect(new_answer(reply)).to_contain_text("renew")
    page.keyboard.press("z")
    expect(reply.get_by_role("status")).to_contain_text("Taken back and un-learned", timeout=SLOW_MS)
    page.keyboard.press("u")
    expect(reply.get_by_role("status")).to_contain_text("Learned", timeout=SLOW_MS)
    shoot(page, "4-narrow-dark")
    check_accessible(page)


@pytest.mark.long
def test_a_new_reply_is_scrolled_into_view_on_a_narrow_screen(visits: Visits, start: Start) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = visits.open(service.url, width=360, height=780)
    ask(page, QUESTION)
    first = page.get_by_role("article", name="Reply").last
    first.get_by_role("button", name="Wrong reply").click()
    choose(first, "More actions", "Why this reply?")
    expect(first.get_by_text("How the replies compare")).to_be_visible()
    for question in ("Do you have wifi?", "How do I renew a book?", "When are you open?"):
        ask(page, question)
        newest = page.get_by_role("article", name="Reply").last
        expect(newest.get_by_role("button", name="Good reply")).to_be_in_viewport(ratio=1)
    shoot(page, "6-narrow-light")


@pytest.mark.long
def test_a_second_browser_shows_the_new_version_and_a_banner_while_learning_is_paused(
    visits: Visits, start: Start
) -> None:
    service = start(CHAT, restart_max_s=5.0)
    service.wait_learned("chat", 1)
    watching = visits.open(service.url)
    show_details(watching)
    panel = watching.get_by_role("complementary", name="Model details")
    client = service.client("chat")
    receipt = client.feedback([{"input": "Is there tea?", "correction": "Tea is in the cafe."}])[0]
    status = service.wait_learned("chat", receipt["offset"])
    expect(panel).to_contain_text(str(status["model_version_status"][0]["version"]), timeout=SLOW_MS)
    service.kill_learner()
    expect(watching.get_by_text("The model keeps answering")).to_be_visible(timeout=SLOW_MS)
    ask(watching, "When do you open?")
    expect(watching.get_by_role("article", name="Reply").last).to_contain_text("We open at nine.")
    shoot(watching, "5-learner-down")
    expect(watching.get_by_text("The model keeps answering")).to_be_hidden(timeout=SLOW_MS)
