"""Takes pictures of every page, for the manual and for the manifest of the installed page.

    make screenshots -> docs/images/pages/NAME-LOOK.png, frontend/public/screenshots/{wide,narrow}.png

It starts a service with the starter repertoire on a temporary state folder, fills it (seeding.py), and visits each page in
Chromium, as a visitor or signed in. Give names of pages to take only theirs: screenshots.py chat draw.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Browser, BrowserContext, Page, Route, StorageState, expect
from seeding import CONFIG, KEY, create_feedback_url, seed
from showcase import ROOT, reduce_picture, running_browser, running_service

PICTURES = ROOT / "docs" / "images" / "pages"
SHIPPED = ROOT / "frontend" / "public" / "screenshots"
MAX_BYTES = 2_000_000  # of all pictures in the manual together
TIMEOUT_MS = 60_000
QUIET_MS = 400
WAIT_UNTIL_QUIET = """
(quietMs) => new Promise((resolve) => {
  let timer = setTimeout(resolve, quietMs);
  new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(resolve, quietMs); })
    .observe(document.body, { childList: true, subtree: true, attributes: true, characterData: true });
  setTimeout(resolve, 20 * quietMs);
})
"""
SHOWN_AT = datetime(2026, 1, 15, 10, tzinfo=UTC)  # when the service was filled, as the pictures show it
INSTANT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|\+00:00)")
expect.set_options(timeout=TIMEOUT_MS)


@dataclass(frozen=True, slots=True)
class Look:
    name: str
    width: int
    height: int
    is_dark: bool


LOOKS = (Look("wide-light", 1280, 800, False), Look("narrow-dark", 390, 844, True))


def ask(page: Page, question: str) -> None:
    replies = page.get_by_role("article", name="Reply")
    count = replies.count()
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")
    expect(replies).to_have_count(count + 1)


def chat(page: Page, url: str) -> None:
    page.goto(url)
    ask(page, "When are you open?")
    ask(page, "Can I borrow a ukulele?")
    page.get_by_role("button", name="Good reply").last.click()


CORRECTIONS = {  # one for each look: what was corrected is answered otherwise afterwards
    1280: ("Are dogs allowed?", "All dogs may come in, on a lead. Assistance dogs are welcome everywhere."),
    390: (
        "Can I eat in the library?",
        "Yes, in the café and on the ground floor. Please keep the computers free of crumbs.",
    ),
}


def correction(page: Page, url: str) -> None:
    assert page.viewport_size is not None
    question, reply = CORRECTIONS[page.viewport_size["width"]]
    page.goto(url)
    ask(page, question)
    last = page.get_by_role("article", name="Reply").last
    last.get_by_role("button", name="Wrong reply").click()
    last.get_by_placeholder("The right reply").fill(reply)
    last.get_by_role("button", name="Teach", exact=True).click()
    expect(last.get_by_role("region", name="The answer to this question")).to_contain_text(reply)


def sign_in(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def welcome(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.get_by_label("Your question")).to_be_editable()


def draw(page: Page, url: str) -> None:
    page.goto(f"{url}/draw")
    board = page.get_by_label("Drawing board").bounding_box()
    assert board is not None
    house = ((0.15, 0.45), (0.5, 0.1), (0.85, 0.45), (0.8, 0.45), (0.8, 0.9), (0.2, 0.9), (0.2, 0.45), (0.8, 0.45))
    places = [(board["x"] + x * board["width"], board["y"] + y * board["height"]) for x, y in house]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=12)
    page.mouse.up()


def open_page(name: str) -> Callable[[Page, str], None]:
    def visit(page: Page, url: str) -> None:
        page.goto(f"{url}/{name}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()

    return visit


def feedback_url(page: Page, url: str) -> None:
    page.goto(create_feedback_url(url, "Can I borrow a ukulele?"))
    page.get_by_role("button", name="Helpful", exact=True).click()


# page: how it is visited, and whether the visitor is signed in
VISITS: dict[str, tuple[Callable[[Page, str], None], bool]] = {
    "welcome": (welcome, False),
    "chat": (chat, False),
    "correction": (correction, True),
    "draw": (draw, True),
    "repertoire": (open_page("repertoire"), True),
    "inbox": (open_page("inbox"), True),
    "learning": (open_page("learning"), True),
    "reports": (open_page("reports"), True),
    "sign-in": (sign_in, False),
    "feedback-url": (feedback_url, False),
    "not-found": (open_page("nothing-here"), False),
}


@dataclass(frozen=True, slots=True)
class ShownClock:
    """Shows every instant as if the service had been filled at SHOWN_AT: in the browser's clock, and in answers of the API."""

    shift: timedelta

    def use(self, context: BrowserContext) -> None:
        context.clock.install(time=datetime.now(UTC) + self.shift)
        context.route("**/v1/**", lambda route: self.answer(route))

    def answer(self, route: Route) -> None:
        if "text/event-stream" in route.request.headers.get("accept", ""):
            route.continue_()
            return
        response = route.fetch()
        text = INSTANT.sub(lambda found: self.move(found[0]), response.text())
        about_bytes = ("content-encoding", "content-length")
        headers = {name: value for name, value in response.headers.items() if name not in about_bytes}
        route.fulfill(status=response.status, headers=headers, body=text)

    def move(self, instant: str) -> str:
        return (datetime.fromisoformat(instant) + self.shift).isoformat()


def sign_in_once(browser: Browser, url: str) -> StorageState:
    """The cookies of somebody with every right."""
    context = browser.new_context()
    assert context.request.post(f"{url}/v1/session", data={"key": KEY}).ok
    state = context.storage_state()
    context.close()
    return state


def open_context(browser: Browser, look: Look, clock: ShownClock, state: StorageState | None) -> BrowserContext:
    context = browser.new_context(
        storage_state=state,
        viewport={"width": look.width, "height": look.height},
        color_scheme="dark" if look.is_dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
        service_workers="block",
    )
    context.set_default_timeout(TIMEOUT_MS)
    clock.use(context)
    return context


def close(context: BrowserContext) -> None:
    context.unroute_all(behavior="ignoreErrors")  # an answer may still be on its way
    context.close()


def take(browser: Browser, url: str, name: str, look: Look, clock: ShownClock, operator: StorageState) -> None:
    visit, is_signed_in = VISITS[name]
    context = open_context(browser, look, clock, operator if is_signed_in else None)
    page = context.new_page()
    visit(page, url)
    page.evaluate(WAIT_UNTIL_QUIET, QUIET_MS)
    path = PICTURES / f"{name}-{look.name}.png"
    page.screenshot(path=path, animations="disabled", caret="hide")
    reduce_picture(path)
    close(context)


def take_shipped(browser: Browser, url: str, clock: ShownClock) -> None:
    """The pictures that a browser shows before it installs the page; the manifest has their sizes."""
    SHIPPED.mkdir(parents=True, exist_ok=True)
    for look in (Look("wide", 1280, 800, False), Look("narrow", 390, 844, False)):
        context = open_context(browser, look, clock, None)
        page = context.new_page()
        chat(page, url)
        page.evaluate(WAIT_UNTIL_QUIET, QUIET_MS)
        page.screenshot(path=SHIPPED / f"{look.name}.png", animations="disabled", caret="hide")
        reduce_picture(SHIPPED / f"{look.name}.png")
        close(context)


def main(names: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with running_service(CONFIG) as url, running_browser() as browser:
        seed(url)
        clock = ShownClock(SHOWN_AT - datetime.now(UTC))
        operator = sign_in_once(browser, url)
        for name in names or VISITS:
            for look in LOOKS:
                take(browser, url, name, look, clock, operator)
        if not names:
            take_shipped(browser, url, clock)
    pictures = sorted(PICTURES.glob("*.png"))
    size = sum(each.stat().st_size for each in pictures)
    assert size <= MAX_BYTES, f"the pictures have {size:,} bytes; the limit is {MAX_BYTES:,}"
    print(f"{len(pictures)} pictures in {PICTURES.relative_to(ROOT)}: {size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
