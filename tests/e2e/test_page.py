"""The page in a real Chromium, on a real service with the starter repertoire: a thumb that can be watched at work."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.conftest import Start
from tests.support import absent

SCREENSHOTS = Path(__file__).parent / "screenshots"  # to be looked at; not in git
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STATIC = Path(__file__).parent.parent.parent / "online" / "serving" / "static" / "index.html"
CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
QUESTION, OTHER_WORDS = "Where can I charge my electric car?", "Is there a charging point for an electric vehicle?"
LESSON = "Two chargers for electric cars stand behind the library."
SLOW_MS = 60_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        absent("no chromium on PATH (or in $CHROMIUM)")
    if not STATIC.exists():
        absent("the page is not built: make page")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


def opened(browser: Browser, url: str, width: int = 1200, scheme: str = "light") -> Page:
    page = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page.set_default_timeout(SLOW_MS)
    page.goto(url)
    return page


def ask(page: Page, question: str) -> None:
    replies = page.get_by_role("article", name="Reply")
    count = replies.count()
    page.get_by_label("Your question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(replies).to_have_count(count + 1, timeout=SLOW_MS)


def shoot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def version_of(page: Page) -> int:
    caption = page.get_by_role("article", name="Reply").last.get_by_text("version").first.inner_text()
    return int("".join(letter for letter in caption if letter.isdigit()))


def test_a_wrong_answer_is_corrected_and_the_correction_comes_back_in_other_words(
    browser: Browser, start: Start
) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = opened(browser, service.url)
    hosts: list[str] = []
    page.on("request", lambda request: hosts.append(request.url))

    ask(page, QUESTION)
    wrong = page.get_by_role("article", name="Reply").last
    expect(wrong).not_to_contain_text(LESSON)
    before = version_of(page)
    wrong.get_by_role("button", name="Wrong reply").click()
    expect(wrong.get_by_role("button", name="Wrong reply")).to_have_attribute("aria-pressed", "true")
    expect(wrong.get_by_role("status")).to_contain_text("learned in version", timeout=SLOW_MS)
    shoot(page, "1-thumb-down")

    wrong.get_by_label("What should I have said?").fill(LESSON)
    wrong.get_by_role("button", name="Teach", exact=True).click()
    expect(wrong.get_by_role("status")).to_contain_text(f"asked again, I would say: “{LESSON}”", timeout=SLOW_MS)
    shoot(page, "2-taught")

    ask(page, OTHER_WORDS)
    expect(page.get_by_role("article", name="Reply").last).to_contain_text(LESSON)
    assert version_of(page) > before
    shoot(page, "3-asked-in-other-words")
    assert all(url.startswith((service.url, "data:")) for url in hosts), "no request leaves the origin"


STARTER = Path(__file__).parent.parent.parent / "data" / "repertoire.jsonl"


def test_by_keyboard_alone_on_a_narrow_dark_screen(browser: Browser, start: Start) -> None:
    service = start(CHAT, repertoire=str(STARTER))
    service.wait_learned("chat", 1)
    page = opened(browser, service.url, width=360, scheme="dark")
    page.get_by_label("Your question").focus()
    page.keyboard.type("how do i renew a book")
    page.keyboard.press("Enter")
    reply = page.get_by_role("article", name="Reply").last
    expect(reply).to_contain_text("version", timeout=SLOW_MS)
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    expect(reply.get_by_role("status")).to_contain_text("asked again", timeout=SLOW_MS)
    page.keyboard.press("z")
    expect(reply.get_by_role("status")).to_contain_text("un-learned in version", timeout=SLOW_MS)
    page.keyboard.press("u")
    expect(reply.get_by_role("status")).to_contain_text("learned in version", timeout=SLOW_MS)
    shoot(page, "4-narrow-dark")
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow == 0, "nothing is cut off at 360 px"


def test_a_second_browser_sees_the_learning_and_the_banner_says_when_it_is_paused(
    browser: Browser, start: Start
) -> None:
    service = start(CHAT, restart_max_s=5.0)
    service.wait_learned("chat", 1)
    watching = opened(browser, service.url)
    panel = watching.get_by_role("complementary", name="What is live")
    client = service.client("chat")
    receipt = client.feedback([{"input": "Is there tea?", "correction": "Tea is in the cafe."}])[0]
    status = service.wait_learned("chat", receipt["offset"])
    expect(panel).to_contain_text(str(status["model_version_status"][0]["version"]), timeout=SLOW_MS)
    service.kill_learner()
    expect(watching.get_by_text("Answers go on")).to_be_visible(timeout=SLOW_MS)
    ask(watching, "When do you open?")
    expect(watching.get_by_role("article", name="Reply").last).to_contain_text("We open at nine.")
    shoot(watching, "5-learner-down")
    expect(watching.get_by_text("Answers go on")).to_be_hidden(timeout=SLOW_MS)
