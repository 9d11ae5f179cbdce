"""The chat page in a real Chromium for visitors whose teaching is learned at once (`public_teaching = "on"`)."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.e2e.test_access import ADMIN_KEY, button, cookie, last_reply, serve, sign_in
from tests.e2e.test_page import ask, correct, new_answer

QUESTION, OTHER_WORDS = "Do you lend umbrellas?", "Can I borrow an umbrella here?"
LESSON = "Umbrellas are lent at the desk."


@pytest.mark.long
def test_what_a_visitor_teaches_is_given_to_everybody_at_once(visits: Visits, tmp_path: Path) -> None:
    with serve(tmp_path, public_teaching="on") as service:
        visitor = visits.open(service.url)
        expect(visitor.get_by_text("Your ratings and corrections change my answers")).to_be_visible()
        ask(visitor, QUESTION)
        reply = last_reply(visitor)
        expect(reply).not_to_contain_text(LESSON)
        if button(reply, "Wrong reply").count():
            button(reply, "Wrong reply").click()
        correct(reply, LESSON)
        status = reply.get_by_role("status")
        expect(status).to_contain_text("Learned")
        expect(new_answer(reply)).to_contain_text(LESSON)
        expect(reply).not_to_contain_text("You taught")  # the new answer says it
        shoot(visitor, "access-taught")
        check_accessible(visitor)

        stranger = visits.open(service.url, width=360, scheme="dark")
        ask(stranger, OTHER_WORDS)
        expect(last_reply(stranger)).to_contain_text(LESSON)
        assert cookie(stranger, "online_visitor")["value"] != cookie(visitor, "online_visitor")["value"]

        visitor.reload()
        expect(reply).to_contain_text(f"You taught: “{LESSON}”")
        button(reply, "Undo").click()
        expect(status).to_contain_text("Taken back and un-learned")
        ask(stranger, QUESTION)
        expect(last_reply(stranger)).not_to_contain_text(LESSON)

        curator = visits.open(f"{service.url}/inbox")
        sign_in(curator, ADMIN_KEY)
        expect(curator.get_by_role("heading", name="All done")).to_be_visible()
