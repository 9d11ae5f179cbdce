"""Drawing in a real Chromium on the digits that ship: by mouse, by touch and by keys; guessed, named, invented, undone."""

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
SHIPPED = ""  # no models of one's own: those that ship


def board_of(page: Page) -> Locator:
    return page.get_by_role("application", name="Drawing board")


def points(page: Page, stroke: Sequence[Sequence[float]]) -> Iterator[tuple[float, float]]:
    """Where a stroke is on the screen."""
    box = board_of(page).bounding_box()
    assert box is not None
    for x, y in stroke:
        yield box["x"] + x * box["width"], box["y"] + y * box["height"]


def draw(page: Page, name: str) -> None:
    """By mouse."""
    board_of(page).scroll_into_view_if_needed()
    for stroke in STROKES[name]:
        first, *rest = points(page, stroke)
        page.mouse.move(*first)
        page.mouse.down()
        for point in rest:
            page.mouse.move(*point, steps=4)
        page.mouse.up()


def touch(page: Page, name: str) -> None:
    """By a finger."""
    board_of(page).scroll_into_view_if_needed()
    finger = page.context.new_cdp_session(page)

    def tell(kind: str, *at: tuple[float, float]) -> None:
        where = [{"x": x, "y": y} for x, y in at]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": where})

    for stroke in STROKES[name]:
        first, *rest = points(page, stroke)
        tell("touchStart", first)
        for point in rest:
            tell("touchMove", point)
        tell("touchEnd")


def name_it(page: Page, label: str) -> None:
    classes = page.get_by_role("list", name="What it is")
    classes.get_by_role("listitem").filter(has=page.get_by_text(label, exact=True)).get_by_role("button").click()


def guessed(page: Page, label: str) -> None:
    says(page, f"Is it {label}?")


def says(page: Page, text: str) -> None:
    expect(page.get_by_role("main").get_by_role("status")).to_contain_text(text)


def learned(page: Page) -> None:
    expect(page.get_by_text("asked again, I would say")).to_be_visible()


def test_three_digits_are_drawn_once_each_and_the_fourth_drawing_is_guessed(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(SHIPPED).url}/draw")
    draw(page, "0")
    says(page, "I know nothing yet. What is it?")
    shoot(page, "draw-1-knows-nothing-light")
    for digit in ("0", "1", "4"):
        draw(page, digit)
        name_it(page, digit)
        learned(page)
    draw(page, "1")
    guessed(page, "1")
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


def test_a_star_is_invented_on_a_narrow_dark_screen_by_touch_and_taken_back(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = visits.open(f"{service.url}/draw", width=360, scheme="dark", touch=True)
    touch(page, "0")
    name_it(page, "0")
    learned(page)
    touch(page, "star")
    page.get_by_label("Something else?").fill("star")
    page.get_by_role("button", name="Call it that").click()
    learned(page)
    touch(page, "star")
    guessed(page, "star")
    shoot(page, "draw-4-star-narrow-dark")
    check_accessible(page)
    before = service.http.get("/v1/models/digits").json()

    page.get_by_role("button", name="Undo “star”").click()
    expect(page.get_by_text("un-learned in version")).to_be_visible()
    guessed(page, "0")
    page.get_by_role("button", name="Undo “0”").click()
    says(page, "I know nothing yet. What is it?")
    after = service.http.get("/v1/models/digits").json()
    assert after["learned_until"] == before["learned_until"] + 2
    newest, first = service.versions("digits")[0], service.versions("digits")[-1]
    assert newest["state_sha256"] == first["state_sha256"], "as if nobody had ever drawn"


def test_everything_by_keyboard_alone(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(SHIPPED).url}/draw", scheme="dark")
    board = board_of(page)
    board.focus()
    press = page.keyboard.press

    def line(key: str, length: int) -> None:
        press("Space")
        for _ in range(length):
            press(key)
        press("Space")

    line("ArrowUp", 5)
    press("1")
    learned(page)
    line("ArrowRight", 5)
    press("n")
    expect(page.get_by_label("Something else?")).to_be_focused()
    page.keyboard.type("minus")
    press("Enter")
    expect(board).to_be_focused()
    learned(page)
    press("ArrowLeft")
    line("ArrowDown", 4)
    guessed(page, "1")
    shoot(page, "draw-5-keyboard-dark")
    check_accessible(page)
    press("Backspace")
    says(page, "What will it be?")
    line("ArrowLeft", 3)
    guessed(page, "minus")
    press("Enter")
    expect(page.get_by_text("1 of your 3 drawings guessed right")).to_be_visible()
    press("z")
    expect(page.get_by_text("un-learned in version")).to_be_visible()
    expect(page.get_by_text("0 of your 2 drawings guessed right")).to_be_visible()


def test_drawings_are_what_scikit_learns_digits_are(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    teach_all_digits(service)
    page = visits.open(f"{service.url}/draw")
    right = 0
    for digit in "0123456789":
        draw(page, digit)
        name_it(page, digit)
        says(page, "I had taken it for")
        right += f"taken it for {digit}." in page.get_by_role("main").get_by_role("status").inner_text()
    assert right >= 8, "a model that has learned nothing but those 1,797 scans reads what is drawn here"


def teach_all_digits(service: Service) -> None:
    digits: Any = load_digits()
    items = [
        {"input": row.tolist(), "label": str(label)} for row, label in zip(digits.data, digits.target, strict=True)
    ]
    with service.client("digits") as client:
        for start in range(0, len(items), 600):
            receipts = client.feedback(items[start : start + 600])
    service.wait_learned("digits", receipts[-1]["offset"])


def test_a_service_without_such_a_model_says_how_it_would_have_one(visits: Visits, start: Start) -> None:
    page = visits.open(f"{start(CHAT).url}/draw")
    expect(page.get_by_role("main")).to_contain_text('name = "digits"')
    check_accessible(page)
