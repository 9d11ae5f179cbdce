"""The page without its service: the cached shell opens, reports the outage, and recovers by itself."""

import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.conftest import Start, config
from tests.e2e.browsing import SIZES, SLOW_MS, Visits, check_accessible, shoot
from tests.support import Service, until

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
LOST = "No connection to the server."
CACHED_FILES = """
async () => {
  const names = (await caches.keys()).filter((name) => name.startsWith('online-shell-'));
  const urls = await Promise.all(names.map(async (name) => (await (await caches.open(name)).keys()).map(({ url }) => url)));
  return { names, paths: urls.flat().map((url) => new URL(url).pathname) };
}
"""


def read_cache(page: Page) -> dict[str, Any]:
    """List what the service worker has cached, once it is active."""
    until(lambda: page.evaluate("navigator.serviceWorker.controller?.state === 'activated'"), what="the service worker")
    cache: dict[str, Any] = page.evaluate(CACHED_FILES)
    return cache


def ask(page: Page, question: str) -> None:
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")


def test_a_page_that_was_loading_when_the_worker_became_active_gets_it_too(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    page = visits.open(f"{service.url}/readyz")  # which registers no worker
    with page.expect_popup() as popup:
        page.evaluate("() => void open('/readyz')")
    held: list[Route] = []
    page.route("**/draw", lambda route: held.append(route))
    page.evaluate("setTimeout(() => location.assign('/draw'))")
    # Asking for cookies lets the handler run; a question to the page itself would wait for its navigation.
    until(lambda: page.context.cookies() == [] and held, what="the request for the page")
    popup.value.goto(service.url)
    read_cache(popup.value)
    held[0].continue_()
    expect(page.get_by_role("banner")).to_be_visible()
    assert "/" in read_cache(page)["paths"]


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_page_works_offline_and_recovers_when_the_service_is_back(
    visits: Visits, start: Start, width: int, scheme: str
) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    port = str(urlsplit(service.url).port)
    page = visits.open(service.url, width=width, scheme=scheme)
    ask(page, "When do you open?")
    reply = page.get_by_role("article", name="Reply").last
    expect(reply).to_contain_text("We open at nine.")
    read_cache(page)

    service.stop(signal.SIGTERM)
    expect(page.get_by_text(LOST)).to_be_visible(timeout=SLOW_MS)
    expect(reply).to_contain_text("We open at nine.")
    page.reload()
    expect(page.get_by_text(LOST)).to_be_visible(timeout=SLOW_MS)
    page.goto(f"{service.url}/reports")  # without the service it is not known what the visitor may see
    expect(page.get_by_role("heading", name="Reports", level=1)).to_be_visible()
    check_accessible(page)
    shoot(page, f"offline-{scheme}")
    page.go_back()

    start(CHAT, ("--port", port))
    expect(page.get_by_text(LOST)).to_be_hidden(timeout=SLOW_MS)
    expect(reply).to_contain_text("We open at nine.", timeout=SLOW_MS)  # the conversation is part of the URL
    ask(page, "Can I print here?")
    expect(page.get_by_role("article", name="Reply").last).to_contain_text("The printer is by the stairs.")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("chat")
    running = Service(folder / "state", config(folder, CHAT))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


def test_the_whole_shell_is_cached_but_no_answer_of_the_api(visits: Visits, chat: Service) -> None:
    page = visits.open(chat.url)
    ask(page, "When do you open?")
    expect(page.get_by_role("article", name="Reply").last).to_contain_text("We open at nine.")
    cache = read_cache(page)
    assert len(cache["names"]) == 1
    others = {path for path in cache["paths"] if not path.startswith("/assets/")}
    assert others == {"/", "/favicon.svg", "/icon-192.png", "/manifest.webmanifest"}
    assert len(cache["paths"]) > len(others) + 5  # also the pages that were not opened yet

    page.context.set_offline(True)
    expect(page.get_by_text(LOST)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Chat")).to_be_attached()
    expect(page.get_by_text(LOST)).to_be_visible()
    assert page.evaluate("fetch('/v1/models').then(() => 'cached', () => 'not cached')") == "not cached"
    page.context.set_offline(False)
    expect(page.get_by_text(LOST)).to_be_hidden()


def test_the_cache_of_an_older_build_is_deleted(visits: Visits, chat: Service) -> None:
    page = visits.open(f"{chat.url}/docs")  # a page without a service worker
    page.evaluate("async () => { await caches.open('online-shell-old'); await caches.open('another-cache') }")
    page.goto(chat.url)
    assert len(read_cache(page)["names"]) == 1
    assert "online-shell-old" not in page.evaluate("caches.keys()")
    assert "another-cache" in page.evaluate("caches.keys()")


STORED_TITLES = """
async () => {
  const pages = await Promise.all((await caches.keys()).map(async (name) => (await caches.open(name)).match('/')));
  const texts = await Promise.all(pages.filter(Boolean).map((page) => page.text()));
  return texts.map((text) => new DOMParser().parseFromString(text, 'text/html').title);
}
"""


@pytest.mark.long
def test_the_stored_page_follows_the_branding_of_the_service(visits: Visits, start: Start) -> None:
    service = start(CHAT, page_name="Before")
    address = f"{service.url}/learning"
    page = visits.open(address)
    read_cache(page)
    assert page.evaluate(STORED_TITLES) == ["Before"]

    service.stop(signal.SIGTERM)
    start(CHAT, ("--port", str(urlsplit(service.url).port)), page_name="After")
    page.reload()
    expect(page).to_have_title("Learning · After")
    until(lambda: "After" in page.evaluate(STORED_TITLES), what="another service worker")
    page.goto("about:blank")  # no page of the previous one is open: the new one takes over
    page.goto(address)
    until(lambda: page.evaluate(STORED_TITLES) == ["After"], what="the end of the previous one")
    page.context.set_offline(True)
    page.reload()
    expect(page).to_have_title("Learning · After")


def test_chromium_can_install_the_page(visits: Visits, chat: Service) -> None:
    page = visits.open(chat.url)
    read_cache(page)
    session = page.context.new_cdp_session(page)
    manifest = session.send("Page.getAppManifest")
    assert not manifest["errors"] and '"display": "standalone"' in manifest["data"]
    errors = [each["errorId"] for each in session.send("Page.getInstallabilityErrors")["installabilityErrors"]]
    assert [each for each in errors if each != "in-incognito"] == []  # the profile of a test is incognito


def test_the_files_have_cache_control_headers(chat: Service) -> None:
    def policy(path: str) -> str:
        response = chat.http.get(path)
        assert response.status_code == 200
        return response.headers["Cache-Control"]

    page = chat.http.get("/").text
    script = page.split('src="./')[1].split('"')[0]
    assert policy(f"/{script}") == "public, max-age=31536000, immutable"
    assert [policy(path) for path in ("/", "/reports", "/sw.js", "/manifest.webmanifest")] == ["no-cache"] * 4
    assert chat.http.get("/manifest.webmanifest").headers["Content-Type"] == "application/manifest+json"
    assert chat.http.get("/sw.js").headers["Content-Type"].startswith("text/javascript")
