"""Learning without the service: this browser answers and learns, keeps what it was taught, and sends it once it can."""

import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.e2e.test_draw import (
    SHIPPED,
    board_of,
    draw,
    drawings_of,
    expect_guess,
    expect_status,
    gallery_of,
    type_name,
)
from tests.e2e.test_offline import LOST, read_cache
from tests.support import Service, until

SHAPES = ("0", "1", "4", "7", "star")
KEPT = """
async (store) => {
  // Opening a database that is not there would create it, without its stores.
  if (!(await indexedDB.databases()).some(({ name }) => name === 'online.offline')) return [];
  const result = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const database = await result(indexedDB.open('online.offline'));
  const kept = await result(database.transaction(store).objectStore(store).getAll());
  database.close();
  return kept.map(({ file, ...facts }) => facts);
}
"""


def read_kept(page: Page, store: str) -> list[dict[str, Any]]:
    """What the browser keeps in a store of its database."""
    kept: list[dict[str, Any]] = page.evaluate(KEPT, store)
    return kept


def open_board(visits: Visits, service: Service, **options: Any) -> Page:
    """The drawing page, once it can do without the service."""
    page = visits.open(f"{service.url}/draw", **options)
    read_cache(page)
    until(lambda: any(each["model"] == "digits" for each in read_kept(page, "models")), what="a version that is kept")
    return page


def teach(page: Page, name: str) -> None:
    draw(page, name)
    type_name(page, name)


def expect_banner(page: Page, text: str) -> None:
    expect(page.locator(".banner")).to_contain_text(text)


def examples_of(service: Service) -> list[dict[str, Any]]:
    """What everybody taught, in the order in which it was learned."""
    classes = service.http.get("/v1/models/digits/examples", params={"of": "everyone"}).json()["classes"]
    examples = [{**each, "label": one["label"]} for one in classes for each in one["examples"]]
    return sorted(examples, key=lambda each: each["offset"])


def state_of(service: Service) -> str:
    sha256: str = service.versions("digits")[0]["state_sha256"]
    return sha256


def test_five_shapes_taught_without_the_service_are_learned_there_as_if_it_had_seen_them(
    visits: Visits, start: Start, tmp_path: Path
) -> None:
    service = start(SHIPPED)
    page = open_board(visits, service)
    page.context.set_offline(True)
    expect_banner(page, f"{LOST} Version 1 answers on this device.")
    for count, name in enumerate(SHAPES, start=1):
        teach(page, name)
        expect(page.get_by_text(f"Learned on this device. Next time I say “{name}”.")).to_be_visible()
        draw(page, name)
        expect_guess(page, name)  # at once, without the service
        page.get_by_role("button", name="Clear").click()
        expect_banner(page, f"{count} {'name waits' if count == 1 else 'names wait'} to be sent.")
    check_accessible(page)
    shoot(page, "offline-draw-light")

    page.reload()
    expect_banner(page, "Version 1 answers on this device. 5 names wait to be sent.")
    expect(gallery_of(page)).to_contain_text("You have taught me 5 shapes with 5 drawings.")
    draw(page, "star")
    expect_guess(page, "star")
    assert examples_of(service) == []

    page.context.set_offline(False)
    expect_banner(page, "Sent: 5 learned.")
    expect(page.get_by_text(LOST)).to_be_hidden()
    service.wait_learned("digits", 5)
    learned = examples_of(service)
    assert [each["label"] for each in learned] == list(SHAPES)

    other = Service(tmp_path / "other")  # it sees the same events directly
    try:
        feedback = [{"input": each["input"], "label": each["label"]} for each in learned]
        other.http.post("/v1/models/digits:feedback", json={"feedback": feedback}).raise_for_status()
        other.wait_learned("digits", 5)
        assert state_of(service) == state_of(other)
    finally:
        other.stop()


CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
QUESTION, REPLY = "When do you open?", "We open at nine."


def open_chat(visits: Visits, service: Service, **options: Any) -> Page:
    """The chat, once it can do without the service."""
    service.wait_learned("chat", 1)
    page = visits.open(service.url, **options)
    read_cache(page)
    until(lambda: any(each["model"] == "chat" for each in read_kept(page, "models")), what="the replies that are kept")
    return page


def ask(page: Page, question: str) -> Any:
    """Ask, and return the reply."""
    count = page.get_by_role("article", name="Reply").count()
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="Reply")).to_have_count(count + 1)
    return page.get_by_role("article", name="Reply").last


def test_the_chat_answers_without_the_service_and_a_thumb_counts_at_once_and_later_there(
    visits: Visits, start: Start
) -> None:
    service = start(CHAT)
    page = open_chat(visits, service)
    page.context.set_offline(True)
    expect_banner(page, "answers on this device. Its answers are simpler than those of the server.")
    reply = ask(page, QUESTION)
    expect(reply).to_contain_text(REPLY)
    expect(reply).to_contain_text("Answered on this device.")
    reply.get_by_role("button", name="Wrong reply").click()
    expect(reply).to_contain_text("Kept on this device until the connection is back.")
    expect(ask(page, QUESTION)).not_to_contain_text(REPLY)
    expect_banner(page, "1 entry waits to be sent.")
    check_accessible(page)
    shoot(page, "offline-chat-light")

    page.reload()
    expect_banner(page, "1 entry waits to be sent.")
    expect(ask(page, QUESTION)).not_to_contain_text(REPLY)

    page.context.set_offline(False)
    expect_banner(page, "Sent: 1 learned.")
    answer = service.http.post("/v1/models/chat:predict", json={"instances": [QUESTION]}).json()["predictions"][0]
    assert answer["reply"] is None or answer["reply"]["text"] != REPLY
    expect(ask(page, "Can I print here?")).to_contain_text("The printer is by the stairs.")
