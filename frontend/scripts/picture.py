"""Takes the screenshot of the front page: a question, a taught reply, and the same question in other words.

    make picture -> docs/images/teach-and-ask-again.png

It starts a service with the starter repertoire on a temporary state folder, uses its chat page in Chromium, and takes a
screenshot of the conversation.
"""

import httpx
from playwright.sync_api import Locator, Page, expect
from showcase import ROOT, reduce_picture, running_browser, running_service, wait_until_learned

PICTURE = ROOT / "docs" / "images" / "teach-and-ask-again.png"
MODEL = '[[models]]\nname = "chat"\nkind = "ranker"\n'
QUESTION, IN_OTHER_WORDS = "Do you lend telescopes?", "Can I borrow a telescope?"
REPLY = "Yes, telescopes are lent for a week."
WIDTH, HEIGHT, SCALE = 700, 640, 2
MAX_BYTES = 300_000
TIMEOUT_MS = 120_000
expect.set_options(timeout=TIMEOUT_MS)


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
    if first.get_by_placeholder("The right reply").count() == 0:  # it answered something else
        first.get_by_role("button", name="Wrong reply").click()
    first.get_by_placeholder("The right reply").fill(REPLY)
    first.get_by_role("button", name="Teach", exact=True).click()
    expect(first.get_by_role("region", name="The answer to this question")).to_contain_text(REPLY)
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
    reduce_picture(PICTURE)


def main() -> None:
    with running_service(MODEL) as url, running_browser() as browser:
        with httpx.Client(base_url=url, timeout=120) as client:
            wait_until_learned(client, "chat", QUESTION)
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE, color_scheme="light"
        )
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(url)
        teach_and_ask_again(page)
        take_picture(page)
    size = PICTURE.stat().st_size
    assert size <= MAX_BYTES, f"{PICTURE} has {size} bytes; the limit is {MAX_BYTES}"
    print(f"{PICTURE.relative_to(ROOT)}: {size:,} bytes")


if __name__ == "__main__":
    main()
