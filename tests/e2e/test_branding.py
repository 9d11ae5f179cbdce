"""A service with a name, a logo and a color of its own, on its chat page in a real Chromium."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.conftest import config
from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.support import Service

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="15" fill="#7a1f3d"/>'
    "<script>document.title = 'run'</script></svg>"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("branded")
    (folder / "logo.svg").write_text(LOGO)
    settings: dict[str, str | list[str]] = {
        "page_name": "City Museum",
        "page_logo": str(folder / "logo.svg"),
        "page_greeting": "Welcome to the museum!",
        "page_intro": "Ask about tickets & opening hours.",
        "page_color": "#ffcc00",
        "page_suggestions": ["When do you open?"],
        "page_language": "en",
    }
    translated = '\n[page_translations.de]\ngreeting = "Willkommen im Museum!"\n'
    running = Service(folder / "state", config(folder, CHAT + translated, **settings))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


@pytest.mark.long
def test_the_chat_page_has_the_name_the_logo_and_the_color_of_its_service(visits: Visits, service: Service) -> None:
    page = visits.open(service.url)
    expect(page).to_have_title("City Museum")
    expect(page.get_by_role("banner")).to_contain_text("City Museum")
    expect(page.get_by_role("heading", name="Welcome to the museum!")).to_be_visible()
    expect(page.get_by_text("Ask about tickets & opening hours.")).to_be_visible()
    logo = page.get_by_role("banner").locator("img")
    assert logo.evaluate("(image) => image.decode().then(() => image.src)") == f"{service.url}/page-logo"
    page.get_by_role("button", name="When do you open?").click()
    reply = page.get_by_role("article", name="Reply")
    expect(reply).to_contain_text("We open at nine.")
    reply.get_by_role("button", name="Good reply").click()
    expect(reply.get_by_role("status")).to_contain_text("Learned")
    accent = "getComputedStyle(document.documentElement).getPropertyValue('--accent-light')"
    assert page.evaluate(accent) == "#786000"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        check_accessible(page)  # the contrast of the color, too
        shoot(page, f"branding-{scheme}")


@pytest.mark.long
def test_a_german_visitor_reads_the_translations_and_what_has_none_is_marked(visits: Visits, service: Service) -> None:
    page = visits.open(service.url, locale="de-DE")
    greeting = page.get_by_role("heading", name="Willkommen im Museum!")
    expect(greeting).to_be_visible()
    assert greeting.get_attribute("lang") is None
    expect(page.get_by_text("Ask about tickets & opening hours.")).to_have_attribute("lang", "en")
    expect(page.get_by_role("button", name="When do you open?")).to_have_attribute("lang", "en")
    check_accessible(page)


@pytest.mark.long
def test_a_logo_opened_by_itself_runs_no_script(visits: Visits, service: Service) -> None:
    context = visits.browser.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(f"{service.url}/page-logo")
    assert page.evaluate("document.documentElement.tagName") == "svg" and page.title() != "run"
    assert any("script" in text.lower() for text in refused)
    context.close()
