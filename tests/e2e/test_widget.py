"""The widget in a real Chromium, on pages of another origin: http://localhost, while the service is at http://127.0.0.1."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from tests.conftest import config
from tests.e2e.browsing import ROOT, SLOW_MS, check_accessible, origin_of, shoot
from tests.support import Service, skip_or_fail

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
EXAMPLES = ROOT / "frontend" / "examples"
PLACEHOLDER = "https://chat.example.com/"  # the address of the service in the examples
MAX_BYTES = 20_000  # compressed, of all that the widget loads before it can be seen
QUESTION, REPLY = "When do you open?", "We open at nine."
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript"}
SIZES = [
    (1440, "light"),
    pytest.param(1440, "dark", marks=pytest.mark.long),
    pytest.param(390, "light", marks=pytest.mark.long),
    (390, "dark"),
]


class Site:
    """A web site of somebody else. pages: content by path; headers: of every answer."""

    def __init__(self) -> None:
        site = self
        self.pages, self.headers = dict[str, str](), dict[str, str]()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                content = site.pages.get(self.path)
                body = (content or "").encode()
                self.send_response(200 if content is not None else 404)
                kind = KINDS.get(Path(self.path).suffix, KINDS[".html"])
                for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **site.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *_: object) -> None:
                """Keep quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://localhost:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture(autouse=True)
def _without_leftovers(site: Site) -> None:
    site.pages.clear()
    site.headers.clear()


@contextmanager
def serve(folder: Path, **settings: str | list[str]) -> Iterator[Service]:
    service = Service(folder / "state", config(folder, CHAT, admin_key="open sesame", **settings))
    service.http.headers["X-API-Key"] = "open sesame"
    service.wait_learned("chat", 1)
    yield service
    service.stop()


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Service]:
    """A service whose visitors teach at once, also on the pages of the site."""
    with serve(tmp_path_factory.mktemp("taught"), public_teaching="on", widget_origins=[site.url]) as service:
        yield service


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Service]:
    """A service that reviews what visitors teach, and allows the site to show its chat."""
    with serve(tmp_path_factory.mktemp("reviewed"), public_teaching="review", widget_origins=[site.url]) as service:
        yield service


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that allows no other site to show its chat."""
    with serve(tmp_path_factory.mktemp("closed"), public_teaching="on") as service:
        yield service


class Visit:
    """One page of the site in a browser of its own."""

    def __init__(self, browser: Browser, width: int, scheme: str, locale: str) -> None:
        self.console, self.errors, self.requests = list[str](), list[str](), list[Request]()
        self.urls = list[str]()  # of the requests, before a test has led them elsewhere
        context = browser.new_context(
            viewport={"width": width, "height": 844 if width < 500 else 900},
            color_scheme="dark" if scheme == "dark" else "light",
            locale=locale,
            reduced_motion="reduce",
        )
        self.page = context.new_page()
        self.page.set_default_timeout(SLOW_MS)
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._note)

    def _note(self, request: Request) -> None:
        self.requests.append(request)
        self.urls.append(request.url)


Open = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator[Open]:
    """Open a page of the site. Fails if a script of a page has failed, or a request went to a third origin."""
    visits = list[tuple[Visit, set[tuple[str, str]]]]()

    def open_page(
        service: Service, html: str, width: int = 1440, scheme: str = "light", locale: str = "en-US"
    ) -> Visit:
        site.pages["/"] = html
        opened = Visit(browser, width, scheme, locale)
        visits.append((opened, {origin_of(service.url), origin_of(site.url)}))
        opened.page.goto(f"{site.url}/")
        return opened

    yield open_page
    for opened, known in visits:
        opened.page.context.close()
        assert not opened.errors
        asked = {origin_of(request.url) for request in opened.requests if not request.url.startswith("data:")}
        assert asked <= known


def html_with(service: Service, attributes: str = "", body: str = "", head: str = "") -> str:
    tag = f'<script src="{service.url}/widget.js" data-model="chat" {attributes}></script>'
    return (
        '<!doctype html><html lang="en"><head><title>A shop</title><meta name="viewport" content="width=device-width">'
        f"{head}</head><body><main><h1>A shop</h1><p>We sell things.</p>{body}</main>{tag}</body></html>"
    )


def open_chat(page: Page) -> Locator:
    button(page, "Open the chat").click()
    panel = page.get_by_role("dialog")
    expect(panel).to_be_visible()
    return panel


def ask(panel: Locator, question: str) -> Locator:
    replies = panel.get_by_role("article", name="Reply")
    count = replies.count()
    panel.get_by_label("Your question").fill(question)
    button(panel, "Ask").click()
    expect(replies).to_have_count(count + 1)
    return replies.last


def button(where: Page | Locator, name: str) -> Locator:
    return where.get_by_role("button", name=name, exact=True)


def last_turn(panel: Locator) -> Locator:
    return panel.get_by_role("listitem").filter(has=panel.page.get_by_role("article")).last


def visitor_storage(page: Page) -> dict[str, str]:
    stored: dict[str, str] = page.evaluate("() => ({...localStorage})")
    return stored


# what users copy


def test_the_plain_example_answers_and_a_thumb_changes_the_next_answer(visit: Open, taught: Service) -> None:
    example = (EXAMPLES / "plain.html").read_text()
    assert PLACEHOLDER in example
    page = visit(taught, example.replace(PLACEHOLDER, f"{taught.url}/")).page
    panel = open_chat(page)
    question = "Can I print here?"
    expect(ask(panel, question)).to_have_text("The printer is by the stairs.")
    turn = panel.get_by_role("listitem").first
    button(turn, "Wrong reply").click()
    expect(button(turn, "Wrong reply")).to_have_attribute("aria-pressed", "true")
    expect(turn).to_contain_text("Learned")
    expect(ask(panel, question)).not_to_have_text("The printer is by the stairs.")

    button(turn, "Undo").click()
    expect(turn).to_contain_text("Taken back")
    expect(button(turn, "Wrong reply")).to_have_attribute("aria-pressed", "false")


@cache
def find_vite() -> Path:
    vite = ROOT / "frontend" / "node_modules" / "vite" / "bin" / "vite.js"
    if not vite.exists() or not (ROOT / "frontend" / "node_modules" / "react").exists() or shutil.which("node") is None:
        skip_or_fail("vite, react or node is not installed: make page")
    return vite


def build_react(service: Service, folder: Path) -> dict[str, str]:
    """The built React example by path."""
    command = [
        "node",
        str(find_vite()),
        "build",
        str(EXAMPLES / "react"),
        "--outDir",
        str(folder),
        "--logLevel",
        "error",
    ]
    environment = {**os.environ, "VITE_CHAT": f"{service.url}/"}
    subprocess.run(command, check=True, env=environment, cwd=ROOT / "frontend", timeout=120)
    files = {f"/{path.relative_to(folder)}": path.read_text() for path in folder.rglob("*.*")}
    return {**files, "/": files["/index.html"]}


@pytest.mark.long
def test_the_react_example_makes_and_removes_the_chat(visit: Open, site: Site, taught: Service, tmp_path: Path) -> None:
    site.pages |= build_react(taught, tmp_path / "built")
    page = visit(taught, site.pages["/"]).page
    chat = page.get_by_role("region", name="Questions")
    expect(chat).to_have_count(1)  # React runs each effect twice while developing, and the first widget is removed
    expect(ask(chat, QUESTION)).to_have_text(REPLY)
    expect(page.get_by_role("main")).to_contain_text("Replies: 1")
    check_accessible(page)
    button(page, "Hide the chat").click()
    expect(chat).to_have_count(0)
    assert page.evaluate("online.widgets.length") == 0
    button(page, "Show the chat").click()
    expect(chat.get_by_role("article", name="Reply")).to_have_text(REPLY)  # the conversation goes on


# who may show it


def test_a_page_that_is_not_allowed_shows_nothing_and_says_why(visit: Open, site: Site, closed: Service) -> None:
    opened = visit(closed, html_with(closed))
    with opened.page.expect_console_message(lambda message: "widget_origins" in message.text):
        opened.page.reload()
    page = opened.page
    expect(page.locator("online-chat")).to_have_count(1)
    expect(page.get_by_role("button")).to_have_count(0)
    said = next(text for text in opened.console if "widget_origins" in text)
    assert f'Add "{site.url}" to its setting widget_origins' in said
    assert page.evaluate("online.ask('Do you see me?')") is None
    page.evaluate("online.open()")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert visitor_storage(page) == {}
    assert not [each for each in opened.requests if "/v1/models/" in each.url]


@pytest.mark.long
def test_a_service_without_visitors_says_what_to_set(visit: Open, site: Site, tmp_path: Path) -> None:
    with serve(tmp_path, widget_origins=[site.url]) as private:
        opened = visit(private, html_with(private))
        with opened.page.expect_console_message(lambda message: "public_teaching" in message.text):
            opened.page.reload()
        expect(opened.page.get_by_role("button")).to_have_count(0)


@pytest.mark.long
def test_a_visitor_needs_no_cookie_and_is_known_by_nothing_before_the_first_question(
    visit: Open, taught: Service
) -> None:
    page = visit(taught, html_with(taught)).page
    panel = open_chat(page)
    assert visitor_storage(page) == {}
    ask(panel, QUESTION)
    assert [*visitor_storage(page)] == [f"online visitor {taught.url}/"]
    assert page.context.cookies() == []


@pytest.mark.long
def test_the_conversation_goes_on_after_the_page_was_left(visit: Open, taught: Service) -> None:
    page = visit(taught, html_with(taught)).page
    panel = open_chat(page)
    ask(panel, "Is there wifi?")
    button(last_turn(panel), "Good reply").click()
    expect(last_turn(panel)).to_contain_text("Learned")
    page.reload()
    panel = open_chat(page)
    expect(panel.get_by_role("article", name="Reply")).to_have_text("The network is called Guest.")
    expect(button(panel, "Good reply")).to_have_attribute("aria-pressed", "true")
    button(panel, "Undo").click()
    expect(button(panel, "Good reply")).to_have_attribute("aria-pressed", "false")
    expect(panel).to_contain_text("Taken back")


@pytest.mark.long
def test_a_visitor_whose_token_is_not_accepted_any_more_gets_another(visit: Open, taught: Service) -> None:
    page = visit(taught, html_with(taught)).page
    key = f"online visitor {taught.url}/"
    page.evaluate("([key, token]) => localStorage.setItem(key, token)", [key, "forged.token"])
    page.reload()
    expect(ask(open_chat(page), QUESTION)).to_have_text(REPLY)
    assert visitor_storage(page)[key] != "forged.token"


# teaching


@pytest.mark.long
def test_a_correction_is_learned_and_given_to_the_next_visitor(visit: Open, taught: Service) -> None:
    question, lesson = "Do you lend umbrellas?", "Umbrellas are lent at the desk."
    page = visit(taught, html_with(taught)).page
    panel = open_chat(page)
    ask(panel, question)
    turn = last_turn(panel)
    if button(turn, "Wrong reply").count():
        button(turn, "Wrong reply").click()
    turn.get_by_label("What should I have said?").fill(lesson)
    button(turn, "Teach").click()
    expect(turn).to_contain_text(f"You taught: “{lesson}”")
    expect(turn).to_contain_text("Learned")
    stranger = visit(taught, html_with(taught)).page
    expect(ask(open_chat(stranger), question)).to_have_text(lesson)


@pytest.mark.long
def test_a_correction_is_held_where_it_is_reviewed(visit: Open, reviewed: Service) -> None:
    page = visit(reviewed, html_with(reviewed)).page
    panel = open_chat(page)
    expect(panel).to_contain_text("A person checks a suggestion before I use it.")
    ask(panel, "Do you lend umbrellas?")
    turn = last_turn(panel)
    if button(turn, "Wrong reply").count():
        button(turn, "Wrong reply").click()
    turn.get_by_label("What should I have said?").fill("Umbrellas are lent at the desk.")
    button(turn, "Suggest").click()
    expect(turn).to_contain_text("You suggested: “Umbrellas are lent at the desk.”")
    expect(turn).to_contain_text("Saved. It is checked before it is learned.")


@pytest.mark.long
def test_a_reply_with_tags_and_scripts_is_shown_as_text(visit: Open, taught: Service) -> None:
    evil = (
        '<img src=x onerror="window.hacked = 1"> [free](javascript:window.hacked=1) **[shop](https://shop.example/)**'
    )
    reply = {"text": evil, "examples": ["What about prizes?"]}
    offset = taught.http.post("/v1/models/chat/replies", json=reply).json()["offset"]
    taught.wait_learned("chat", offset)
    page = visit(taught, html_with(taught)).page
    shown = ask(open_chat(page), "What about prizes?")
    expect(shown).to_contain_text('<img src=x onerror="window.hacked = 1"> [free](javascript:window.hacked=1)')
    expect(shown.locator("img")).to_have_count(0)
    link = shown.get_by_role("link")
    expect(link).to_have_count(1)
    expect(link).to_have_attribute("href", "https://shop.example/")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    assert page.evaluate("window.hacked") is None


# keyboard, screen readers, sizes


def focused(page: Page) -> str:
    name: str = page.evaluate(
        "() => { const at = document.activeElement?.shadowRoot?.activeElement ?? document.activeElement;"
        " return at.getAttribute('aria-label') ?? at.textContent }"
    )
    return name


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.long)])
def test_everything_is_done_by_keyboard(visit: Open, taught: Service, width: int) -> None:
    page = visit(taught, html_with(taught), width).page
    expect(button(page, "Open the chat")).to_be_visible()
    page.keyboard.press("Tab")
    assert focused(page) == "Open the chat"
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel.get_by_label("Your question")).to_be_focused()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    expect(panel.get_by_role("article", name="Reply")).to_have_text(REPLY)
    expect(panel.get_by_role("status")).to_have_text(REPLY)  # what a screen reader says
    page.keyboard.press("Shift+Tab")
    assert focused(page) == "Wrong reply"
    page.keyboard.press("Shift+Tab")
    assert focused(page) == "Good reply"
    page.keyboard.press("Space")
    expect(panel.get_by_role("status")).to_have_text("Learned")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert focused(page) == "Undo"
    page.keyboard.press("Enter")
    expect(panel.get_by_role("status")).to_have_text("Taken back")
    assert focused(page) == "Your question"  # the button that had the focus is gone
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert focused(page) == "Open the chat"


@pytest.mark.long
def test_on_a_small_screen_the_page_behind_the_panel_cannot_be_reached(visit: Open, taught: Service) -> None:
    page = visit(taught, html_with(taught, body='<a href="/">Home</a>'), 390).page
    panel = open_chat(page)
    assert panel.bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 844}
    reached = set[str]()
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.add(focused(page))
    assert "Home" not in reached and {"Your question", "Ask", "Close the chat"} <= reached


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_it_is_accessible_in_every_state(visit: Open, reviewed: Service, width: int, scheme: str) -> None:
    page = visit(reviewed, html_with(reviewed), width, scheme).page
    expect(button(page, "Open the chat")).to_be_visible()
    check_accessible(page)
    shoot(page, f"widget-closed-{width}-{scheme}")
    panel = open_chat(page)
    check_accessible(page)
    shoot(page, f"widget-empty-{width}-{scheme}")
    ask(panel, QUESTION)
    ask(panel, "How do I renew a book?")
    turn = last_turn(panel)
    button(turn, "Wrong reply").click()
    expect(turn).to_contain_text("Saved")
    expect(button(turn, "Suggest")).to_be_in_viewport(ratio=1)
    check_accessible(page)
    check_targets(panel)
    shoot(page, f"widget-rated-{width}-{scheme}")


def check_targets(panel: Locator) -> None:
    """Each control is at least 44 px high and wide (WCAG 2.2, 2.5.5)."""
    for control in panel.locator("button:visible, textarea:visible").all():
        box = control.bounding_box()
        assert box is not None and box["width"] >= 44 and box["height"] >= 44, control.evaluate("(e) => e.outerHTML")


@pytest.mark.long
def test_nothing_moves_where_people_want_no_motion(visit: Open, taught: Service) -> None:
    page = visit(taught, html_with(taught)).page
    panel = open_chat(page)
    assert panel.evaluate("(panel) => getComputedStyle(panel).animationName") == "none"
    page.emulate_media(reduced_motion="no-preference")
    assert panel.evaluate("(panel) => getComputedStyle(panel).animationName") == "appear"


# looks


def test_neither_style_sheet_reaches_the_other_page(visit: Open, taught: Service) -> None:
    hostile = (
        "<style>body * { font-size: 40px !important; color: rgb(255, 0, 0) !important; letter-spacing: 9px }"
        " button, dialog, textarea { display: none !important } html { font-size: 62.5% }</style>"
    )
    page = visit(taught, html_with(taught, head=hostile)).page
    panel = open_chat(page)
    expect(ask(panel, QUESTION)).to_have_text(REPLY)
    style = panel.evaluate(
        "(panel) => (({fontSize, color, letterSpacing}) => [fontSize, color, letterSpacing])(getComputedStyle(panel))"
    )
    assert style == ["16px", "rgb(23, 33, 28)", "normal"]
    assert page.evaluate("getComputedStyle(document.querySelector('main p')).color") == "rgb(255, 0, 0)"


@pytest.mark.long
def test_attributes_and_custom_properties_change_how_it_looks(visit: Open, taught: Service) -> None:
    head = "<style>:root { --online-width: 300px; --online-radius: 0; --online-background: rgb(250, 240, 230) }</style>"
    attributes = (
        'data-accent="#ffe14d" data-theme="light" data-position="bottom-left" data-title="Ask the shop" '
        'data-greeting="What are you looking for?"'
    )
    page = visit(taught, html_with(taught, attributes, head=head), scheme="dark").page
    panel = open_chat(page)
    expect(panel).to_have_attribute("aria-label", "Ask the shop")
    expect(panel).to_contain_text("What are you looking for?")
    box = panel.bounding_box()
    assert box is not None and (box["x"], box["width"]) == (20, 300)
    style = panel.evaluate(
        "(panel) => (({backgroundColor, color, borderRadius}) => "
        "[backgroundColor, color, borderRadius])(getComputedStyle(panel))"
    )
    assert style == ["rgb(250, 240, 230)", "rgb(23, 33, 28)", "0px"]
    sent = button(panel, "Ask").evaluate(
        "(e) => (({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(e))"
    )
    assert sent == ["rgb(255, 225, 77)", "rgb(0, 0, 0)"]  # black can be read on yellow
    check_accessible(page)
    shoot(page, "widget-themed")


@pytest.mark.long
@pytest.mark.parametrize(("width", "is_open"), [(1440, True), (390, False)])
def test_it_opens_by_itself_where_it_does_not_cover_the_page(
    visit: Open, taught: Service, width: int, is_open: bool
) -> None:
    html = html_with(taught, "data-open", body="<label>Search <input autofocus></label>")
    page = visit(taught, html, width).page
    expect(button(page, "Close the chat").last if is_open else button(page, "Open the chat")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(1 if is_open else 0)
    expect(page.get_by_label("Search")).to_be_focused()


@pytest.mark.long
def test_it_speaks_the_language_of_the_page(visit: Open, taught: Service) -> None:
    page = visit(taught, html_with(taught).replace('lang="en"', 'lang="de-AT"')).page
    button(page, "Chat öffnen").click()
    expect(page.get_by_label("Ihre Frage")).to_be_focused()
    expect(page.get_by_role("dialog")).to_contain_text("Fragen Sie mich etwas")


# programs


def test_a_page_has_several_widgets_and_a_program_uses_them(visit: Open, taught: Service) -> None:
    listen = """<div id="help"></div><script>
      window.heard = [];
      addEventListener('online:ready', () =>
        ['ready', 'open', 'close', 'question', 'reply', 'feedback', 'learned', 'retracted'].forEach((name) =>
          online.on(name, (detail, widget) => heard.push([name, online.widgets.indexOf(widget), detail]))));
    </script>"""
    html = (
        html_with(taught, body=listen)
        + html_with(taught, 'data-target="#help" data-title="Help"').partition("</main>")[2]
    )
    page = visit(taught, html).page
    inline = page.get_by_role("region", name="Help")
    expect(inline).to_be_visible()
    expect(button(page, "Open the chat")).to_be_visible()
    check_accessible(page)
    answered = page.evaluate("question => online.widgets[1].ask(question)", QUESTION)
    assert (answered["question"], answered["text"]) == (QUESTION, REPLY)
    expect(inline.get_by_role("article", name="Reply")).to_have_text(REPLY)
    button(inline, "Good reply").click()
    expect(inline).to_contain_text("Learned")
    page.evaluate("online.open()")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("article")).to_have_count(0)  # each has its own conversation
    page.evaluate("online.close()")
    heard: list[tuple[str, int, dict[str, Any]]] = page.evaluate("heard")
    named = [(name, place) for name, place, _ in heard]
    assert sorted(named[:2]) == [("ready", 0), ("ready", 1)]
    assert named[2:] == [("question", 1), ("reply", 1), ("feedback", 1), ("learned", 1), ("open", 0), ("close", 0)]
    details = {name: detail for name, _, detail in heard}
    assert details["feedback"] == {"predictionId": answered["predictionId"], "given": "up", "isHeld": False}
    assert details["learned"]["predictionId"] == answered["predictionId"]
    page.evaluate("online.destroy()")
    expect(page.locator("online-chat")).to_have_count(0)
    assert page.evaluate("online.widgets.length") == 0


def test_it_obeys_a_strict_policy_of_the_page(visit: Open, site: Site, taught: Service) -> None:
    site.headers |= {
        "Content-Security-Policy": f"default-src 'none'; script-src {taught.url}; connect-src {taught.url}; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
        "Cross-Origin-Embedder-Policy": "require-corp",
    }
    opened = visit(taught, html_with(taught, 'data-accent="#7a1fa2"'))
    expect(ask(open_chat(opened.page), QUESTION)).to_have_text(REPLY)
    assert not [text for text in opened.console if "Policy" in text and "favicon" not in text]


# failures


@pytest.mark.long
def test_a_service_that_does_not_answer_is_said_and_asked_again(visit: Open, taught: Service) -> None:
    page = visit(taught, html_with(taught)).page
    panel = open_chat(page)
    page.route(f"{taught.url}/**", lambda route: route.abort())
    panel.get_by_label("Your question").fill(QUESTION)
    button(panel, "Ask").click()
    alert = panel.get_by_role("alert")
    expect(alert).to_have_text("The chat cannot be reached now. Try again in a moment.")
    expect(panel.get_by_label("Your question")).to_have_value(QUESTION)  # nothing typed is lost
    check_accessible(page)
    shoot(page, "widget-unreachable")
    page.unroute(f"{taught.url}/**")
    button(panel, "Ask").click()
    expect(panel.get_by_role("article", name="Reply")).to_have_text(REPLY)
    expect(alert).to_be_empty()


@pytest.mark.long
def test_a_service_that_does_not_answer_at_first_can_be_tried_again(visit: Open, site: Site, taught: Service) -> None:
    opened = visit(taught, "<title>A shop</title>")
    page = opened.page
    page.route(f"{taught.url}/v1/**", lambda route: route.abort())
    page.route(f"{taught.url}/healthz", lambda route: route.abort())
    site.pages["/"] = html_with(taught)
    page.reload()
    panel = open_chat(page)
    expect(panel.get_by_role("alert")).to_contain_text("The chat cannot be reached now.")
    page.unroute_all()
    button(panel, "Try again").click()
    expect(panel.get_by_role("alert")).to_be_empty()
    expect(ask(panel, QUESTION)).to_have_text(REPLY)


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "answer", "sentence"),
    [
        (429, {"error": "slow down"}, "Too many requests. Try again in 7 seconds."),
        (413, {"error": "long", "given": 9000, "limit": 8000}, "Too long: 9000 of 8000 characters."),
        (503, {"error": "starting"}, "The service is busy or starting. Try again in a moment."),
        (500, None, "Something went wrong on the server. Try again."),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_an_error_of_the_service_is_told_plainly(
    visit: Open, site: Site, taught: Service, status: int, answer: object, sentence: str
) -> None:
    opened = visit(taught, html_with(taught))
    panel = open_chat(opened.page)
    headers = {
        "Access-Control-Allow-Origin": site.url,
        "Access-Control-Expose-Headers": "retry-after",
        "Retry-After": "7",
        "Content-Type": "application/json",
    }

    def refuse(route: Route) -> None:
        if route.request.method == "OPTIONS":
            route.continue_()
        else:
            route.fulfill(status=status, headers=headers, body="<html>" if answer is None else json.dumps(answer))

    opened.page.route("**/*:predict", refuse)
    panel.get_by_label("Your question").fill(QUESTION)
    button(panel, "Ask").click()
    expect(panel.get_by_role("alert")).to_have_text(sentence)


# loading


@pytest.mark.long
def test_it_works_below_a_path_prefix(visit: Open, site: Site, taught: Service) -> None:
    prefix = "/tools/online"
    opened = visit(taught, "<title>A shop</title>")
    opened.page.route(f"**{prefix}/**", lambda route: route.continue_(url=route.request.url.replace(prefix, "", 1)))
    site.pages["/"] = html_with(taught).replace("/widget.js", f"{prefix}/widget.js")
    opened.page.reload()
    expect(ask(open_chat(opened.page), QUESTION)).to_have_text(REPLY)
    asked = [urlsplit(url).path for url in opened.urls if origin_of(url) == origin_of(taught.url)]
    assert asked and all(path.startswith(f"{prefix}/") for path in asked)


def test_it_is_small_with_two_requests_until_it_is_seen(visit: Open, taught: Service) -> None:
    opened = visit(taught, html_with(taught))
    expect(button(opened.page, "Open the chat")).to_be_visible()
    ours = [each for each in opened.requests if origin_of(each.url) == origin_of(taught.url)]
    assert [urlsplit(each.url).path for each in ours] == ["/widget.js", "/v1/session"]
    sizes = [each.sizes() for each in ours]
    sent = sum(each["responseBodySize"] + each["responseHeadersSize"] for each in sizes)
    assert 5_000 < sent < MAX_BYTES
    gzipped = taught.http.get("/widget.js", headers={"Accept-Encoding": "gzip"})
    assert 5_000 < int(gzipped.headers["content-length"]) < MAX_BYTES - 2_000  # the rest is for the session and headers
