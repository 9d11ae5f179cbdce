"""The drawing page in a real Chromium with the shipped digits model: by mouse, by touch and by keyboard."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from playwright.sync_api import Locator, Page, expect
from sklearn.datasets import load_digits

from tests.conftest import Start
from tests.e2e.browsing import ROOT, Visits, check_accessible, shoot
from tests.support import Service

STROKES: dict[str, list[list[list[float]]]] = json.loads((ROOT / "frontend" / "tests" / "strokes.json").read_text())
CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
SHIPPED = ""  # no configured models: the service has the shipped ones


def board_of(page: Page) -> Locator:
    return page.get_by_role("application", name="Drawing board")


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


def choose_class(page: Page, label: str) -> None:
    classes = page.get_by_role("list", name="Classes")
    classes.get_by_role("listitem").filter(has=page.get_by_text(label, exact=True)).get_by_role("button").click()


def expect_guess(page: Page, label: str) -> None:
    expect_status(page, f"{label.capitalize()}?")


def expect_status(page: Page, text: str) -> None:
    expect(page.get_by_role("main").get_by_role("status")).to_contain_text(text)


def expect_learned(page: Page) -> None:
    expect(page.get_by_text("asked again now")).to_be_visible()


def test_the_fourth_drawing_is_guessed_after_three_digits_were_drawn_once_each(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(SHIPPED).url}/draw")
    draw(page, "0")
    expect_status(page, "I have no examples yet. What is it?")
    shoot(page, "draw-1-knows-nothing-light")
    for digit in ("0", "1", "4"):
        draw(page, digit)
        choose_class(page, digit)
        expect_learned(page)
    draw(page, "1")
    expect_guess(page, "1")
    shoot(page, "draw-2-guessed-light")
    check_accessible(page)
    board_of(page).press("Enter")
    expect(page.get_by_text("1 of your 4 drawings guessed right")).to_be_visible()
    page.get_by_text("As a table").click()
    rows = page.get_by_role("region", name="Your drawings, as a table").get_by_role("row")
    expect(rows.last).to_contain_text("25 %")
    shoot(page, "draw-3-curve-light")
    check_accessible(page)

    page.get_by_label("Everyone’s").check()
    page.get_by_text("As a table").click()
    everyone = page.get_by_role("region", name="Everyone’s drawings, as a table")
    expect(everyone.get_by_role("row").last).to_contain_text("25 %")  # counted by the server


def test_a_new_class_is_added_and_undone_by_touch_on_a_narrow_dark_screen(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = visits.open(f"{service.url}/draw", width=360, scheme="dark", touch=True)
    touch(page, "0")
    choose_class(page, "0")
    expect_learned(page)
    touch(page, "star")
    page.get_by_label("Something else?").fill("star")
    page.get_by_role("button", name="Use this name").click()
    expect_learned(page)
    touch(page, "star")
    expect_guess(page, "star")
    shoot(page, "draw-4-star-narrow-dark")
    check_accessible(page)
    before = service.http.get("/v1/models/digits").json()

    page.get_by_role("button", name="Undo “star”").click()
    expect(page.get_by_text("un-learned in version")).to_be_visible()
    expect_guess(page, "0")
    page.get_by_role("button", name="Undo “0”").click()
    expect_status(page, "I have no examples yet. What is it?")
    after = service.http.get("/v1/models/digits").json()
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
    expect_status(page, "Draw something.")
    draw_line("ArrowLeft", 3)
    expect_guess(page, "minus")
    press("Enter")
    expect(page.get_by_text("1 of your 3 drawings guessed right")).to_be_visible()
    press("z")
    expect(page.get_by_text("un-learned in version")).to_be_visible()
    expect(page.get_by_text("0 of your 2 drawings guessed right")).to_be_visible()


def test_a_model_of_the_scikit_learn_digits_recognises_drawings(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    teach_all_digits(service)
    page = visits.open(f"{service.url}/draw")
    right = 0
    for digit in "0123456789":
        draw(page, digit)
        choose_class(page, digit)
        expect_status(page, "The guess was")
        right += f"The guess was {digit}." in page.get_by_role("main").get_by_role("status").inner_text()
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


def test_a_service_without_such_a_model_shows_how_to_configure_one(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(CHAT).url}/draw")
    expect(page.get_by_role("main")).to_contain_text('name = "digits"')
    check_accessible(page)
