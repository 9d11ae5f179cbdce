"""Every page, dialog and menu at every width and in every colour scheme: axe finds nothing, and nothing is cut off.

One service with a key and one page per scene; only the size of the window and the colours change in between.
"""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import config
from tests.e2e.browsing import Visits, check_accessible, choose, shoot
from tests.e2e.test_page import CHAT, ask
from tests.support import Service

DIGITS = '[[models]]\nname = "digits"\nkind = "classifier"\noptions = { input = "vector", size = 64, scale = 16.0 }\n'
WIDTHS = (320, 390, 768, 1440)
SCHEMES = ("light", "dark", "forced")
SOME = ((320, "forced"), (1440, "dark"))
ALL = tuple((width, scheme) for width in WIDTHS for scheme in SCHEMES)
# Each case of the scene "answered" rates the reply to a question of its own: the bot gives a reply that was called wrong no more,
# and all cases share one service.
RATED = {SOME: "When do you open?", ALL: "How do I join?"}
RATED_BY_FINGER = "Is there wifi?"
MIN_TARGET_PX = 44
SMALL_TARGETS = """
(least) => [...document.querySelectorAll('button, a, input, select, textarea')]
  .filter((each) => each.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !each.closest('.skip, p, .visually-hidden'))
  .map((each) => [each.type === 'radio' || each.type === 'checkbox' ? each.closest('label') : each, each.outerHTML.slice(0, 120)])
  .map(([each, html]) => [each.getBoundingClientRect(), html])
  .filter(([box]) => box.width > 0 && Math.round(box.height) < least)
  .map(([box, html]) => `${Math.round(box.height)} px: ${html}`)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("pages")
    running = Service(folder / "state", config(folder, CHAT + DIGITS))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


def open_answered_chat(page: Page, question: str = RATED[SOME]) -> None:
    ask(page, question)
    page.get_by_role("button", name="Wrong reply").click()
    expect(page.get_by_placeholder("The right reply")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Learned")).to_be_visible()


def open_explanation(page: Page) -> None:
    ask(page, "Can I print here?")
    choose(page, "More actions", "Why this reply?")
    expect(page.get_by_text("How the replies compare")).to_be_visible()


def open_reply_menu(page: Page) -> None:
    ask(page, "Is there wifi?")
    page.get_by_role("button", name="More actions").click()


def open_settings(page: Page) -> None:
    page.get_by_role("banner").get_by_role("button", name="Settings").click()


def open_details(page: Page) -> None:
    choose(page.get_by_role("banner"), "Settings", "Show model details")
    expect(page.get_by_role("complementary", name="Model details")).to_contain_text("running")


def open_shortcuts(page: Page) -> None:
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def wait_for_heading(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()


SCENES: dict[str, tuple[str, Callable[[Page], None]]] = {
    "welcome": ("", lambda page: expect(page.get_by_label("Your question")).to_be_visible()),
    "answered": ("", open_answered_chat),
    "explanation": ("", open_explanation),
    "reply menu": ("", open_reply_menu),
    "settings": ("", open_settings),
    "details": ("", open_details),
    "shortcuts": ("", open_shortcuts),
    "dead link": ("shared?id=none", lambda page: expect(page.get_by_role("alert")).to_be_visible()),
    "repertoire": ("repertoire", wait_for_heading),
    "inbox": ("inbox", wait_for_heading),
    "draw": ("draw", wait_for_heading),
    "learning": ("learning", wait_for_heading),
    "reports": ("reports", wait_for_heading),
    "cluster": ("cluster", wait_for_heading),
}


@pytest.mark.parametrize("looks", [pytest.param(SOME, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.long)])
@pytest.mark.few(6)
@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_is_accessible_at_every_width_in_every_scheme(
    visits: Visits, service: Service, scene: str, looks: tuple[tuple[int, str], ...]
) -> None:
    path, prepare = SCENES[scene]
    page = visits.open(f"{service.url}/{path}", width=1440)
    open_answered_chat(page, RATED[looks]) if scene == "answered" else prepare(page)
    for width, scheme in looks:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(
            color_scheme="dark" if scheme == "dark" else "light",
            forced_colors="active" if scheme == "forced" else "none",
        )
        check_accessible(page)
        shoot(page, f"scene-{scene.replace(' ', '-')}-{width}-{scheme}")


def test_every_control_of_the_chat_is_large_enough_for_a_finger(visits: Visits, service: Service) -> None:
    context = visits.browser.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True, color_scheme="light"
    )
    page = context.new_page()
    page.goto(service.url)
    open_answered_chat(page, RATED_BY_FINGER)
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    assert page.evaluate(SMALL_TARGETS, MIN_TARGET_PX) == []
    page.get_by_role("button", name="Conversations", exact=True).click()
    expect(page.get_by_role("dialog", name="Conversations")).to_be_visible()
    assert page.evaluate(SMALL_TARGETS, MIN_TARGET_PX) == []
    context.close()
