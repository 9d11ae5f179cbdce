"""Navigation between pages: links, deep links, the back button, and pages whose model is not served."""

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, shoot

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
VEC = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 4.0 }\n'


def current_page(page: Page) -> str:
    return page.get_by_role("navigation", name="Pages").locator("[aria-current=page]").inner_text()


def go(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()


def test_links_deep_links_and_the_back_button_focus_the_heading_of_the_page(visits: Visits, start: Start) -> None:
    service = start(CHAT + VEC)
    page = visits.open(service.url)
    assert current_page(page) == "Chat" and page.title() == "online"
    expect(page.get_by_label("Your question")).to_be_focused()

    go(page, "Learning")
    expect(page.get_by_role("heading", name="Learning", level=1)).to_be_focused()
    assert current_page(page) == "Learning" and page.title() == "Learning · online"
    assert page.url == f"{service.url}/learning"

    page.get_by_label("Model").select_option("vec")
    page.wait_for_url("**/learning?model=vec")
    page.reload()
    expect(page.get_by_label("Model")).to_have_value("vec")

    page.go_back()
    expect(page.get_by_label("Model")).to_have_value("chat")
    page.go_back()
    expect(page.get_by_role("heading", name="Chat", level=1)).to_be_focused()
    assert current_page(page) == "Chat" and page.url == f"{service.url}/"


@pytest.mark.long
def test_the_conversation_is_kept_while_another_page_is_open(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    page = visits.open(service.url)
    page.get_by_label("Your question").fill("When do you open?")
    page.keyboard.press("Enter")
    reply = page.get_by_role("article", name="Reply")
    expect(reply).to_contain_text("We open at nine.")
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    go(page, "Learning")
    expect(page.get_by_role("heading", name="Learning", level=1)).to_be_focused()
    go(page, "Chat")
    expect(reply.get_by_role("status")).to_contain_text("Learned")


@pytest.mark.long
def test_a_page_whose_model_is_not_served_shows_how_to_configure_it(visits: Visits, start: Start) -> None:
    service = start(VEC)
    page = visits.open(service.url)
    expect(page.get_by_role("heading", name="Learning", level=1)).to_be_visible()  # where no chat is served
    page.goto(f"{service.url}/draw")
    expect(page.get_by_role("heading", name="Not available here")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text('kind = "classifier"')
    check_accessible(page)
    page.goto(f"{service.url}/learning?model=nobody")
    expect(page.get_by_role("alert")).to_contain_text("no model called “nobody”")
    check_accessible(page)


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_the_live_version_is_shown_and_rolled_back(visits: Visits, start: Start, width: int, scheme: str) -> None:
    service = start(VEC)
    client = service.client("vec")
    page = visits.open(f"{service.url}/learning", width=width, scheme=scheme)
    for label, x in (("a", 1.0), ("b", -1.0)):
        receipt = client.feedback([{"input": [x, x], "label": label}])[0]
        service.wait_learned("vec", receipt["offset"])
    versions = page.get_by_role("list", name="List of versions").get_by_role("listitem")
    live = versions.filter(has=page.get_by_text("live", exact=True))
    newest = service.http.get("/v1/models/vec").json()["model_version_status"][0]["version"]
    expect(live).to_contain_text(newest)  # updated by an event, without a reload
    older = str(int(newest) - 1)
    check_accessible(page)
    shoot(page, f"learning-versions-{scheme}")

    page.get_by_role("button", name=f"Actions for version {older}", exact=True).click()
    page.get_by_role("menuitem", name=f"Roll back to version {older}", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back", exact=True).click()
    expect(live).to_contain_text(older)
    expect(page.get_by_role("heading", name="Versions", exact=True)).to_be_focused()
    assert service.http.get("/v1/models/vec").json()["model_version_status"][0]["version"] == older
