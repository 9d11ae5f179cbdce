"""Measures what the chat page costs a visitor: bytes on the wire, requests, first paint, and time to the first answer.

    a browser with an empty cache --first visit--> cold
    the same browser              --second visit-> warm

Bytes are those of the responses as they were sent, compressed and with headers, until the page can be used. First paint is the
first contentful paint of the Paint Timing API; the first answer counts from the end of loading, where the question is asked at
once. The service and the browser share the machine. Service workers are off: theirs would be a third kind of visit.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from playwright.sync_api import Browser, Page

from benchmarks.chromium import launch_chromium
from benchmarks.report import command, create_parser, percentile, print_json, progress, table, verdict
from benchmarks.service import CHAT, running_service

T = TypeVar("T")

QUESTION = "When are you open?"
TARGET_KB, TARGET_PAINT_MS, TARGET_ANSWER_MS = 150.0, 500.0, 1_000.0
SIZES = """
() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].map(
  ({ transferSize, decodedBodySize }) => [transferSize, decodedBodySize])
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


@dataclass(frozen=True, slots=True)
class Visit:
    """kb: of files and answers, with headers. unpacked_kb: without, after they were unpacked. requests: of both."""

    kb: float
    unpacked_kb: float
    requests: int
    paint_ms: float
    answer_ms: float


def count_bytes(page: Page, url: str) -> tuple[float, float, int]:
    """Visit the page until it requests nothing more; return the kB sent, the kB unpacked, and the number of requests."""
    page.goto(url)
    page.get_by_label("Your question").wait_for()
    page.wait_for_load_state("networkidle")
    sizes: list[tuple[int, int]] = page.evaluate(SIZES)
    sent, unpacked = (sum(each) / 1_000 for each in zip(*sizes, strict=True))
    return sent, unpacked, len(sizes)


def measure_times(page: Page, url: str) -> tuple[float, float]:
    """Visit the page and ask as soon as it can be used; return the first paint and the first answer, in ms."""
    page.goto(url)
    page.get_by_label("Your question").wait_for()
    return page.evaluate(PAINTED_MS), page.evaluate(ANSWERED_MS, QUESTION)


def visit_twice(browser: Browser, url: str) -> list[Visit]:
    """A cold and a warm visit. What they send and what they take is measured in browsers of their own."""
    sent = in_new_browser(browser, url, count_bytes)
    times = in_new_browser(browser, url, measure_times)
    return [Visit(*each, *took) for each, took in zip(sent, times, strict=True)]


def in_new_browser(browser: Browser, url: str, measure: Callable[[Page, str], T]) -> list[T]:
    context = browser.new_context(service_workers="block")
    try:
        page = context.new_page()
        return [measure(page, url) for _ in ("cold", "warm")]
    finally:
        context.close()


def summarise(visits: Sequence[Visit]) -> dict[str, float]:
    """Times are the best ones: the machine may have been busy in the others; `_p50` are medians."""
    paints, answers = [each.paint_ms for each in visits], [each.answer_ms for each in visits]
    return {
        "kb": max(each.kb for each in visits),
        "unpacked_kb": max(each.unpacked_kb for each in visits),
        "requests": max(each.requests for each in visits),
        "paint_ms": min(paints),
        "paint_ms_p50": percentile(paints, 50),
        "answer_ms": min(answers),
        "answer_ms_p50": percentile(answers, 50),
    }


def run(arguments: Namespace) -> int:
    with running_service(CHAT) as service, launch_chromium() as browser:
        url = f"http://{service.host}:{service.port}/"
        pairs = [visit_twice(browser, url) for _ in progress(range(arguments.tries), "visits")]
    results = {name: summarise(visits) for name, visits in zip(("cold", "warm"), zip(*pairs, strict=True), strict=True)}
    cold = results["cold"]
    if arguments.json:
        print_json(results)
    else:
        columns = (
            "visit",
            "kB sent",
            "unpacked",
            "requests",
            "first paint, ms: best",
            "median",
            "first answer, ms: best",
            "median",
        )
        table("The chat page", columns, [(name, *each.values()) for name, each in results.items()])
        print(
            f"bytes: {verdict(cold['kb'], TARGET_KB, ' kB')}; first paint: {verdict(cold['paint_ms'], TARGET_PAINT_MS, ' ms')}; first answer: {verdict(cold['answer_ms'], TARGET_ANSWER_MS, ' ms')}"
        )
    return int(cold["kb"] > TARGET_KB or cold["paint_ms"] > TARGET_PAINT_MS)


def main() -> int:
    parser = create_parser(__doc__)
    parser.add_argument("--tries", type=int, default=10, help="visits of each kind (default: 10)")
    return run(parser.parse_args())


if __name__ == "__main__":
    command(main)
