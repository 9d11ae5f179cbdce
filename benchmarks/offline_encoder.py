"""What the text encoder adds to a chat without the service, in Chromium: the questions of `benchmarks.offline_replies` asked on the page.

    online serve, 135 replies --page--> Chromium, connection cut --each question, in a conversation of its own--> reply shown

    python -m benchmarks.offline_encoder [--every 10] [--json]

The same page answers twice: from hashed words, and after the option "Answers without a connection" was switched on. ms: from
asking until the reply is shown. Times of the option are those of its stages, and the bytes those that the browser keeps. The
service and the browser share the machine, so the download shows no network.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from playwright.sync_api import Page

from benchmarks.chromium import launch_chromium
from benchmarks.offline_replies import SEEN, UNSEEN, judge, read_replies
from benchmarks.report import command, create_parser, print_json, progress, table
from benchmarks.service import CHAT, Service, running_service
from benchmarks.typed_questions import KINDS, Question, questions

OPTION, READY = "Answers without a connection", "Ready."
START_MS, POLL_MS = 60_000, 200
STAGES = ("Downloading", "Starting", "Reading", READY)
KEEPS = """
async () => {
  if (navigator.serviceWorker.controller?.state !== 'activated') return false;
  if (!(await indexedDB.databases()).some(({ name }) => name === 'online.offline')) return false;
  const result = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const database = await result(indexedDB.open('online.offline'));
  const isMade = database.objectStoreNames.contains('models');
  const count = isMade ? await result(database.transaction('models').objectStore('models').count()) : 0;
  database.close();
  return count > 0;
}
"""
SWITCH_ON = """
async ([stages, ready]) => {
  const dialog = document.querySelector('dialog[open]');
  const begin = performance.now();
  const seen = {};
  const done = new Promise((resolve) => {
    const check = () => {
      for (const stage of stages) if (dialog.innerText.includes(stage)) seen[stage] ??= performance.now() - begin;
      if (seen[ready] !== undefined) resolve(seen);
    };
    new MutationObserver(check).observe(dialog, { childList: true, subtree: true, characterData: true });
  });
  dialog.querySelector('input').click();
  return done;
}
"""
KEPT_BYTES = """
async () => {
  const names = (await caches.keys()).filter((name) => name.startsWith('online-encoder-'));
  const caching = await Promise.all(names.map((name) => caches.open(name)));
  const answers = (await Promise.all(caching.map((cache) => cache.matchAll()))).flat();
  return (await Promise.all(answers.map(async (answer) => (await answer.blob()).size))).reduce((one, other) => one + other, 0);
}
"""
START_CONVERSATION = """
async () => {
  [...document.querySelectorAll('button')].find(({ textContent }) => textContent.includes('New conversation')).click();
  while (document.querySelector('article')) await new Promise(requestAnimationFrame);
}
"""
ASK = """
async (question) => {
  const field = document.querySelector('textarea');
  const count = document.querySelectorAll('article[aria-label="Reply"]').length;
  const begin = performance.now();
  const shown = new Promise((resolve) => {
    const check = () => {
      const replies = document.querySelectorAll('article[aria-label="Reply"]');
      if (replies.length > count) resolve([replies[count].innerText, performance.now() - begin]);
    };
    new MutationObserver(check).observe(document.body, { childList: true, subtree: true });
  });
  field.value = question;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  await Promise.resolve();
  field.form.requestSubmit();
  const found = await shown;
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame); // then it can be asked again
  return found;
}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Shares of the questions, and the median time of an answer."""

    features: str
    kind: str
    splits: str
    count: int
    right: float
    wrong: float
    none: float
    ms: float


@dataclass(frozen=True, slots=True)
class Start:
    """What it takes until the encoder is ready."""

    megabytes: float
    download_s: float
    start_s: float
    read_s: float
    texts: int


def open_page(page: Page, service: Service) -> None:
    """Open the chat, and wait until it can do without the service."""
    page.set_default_timeout(START_MS)
    page.goto(f"http://{service.host}:{service.port}/")
    while not page.evaluate(KEEPS):
        page.wait_for_timeout(POLL_MS)


def switch_on(page: Page) -> Start:
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("menuitem", name=OPTION).click()
    page.get_by_text("Downloads").wait_for()
    seen: dict[str, float] = page.evaluate(SWITCH_ON, [STAGES, READY])
    page.get_by_role("button", name="Close").click()
    downloading, starting, reading, ready = (seen[stage] / 1_000 for stage in STAGES)
    texts = sum(1 + len(reply["examples"]) for reply in read_replies())
    kept: int = page.evaluate(KEPT_BYTES)
    return Start(kept / 1e6, starting - downloading, reading - starting, ready - reading, texts)


def ask(page: Page, question: Question, ids: dict[str, str]) -> tuple[str | None, float]:
    """The id of the reply that is given, and the ms until it is shown."""
    page.evaluate(START_CONVERSATION)
    if question.previous is not None:
        page.evaluate(ASK, question.previous)
    shown, ms = page.evaluate(ASK, question.text)
    return ids.get(fold(shown.partition("\n")[0])), ms


def fold(text: str) -> str:
    return " ".join(text.split())


def ask_all(page: Page, features: str, asked: Sequence[Question], ids: dict[str, str]) -> list[Outcome]:
    answers = {each.id: ask(page, each, ids) for each in progress(asked, features)}
    outcomes = []
    for splits in (SEEN, UNSEEN):
        for kind in KINDS:
            some = [each for each in asked if each.split in splits and each.kind == kind]
            if some:
                shares = judge(some, [answers[each.id][0] for each in some])
                ms = float(np.median([answers[each.id][1] for each in some]))
                outcomes.append(Outcome(features, kind, " and ".join(splits), len(some), **shares, ms=ms))
    return outcomes


def measure(flags: Namespace) -> tuple[list[Outcome], Start]:
    asked = [each for each in questions() if each.split in (*SEEN, *UNSEEN)][:: flags.every]
    ids = {fold(reply["text"]): reply["id"] for reply in read_replies()}
    with running_service(CHAT) as service, launch_chromium() as browser:
        page = browser.new_page()
        open_page(page, service)
        page.context.set_offline(True)
        page.get_by_text("No connection to the server.").wait_for()
        hashed = ask_all(page, "hashed", asked, ids)
        page.context.set_offline(False)
        page.get_by_text("No connection to the server.").wait_for(state="hidden")
        start = switch_on(page)
        page.context.set_offline(True)
        page.get_by_text("No connection to the server.").wait_for()
        return [*hashed, *ask_all(page, "MiniLM", asked, ids)], start


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--every", type=int, default=1, help="ask every nth question (default 1: all)")
    flags = parser.parse_args()
    outcomes, start = measure(flags)
    if flags.json:
        print_json({"outcomes": [asdict(each) for each in outcomes], "start": asdict(start)})
        return 0
    rows = [
        (
            f"{each.features}: {each.kind}, {each.splits}",
            each.count,
            *(f"{100 * share:.0f}" for share in (each.right, each.wrong, each.none)),
            f"{each.ms:.0f}",
        )
        for each in outcomes
    ]
    columns = ("features: kind, splits", "questions", "right", "wrong", "none", "ms")
    table("answers in Chromium without the service, % of the questions", columns, rows)
    print(f"download: {start.megabytes:.1f} MB, kept by the browser; {start.download_s:.1f} s from this machine")
    print(f"start: {start.start_s:.1f} s; reading of {start.texts:,} texts: {start.read_s:.1f} s, once")
    return 0


if __name__ == "__main__":
    command(main)
