"""The pages of docs/how-to/integrations.md, served by the real packages and clicked in a real browser."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from online.io.cache import cache_folder
from tests.conftest import Start
from tests.support import Service, skip_or_fail, until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "integrations.md"
CHAT = '\n[[models]]\nname = "chat"\nkind = "ranker"\n'
PACKAGES = {"gradio": "gradio>=6,<7", "chainlit": "chainlit>=2,<3"}
QUESTION, REPLY = "When do you open?", "We open at nine."
SLOW_MS = 60_000


def snippet(package: str) -> str:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return next(block for block in blocks if f"import {package}" in block)


@pytest.fixture(scope="session")
def bin_of() -> Callable[[str], Path]:
    """Maps a package to the programs of its virtual environment, which is created on first use."""

    def bin_folder(package: str) -> Path:
        folder = cache_folder() / "pages" / package
        marker = folder / ".made"
        if not marker.exists() or marker.read_text() != PACKAGES[package]:
            pip = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", PACKAGES[package]]
            for step in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
                process = subprocess.run(step, capture_output=True, text=True, check=False)
                if process.returncode:
                    skip_or_fail(f"no environment with {package}: {process.stderr.strip()[-300:]}")
            marker.write_text(PACKAGES[package])
        return folder / "bin"

    return bin_folder


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serve_page(command: list[str], folder: Path, port: int) -> Iterator[str]:
    """Run a process that serves a page; yield its URL."""
    environment = {**os.environ, "PYTHONPATH": "", "GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_SERVER_PORT": str(port)}
    with open(folder / "page.log", "w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        if process.poll() is not None:
            pytest.fail((folder / "page.log").read_text())
        try:
            return httpx.get(url, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(is_ready, 120, "the page's start")
        yield url
    finally:
        process.terminate()
        process.wait(20)


def browse(url: str, visit: Callable[[Page], None]) -> None:
    """Open a page in a new thread, because the browser of another test may be open in this one."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        skip_or_fail("no chromium on PATH (or in $CHROMIUM)")

    def open_and_visit() -> None:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page()
            page.set_default_timeout(SLOW_MS)
            page.goto(url, wait_until="domcontentloaded")
            visit(page)
            browser.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(open_and_visit).result()


class EventCounter:
    """Counts the events that a page has added to the log."""

    def __init__(self, service: Service) -> None:
        self.http = service.http
        self.before = self.head()

    def head(self) -> int:
        return int(self.http.get("/v1/models/chat").json()["head"])

    def expect(self, count: int) -> None:
        """Wait until the log has `count` more events than at the start; fail if there are fewer or more."""
        until(lambda: self.head() >= self.before + count, what=f"event {count}")
        assert self.head() == self.before + count


@pytest.fixture
def service(start: Start) -> Service:
    service = start(CHAT)
    service.wait_learned("chat", 15)
    return service


def test_the_ratings_of_gradio_are_learned_and_retracted(
    service: Service, bin_of: Callable[[str], Path], tmp_path: Path
) -> None:
    python = bin_of("gradio") / "python"
    (tmp_path / "page.py").write_text(snippet("gradio").replace("http://127.0.0.1:8000", service.url))
    counter = EventCounter(service)

    def visit(page: Page) -> None:
        page.get_by_placeholder("Type a message...").fill(QUESTION)
        page.keyboard.press("Enter")
        expect(page.get_by_text(REPLY)).to_be_visible(timeout=SLOW_MS)
        page.get_by_label("Like", exact=True).click()
        counter.expect(1)
        page.get_by_label("Dislike", exact=True).click()
        counter.expect(3)  # a retraction, and the new rating
        page.get_by_label("Disliked", exact=True).click()
        counter.expect(4)

    with serve_page([str(python), "page.py"], tmp_path, free_port()) as url:
        browse(url, visit)


def test_the_ratings_of_chainlit_are_learned_and_retracted(
    service: Service, bin_of: Callable[[str], Path], tmp_path: Path
) -> None:
    chainlit, port = bin_of("chainlit") / "chainlit", free_port()
    (tmp_path / "page.py").write_text(snippet("chainlit").replace("http://127.0.0.1:8000", service.url))
    counter = EventCounter(service)

    def visit(page: Page) -> None:
        page.locator("#chat-input").click()
        page.keyboard.type(QUESTION)
        page.locator("#chat-submit").click()  # waits until the page is connected and the button enabled
        expect(page.get_by_text(REPLY)).to_be_visible(timeout=SLOW_MS)
        for button, count in (("👍", 1), ("👎", 3), ("Undo", 4)):
            page.get_by_role("button", name=button).click()
            counter.expect(count)

    command = [str(chainlit), "run", "page.py", "--headless", "--port", str(port)]
    with serve_page(command, tmp_path, port) as url:
        browse(url, visit)
