"""Corrections with a scope, and what follows a thumb down, on the chat page in a real Chromium."""

from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, choose, shoot, wait_for_animations
from tests.e2e.test_page import CHAT, STARTER, ask, new_answer
from tests.e2e.test_talk import button, replies

QUESTION, PARAPHRASE = "Are dogs allowed?", "Can my dog come in?"
OLD, NEW = "Assistance dogs are welcome everywhere.", "All dogs may come in, on a lead."


def correct(page: Page, question: str, scope: str, reply: str) -> None:
    ask(page, question)
    last = replies(page).last
    button(last, "Wrong reply").click()
    expect(last.get_by_role("status")).to_contain_text("Learned")
    last.get_by_placeholder("The right reply").fill(reply)
    last.get_by_label(scope).check()
    check_accessible(page)
    shoot(page, f"corrections-{scope.replace(' ', '-')}")
    button(last, "Teach").click()
    expect(new_answer(last)).to_contain_text(reply)


@pytest.mark.long
def test_a_correction_for_questions_like_this_one_reaches_a_paraphrase(visits: Visits, start: Start) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = visits.open(service.url)
    ask(page, PARAPHRASE)
    expect(replies(page).last).to_contain_text(OLD)
    correct(page, QUESTION, "for all questions like this one", NEW)
    ask(page, PARAPHRASE)
    expect(replies(page).last).to_contain_text(NEW)
    expect(replies(page).last).not_to_contain_text(OLD)
    shoot(page, "corrections-paraphrase")


@pytest.mark.long
def test_a_correction_of_one_question_leaves_a_paraphrase_as_it_was(visits: Visits, start: Start) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = visits.open(service.url)
    correct(page, QUESTION, "for this question only", NEW)
    ask(page, PARAPHRASE)
    expect(replies(page).last).to_contain_text(OLD)
    ask(page, "are dogs allowed")
    expect(replies(page).last).to_contain_text(NEW)


@pytest.mark.long
def test_a_thumb_down_leads_to_nothing_worse(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    page = visits.open(service.url)
    ask(page, "When do you open?")
    reply = replies(page)
    expect(reply).to_contain_text("We open at nine.")
    button(reply, "Wrong reply").click()
    expect(reply).to_contain_text("I know no better reply. What should it be?")
    choose(reply, "More actions", "Another reply")
    expect(reply).to_contain_text("I have no better reply. Can you teach me one?")
    shoot(page, "corrections-nothing-worse")
    check_accessible(page)


LONG = (QUESTION, "Where can I park?", "When are you open?", "Do you have wifi?", "How do I renew a book?")


def expect_in_sight(page: Page, *parts: Locator) -> None:
    """Between the header and the question box, which lie on nothing."""
    for part in parts:
        expect(part).to_be_in_viewport(ratio=1)
    page.wait_for_function(
        """parts => {
            const { top, bottom } = document.querySelector('main').getBoundingClientRect();
            return parts.every((part) => {
                const box = part.getBoundingClientRect();
                return top <= box.top && box.bottom <= bottom;
            });
        }""",
        arg=[part.element_handle() for part in parts],
    )


def fill_screen(page: Page) -> Locator:
    """Ask until the conversation is longer than the screen, and return the last reply."""
    for question in LONG:
        ask(page, question)
    assert page.locator("main").evaluate("main => main.scrollHeight > main.clientHeight")
    return replies(page).last


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height", "motion"),
    [(1440, 900, "no-preference"), (390, 844, "reduce")],
)
def test_what_opens_below_a_reply_comes_into_sight(
    visits: Visits, start: Start, width: int, height: int, motion: Literal["no-preference", "reduce"]
) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = visits.open(service.url, width=width, height=height)
    page.emulate_media(reduced_motion=motion)
    last = fill_screen(page)
    thumb = button(last, "Wrong reply")
    thumb.click()
    field, teach = last.get_by_placeholder("The right reply"), button(last, "Teach")
    expect_in_sight(page, thumb, button(last, "Rude"), field, teach)
    expect(last.get_by_role("status")).to_contain_text("Learned")
    expect_in_sight(page, thumb, button(last, "Rude"), field, teach)
    field.fill("We open at nine, and on Sundays at ten.")
    expect(last.get_by_role("radio").first).to_be_visible()  # how far a correction reaches: the form grows
    expect_in_sight(page, field, teach)
    assert page.evaluate("document.documentElement.scrollHeight") == height  # only the conversation scrolls
    shoot(page, f"corrections-in-sight-{width}")
    field.fill("")  # a form with a text stays open
    button(last, "Undo").click()
    expect(field).to_have_count(0)
    choose(last, "More actions", "Suggest a better reply")
    expect(field).to_be_focused()
    expect_in_sight(page, field, teach)
    page.keyboard.press("Escape")
    choose(last, "More actions", "Another reply")
    expect(last.get_by_role("group", name="Replies to this question")).to_be_visible()
    expect_in_sight(page, button(last, "Good reply"))
    pencil = button(page, "Edit this question").last
    pencil.evaluate("each => each.scrollIntoView({ block: 'end' })")
    pencil.click()
    expect_in_sight(page, page.get_by_label("Edit your question"), button(page, "Cancel"))


@pytest.mark.long
def test_a_thumb_about_an_old_reply_moves_nothing_where_its_form_fits(visits: Visits, start: Start) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = visits.open(service.url, width=1440, height=900)
    fill_screen(page)
    page.locator("main").evaluate("main => { main.scrollTop = 0; }")
    first = replies(page).first
    thumb = button(first, "Wrong reply")
    before = thumb.bounding_box()
    thumb.click()
    expect_in_sight(page, first.get_by_placeholder("The right reply"))
    expect(first.get_by_role("status")).to_contain_text("Learned")
    wait_for_animations(page)
    assert thumb.bounding_box() == before
