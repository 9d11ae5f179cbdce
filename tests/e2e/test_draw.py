"""The drawing page in a real Chromium with the shipped digits model: by mouse, by touch and by keyboard."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from sklearn.datasets import load_digits

from tests.conftest import Start
from tests.e2e.browsing import ROOT, Visits, check_accessible, check_fits, shoot
from tests.support import Service

STROKES: dict[str, list[list[list[float]]]] = json.loads((ROOT / "frontend" / "tests" / "strokes.json").read_text())
CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
SHIPPED = ""  # no configured models: the service has the shipped ones


def board_of(page: Page) -> Locator:
    return page.get_by_role("application", name=re.compile("^(Drawing board|Zeichenfläche)$"))


def points(page: Page, stroke: Sequence[Sequence[float]]) -> Iterator[tuple[float, float]]:
    """Yield the points of a stroke in screen coordinates."""
    box = board_of(page).bounding_box()
    assert box is not None
    for x, y in stroke:
        yield box["x"] + x * box["width"], box["y"] + y * box["height"]


def draw(page: Page, name: str) -> None:
    """Draw with the mouse."""
    board_of(page).scroll_into_view_if_needed()
    for stroke in STROKES[name]:
        first, *rest = points(page, stroke)
        page.mouse.move(*first)
        page.mouse.down()
        for point in rest:
            page.mouse.move(*point, steps=4)
        page.mouse.up()


def touch(page: Page, name: str) -> None:
    """Draw with a finger."""
    board_of(page).scroll_into_view_if_needed()
    finger = page.context.new_cdp_session(page)

    def dispatch(kind: str, *positions: tuple[float, float]) -> None:
        touch_points = [{"x": x, "y": y} for x, y in positions]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touch_points})

    for stroke in STROKES[name]:
        first, *rest = points(page, stroke)
        dispatch("touchStart", first)
        for point in rest:
            dispatch("touchMove", point)
        dispatch("touchEnd")


def classes_of(page: Page) -> Locator:
    return page.get_by_role("list", name="Names")


def choose_class(page: Page, label: str) -> None:
    classes_of(page).get_by_role("button", name=label, exact=True).click()


def type_name(page: Page, label: str) -> None:
    page.get_by_label("Something else?").fill(label)
    page.get_by_role("button", name="Teach me").click()


def expect_guess(page: Page, label: str) -> None:
    expect_status(page, f"{label.capitalize()}?")


def expect_status(page: Page, text: str) -> None:
    expect(page.get_by_role("main").get_by_role("status")).to_contain_text(text)


def expect_learned(page: Page) -> None:
    expect(page.get_by_text("Next time I say")).to_be_visible()


def gallery_of(page: Page) -> Locator:
    return page.get_by_role("region", name="What you have taught me")


def drawings_of(page: Page, label: str) -> Locator:
    return gallery_of(page).get_by_role("button", name=f"Drawing of {label}")


@pytest.mark.long
def test_the_fourth_drawing_is_guessed_after_three_digits_were_drawn_once_each(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(SHIPPED).url}/draw")
    expect(page.get_by_role("heading", name="How it works")).to_be_visible()
    expect_status(page, "Draw a star, a heart, a house")
    draw(page, "0")
    expect_status(page, "New to me. What is it?")
    shoot(page, "draw-1-knows-nothing-light")
    for digit in ("0", "1", "4"):
        draw(page, digit)
        type_name(page, digit)
        expect_learned(page)
    draw(page, "1")
    expect_guess(page, "1")
    expect_status(page, "I have seen only one")
    shoot(page, "draw-2-guessed-light")
    check_accessible(page)
    board_of(page).press("Enter")
    expect_status(page, "I guessed it! 1 it is.")
    expect(page.get_by_text("On this visit I guessed 1 of 1.")).to_be_visible()  # the other names were new
    page.get_by_text("How often do I guess right?").click()
    page.get_by_text("As a table").click()
    rows = page.get_by_role("region", name="Your drawings on this visit, as a table").get_by_role("row")
    expect(rows.last).to_contain_text("100 %")
    shoot(page, "draw-3-curve-light")
    check_accessible(page)

    page.get_by_role("radio", name="Everyone’s").last.check()
    page.get_by_text("As a table").click()
    everyone = page.get_by_role("region", name="Everyone’s drawings, as a table")
    expect(everyone.get_by_role("row").last).to_contain_text("25 %")  # counted by the server


@pytest.mark.long
def test_a_new_class_is_added_and_undone_by_touch_on_a_narrow_dark_screen(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = visits.open(f"{service.url}/draw", width=320, scheme="dark", touch=True)
    check_fits(page)
    touch(page, "0")
    type_name(page, "0")
    expect_learned(page)
    board_of(page).scroll_into_view_if_needed()
    top = page.evaluate("document.querySelector('main').scrollTop")
    touch(page, "star")
    assert page.evaluate("document.querySelector('main').scrollTop") == top, "a finger on the board does not scroll"
    choose_class(page, "star")  # an idea
    expect_learned(page)
    touch(page, "star")
    expect_guess(page, "star")
    shoot(page, "draw-4-star-narrow-dark")
    check_accessible(page)
    page.get_by_role("button", name="Clear").click()
    before = service.http.get("/v1/models/digits").json()

    drawings_of(page, "star").click()
    page.get_by_role("button", name="Forget this drawing").click()
    expect(gallery_of(page)).to_contain_text("You have taught me 1 shape with 1 drawing.")
    board_of(page).press("z")  # the last name that is left
    expect(page.get_by_role("heading", name="How it works")).to_be_visible()
    touch(page, "star")
    expect_status(page, "New to me. What is it?")
    after = service.wait_learned("digits", before["learned_until"] + 2)
    assert after["learned_until"] == before["learned_until"] + 2
    newest, first = service.versions("digits")[0], service.versions("digits")[-1]
    assert newest["state_sha256"] == first["state_sha256"], "the state is that of a model without any drawing"


def test_the_page_is_used_by_keyboard_only(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(SHIPPED).url}/draw", scheme="dark")
    board = board_of(page)
    board.focus()
    press = page.keyboard.press

    def draw_line(key: str, length: int) -> None:
        press("Space")
        for _ in range(length):
            press(key)
        press("Space")

    draw_line("ArrowUp", 5)
    press("1")
    expect_learned(page)
    draw_line("ArrowRight", 5)
    press("n")
    expect(page.get_by_label("Something else?")).to_be_focused()
    page.keyboard.type("minus")
    press("Enter")
    expect(board).to_be_focused()
    expect_learned(page)
    press("ArrowLeft")
    draw_line("ArrowDown", 4)
    expect_guess(page, "1")
    shoot(page, "draw-5-keyboard-dark")
    check_accessible(page)
    press("Backspace")
    expect_status(page, "What will you draw next?")
    draw_line("ArrowLeft", 3)
    expect_guess(page, "minus")
    press("Enter")
    expect_status(page, "I guessed it!")
    expect(page.get_by_text("On this visit I guessed 1 of 1.")).to_be_visible()
    press("z")
    expect(page.get_by_text("Taken back and forgotten.")).to_be_visible()
    expect(page.get_by_text("On this visit I guessed")).to_have_count(0)


@pytest.mark.long
def test_what_was_taught_survives_a_reload_and_can_be_forgotten(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = visits.open(f"{service.url}/draw", width=1440, height=900)
    for label in ("star", "0", "star"):
        draw(page, label)
        type_name(page, label)
        expect_learned(page)
    expect_status(page, "I guessed it!")
    expect(gallery_of(page)).to_contain_text("You have taught me 2 shapes with 3 drawings.")
    page.reload()
    expect(gallery_of(page)).to_contain_text("You have taught me 2 shapes with 3 drawings.")
    expect(drawings_of(page, "star")).to_have_count(2)
    page.emulate_media(color_scheme="dark", forced_colors="active")
    check_accessible(page)
    shoot(page, "draw-6-gallery-forced")
    page.emulate_media(color_scheme="light", forced_colors="none")

    drawing = drawings_of(page, "star").first
    drawing.press("Enter")
    look = page.get_by_role("dialog", name="Drawing of star")
    expect(look).to_be_focused()
    check_accessible(page)
    shoot(page, "draw-7-look-light")
    page.keyboard.press("Escape")
    expect(drawing).to_be_focused()
    drawing.click()
    look.get_by_role("button", name="Forget this drawing").click()
    expect(drawings_of(page, "star")).to_have_count(1)
    page.get_by_role("region", name="Notifications").get_by_role("button", name="Undo").click()
    expect(drawings_of(page, "star")).to_have_count(2)

    page.get_by_role("button", name="Actions for star").click()
    page.get_by_role("menuitem", name="Forget all 2 of my drawings").click()
    question = page.get_by_role("dialog", name="Forget “star”?")
    expect(question).to_contain_text("What others taught me stays.")
    check_accessible(page)
    question.get_by_role("button", name="Forget").click()
    expect(gallery_of(page)).to_contain_text("You have taught me 1 shape with 1 drawing.")
    expect(classes_of(page).get_by_role("button", name="0", exact=True)).to_be_visible()
    with service.client("digits") as client:
        assert "star" not in client.predict([[0.0] * 64])["predictions"][0]["probabilities"]


@pytest.mark.long
def test_a_wrong_guess_is_corrected_with_one_click_and_others_names_are_known(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    teach_all_digits(service)
    page = visits.open(f"{service.url}/draw", width=768)
    expect_status(page, "I already know 10 shapes: 0, 1, 2, …")
    draw(page, "star")
    for label in ("8", "9"):  # the second name replaces the first one
        choose_class(page, label)
        expect_status(page, f"{label}. Got it! I had guessed")
    expect(gallery_of(page)).to_contain_text("You have taught me 1 shape with 1 drawing. I know 9 more from others.")
    page.get_by_role("radio", name="Everyone’s").first.check()
    everyone = page.get_by_role("region", name="What everybody has taught me")
    expect(everyone).to_contain_text("I have learned 10 shapes from 1,798 drawings.")
    expect(everyone).to_contain_text("I show it as I see it: 8 by 8 squares.")
    expect(everyone.locator(".drawing").last.locator("rect")).to_have_count(1 + 64)
    shoot(page, "draw-14-everyone")
    check_accessible(page)


@pytest.mark.long
def test_a_shape_that_nobody_taught_is_new_to_it(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(SHIPPED).url}/draw", width=1440, height=900)
    for label in ("0", "7", "0", "7"):
        draw(page, label)
        type_name(page, label)
        expect_learned(page)
        page.get_by_role("button", name="Next drawing").click()
    expect(gallery_of(page)).to_contain_text("You have taught me 2 shapes with 4 drawings.")
    draw(page, "star")
    expect_status(page, "New to me. Perhaps")
    shoot(page, "draw-15-new")
    check_accessible(page)
    page.get_by_role("button", name="Clear").click()
    draw(page, "0")
    expect_guess(page, "0")
    expect_status(page, "I have seen only two so far")


@pytest.mark.long
def test_a_visitor_sees_what_waits_and_that_new_names_are_checked(visits: Visits, start: Start) -> None:
    service = start(SHIPPED, public_teaching="review", admin_key="a secret key")
    page = visits.open(f"{service.url}/draw", width=390, touch=True)
    touch(page, "star")
    type_name(page, "star")
    expect_status(page, "Star: sent for checking. I will know it once somebody has approved it.")
    expect(gallery_of(page)).to_contain_text("1 drawing waits to be checked.")
    expect(page.get_by_text("On this visit I guessed")).to_have_count(0)
    expect(page.get_by_text("Your drawings will appear here.")).to_have_count(0)
    thanks = page.get_by_text("Thank you! It waits to be checked.")
    expect(thanks).to_have_count(0)  # it is said once
    expect(gallery_of(page)).to_contain_text("1 waiting to be checked")
    check_accessible(page)
    shoot(page, "draw-8-waiting-narrow")
    page.get_by_role("button", name="Next drawing").press("Enter")
    expect(thanks).to_be_visible()
    touch(page, "star")  # the next drawing
    expect_status(page, "I do not use what is still being checked.")
    expect(thanks).to_have_count(0)

    as_curator = {"Authorization": "Bearer a secret key"}
    [held] = service.http.get("/v1/models/digits/held", headers=as_curator).json()["held"]
    service.http.post(f"/v1/models/digits/held/{held['id']}:accept", headers=as_curator).raise_for_status()
    expect(gallery_of(page)).to_contain_text("You have taught me 1 shape with 1 drawing.")
    expect(gallery_of(page)).not_to_contain_text("checked")


@pytest.mark.long
def test_a_model_of_the_scikit_learn_digits_recognises_drawings(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    teach_all_digits(service)
    page = visits.open(f"{service.url}/draw")
    right = 0
    for digit in "0123456789":
        draw(page, digit)
        choose_class(page, digit)
        expect(page.get_by_role("button", name="Next drawing")).to_be_visible()
        right += "I guessed it!" in page.get_by_role("main").get_by_role("status").inner_text()
    assert right >= 8, "a model that has learned only the 1,797 scanned digits recognises drawn ones"


def teach_all_digits(service: Service) -> None:
    digits: Any = load_digits()
    items = [
        {"input": row.tolist(), "label": str(label)} for row, label in zip(digits.data, digits.target, strict=True)
    ]
    with service.client("digits") as client:
        for start in range(0, len(items), 600):
            receipts = client.feedback(items[start : start + 600])
    service.wait_learned("digits", receipts[-1]["offset"])


@pytest.mark.long
def test_a_service_without_such_a_model_shows_how_to_configure_one(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(CHAT).url}/draw")
    expect(page.get_by_role("main")).to_contain_text('name = "digits"')
    check_accessible(page)
