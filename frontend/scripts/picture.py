"""Takes the screenshot of the front page: a question, a taught reply, and the same question in other words.

    make picture -> docs/images/teach-and-ask-again.png

It starts a service with the starter repertoire on a temporary state folder, uses its chat page in Chromium, and takes a
screenshot of the conversation.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Locator, Page, expect, sync_playwright

ROOT = Path(__file__).parent.parent.parent
PICTURE = ROOT / "docs" / "images" / "teach-and-ask-again.png"
MODEL = '[[models]]\nname = "chat"\nkind = "ranker"\n'
QUESTION, IN_OTHER_WORDS = "Do you lend telescopes?", "Can I borrow a telescope?"
REPLY = "Yes, telescopes are lent for a week."
WIDTH, HEIGHT, SCALE = 700, 640, 2
MAX_BYTES, COLORS = 300_000, 256
TIMEOUT_MS = 120_000
expect.set_options(timeout=TIMEOUT_MS)


@contextmanager
def running_service() -> Iterator[str]:
    """Run a service, and yield its URL once it has learned its starter repertoire."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "online.toml"
        config.write_text(MODEL)
        state = str(Path(folder) / "state")
        command = [sys.executable, "-m", "online", "serve", "--state", state, "--config", str(config), "--port", "0"]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
        try:
            url = read_url(service)
            wait_until_learned(url)
            yield url
        finally:
            service.terminate()
            service.communicate(timeout=60)


def read_url(service: subprocess.Popen[str]) -> str:
    assert service.stdout is not None
    output = ""
    for line in service.stdout:
        output += line
        if found := re.search(r"is ready: (http://\S+)", line):
            return found.group(1)
    raise RuntimeError(f"the service did not start:\n{output}")


def wait_until_learned(url: str) -> None:
    """Predict with the newest offset, which waits until the live version has learned it."""
    head = httpx.get(f"{url}/v1/models/chat").json()["head"]
    question = {"instances": [QUESTION], "record": False, "min_offset": head, "timeout_ms": 60_000}
    httpx.post(f"{url}/v1/models/chat:predict", json=question, timeout=120).raise_for_status()


def ask(page: Page, question: str) -> Locator:
    """Ask a question and return its reply."""
    replies = page.get_by_role("article", name="Reply")
    count = replies.count()
    page.get_by_label("Your question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(replies).to_have_count(count + 1)
    return replies.last


def teach_and_ask_again(page: Page) -> None:
    first = ask(page, QUESTION)
    expect(first).not_to_contain_text(REPLY)
    first.get_by_role("button", name="Teach me").click()
    first.get_by_label("What should I have said?").fill(REPLY)
    first.get_by_role("button", name="Teach", exact=True).click()
    expect(first.get_by_role("status")).to_contain_text(f"now “{REPLY}”")
    expect(ask(page, IN_OTHER_WORDS)).to_contain_text(REPLY)


def take_picture(page: Page) -> None:
    """Save a screenshot as high as the content of the page, reduced to few colors so that the file is small."""
    page.get_by_label("Your question").blur()
    hidden = page.get_by_role("main").evaluate("(box) => box.scrollHeight - box.clientHeight")
    spare = page.get_by_role("main").evaluate(
        "(box) => box.clientHeight - box.firstElementChild.getBoundingClientRect().height"
    )
    page.set_viewport_size({"width": WIDTH, "height": int(HEIGHT + hidden - max(0, spare))})
    page.get_by_role("main").evaluate("(box) => box.scrollTo(0, 0)")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURE, animations="disabled")
    with Image.open(PICTURE) as picture:
        reduced = picture.convert("RGB").quantize(COLORS)
    reduced.save(PICTURE, optimize=True)


def main() -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with running_service() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE, color_scheme="light"
        )
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(url)
        teach_and_ask_again(page)
        take_picture(page)
        browser.close()
    size = PICTURE.stat().st_size
    assert size <= MAX_BYTES, f"{PICTURE} has {size} bytes; the limit is {MAX_BYTES}"
    print(f"{PICTURE.relative_to(ROOT)}: {size:,} bytes")


if __name__ == "__main__":
    main()
