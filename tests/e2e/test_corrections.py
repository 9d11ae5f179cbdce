"""Corrections with a scope, and what follows a thumb down, on the chat page in a real Chromium."""

from playwright.sync_api import Page, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, choose, shoot
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


def test_a_correction_of_one_question_leaves_a_paraphrase_as_it_was(visits: Visits, start: Start) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = visits.open(service.url)
    correct(page, QUESTION, "for this question only", NEW)
    ask(page, PARAPHRASE)
    expect(replies(page).last).to_contain_text(OLD)
    ask(page, "are dogs allowed")
    expect(replies(page).last).to_contain_text(NEW)


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
