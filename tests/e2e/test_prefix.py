"""The page behind a path prefix, as a reverse proxy that strips the prefix shows it."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Request, Route, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
PREFIX = "/tools/online"


def strip_prefix(route: Route) -> None:
    route.continue_(url=route.request.url.replace(PREFIX, "", 1))


@pytest.mark.long
def test_every_request_of_the_page_stays_below_the_prefix(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    page = visits.open(without_worker := f"{service.url}/docs")
    requested: list[str] = []

    def note(request: Request) -> None:
        if request.headers.get("referer") != without_worker:  # its icon may be requested only now
            requested.append(urlsplit(request.url).path)

    page.route(f"**{PREFIX}/**", strip_prefix)
    page.on("request", note)
    page.goto(f"{service.url}{PREFIX}/")
    page.get_by_label("Your question").fill("When do you open?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="Reply")).to_contain_text("We open at nine.")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Learning").click()
    expect(page.get_by_role("region", name="Versions", exact=True)).to_contain_text("live")
    assert urlsplit(page.url).path == f"{PREFIX}/learning"
    page.reload()
    expect(page.get_by_role("region", name="Versions", exact=True)).to_contain_text("live")
    assert any(path.startswith(f"{PREFIX}/v1/") for path in requested)
    assert [path for path in requested if not path.startswith(f"{PREFIX}/")] == []
