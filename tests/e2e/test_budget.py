"""Limits of the page: its bytes, its requests, its render-blocking files, its first paint, and the time to the first answer."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import config
from tests.e2e.browsing import Visits, origin_of
from tests.support import Service

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
MAX_BYTES = 150_000  # as they are sent, of all files and answers that the page needs before it can be used
MAX_REQUESTS = 12  # for those files, and for its first requests to the API
FIRST_PAINT_MS = 500
FIRST_ANSWER_MS = 1_000
TRIES = 10  # at most, because the machine may be busy

RESOURCES = """
() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].map((each) =>
  ({ name: each.name, blocks: each.renderBlockingStatus === 'blocking', sent: each.transferSize,
     compressed: each.encodedBodySize < each.decodedBodySize, whole: each.decodedBodySize }))
"""
PAINTED_MS = """
() => new Promise((resolve) =>
  new PerformanceObserver((list) => {
    const [paint] = list.getEntriesByName('first-contentful-paint');
    if (paint) resolve(paint.startTime);
  }).observe({ type: 'paint', buffered: true }))
"""
ANSWERED_MS = """
async (question) => {
  const field = document.querySelector('textarea');
  const reply = new Promise((resolve) => {
    const check = () => document.querySelector('article[aria-label="Reply"]') && resolve(performance.now());
    new MutationObserver(check).observe(document.body, { childList: true, subtree: true });
  });
  field.value = question;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  await Promise.resolve();
  field.form.requestSubmit();
  return (await reply) - performance.getEntriesByType('navigation')[0].loadEventEnd;
}
"""


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("chat")
    running = Service(folder / "state", config(folder, CHAT))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


def list_resources(browser: Browser, url: str) -> list[dict[str, Any]]:
    """List what a browser with an empty cache fetches until the page can be used."""
    context = browser.new_context(service_workers="block")  # the service worker fetches the other pages later
    page = context.new_page()
    page.goto(url)
    expect(page.get_by_text("Your conversations will appear here.")).to_be_visible()
    resources: list[dict[str, Any]] = page.evaluate(RESOURCES)
    context.close()
    return resources


def test_the_page_is_small_with_few_requests_all_to_its_own_origin(browser: Browser, chat: Service) -> None:
    entries = list_resources(browser, chat.url)
    urls = [each["name"] for each in entries]
    assert {origin_of(url) for url in urls} == {origin_of(chat.url)}
    assert len(urls) <= MAX_REQUESTS, urls
    sent = {each["name"]: each["sent"] for each in entries}
    assert 10_000 < sum(sent.values()) < MAX_BYTES, sent
    files = [each for each in entries if not urlsplit(each["name"]).path.startswith("/v1/")]
    uncompressed = [each["name"] for each in files if each["whole"] > 1_000 and not each["compressed"]]
    assert {urlsplit(url).path.rpartition(".")[2] for url in uncompressed} <= {"woff2", "png"}, uncompressed
    blocking = [each["name"] for each in entries if each["blocks"]]
    assert [urlsplit(url).path.rpartition(".")[2] for url in blocking] == ["css"], blocking


def best_of_tries(measure: Callable[[], float], limit_ms: float) -> tuple[float, list[float]]:
    """Measure until it is within the limit; return the best duration, and all of them."""
    durations_ms = [measure()]
    while min(durations_ms) >= limit_ms and len(durations_ms) < TRIES:
        durations_ms.append(measure())
    return min(durations_ms), durations_ms


@pytest.mark.long
def test_the_first_paint_is_within_half_a_second(browser: Browser, chat: Service) -> None:
    def first_paint_ms() -> float:
        context = browser.new_context(service_workers="block")
        page = context.new_page()
        page.goto(chat.url)
        painted_ms: float = page.evaluate(PAINTED_MS)
        context.close()
        return painted_ms

    best_ms, durations_ms = best_of_tries(first_paint_ms, FIRST_PAINT_MS)
    assert best_ms < FIRST_PAINT_MS, durations_ms


@pytest.mark.long
def test_the_first_answer_is_shown_within_a_second_of_the_page_load(visits: Visits, chat: Service) -> None:
    def first_answer_ms() -> float:
        page = visits.open(chat.url)
        duration_ms: float = page.evaluate(ANSWERED_MS, "When do you open?")
        expect(page.get_by_role("article", name="Reply")).to_contain_text("We open at nine.")
        return duration_ms

    best_ms, durations_ms = best_of_tries(first_answer_ms, FIRST_ANSWER_MS)
    assert best_ms < FIRST_ANSWER_MS, durations_ms
