"""The inbox in a real Chromium: decided by keyboard and taken back, and what a visitor sees of it."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import config
from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.e2e.test_access import ADMIN_KEY, HELD, button, create_key, propose, sign_in
from tests.e2e.test_page import CHAT, new_answer
from tests.support import Service

VISITS = {"Sec-Fetch-Site": "same-origin"}
GARDEN = ("Do you have a garden?", "Is there a garden here?", "do you have a garden")
GARDEN_REPLY = "The garden is behind the house."


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with three groups: a garden, opening hours that were asked for by others, and spam."""
    folder = tmp_path_factory.mktemp("inbox")
    running = Service(
        folder / "state", config(folder, CHAT, admin_key=ADMIN_KEY, public_teaching="review", sign_ins_per_minute=1_000)
    )
    running.http.headers["X-API-Key"] = ADMIN_KEY
    running.wait_learned("chat", 1)
    yield running
    running.stop()


def say(service: Service, question: str, **item: Any) -> None:
    """Ask as a new visitor, and say something about the reply."""
    with httpx.Client(base_url=service.url, headers=VISITS, timeout=60) as visitor:
        visitor.get("/v1/session")
        answer = visitor.post("/v1/models/chat:predict", json={"instances": [question]}).json()
        given = {"prediction_id": answer["prediction_ids"][0], **item}
        said = visitor.post("/v1/models/chat:feedback", json={"feedback": [given]})
        assert said.status_code == 202, said.text


@pytest.fixture
def filled(service: Service) -> Service:
    for number, question in enumerate(GARDEN):
        say(service, question, correction=GARDEN_REPLY if number else "A small one.", comment="I was there yesterday.")
    say(service, "At what time do you open today?", correction="We open at 9.")
    say(service, "What is the meaning of life?", correction="BUY CHEAP WATCHES NOW")
    return service


def group(page: Page) -> Locator:
    return page.get_by_role("article").or_(page.locator("article"))


def rows(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Groups").get_by_role("listitem")


def test_groups_are_decided_and_taken_back_by_keyboard(visits: Visits, filled: Service) -> None:
    page = visits.open(f"{filled.url}/repertoire?part=held")
    sign_in(page, create_key(filled, "predict,feedback,curate"))
    expect(page).to_have_url(f"{filled.url}/inbox")
    expect(rows(page)).to_have_count(3)
    expect(page.get_by_role("navigation", name="Pages")).to_contain_text("3 waiting")
    news = page.get_by_role("main").get_by_role("status").last
    page.get_by_role("heading", name="Inbox", level=1).click()
    page.keyboard.press("x")  # spam came last
    page.keyboard.type("We do not advertise.")
    expect(page.get_by_label("Why?")).to_have_accessible_description("Ctrl + Enter sends")
    expect(page.get_by_text(re.compile(r"Ctrl\s*\+\s*Enter\s+sends"))).to_be_in_viewport(ratio=1)
    shoot(page, "inbox-reason")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Rejected: “What is the meaning of life?” (1 message)")).to_be_visible()
    expect(news).to_contain_text("2 left. Next: At what time do you open today?")
    expect(page.get_by_role("heading", name="At what time do you open today?")).to_be_focused()
    expect(page.get_by_text("1 of 3 done")).to_be_visible()
    page.keyboard.press("m")
    page.keyboard.type("nine")
    expect(page.get_by_role("button", name="We open at nine.")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="garden", exact=False)).to_be_focused()
    page.keyboard.press("e")
    expect(button(page, "Assigned to you")).to_be_visible()
    page.keyboard.press("r")
    page.keyboard.type("Yes, behind the house.")
    shoot(page, "inbox-reply")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="All done")).to_be_focused()
    page.keyboard.press("z")
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("heading", name="garden", exact=False)).to_be_focused()
    expect(button(page, "Assigned to you")).to_be_visible()
    page.keyboard.press("a")  # two replies are suggested: one has to be chosen
    expect(page.get_by_role("radio", name=GARDEN_REPLY)).to_be_focused()
    page.keyboard.press("Space")
    expect(page.get_by_text("1 other correction is not learned.")).to_be_visible()
    page.keyboard.press("a")
    expect(page.get_by_role("heading", name="All done")).to_be_visible()
    texts = {reply["text"] for reply in filled.http.get("/v1/models/chat/replies").json()["replies"]}
    assert GARDEN_REPLY in texts and not {"Yes, behind the house.", "BUY CHEAP WATCHES NOW", "We open at 9."} & texts
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    sending = page.get_by_role("term").filter(has_text=re.compile(r"Ctrl\s*\+\s*Enter"))
    expect(sending.locator("+ dd")).to_have_text("send a reason or a reply that you write")
    check_accessible(page)
    page.keyboard.press("Escape")
    button(page, "Done").click()
    expect(page.get_by_role("region", name="Done").get_by_role("listitem")).to_have_count(3)
    button(page, "Undo: What is the meaning of life?").click()
    expect(page.get_by_role("region", name="Done").get_by_role("listitem")).to_have_count(2)
    expect(page.get_by_role("navigation", name="Pages")).to_contain_text("1 waiting")


@pytest.mark.long
def test_a_visitor_learns_from_the_page_that_a_curator_approved(visits: Visits, service: Service) -> None:
    curator = visits.open(f"{service.url}/inbox")
    sign_in(curator, ADMIN_KEY)
    expect(curator.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
    visitor = visits.open(service.url)
    propose(visitor, "Is there a vending machine?", "In the cellar.")
    expect(rows(curator).filter(has_text="vending machine")).to_have_count(1)  # an event tells the page of it
    rows(curator).filter(has_text="vending machine").get_by_role("button").click()
    button(curator, "Use this reply").click()
    reply = visitor.get_by_role("article", name="Reply").last
    expect(reply.get_by_role("status")).to_contain_text("Learned")
    expect(new_answer(reply)).to_contain_text("In the cellar.")
    button(curator, "Undo").click()
    expect(reply.get_by_role("status")).to_contain_text(HELD)
    expect(new_answer(reply)).to_have_count(0)
    button(reply, "Undo").click()  # the suggestion that waits again
    expect(rows(curator).filter(has_text="vending machine")).to_have_count(0)


@pytest.mark.parametrize(
    ("width", "scheme", "forced"),
    [
        pytest.param(1440, "light", False, marks=pytest.mark.long),
        pytest.param(320, "dark", False, marks=pytest.mark.long),
        pytest.param(768, "dark", False, marks=pytest.mark.long),
        (390, "light", True),
    ],
)
@pytest.mark.long
def test_the_inbox_is_accessible_at_every_width(
    visits: Visits, filled: Service, width: int, scheme: str, forced: bool
) -> None:
    page = visits.open(f"{filled.url}/inbox", width=width, height=900, scheme=scheme)
    if forced:
        page.emulate_media(forced_colors="active")
    shoot(page, f"inbox-signed-out-{width}-{scheme}")
    sign_in(page, ADMIN_KEY)
    rows(page).first.wait_for()
    shoot(page, f"inbox-list-{width}-{scheme}")
    check_accessible(page)
    rows(page).filter(has_text="garden").first.get_by_role("button").click()
    shoot(page, f"inbox-group-{width}-{scheme}")
    check_accessible(page)
    for name in ("Use another reply", "Write a reply", "Reject"):
        page.get_by_role("group", name="Decide").get_by_role("button", name=name).click()
        shoot(page, f"inbox-{name.split()[0].lower()}-{width}-{scheme}")
        check_accessible(page)
    page.keyboard.press("Escape")
    group(page).evaluate("each => each.scrollIntoView()")
    button(page, "Not assigned").click()
    check_accessible(page)


@pytest.mark.long
def test_a_question_asked_often_leads_to_its_open_group(visits: Visits, service: Service) -> None:
    say(service, "Do you sell stamps?", correction="Stamps are sold at the desk.")
    page = visits.open(f"{service.url}/learning")
    sign_in(page, create_key(service, "predict,feedback,curate"))
    top = page.get_by_role("region", name="Asked most")
    link = top.get_by_role("link", name="In the inbox: decide about “Do you sell stamps?”")
    expect(link).to_have_text("In the inbox")
    check_accessible(page)
    link.click()
    expect(page).to_have_url(re.compile(r"/inbox\?model=chat&group=."))
    expect(page.get_by_role("heading", name="Do you sell stamps?")).to_be_visible()
    page.go_back()
    expect(link).to_be_visible()


@pytest.mark.long
def test_an_unanswered_question_leads_to_the_suggestion_that_waits_for_it(visits: Visits, service: Service) -> None:
    say(service, "Can I send a fax from here?", correction="A fax can be sent at the desk.")
    page = visits.open(f"{service.url}/repertoire?part=unanswered")
    sign_in(page, ADMIN_KEY)
    cluster = page.get_by_role("group", name="fax")
    link = cluster.get_by_role("link", name="1 suggestion waits in the inbox")
    expect(link).to_be_visible()
    expect(cluster.locator("time")).to_have_attribute("title", re.compile(r"\b20\d\d\b"))
    shoot(page, "repertoire-waiting")
    check_accessible(page)
    link.click()
    expect(page).to_have_url(re.compile(r"/inbox\?(model=chat&)?group=."))
    expect(group(page)).to_contain_text("A fax can be sent at the desk.")


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), [(320, 568), (768, 640), (1440, 700)])
def test_an_open_form_is_all_in_sight(visits: Visits, filled: Service, width: int, height: int) -> None:
    page = visits.open(f"{filled.url}/inbox", width=width, height=height, touch=width < 1000)
    sign_in(page, ADMIN_KEY)
    rows(page).filter(has_text="garden").first.get_by_role("button").click()
    decisions = page.get_by_role("group", name="Decide")
    for name, title in (
        ("Use another reply", "Which reply is right?"),
        ("Write a reply", "What is the right reply?"),
        ("Reject", "Why? The people who wrote it can read this."),
    ):
        decisions.get_by_role("button", name=name).click()
        if name == "Use another reply":
            expect(page.get_by_text("Likely", exact=True)).to_be_in_viewport(ratio=1)
        for part in (decisions, page.get_by_label(title), button(page, "Cancel")):
            expect(part).to_be_in_viewport(ratio=1)
        shoot(page, f"inbox-form-{name.split()[0].lower()}-{width}")


@pytest.mark.long
def test_a_phone_folds_the_filters_and_says_how_many_are_set(visits: Visits, filled: Service) -> None:
    page = visits.open(f"{filled.url}/inbox", width=320, height=640, touch=True)
    sign_in(page, ADMIN_KEY)
    expect(rows(page).first).to_be_in_viewport(ratio=1)
    kinds = page.get_by_role("combobox", name=re.compile("^With"))
    expect(kinds).to_be_hidden()
    button(page, "Filter").click()
    kinds.select_option("New replies")
    fold = button(page, "Filter (1 set)")
    expect(fold).to_have_attribute("aria-expanded", "true")
    shoot(page, "inbox-filters-320")
    check_accessible(page)
    fold.click()
    expect(kinds).to_be_hidden()
    page.set_viewport_size({"width": 1200, "height": 800})
    expect(kinds).to_be_visible()
    expect(fold).to_be_hidden()


@pytest.mark.long
def test_a_narrow_window_shows_no_keys(visits: Visits, filled: Service) -> None:
    page = visits.open(f"{filled.url}/inbox", width=390, height=844)
    sign_in(page, ADMIN_KEY)
    rows(page).filter(has_text="garden").first.get_by_role("button").click()
    button(page, "Reject").click()
    page.get_by_label("Why?").fill("It is not ours.")
    page.get_by_role("button", name=re.compile("^Reject .* messages?$")).click()
    expect(button(page, "Undo")).to_be_visible()
    for keys in (page.locator("kbd"), button(page, "Keyboard")):
        expect(keys.filter(visible=True)).to_have_count(0)
    shoot(page, "inbox-decided-390")


@pytest.mark.long
def test_all_that_one_visitor_has_sent_is_rejected_at_once_and_taken_back(visits: Visits, service: Service) -> None:
    spammer = visits.open(service.url)
    for question in ("Is there a sauna?", "Do you have a helicopter?"):
        propose(spammer, question, f"{question} BUY CHEAP WATCHES")
    page = visits.open(f"{service.url}/inbox")
    sign_in(page, ADMIN_KEY)
    rows(page).filter(has_text="helicopter").get_by_role("button").click()
    count = rows(page).count()
    group(page).get_by_role("button", name=re.compile("^Visitor ")).click()
    check_accessible(page)
    shoot(page, "inbox-visitor")
    page.get_by_role("menuitem", name="Reject all 2 messages of this person").click()
    expect(rows(page)).to_have_count(count - 2)
    expect(page.get_by_text(re.compile("^Rejected: 2 messages of Visitor "))).to_be_visible()
    button(page, "Undo").click()
    expect(rows(page)).to_have_count(count)
    expect(page.get_by_role("heading", name="Do you have a helicopter?")).to_be_focused()
