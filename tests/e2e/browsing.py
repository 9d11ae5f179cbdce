"""Helpers for tests in a real Chromium: pages that record foreign requests and errors, screenshots, and axe checks."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Response, expect, sync_playwright

from tests.support import skip_or_fail

ROOT = Path(__file__).parent.parent.parent
SCREENSHOTS = Path(__file__).parent / "screenshots"  # for inspection by a person; not in git
STATIC = ROOT / "online" / "api" / "static"
AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SLOW_MS = 60_000
SIZES = [
    (1200, "light"),
    pytest.param(360, "dark", marks=pytest.mark.long),
]  # test_accessibility.py has every page in both
expect.set_options(timeout=SLOW_MS)


@contextmanager
def launch_browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        skip_or_fail("no chromium on PATH (or in $CHROMIUM)")
    if not (STATIC / "index.html").exists():
        skip_or_fail("the page is not built: make page")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


class Visits:
    """Open pages, each in its own browser profile.

    foreign: requests to another origin. failed: uncaught errors, and what a policy has blocked. refused: requests that the
    caller may not send (401, 403), which the page should not have sent.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.foreign: list[str] = []
        self.failed: list[str] = []
        self.refused: list[str] = []
        self.pages: list[Page] = []

    def open(
        self,
        url: str,
        width: int = 1200,
        height: int = 800,
        scheme: str = "light",
        touch: bool = False,
        locale: str = "en-US",
    ) -> Page:
        page = self.browser.new_page(
            locale=locale,
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            has_touch=touch,
        )
        page.set_default_timeout(SLOW_MS)
        origin = origin_of(url)
        page.context.on("request", lambda request: self._note(origin, request.url))
        page.on("response", self._note_refusal)
        page.on("pageerror", lambda error: self.failed.append(str(error)))
        page.on("console", self._note_violation)
        page.on("filechooser", lambda _: None)  # registered now: a chooser may open before a later handler is in place
        self.pages.append(page)
        page.goto(url)
        return page

    def _note(self, origin: tuple[str, str], url: str) -> None:
        if not url.startswith(("data:", "blob:")) and origin_of(url) != origin:
            self.foreign.append(url)

    def _note_refusal(self, response: Response) -> None:
        if response.status in (401, 403):
            self.refused.append(f"{response.status} {response.request.method} {response.url}")

    def _note_violation(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.failed.append(message.text)

    def close(self) -> None:
        for page in self.pages:
            page.context.close()
        assert not self.foreign, f"requests left the origin: {self.foreign}"
        assert not self.failed, f"the page failed: {self.failed}"
        assert not self.refused, f"requests were refused: {self.refused}"


def origin_of(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def choose(where: Page | Locator, menu: str, item: str) -> None:
    """Choose an item of a menu. menu: the name of its button."""
    where.get_by_role("button", name=menu).click()
    where.locator("[role^=menuitem]:visible").filter(has_text=item).click()


def shoot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    wait_for_animations(page)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def wait_for_animations(page: Page) -> None:
    """Wait for the animations that end."""
    page.evaluate(
        "Promise.all(document.getAnimations().filter((each) => each.effect.getComputedTiming().endTime < Infinity)"
        ".map((each) => each.finished.catch(() => {})))"
    )


def check_accessible(page: Page) -> None:
    """Check that axe finds no violation of WCAG 2.2 AA, and that nothing is cut off at the side."""
    if not AXE.exists():
        skip_or_fail("axe-core is not installed: make page")
    wait_for_animations(page)
    page.evaluate(AXE.read_text() + "; undefined")  # a script tag would be a request by the page
    violations = page.evaluate(
        "rules => axe.run(document, {runOnly: {type: 'tag', values: rules}}).then(({violations}) => violations.map("
        "({id, help, nodes}) => `${id}: ${help}: ${nodes.map(({html}) => html).join(' | ')}`))",
        AXE_RULES,
    )
    assert not violations, "\n".join(violations)
    check_fits(page)


def check_fits(page: Page) -> None:
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow == 0, f"{overflow} px are cut off at the side"
