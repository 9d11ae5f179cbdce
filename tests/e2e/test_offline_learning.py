"""Learning without the service: this browser answers and learns, keeps what it was taught, and sends it once it can."""

import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Response, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, choose, shoot
from tests.e2e.test_access import ADMIN_KEY, sign_in
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

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
QUESTION, REPLY = "When do you open?", "We open at nine."
AT_ONCE_MS = 100
TRIES = 10  # at most, because the machine may be busy
SHAPES = ("0", "1", "4", "7", "star")
STORES = ("queue", "models", "answers", "owners")
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


def open_tab(page: Page, url: str) -> Page:
    """Another tab of the same browser."""
    with page.context.expect_page() as opened:
        page.evaluate("(url) => void window.open(url)", url)
    return opened.value


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
    expect(page.locator(".banner").get_by_role("status")).to_have_count(1)  # before there is something to announce
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


@pytest.mark.long
def test_two_tabs_share_what_waits_and_it_is_learned_once(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = open_board(visits, service)
    other = open_tab(page, f"{service.url}/draw")
    expect(board_of(other)).to_be_visible()
    page.context.set_offline(True)
    teach(page, "star")
    expect_banner(other, "1 name waits to be sent.")
    draw(other, "star")
    expect_guess(other, "star")  # what the other tab was taught
    other.get_by_role("button", name="Clear").click()
    teach(other, "0")
    expect_banner(page, "2 names wait to be sent.")
    page.context.set_offline(False)
    for each in (page, other):
        expect(each.locator(".banner")).not_to_contain_text("to be sent")
    service.wait_learned("digits", 2)
    assert [each["label"] for each in examples_of(service)] == ["star", "0"]
    assert service.http.get("/v1/models/digits").json()["head"] == 2


@pytest.mark.long
def test_a_name_is_learned_once_although_its_tab_was_closed_while_it_was_sent(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = open_board(visits, service)
    tab = open_tab(page, f"{service.url}/draw")
    page.goto(f"{service.url}/docs")  # a page that sends nothing
    tab.context.set_offline(True)
    expect_banner(tab, LOST)
    teach(tab, "star")
    expect_banner(tab, "1 name waits to be sent.")
    tab.route("**/digits:feedback", lambda route: route.fetch() and None)  # it arrives, and the answer does not
    tab.context.set_offline(False)
    until(lambda: tab.evaluate("true") and examples_of(service), what="the arrival of the name")
    [item] = read_kept(tab, "queue")
    assert (item["state"], item["receipt"]) == ("sending", None)
    tab.close()

    page.goto(f"{service.url}/draw")
    expect_banner(page, "Sent: 1 learned.")
    assert [each["label"] for each in examples_of(service)] == ["star"]
    assert service.http.get("/v1/models/digits").json()["head"] == 1


@pytest.mark.long
def test_what_the_service_refuses_is_shown_and_can_be_changed(visits: Visits, start: Start) -> None:
    service = start(SHIPPED, max_label_chars=3)
    page = open_board(visits, service, width=390, height=844, scheme="dark")
    page.context.set_offline(True)
    for name in ("star", "1"):
        teach(page, name)
    draw(page, "0")
    type_name(page, "0")
    expect_banner(page, "3 names wait to be sent.")
    page.get_by_role("button", name="Show what waits").click()
    page.get_by_role("button", name="Remove: Name “0”").click()
    expect_banner(page, "2 names wait to be sent.")
    expect(page.get_by_role("button", name="Remove: Name “1”")).to_be_focused()
    shoot(page, "offline-draw-narrow-dark")
    page.context.set_offline(False)
    expect_banner(page, "Sent: 1 learned. 1 entry was not accepted.")
    waiting = page.get_by_role("list", name="What waits")
    expect(waiting).to_contain_text("Not accepted: This is too large to send.")
    check_accessible(page)
    shoot(page, "offline-refused-narrow-dark")
    waiting.get_by_role("button", name="Change and send again: Name “star”").click()
    expect(waiting.get_by_label("New text")).to_be_focused()
    waiting.get_by_label("New text").fill("sun")
    waiting.get_by_role("button", name="Send").click()
    expect_banner(page, "Sent: 2 learned.")
    assert [each["label"] for each in examples_of(service)] == ["1", "sun"]

    page.context.set_offline(True)
    expect_banner(page, LOST)
    teach(page, "0")
    page.get_by_role("button", name="Remove: Name “0”").click()
    expect(page.locator(".banner").get_by_role("status")).to_be_focused()


@pytest.mark.long
def test_names_taken_back_without_the_service_are_not_learned_there(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = open_board(visits, service)
    before = state_of(service)
    teach(page, "1")  # with the service
    service.wait_learned("digits", 1)
    expect(drawings_of(page, "1")).to_have_count(1)  # the page keeps what was listed
    service.stop(signal.SIGTERM)
    expect_banner(page, LOST)
    teach(page, "star")
    board_of(page).press("z")
    expect(page.get_by_text("Taken back.")).to_be_visible()
    drawings_of(page, "1").click()
    page.get_by_role("button", name="Forget this drawing").click()
    expect_banner(page, "1 entry waits to be sent.")
    draw(page, "1")
    expect_status(page, "New to me. What is it?")  # un-learned on this device

    service = start(SHIPPED, ("--port", str(urlsplit(service.url).port)))
    expect_banner(page, "Sent: 1 taken back.")
    assert examples_of(service) == []
    until(lambda: state_of(service) == before, what="a version without the drawing")


ANSWERED_MS = """
async ([button, text]) => {
  const begin = performance.now();
  const shown = new Promise((resolve) => {
    const check = () => document.body.innerText.includes(text) && resolve(performance.now());
    new MutationObserver(check).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  document.querySelector(button).click();
  return (await shown) - begin;
}
"""


@pytest.mark.long
def test_a_name_changes_the_next_guess_at_once(visits: Visits, start: Start) -> None:
    page = open_board(visits, start(SHIPPED))
    page.context.set_offline(True)
    expect_banner(page, LOST)
    for name in ("0", "1"):
        teach(page, name)
    durations_ms: list[float] = []
    while min(durations_ms, default=AT_ONCE_MS) >= AT_ONCE_MS and len(durations_ms) < TRIES:
        draw(page, "0")
        expect_guess(page, "0")
        durations_ms.append(page.evaluate(ANSWERED_MS, ["[aria-label=Names] button", "Next time I say “0”."]))
    assert min(durations_ms) < AT_ONCE_MS, durations_ms


@pytest.mark.long
def test_a_thumb_changes_the_next_answer_at_once(visits: Visits, start: Start) -> None:
    page = open_chat(visits, start(CHAT))
    page.context.set_offline(True)
    expect_banner(page, LOST)
    expect(ask(page, QUESTION)).to_contain_text(REPLY)
    expect_thumb_at_once(page)


def expect_thumb_at_once(page: Page) -> None:
    """A thumb down changes the next answer at once; it is taken back."""
    durations_ms: list[float] = []
    while min(durations_ms, default=AT_ONCE_MS) >= AT_ONCE_MS and len(durations_ms) < TRIES:
        durations_ms.append(page.evaluate(ANSWERED_MS, ["button.wrong", "I know no better reply."]))
        page.get_by_role("button", name="Wrong reply").click()  # takes it back
        expect(page.get_by_text("Taken back")).to_be_visible()
    assert min(durations_ms) < AT_ONCE_MS, durations_ms


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
    expect(page.get_by_role("article", name="Reply")).to_have_count(2)  # those of before
    expect(ask(page, QUESTION)).not_to_contain_text(REPLY)

    page.context.set_offline(False)
    expect_banner(page, "Sent: 1 learned.")
    answer = service.http.post("/v1/models/chat:predict", json={"instances": [QUESTION]}).json()["predictions"][0]
    assert answer["reply"] is None or answer["reply"]["text"] != REPLY
    expect(ask(page, "Can I print here?")).to_contain_text("The printer is by the stairs.")


def export_of(service: Service, version: str) -> httpx.Response:
    """The file of a version that a page keeps."""
    return service.http.get(f"/v1/models/digits/versions/{version}/export", params={"format": "learner"})


@pytest.mark.long
def test_the_next_version_is_loaded_as_a_delta(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = open_board(visits, service)
    [first] = read_kept(page, "models")
    teach(page, "star")
    service.wait_learned("digits", 1)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))

    def load_delta() -> Response | None:
        """Open the page again. Returns the delta until another version: only the next durable one has it."""
        with page.expect_response("**/delta?*") as answered:
            page.reload()
        return answered.value if answered.value.headers["x-model-version"] != first["version"] else None

    delta = until(load_delta, what="a delta until a version with the drawing")
    until(lambda: read_kept(page, "models")[0]["version"] == delta.headers["x-model-version"], what="the next version")
    assert delta.status == 200
    assert not [url for url in requests if "/export?" in url]
    whole = export_of(service, delta.headers["x-model-version"])
    assert read_kept(page, "models")[0]["etag"] == whole.headers["etag"]
    assert delta.request.sizes()["responseBodySize"] < len(whole.content) / 20
    page.context.set_offline(True)
    draw(page, "star")
    expect_guess(page, "star")


@pytest.mark.long
def test_a_drawing_taught_just_before_the_connection_was_lost_is_in_the_gallery(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = open_board(visits, service)
    until(lambda: read_kept(page, "answers"), what="a list that is kept")
    page.route("**/digits/examples?*", lambda route: route.abort())  # the list is not loaded again
    teach(page, "star")
    service.wait_learned("digits", 1)
    until(lambda: read_kept(page, "queue"), what="a note of the drawing")
    page.context.set_offline(True)
    page.reload()
    expect(drawings_of(page, "star")).to_have_count(1)


def create_user(service: Service, name: str) -> str:
    """A key that may look after the models, so that a page keeps them."""
    scopes = ["predict", "feedback", "teach", "curate"]
    created = service.http.post("/v1/keys", json={"name": name, "scopes": scopes}).raise_for_status()
    key: str = created.json()["key"]
    return key


def open_board_as(page: Page, service: Service, name: str) -> None:
    """Open the drawing page as another person, whose key did not sign out before."""
    page.context.clear_cookies()
    page.goto(f"{service.url}/draw")
    sign_in(page, create_user(service, name))
    read_cache(page)
    until(lambda: count_of(page, name) > 0, what="a version that is kept")


def count_of(page: Page, name: str, store: str = "models") -> int:
    """How much a store keeps for a person."""
    return sum(f"key:{name}" in each["owner"] for each in read_kept(page, store))


def teach_unsent(page: Page) -> None:
    """Teach a drawing that waits although the service can be reached, because it is busy."""
    page.context.set_offline(True)
    expect_banner(page, LOST)
    teach(page, "star")
    expect_banner(page, "1 name waits to be sent.")
    page.route(
        "**/digits:feedback",
        lambda route: route.fulfill(status=429, headers={"retry-after": "60"}, json={"error": "too many requests"}),
    )
    page.context.set_offline(False)
    expect(page.locator(".banner")).not_to_contain_text(LOST)


def test_signing_out_asks_before_it_deletes_what_waits(visits: Visits, start: Start) -> None:
    service = start(SHIPPED, admin_key=ADMIN_KEY)
    service.http.headers["X-API-Key"] = ADMIN_KEY
    page = visits.open(f"{service.url}/draw")
    open_board_as(page, service, "ann")
    teach_unsent(page)
    page.get_by_role("banner").get_by_role("button", name="ann").click()
    page.get_by_role("button", name="Sign out").click()
    question = page.get_by_role("dialog", name="Sign out with unsent entries?")
    expect(question).to_contain_text("1 entry was not sent yet. Signing out deletes it from this browser.")
    check_accessible(page)
    question.get_by_role("button", name="Cancel").click()
    assert (count_of(page, "ann", "queue"), count_of(page, "ann")) == (1, 1)

    page.get_by_role("banner").get_by_role("button", name="ann").click()
    page.get_by_role("button", name="Sign out").click()
    with page.expect_navigation():
        question.get_by_role("button", name="Sign out and delete").click()
    for store in ("queue", "models", "answers"):
        assert count_of(page, "ann", store) == 0
    assert examples_of(service) == []


FIRST_LAYOUT = """
async ({ owner, conversations }) => {
  const opening = indexedDB.open('online.offline', 1);
  opening.onupgradeneeded = () => {
    const database = opening.result;
    const queue = database.createObjectStore('queue', { autoIncrement: true });
    queue.createIndex('id', 'id', { unique: true });
    const models = database.createObjectStore('models', { keyPath: ['owner', 'model'] });
    const answers = database.createObjectStore('answers', { keyPath: ['owner', 'name'] });
    queue.add({ id: 'f1', owner, model: 'shapes', state: 'sent' });
    models.add({ owner, model: 'shapes', version: '7', etag: '"7"', file: new Uint8Array(1), kept_at: '2026-01-01' });
    answers.add({ owner, name: 'taught of shapes', value: 1 });
    answers.add({ owner, name: 'conversations of chat', value: conversations });
  };
  await new Promise((resolve, reject) => {
    opening.onsuccess = resolve;
    opening.onerror = () => reject(opening.error);
  });
  opening.result.close();
}
"""
LAYOUTS = "async () => (await indexedDB.databases()).map(({ version }) => version)"


@pytest.mark.long
def test_what_an_older_page_has_kept_of_others_stays(visits: Visits, start: Start) -> None:
    service = start(SHIPPED)
    page = visits.open(f"{service.url}/readyz")  # which opens no database
    ann = '["key:ann",null]'
    conversations = [{"id": "c1", "title": "Hours"}, {"id": "c2", "title": "Prices"}]
    page.evaluate(FIRST_LAYOUT, {"owner": ann, "conversations": conversations})
    page.goto(f"{service.url}/draw")
    # Reading the database before would keep its upgrade waiting.
    until(lambda: page.evaluate(LAYOUTS) > [1], what="the present layout")
    until(lambda: any(each["owner"] != ann for each in read_kept(page, "owners")), what="a note of who is here")
    kept = {store: [each for each in read_kept(page, store) if each["owner"] == ann] for store in STORES}
    assert {store: len(records) for store, records in kept.items()} == {
        "queue": 1,
        "models": 1,
        "answers": 3,
        "owners": 1,
    }
    assert {each["name"]: each["value"] for each in kept["answers"]} == {
        "taught of shapes": 1,
        "conversation of chat: c1": conversations[0],
        "conversation of chat: c2": conversations[1],
    }


BROKEN_STORE = """
() => {
  const { transaction } = IDBDatabase.prototype;
  window.mendStore = () => (IDBDatabase.prototype.transaction = transaction);
  IDBDatabase.prototype.transaction = () => {
    throw new DOMException('the disk is full', 'QuotaExceededError');
  };
}
"""
LEFT_LONG_AGO = """
async (name) => {
  const result = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const database = await result(indexedDB.open('online.offline'));
  const owners = database.transaction('owners', 'readwrite').objectStore('owners');
  const [{ owner }] = (await result(owners.getAll())).filter(({ owner }) => owner.includes(name));
  await result(owners.put({ owner, seen_at: new Date(Date.now() - 31 * 86_400_000).toISOString() }));
  database.close();
}
"""


@pytest.mark.long
def test_what_another_account_has_left_expires_and_its_entries_are_deleted_by_a_person(
    visits: Visits, start: Start
) -> None:
    service = start(SHIPPED, admin_key=ADMIN_KEY)
    service.http.headers["X-API-Key"] = ADMIN_KEY
    page = visits.open(f"{service.url}/draw")
    open_board_as(page, service, "ann")
    teach_unsent(page)
    open_board_as(page, service, "ben")
    assert count_of(page, "ann") == 1  # she was here a moment ago
    page.evaluate(LEFT_LONG_AGO, "key:ann")
    page.reload()
    until(lambda: count_of(page, "ann") == 0, what="the end of what is kept for her")
    assert (count_of(page, "ann", "answers"), count_of(page, "ann", "queue")) == (0, 1)

    expect_banner(page, "1 entry of another account in this browser waits until that account signs in.")
    shoot(page, "offline-others-light")
    page.get_by_role("button", name="Delete what waits of another account").click()
    question = page.get_by_role("dialog", name="Delete the entries of another account?")
    expect(question).to_contain_text("1 entry was not sent yet and is lost then")
    shoot(page, "offline-others-question-light")
    check_accessible(page)
    page.evaluate(BROKEN_STORE)
    question.get_by_role("button", name="Delete 1 entry").click()
    expect(page.get_by_text("This browser did not delete the entries. Try again.")).to_be_visible()
    page.evaluate("void window.mendStore()")
    page.get_by_role("button", name="Delete what waits of another account").click()
    question.get_by_role("button", name="Delete 1 entry").click()
    expect(page.locator(".banner")).not_to_contain_text("another account")
    expect(page.locator(".banner").get_by_role("status")).to_be_focused()
    assert (count_of(page, "ann", "queue"), count_of(page, "ben") > 0) == (0, True)


@pytest.mark.long
def test_answers_of_the_device_are_not_rated_by_those_who_may_not_teach(visits: Visits, start: Start) -> None:
    service = start(CHAT, public_teaching="off", admin_key=ADMIN_KEY)
    service.http.headers["X-API-Key"] = ADMIN_KEY
    page = open_chat(visits, service, width=390, height=844)
    expect(ask(page, QUESTION).get_by_role("button", name="Wrong reply")).to_be_visible()
    page.context.set_offline(True)
    expect_banner(page, "Only those who may teach can rate or name what it answers.")
    reply = ask(page, QUESTION)
    expect(reply).to_contain_text("Answered on this device. Only those who may teach can rate it.")
    expect(reply.get_by_role("button", name="Wrong reply")).to_have_count(0)
    expect_banner(page, LOST)
    check_accessible(page)
    shoot(page, "offline-unrated-narrow")
    page.get_by_role("article", name="Reply").first.get_by_role("button", name="Wrong reply").click()
    expect_banner(page, "1 entry waits to be sent.")  # about an answer of the service
    page.context.set_offline(False)
    expect_banner(page, "Sent: 1 learned.")


@pytest.mark.long
def test_a_conversation_with_the_device_is_listed_and_shown_after_a_reload(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    page = open_chat(visits, service)
    page.context.set_offline(True)
    expect_banner(page, LOST)
    ask(page, QUESTION)
    conversations = page.get_by_role("navigation", name="Conversations")
    expect(conversations.get_by_role("listitem")).to_contain_text(QUESTION)
    shoot(page, "offline-conversation-light")
    for is_offline in (True, False):
        page.context.set_offline(is_offline)
        page.reload()
        expect(page.get_by_role("article", name="Reply")).to_contain_text(REPLY)
        expect(page.get_by_role("article", name="Reply")).to_contain_text("Answered on this device.")
        expect(conversations.get_by_role("listitem")).to_contain_text(QUESTION)
    expect(ask(page, "Can I print here?")).to_contain_text("The printer is by the stairs.")  # by the service
    page.reload()
    replies = page.get_by_role("article", name="Reply")
    expect(replies).to_have_count(2)
    expect(replies.first).to_contain_text("Answered on this device.")
    expect(conversations.get_by_role("listitem")).to_have_count(1)
    choose(conversations, "Actions for “Can I print here?”", "Delete…")  # the first question that the service knows
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(conversations.get_by_role("listitem")).to_have_count(0)
