"""The inbox in a real Chromium for drawings that visitors have taught, for additions of teachers, and its addresses."""

import re
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import config
from tests.e2e.browsing import Visits, check_accessible, check_fits, shoot
from tests.e2e.test_access import ADMIN_KEY, button, create_key, sign_in
from tests.e2e.test_accessibility import DIGITS, MIN_TARGET_PX
from tests.e2e.test_draw import board_of, classes_of, draw, expect_status, gallery_of, type_name
from tests.e2e.test_inbox_page import VISITS, rows, say
from tests.e2e.test_page import CHAT
from tests.support import Service

STAR = [0.0, 0.0, 9.0, 16.0, 16.0, 9.0, 0.0, 0.0] * 8
MOON = [16.0, 16.0, 0.0, 0.0, 0.0, 0.0, 16.0, 16.0] * 8


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("drawings")
    running = Service(
        folder / "state",
        config(folder, CHAT + DIGITS, admin_key=ADMIN_KEY, public_teaching="review", sign_ins_per_minute=1_000),
    )
    running.http.headers["X-API-Key"] = ADMIN_KEY
    running.wait_learned("chat", 1)
    yield running
    running.stop()


def name(service: Service, features: list[float], label: str) -> None:
    """Teach a drawing as a new visitor."""
    with httpx.Client(base_url=service.url, headers=VISITS, timeout=60) as visitor:
        visitor.get("/v1/session")
        answer = visitor.post("/v1/models/digits:predict", json={"instances": [features]}).json()
        item = {"prediction_id": answer["prediction_ids"][0], "label": label}
        said = visitor.post("/v1/models/digits:feedback", json={"feedback": [item]})
        assert said.json()["receipts"][0]["status"] == "held", said.text


def examples(page: Page) -> Locator:
    return page.locator("article").get_by_role("list").get_by_role("listitem")


def reject(service: Service, reason: str | None) -> None:
    """Reject the only group that is open."""
    (group,) = service.http.get("/v1/models/digits/inbox").json()["groups"]
    body = {"ids": [group["id"]], "action": "reject", "reason": reason}
    assert service.http.post("/v1/models/digits/inbox:decide", json=body).status_code == 202


def decide(service: Service, action: str) -> Callable[[], None]:
    """Decide the only group that is open; the function that is returned undoes it."""
    (group,) = service.http.get("/v1/models/digits/inbox").json()["groups"]
    body = {"ids": [item["id"] for item in group["items"]], "action": action}
    decided = service.http.post("/v1/models/digits/inbox:decide", json=body)
    assert decided.status_code == 202, decided.text

    def undo() -> None:
        taken_back = service.http.post("/v1/models/digits/inbox:undo", json={"decision": decided.json()["decision"]})
        assert taken_back.status_code == 202, taken_back.text

    return undo


def notices(page: Page, name: str = "Checked, and not learned") -> Locator:
    return page.get_by_role("list", name=name).get_by_role("listitem")


def badge(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Pages")


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_an_empty_inbox_leads_to_the_model_for_which_a_group_waits(
    visits: Visits, service: Service, width: int, height: int
) -> None:
    say(service, "Do you have a garden?", correction="Behind the house.")
    name(service, MOON, "moon")
    page = visits.open(f"{service.url}/inbox?model=chat", width=width, height=height)
    sign_in(page, ADMIN_KEY)
    rows(page).get_by_role("button").click()
    button(page, "Use this reply").click()
    expect(page.get_by_role("heading", name="Nothing left in chat")).to_be_focused()
    expect(page.get_by_text("1 group waits for digits.")).to_be_visible()
    shoot(page, f"inbox-others-{width}")
    check_accessible(page)
    button(page, "Show digits").click()
    expect(page.get_by_label("Model")).to_have_value("digits")
    expect(rows(page)).to_have_count(1)
    rows(page).get_by_role("button").click()
    button(page, "Reject").click()
    page.get_by_label("Why?").fill("I see no moon.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Rejected: “moon” (1 example)")).to_be_visible()
    expect(page.get_by_role("heading", name="All done")).to_be_visible()


@pytest.mark.long
def test_held_drawings_are_seen_and_decided_by_keyboard(visits: Visits, service: Service) -> None:
    for label, features in (("moon", MOON), ("rude", STAR), ("star", STAR), ("star", STAR), ("star", MOON)):
        name(service, features, label)
    visitor = visits.open(f"{service.url}/draw")
    draw(visitor, "star")
    type_name(visitor, "star")
    expect_status(visitor, "Star: sent for checking. I will know it once somebody has approved it.")
    page = visits.open(f"{service.url}/inbox")
    sign_in(page, create_key(service, "predict,feedback,curate"))
    chooser = page.get_by_label("Model")
    expect(chooser).to_have_value("digits")  # nothing waits in the chat
    expect(chooser.get_by_role("option", name="digits (3 waiting)")).to_be_attached()
    expect(badge(page)).to_contain_text("3 waiting")
    expect(rows(page)).to_have_count(3)
    expect(rows(page).first).to_contain_text("4 examples")
    expect(examples(page)).to_have_count(4)
    expect(examples(page).first.locator("rect")).to_have_count(1 + 64)  # the paper, and what the model sees
    expect(page.get_by_text("As the model sees them: 8 by 8 squares.")).to_be_visible()
    shoot(page, "inbox-drawings-squares")
    expect(examples(page).first).to_contain_text("Visitor")
    check_accessible(page)
    page.get_by_role("heading", name="Inbox", level=1).click()
    page.keyboard.press("m")  # not for drawings
    expect(page.get_by_text("Which reply is right?")).to_have_count(0)
    button(page, "Select none").click()
    expect(button(page, "Approve")).to_have_attribute("aria-disabled", "true")
    button(page, "Select all").click()
    examples(page).nth(1).get_by_role("checkbox").uncheck()  # the third star is a moon
    expect(page.get_by_text("3 of 4 selected")).to_be_visible()
    expect(page.get_by_text("The bot learns 3 examples of “star”.")).to_be_visible()
    page.get_by_role("heading", name="Inbox", level=1).click()
    page.keyboard.press("a")
    expect(rows(page).first).to_contain_text("1 example")
    expect(visitor.get_by_text("Next time I say")).to_be_visible()
    expect_status(visitor, "Star was approved. I have learned it.")
    expect(visitor.get_by_role("region", name="Notifications")).to_have_text("")  # the bot says it
    expect(examples(page)).to_have_count(1)
    expect(page.get_by_text("The bot learns 1 example of “star”.")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.type("Be kind.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="moon")).to_be_focused()
    page.keyboard.press("z")
    expect(rows(page)).to_have_count(3)
    button(page, "Done").click()
    decided = page.get_by_role("region", name="Done")
    expect(decided.get_by_role("listitem")).to_have_count(1)
    expect(decided).to_contain_text("3 examples")
    check_accessible(page)
    shoot(page, "inbox-drawings-done")
    button(page, "Undo: star").click()
    expect(decided.get_by_role("listitem")).to_have_count(0)
    page.get_by_role("group", name="Show").get_by_role("button", name="Open").click()
    rows(page).filter(has_text="star").get_by_role("button").click()
    expect(examples(page)).to_have_count(4)
    expect(badge(page)).to_contain_text("3 waiting")


@pytest.mark.long
def test_a_visitor_is_told_why_a_drawing_was_not_approved(visits: Visits, service: Service) -> None:
    visitor = visits.open(f"{service.url}/draw")
    draw(visitor, "star")
    type_name(visitor, "rude")
    expect_status(visitor, "Rude: sent for checking.")
    reject(service, "Be kind.")
    expect_status(visitor, "Rude: not learned. A person who looks after this page says: Be kind.")
    expect(visitor.get_by_text("Got it!")).to_have_count(0)
    visitor.reload()
    refusal = gallery_of(visitor).get_by_role("listitem").filter(has_text="rude")
    expect(refusal).to_contain_text("A person who looks after this page says: Be kind.")
    expect(refusal.locator("svg")).to_be_visible()
    check_accessible(visitor)
    check_fits(visitor)
    shoot(visitor, "draw-9-rejected")
    visitor.set_viewport_size({"width": 320, "height": 640})
    check_fits(visitor)
    refusal.scroll_into_view_if_needed()
    shoot(visitor, "draw-9-rejected-narrow")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.long
def test_a_notice_says_why_a_drawing_was_rejected_until_it_is_dismissed(
    visits: Visits, service: Service, width: int, height: int
) -> None:
    page = visits.open(f"{service.url}/draw", width=width, height=height)
    for label, reason in (("moon", "It is a star."), ("rude", None)):
        draw(page, "star")
        type_name(page, label)
        expect_status(page, f"{label.capitalize()}: sent for checking.")
        reject(service, reason)
        expect_status(page, f"{label.capitalize()}: not learned.")
        expect(notices(page)).to_have_count(0)  # the bot says it
        page.get_by_role("button", name="Next drawing").click()
    expect(notices(page)).to_have_count(0)
    page.reload()
    rude, moon = notices(page).filter(has_text="Rude"), notices(page).filter(has_text="Moon")
    expect(moon).to_have_text("Moon: not learned. A person who looks after this page says: It is a star.")
    expect(rude).to_have_text("Rude: not learned. It was checked and not approved.")
    for notice in (moon, rude):
        expect(notice).to_be_in_viewport(ratio=1)
        expect(notice.locator(".stroke").first).to_be_visible()
    assert page.evaluate("document.querySelector('main').scrollTop") == 0
    expect(page.get_by_role("heading", name="How it works")).to_be_visible()
    shoot(page, f"draw-10-notices-{width}")
    dismiss = page.get_by_role("button", name="Dismiss the notice about rude")
    box = dismiss.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= MIN_TARGET_PX
    dismiss.press("Enter")
    expect(rude).to_have_count(0)
    expect(page.get_by_role("button", name="Dismiss the notice about moon")).to_be_focused()
    page.reload()
    expect(moon).to_be_in_viewport(ratio=1)
    expect(rude).to_have_count(0)
    page.get_by_role("button", name="Dismiss the notice about moon").press("Space")
    expect(board_of(page)).to_be_focused()
    page.reload()
    expect(gallery_of(page)).to_contain_text("It is a star.")  # the list of all of them
    expect(notices(page)).to_have_count(0)


@pytest.mark.long
def test_a_rejection_is_told_with_its_name_after_the_next_drawing_began(visits: Visits, service: Service) -> None:
    page = visits.open(f"{service.url}/draw")
    toasts = page.get_by_role("region", name="Notifications")
    draw(page, "star")
    type_name(page, "moon")
    expect_status(page, "Moon: sent for checking.")
    page.get_by_role("button", name="Next drawing").click()
    expect(classes_of(page).get_by_role("button", name="moon")).to_be_visible()
    reject(service, "It is a star.")
    expect(notices(page)).to_have_text("Moon: not learned. A person who looks after this page says: It is a star.")
    expect(page.locator("[aria-live=polite]").filter(has=notices(page))).to_have_count(1)
    expect(classes_of(page).get_by_role("button", name="moon")).to_have_count(0)
    expect_status(page, "Draw a star, a heart, a house")  # not: I already know 1 shape
    expect(toasts).to_have_text("")

    draw(page, "star")
    type_name(page, "sun")
    expect_status(page, "Sun: sent for checking.")
    draw(page, "0")  # which begins the next drawing
    place = board_of(page).bounding_box()
    reject(service, None)
    expect(toasts).to_contain_text("Sun: not learned. It was checked and not approved.")
    expect(classes_of(page).get_by_role("button", name="sun")).to_have_attribute("class", re.compile("idea"))
    expect(notices(page)).to_have_count(1)
    assert board_of(page).bounding_box() == place, "nothing moves below the pen"
    type_name(page, "zero")
    expect_status(page, "Zero: sent for checking.")
    expect(page.get_by_text("Wrong name? Pick another one.")).to_be_visible()
    expect(classes_of(page).get_by_role("button", name="moon")).to_have_count(0)
    expect(toasts).to_contain_text("Sun: not learned.")
    page.get_by_role("button", name="Next drawing").click()
    expect(notices(page)).to_have_count(2)
    expect(toasts).to_have_text("")  # it is said once
    expect(notices(page).first).to_have_text("Sun: not learned. It was checked and not approved.")


@pytest.mark.long
def test_approvals_are_told_once_for_each_batch(visits: Visits, service: Service) -> None:
    page = visits.open(f"{service.url}/draw", width=390, height=844)
    toasts = page.get_by_role("region", name="Notifications")

    def teach(label: str, count: int) -> None:
        for _ in range(count):
            draw(page, "star")
            type_name(page, label)
            expect_status(page, f"{label.capitalize()}: sent for checking.")
            page.get_by_role("button", name="Next drawing").click()

    teach("moon", 1)
    expect(gallery_of(page)).to_contain_text("1 waiting to be checked")
    decide(service, "approve")
    expect(toasts).to_have_text("Moon was approved: I have learned it.")
    shoot(page, "draw-12-approved")
    toasts.get_by_role("button").click()
    teach("sun", 2)
    expect(gallery_of(page)).to_contain_text("2 waiting to be checked")
    decide(service, "approve")
    expect(toasts).to_have_text("2 of your drawings were approved: I have learned them.")
    toasts.get_by_role("button").click()
    draw(page, "0")
    type_name(page, "zero")
    expect_status(page, "Zero: sent for checking.")
    expect(gallery_of(page)).to_contain_text("1 waiting to be checked")
    decide(service, "approve")
    expect_status(page, "Zero was approved. I have learned it.")
    expect(gallery_of(page)).not_to_contain_text("checked")
    expect(toasts).to_have_text("")
    expect(page.get_by_text("On this visit I guessed")).to_have_count(0)  # all names were new


@pytest.mark.long
def test_a_rejection_that_is_undone_is_no_longer_told(visits: Visits, service: Service) -> None:
    page = visits.open(f"{service.url}/draw")
    for label in ("moon", "sun"):
        draw(page, "star")
        type_name(page, label)
        expect_status(page, f"{label.capitalize()}: sent for checking.")
        if label == "moon":
            page.get_by_role("button", name="Next drawing").click()
            undo = decide(service, "reject")
            expect(notices(page)).to_have_count(1)
            undo()
            expect(notices(page)).to_have_count(0)
            decide(service, "reject")
            expect(notices(page)).to_have_count(1)
    undo = decide(service, "reject")
    expect_status(page, "Sun: not learned.")
    undo()
    expect_status(page, "Sun: sent for checking.")


@pytest.mark.long
def test_one_notice_leaves_the_board_in_sight_on_a_small_phone(visits: Visits, service: Service) -> None:
    page = visits.open(f"{service.url}/draw", width=320, height=700)
    for label in ("moon", "sun"):
        draw(page, "star")
        type_name(page, label)
        expect_status(page, f"{label.capitalize()}: sent for checking.")
        decide(service, "reject")
        expect_status(page, f"{label.capitalize()}: not learned.")
    page.reload()
    expect(notices(page)).to_have_count(1)
    expect(page.get_by_text("1 more after this.")).to_be_visible()
    expect(board_of(page)).to_be_in_viewport(ratio=0.7)
    shoot(page, "draw-13-one-notice-320")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(notices(page)).to_have_count(2)
    expect(page.get_by_text("more after this")).to_have_count(0)


@pytest.mark.long
def test_a_notice_is_accessible_at_every_width_in_every_scheme_and_in_german(visits: Visits, service: Service) -> None:
    page = visits.open(f"{service.url}/draw", width=1440, locale="de-DE")
    draw(page, "star")
    page.get_by_label("Etwas anderes?").fill("Mond")
    page.get_by_role("button", name="Beibringen").click()
    expect_status(page, "Mond: zur Prüfung geschickt.")
    page.get_by_role("button", name="Nächste Zeichnung").click()
    reject(service, "Das ist ein Stern.")
    notice = notices(page, "Geprüft und nicht gelernt")
    said = "Mond: nicht gelernt. Jemand, der sich um diese Seite kümmert, schreibt: Das ist ein Stern."
    expect(notice).to_have_text(said)
    page.reload()
    expect(notice).to_have_text(said)
    expect(notice.get_by_role("button", name="Hinweis zu „Mond“ schließen")).to_be_visible()
    for width in (320, 1440):
        for scheme in ("light", "dark", "forced"):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(
                color_scheme="dark" if scheme == "dark" else "light",
                forced_colors="active" if scheme == "forced" else "none",
            )
            check_accessible(page)
            shoot(page, f"draw-11-notice-{width}-{scheme}")


@pytest.mark.long
def test_the_second_curator_is_told_who_has_decided(visits: Visits, service: Service) -> None:
    name(service, STAR, "star")
    (group,) = service.http.get("/v1/models/digits/inbox").json()["groups"]
    page = visits.open(f"{service.url}/inbox?model=digits")
    sign_in(page, create_key(service, "predict,feedback,curate"))
    expect(rows(page)).to_have_count(1)
    page.route("**/inbox?*", lambda route: route.abort())  # the page does not see the other decision
    body = {"ids": [group["id"]], "action": "reject"}
    assert service.http.post("/v1/models/digits/inbox:decide", json=body).status_code == 202
    page.get_by_role("heading", name="Inbox", level=1).click()
    page.keyboard.press("a")
    expect(page.get_by_text("Nothing changed: Admin has rejected this already.")).to_be_visible()
    visits.refused.clear()


@pytest.mark.long
def test_a_chosen_group_has_an_address(visits: Visits, service: Service) -> None:
    for label in ("star", "moon"):
        name(service, STAR, label)
    say(service, "Do you have a garden?", correction="Behind the house.")
    page = visits.open(f"{service.url}/inbox?model=digits")
    sign_in(page, ADMIN_KEY)
    heading = page.locator("article").get_by_role("heading", level=2)
    expect(heading).to_have_text("moon")
    rows(page).filter(has_text="star").get_by_role("button").click()
    expect(page).to_have_url(re.compile(r"/inbox\?model=digits&group=[\w-]+$"))
    address = page.url
    page.reload()
    expect(heading).to_have_text("star")
    page.keyboard.press("k")
    expect(heading).to_have_text("moon")
    page.go_back()
    expect(page).to_have_url(address)
    expect(heading).to_have_text("star")
    page.go_forward()
    expect(heading).to_have_text("moon")
    page.get_by_label("Model").select_option("chat")
    expect(page).to_have_url(f"{service.url}/inbox?model=chat")
    expect(heading).to_have_text("Do you have a garden?")
    page.go_back()
    expect(heading).to_have_text("moon")
    page.get_by_role("heading", name="Inbox", level=1).click()
    page.keyboard.press("a")
    expect(heading).to_have_text("star")
    expect(page).to_have_url(address)
    page.keyboard.press("a")
    expect(page.get_by_role("heading", name="Nothing left in digits")).to_be_focused()
    expect(page).to_have_url(f"{service.url}/inbox?model=digits")
    page.goto(address)
    expect(page.get_by_text("This group is not open any more.")).to_be_visible()
    expect(page).to_have_url(f"{service.url}/inbox?model=digits")


@pytest.mark.long
def test_what_a_teacher_added_is_listed_and_taken_back(visits: Visits, service: Service) -> None:
    key = create_key(service, "predict,teach")
    reply = {"text": "We lend games.", "examples": ["Do you have games?"]}
    added = httpx.post(f"{service.url}/v1/models/chat/replies", json=reply, headers={"X-API-Key": key}, timeout=60)
    assert added.status_code == 202, added.text
    page = visits.open(f"{service.url}/inbox?model=chat")
    sign_in(page, ADMIN_KEY)
    button(page, "Done").click()
    entry = page.get_by_role("region", name="Done").get_by_role("listitem")
    expect(entry).to_contain_text("We lend games.")
    expect(entry).to_contain_text("Asked: Do you have games?")
    expect(entry).to_contain_text(re.compile("added by .+ 1 new reply, 1 example question"))
    check_accessible(page)
    shoot(page, "inbox-added")
    button(entry, "Undo: We lend games.").click()
    expect(page.get_by_text("Taken back. The bot does not use it any more.")).to_be_visible()
    expect(entry).to_have_count(0)
    (left,) = [
        each for each in service.http.get("/v1/models/chat/replies").json()["replies"] if "games" in each["text"]
    ]
    assert left["active"] is False


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "scheme", "forced"),
    [(1440, "dark", False), (768, "light", False), (320, "dark", False), (390, "light", True)],
)
def test_drawings_in_the_inbox_are_accessible_at_every_width(
    visits: Visits, service: Service, width: int, scheme: str, forced: bool
) -> None:
    for _ in range(3):
        name(service, STAR, "star")
    name(service, MOON, "moon")
    page = visits.open(f"{service.url}/inbox?model=digits", width=width, height=900, scheme=scheme)
    if forced:
        page.emulate_media(forced_colors="active")
    sign_in(page, ADMIN_KEY)
    expect(rows(page)).to_have_count(2)
    shoot(page, f"inbox-drawings-list-{width}-{scheme}")
    check_accessible(page)
    check_fits(page)
    rows(page).filter(has_text="star").get_by_role("button").click()
    expect(examples(page)).to_have_count(3)
    shoot(page, f"inbox-drawings-{width}-{scheme}")
    check_accessible(page)
    check_fits(page)
    page.keyboard.press("x")
    check_accessible(page)
    if width < 860:
        page.go_back()
        expect(rows(page).first).to_be_visible()
