"""Who may do what on the page, in a real Chromium: visitors, signing in with a key, and the review of what visitors teach."""

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.conftest import config
from tests.e2e.browsing import Visits, check_accessible, choose, shoot
from tests.e2e.test_page import CHAT, ask, new_answer
from tests.support import Service, run_online

ADMIN_KEY = "open sesame"
HELD = "Saved. It is checked before it is learned."
VEC = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 64, scale = 16.0 }\n'
HOUR_MS = 3_600_000
SIGN_INS = 3  # in a minute, and the test may begin at the end of one


@contextmanager
def serve(folder: Path, **settings: str | int | list[str]) -> Iterator[Service]:
    """A service that asks for a key. Its tests sign in more often than people do."""
    chosen = {"admin_key": ADMIN_KEY, "sign_ins_per_minute": 1_000, **settings}
    service = Service(folder / "state", config(folder, CHAT + VEC, **chosen))
    service.http.headers["X-API-Key"] = ADMIN_KEY
    service.wait_learned("chat", 1)
    yield service
    service.stop()


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for visitors, whose new replies are reviewed."""
    with serve(tmp_path_factory.mktemp("reviewed"), public_teaching="review") as service:
        yield service


@pytest.fixture(scope="module")
def untaught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for visitors, who may not add replies."""
    with serve(tmp_path_factory.mktemp("untaught"), public_teaching="off") as service:
        yield service


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without visitors."""
    with serve(tmp_path_factory.mktemp("private")) as service:
        yield service


NUMBERS = itertools.count()


def create_key(service: Service, scopes: str) -> str:
    created = run_keys(service, "create", "--name", f"key {next(NUMBERS)}", "--scopes", scopes, "--json")
    key: str = json.loads(created)["key"]
    return key


def run_keys(service: Service, *arguments: str) -> str:
    process = run_online("keys", *arguments, "--state", str(service.state))
    assert process.returncode == 0, process.stderr
    return str(process.stdout)


def button(where: Page | Locator, name: str) -> Locator:
    return where.get_by_role("button", name=name, exact=True)


def last_reply(page: Page) -> Locator:
    return page.get_by_role("article", name="Reply").last


def propose(page: Page, question: str, text: str) -> Locator:
    ask(page, question)
    reply = last_reply(page)
    if button(reply, "Wrong reply").count():
        button(reply, "Wrong reply").click()
    if button(reply, "None of these").count():
        button(reply, "None of these").click()
    if button(reply, "I know the answer").count():
        button(reply, "I know the answer").click()
    reply.get_by_placeholder("The right reply").fill(text)
    button(reply, "Suggest").click()
    status = reply.get_by_role("status")
    expect(reply).to_contain_text(f"You suggested: “{text}”")
    expect(status).to_contain_text(HELD)
    return status


def sign_in(page: Page, key: str) -> None:
    """Sign in on the page that asks for a key, or in the dialog."""
    expect(button(page, "Sign in").first).to_be_visible()
    if page.get_by_label("Key", exact=True).count() == 0:
        button(page.get_by_role("banner"), "Sign in").click()
    field = page.get_by_label("Key", exact=True)
    field.fill(key)
    try:
        with page.expect_navigation():
            field.press("Enter")  # not by the keyboard alone: something else may have taken the focus
    except PlaywrightTimeoutError:
        focused = page.evaluate("document.activeElement?.outerHTML")
        raise AssertionError(f"no navigation: {page.get_by_role('alert').all_inner_texts()}, {focused}") from None


def cookie(page: Page, name: str) -> Any:
    return next((each for each in page.context.cookies() if each["name"] == name), None)


@pytest.mark.long
def test_a_proposed_reply_is_held_until_a_curator_accepts_it(visits: Visits, reviewed: Service) -> None:
    question, lesson = "Do you lend umbrellas?", "Umbrellas are lent at the desk."
    visitor = visits.open(reviewed.url)
    with visitor.expect_request("**/*:predict") as predicted:
        ask(visitor, "When do you open?")
    assert '"user"' not in (predicted.value.post_data or "") and "x-user" not in predicted.value.headers
    button(last_reply(visitor), "Good reply").click()
    expect(last_reply(visitor).get_by_role("status")).to_contain_text("Learned")
    status = propose(visitor, question, lesson)
    expect(visitor.get_by_role("log").get_by_text("Stop using this reply")).to_have_count(0)
    shoot(visitor, "access-proposed")
    check_accessible(visitor)
    given = cookie(visitor, "online_visitor")
    assert given["httpOnly"] and given["sameSite"] == "Lax"
    assert visitor.evaluate("document.cookie") == ""
    # no key: what the service has said of the caller and of its models, for a page that is opened without it
    assert visitor.evaluate("Object.keys(localStorage).sort()") == ["online.models", "online.session"]

    stranger = visits.open(reviewed.url, width=360, scheme="dark")
    ask(stranger, question)
    expect(last_reply(stranger)).not_to_contain_text(lesson)
    stranger.goto(visitor.url)
    expect(stranger.get_by_role("alert")).to_contain_text("belongs to another person or browser")
    button(stranger, "Conversations").click()
    expect(stranger.get_by_role("dialog").get_by_role("listitem")).to_have_count(1)
    stranger.keyboard.press("Escape")
    assert cookie(stranger, "online_visitor")["value"] != given["value"]

    curator = visits.open(f"{reviewed.url}/repertoire?part=held")
    expect(curator.get_by_text("The inbox is for those who look after the bot.")).to_be_visible()
    expect(curator.get_by_text(lesson)).to_have_count(0)
    curator.goto(f"{reviewed.url}/repertoire")
    expect(curator.get_by_role("navigation", name="Repertoire sections").get_by_role("link")).to_have_text(
        ["Replies 5"]
    )
    curator.goto(f"{reviewed.url}/repertoire?part=held")
    sign_in(curator, create_key(reviewed, "predict,curate"))
    session = cookie(curator, "online_session")
    assert session["httpOnly"] and session["sameSite"] == "Strict"
    expect(curator.get_by_role("navigation", name="Pages")).to_contain_text("1 waiting")
    item = curator.get_by_role("article")
    expect(item).to_contain_text(question)
    expect(item).to_contain_text(lesson)
    expect(item).to_contain_text("Suggestions of visitors are checked first.")
    shoot(curator, "access-review")
    check_accessible(curator)
    button(item, "Use this reply").focus()
    curator.keyboard.press("Enter")
    expect(curator.get_by_role("heading", name="All done")).to_be_focused()

    expect(status).to_contain_text("Learned")
    expect(new_answer(last_reply(visitor))).to_contain_text(lesson)
    for page in (visitor, stranger):
        ask(page, question)
        expect(last_reply(page)).to_contain_text(lesson)


@pytest.mark.long
def test_a_rejected_reply_is_never_given_and_its_author_reads_why(visits: Visits, reviewed: Service) -> None:
    visitor = visits.open(reviewed.url)
    propose(visitor, "Is there a ghost in the attic?", "There are two.")
    visitor.clock.install(time=0)
    visitor.reload()
    status = last_reply(visitor).get_by_role("status")
    expect(last_reply(visitor)).to_contain_text("You suggested: “There are two.”")
    expect(status).to_contain_text(HELD)
    visitor.clock.pause_at(HOUR_MS)  # from now on the page asks nothing by itself: what it learns, events tell it

    curator = visits.open(reviewed.url, width=360, scheme="dark")
    button(curator, "Sign in").click()
    check_accessible(curator)
    shoot(curator, "access-dialog-dark")
    sign_in(curator, ADMIN_KEY)
    expect(curator.get_by_role("button", name="Signed in as admin")).to_be_visible()
    shoot(curator, "access-operator-dark")
    curator.goto(f"{reviewed.url}/inbox")
    curator.get_by_role("navigation", name="Groups").get_by_role("button").first.click()
    item = curator.get_by_role("article")
    expect(item).to_contain_text("There are two.")
    shoot(curator, "access-review-dark")
    check_accessible(curator)
    button(item, "Reject").click()
    curator.keyboard.type("Nobody has seen them.")
    button(item, "Reject 1 message").click()
    expect(item).to_have_count(0)

    for reload in (False, True):
        if reload:
            visitor.clock.resume()
            visitor.reload()
        expect(status).to_contain_text("Checked, and not accepted: Nobody has seen them.")
        expect(last_reply(visitor)).to_contain_text("You suggested: “There are two.”")
    check_accessible(visitor)
    shoot(visitor, "access-rejected-why")
    ask(visitor, "Is there a ghost in the attic?")
    expect(last_reply(visitor)).not_to_contain_text("There are two.")
    shoot(visitor, "access-rejected")


@pytest.mark.long
def test_a_curator_answers_the_unanswered_questions_of_visitors(visits: Visits, reviewed: Service) -> None:
    visitor = visits.open(reviewed.url)
    ask(visitor, "Qzx wvut plonk?")
    reply = last_reply(visitor)
    expect(reply).to_contain_text("I don't know that yet. Your question is noted for those who look after this chat.")
    expect(reply.get_by_role("textbox")).to_have_count(0)  # a visitor asks because they do not know
    shoot(visitor, "access-unknown")
    check_accessible(visitor)
    button(reply, "I know the answer").click()
    expect(reply.get_by_role("textbox")).to_be_focused()
    curator = visits.open(f"{reviewed.url}/repertoire?part=unanswered")
    sign_in(curator, create_key(reviewed, "predict,feedback,teach,curate"))
    cluster = curator.get_by_role("group", name=re.compile("Qzx wvut plonk"))
    button(cluster, "Give a reply").click()
    cluster.get_by_role("textbox").fill("Plonk it is.")
    button(cluster, "Teach this reply").click()
    expect(cluster).to_contain_text("learned in version")
    ask(visitor, "Qzx wvut plonk?")
    expect(last_reply(visitor)).to_contain_text("Plonk it is.")


@pytest.mark.long
def test_the_header_of_a_phone_names_the_service_and_nothing_lies_on_it(visits: Visits, reviewed: Service) -> None:
    page = visits.open(reviewed.url, width=320, height=640, touch=True)
    choose(page.get_by_role("banner"), "Settings", "Deutsch")
    expect(page.get_by_label("Ihre Frage")).to_be_visible()
    banner = page.get_by_role("banner")
    pages = banner.get_by_role("button", name="Seiten: online Chat")
    expect(pages.get_by_text("online", exact=True)).to_be_in_viewport(ratio=1)
    places = [each.bounding_box() for each in (banner.get_by_role("link").first, pages, button(banner, "Anmelden"))]
    assert all(place and place["width"] >= 24 for place in places), places
    edges = [edge for place in places if place for edge in (place["x"], place["x"] + place["width"])]
    assert edges == sorted(edges) and edges[-1] <= 320, edges
    check_accessible(page)
    shoot(page, "access-header-320")


def test_a_key_sees_what_its_scopes_allow_until_it_signs_out(visits: Visits, reviewed: Service) -> None:
    page = visits.open(reviewed.url)
    pages = page.get_by_role("navigation", name="Pages").get_by_role("link")
    expect(pages).to_have_text(["Chat", "Draw"])
    sign_in(page, create_key(reviewed, "predict,feedback"))
    ask(page, "When do you open?")
    for name in ("Suggest a better reply", "Stop using this reply", "Show model details"):
        expect(page.get_by_text(name)).to_have_count(0)
    expect(page.get_by_role("complementary", name="Model details")).to_have_count(0)
    page.goto(f"{reviewed.url}/learning")
    expect(page.get_by_role("region", name="Current status")).to_contain_text("up to date")
    expect(page.get_by_text("need a key with the scope operate")).to_be_visible()
    expect(page.get_by_role("region", name="Operator controls")).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("^(Roll back|Actions for version|Stop) "))).to_have_count(0)
    check_accessible(page)
    shoot(page, "access-learning")
    page.goto(f"{reviewed.url}/reports")
    expect(page.get_by_text("Reports and replays need a key with the scope operate.")).to_be_visible()
    check_accessible(page)
    shoot(page, "access-reports")
    page.goto(f"{reviewed.url}/repertoire?reply=hours")
    expect(page.get_by_text("Changes of a reply need a key with the scope curate.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^(Edit|Retire|Remove|Add)"))).to_have_count(0)
    page.goto(f"{reviewed.url}/repertoire")
    expect(button(page, "New reply")).to_have_count(0)
    page.goto(f"{reviewed.url}/draw")
    expect(page.get_by_text("Pick one of the names that I know. New names are not open here.")).to_be_visible()
    check_accessible(page)

    page.get_by_role("button", name="Signed in as").click()
    dialog = page.get_by_role("dialog", name="Signed in")
    expect(dialog).to_contain_text("ask questions")
    check_accessible(page)
    shoot(page, "access-signed-in")
    with page.expect_navigation():
        button(dialog, "Sign out").click()
    expect(button(page.get_by_role("banner"), "Sign in")).to_be_visible()
    assert cookie(page, "online_session") is None


@pytest.mark.long
def test_the_end_of_a_session_is_noticed(visits: Visits, reviewed: Service) -> None:
    key = create_key(reviewed, "predict,curate")
    page = visits.open(f"{reviewed.url}/repertoire")
    sign_in(page, key)
    expect(page.get_by_role("navigation", name="Pages")).to_contain_text("Inbox")
    run_keys(reviewed, "revoke", key.split("_")[1])
    # nothing is clicked: the page asks what waits in the inbox every 10 s, and that request is refused
    expect(page.get_by_text("You were signed out.")).to_be_visible()
    expect(page.get_by_text("Changes of the repertoire need a key with the scope curate.")).to_be_visible()
    expect(button(page.get_by_role("banner"), "Sign in")).to_be_visible()
    assert visits.refused
    visits.refused.clear()


@pytest.mark.long
def test_visitors_who_may_not_teach_choose_among_the_replies(visits: Visits, untaught: Service) -> None:
    page = visits.open(untaught.url, width=360)
    expect(page.get_by_text("Your ratings change my answers within moments.", exact=True)).to_be_visible()
    ask(page, "When do you open?")
    reply = last_reply(page)
    expect(reply.get_by_text("Suggest a better reply")).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    page.keyboard.press("d")
    expect(reply.get_by_text("New replies cannot be suggested here.")).to_be_visible()
    expect(reply.get_by_role("textbox")).to_have_count(0)
    shoot(page, "access-untaught")
    check_accessible(page)
    page.keyboard.press("1")
    expect(reply.get_by_role("status")).to_contain_text("Learned")


@pytest.mark.long
def test_a_service_without_visitors_asks_for_a_key_first(visits: Visits, private: Service) -> None:
    page = visits.open(f"{private.url}/learning")
    expect(page.get_by_role("heading", name="Sign in", level=1)).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_have_count(0)
    assert page.context.cookies() == []
    check_accessible(page)
    shoot(page, "access-key")
    sign_in(page, ADMIN_KEY)
    expect(page.get_by_role("heading", name="Learning", level=1)).to_be_visible()
    expect(page.get_by_role("region", name="Operator controls")).to_be_visible()
    page.get_by_role("link", name="Chat").click()
    ask(page, "When do you open?")
    expect(last_reply(page)).to_contain_text("We open at nine.")


@pytest.mark.long
def test_wrong_keys_are_refused_and_too_many_of_them_for_a_while(visits: Visits, tmp_path: Path) -> None:
    with serve(tmp_path, sign_ins_per_minute=SIGN_INS) as service:
        check_wrong_keys(visits, service)


def check_wrong_keys(visits: Visits, service: Service) -> None:
    page = visits.open(service.url, width=360, scheme="dark")
    alert = page.get_by_role("alert")
    for attempt in range(2 * SIGN_INS + 1):
        page.get_by_label("Key", exact=True).fill(f"wrong key {attempt}")
        with page.expect_response("**/v1/session") as answer:
            page.keyboard.press("Enter")
        if answer.value.status == 429:
            break
        expect(alert).to_contain_text("This key does not work.")
    expect(alert).to_have_text(re.compile(r"^Too many attempts\. Try again in \d+ seconds\.$"))
    check_accessible(page)
    shoot(page, "access-key-dark")
    assert page.context.cookies() == []
    assert {each.partition("/v1")[2] for each in visits.refused} == {"/session"}, "nothing else was sent"
    visits.refused.clear()
