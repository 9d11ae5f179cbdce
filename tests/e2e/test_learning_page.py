"""The learning page in a real Chromium: a world that changes, and what the page makes of it while it watches."""

import random
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from online.client import Client
from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.support import Service

RIVER = '[[models]]\nname = "rv"\nkind = "river"\n'
NUMBERS = """
[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }
"""
TURNS = 320


def live_with(client: Client, turns: int) -> int:
    """Somebody who is told the truth after every answer; half way the truth turns round. Gives the last offset."""
    draw, offset = random.Random(7), 0
    for turn in range(turns):
        size = draw.uniform(-1, 1)
        known = offset if turn % 8 == 0 else 0  # never far behind what was told
        asked = client.predict([{"size": size}], min_offset=known, timeout_ms=60_000)
        large = (size > 0) == (turn < turns / 2)
        receipt = client.feedback(
            [{"prediction_id": asked["prediction_ids"][0], "label": "large" if large else "small"}]
        )
        offset = receipt[0]["offset"]
    return offset


def curve_of(service: Service, model: str) -> dict[str, Any]:
    curve: dict[str, Any] = service.http.get(f"/v1/models/{model}/curve").json()
    return curve


def tile(page: Page, name: str) -> Any:
    return page.get_by_role("region", name="Now").locator("div").filter(has_text=name)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_a_world_that_changes_is_seen_on_the_curve_as_it_happens(
    visits: Visits, start: Start, width: int, scheme: str
) -> None:
    service = start(RIVER)
    page = visits.open(f"{service.url}/learning", width=width, scheme=scheme)
    expect(page.get_by_text("Nothing that was answered has been judged yet.")).to_be_visible()
    client = service.client("rv")
    refused = client.feedback([{"input": {"size": 1e200}, "label": "large"}])[0]
    service.wait_learned("rv", max(refused["offset"], live_with(client, TURNS)))

    alarms = page.get_by_role("region", name="Alarms")
    expect(alarms).to_contain_text("it was wrong more often")  # told by events: nobody asked the page to look
    expect(page.get_by_role("region", name="What was refused")).to_contain_text("overflows")
    curve = curve_of(service, "rv")
    expect(tile(page, "Feedback a minute")).to_contain_text(f"{curve['feedback']} in all")
    served = curve["tallies"]["served"]
    expect(tile(page, "Right")).to_contain_text(f"{round(100 * served['total'] / served['judged'])} %")

    page.get_by_text("As a table").click()
    table = page.get_by_role("region", name="Share that was right, as a table")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["feedback", "what was answered", "the last label again", "the most frequent label", "drift"]
    )
    expect(table.get_by_role("row")).to_have_count(1 + len(curve["points"]))
    expect(table).to_contain_text("drift: loss")
    expect(page.locator("canvas")).to_be_visible()
    check_accessible(page)
    page.get_by_text("As a table").click()
    page.get_by_role("heading", name="Learning", level=1).scroll_into_view_if_needed()
    shoot(page, f"learning-{scheme}")
    page.get_by_role("heading", name="Refused feedback").scroll_into_view_if_needed()
    shoot(page, f"learning-below-{scheme}")


def test_of_numbers_the_errors_are_shown(visits: Visits, start: Start) -> None:
    service = start(NUMBERS)
    client, offset = service.client("num"), 0
    for n in range(40):
        asked = client.predict([[n % 4, n % 3]], min_offset=offset, timeout_ms=20_000)
        receipt = client.feedback([{"prediction_id": asked["prediction_ids"][0], "label": str(10 + 2 * (n % 4))}])
        offset = receipt[0]["offset"]
    page = visits.open(f"{service.url}/learning")
    expect(page.get_by_role("heading", name="How far off it was")).to_be_visible()
    expect(page.get_by_text("the mean so far")).to_be_visible()
    check_accessible(page)
    shoot(page, "learning-numbers")


GUARDED = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
guard = true
"""


def misled(client: Client, turns: int) -> None:
    """Told the truth until half way, and its contrary from there."""
    draw, offset = random.Random(7), 0
    for turn in range(turns):
        point = [draw.uniform(-1, 1), draw.uniform(-1, 1)]
        known = offset if turn < turns / 2 and turn % 8 == 0 else 0
        asked = client.predict([point], min_offset=known, timeout_ms=60_000)
        up = (point[0] > point[1]) == (turn < turns / 2)
        receipt = client.feedback([{"prediction_id": asked["prediction_ids"][0], "label": "up" if up else "down"}])
        offset = receipt[0]["offset"]


def test_an_operator_labels_freezes_and_decides_what_the_guard_set_apart(visits: Visits, start: Start) -> None:
    service = start(GUARDED, admin_key="open sesame")
    client = service.client("vec")
    first = client.feedback([{"input": [1, 0], "label": "up"}, {"input": [0, 1], "label": "down"}])[-1]
    service.wait_learned("vec", first["offset"])
    page = visits.open(f"{service.url}/learning", width=360, scheme="light")
    operate = page.get_by_role("region", name="Operate")
    operate.get_by_label("Reason to stop").fill("an odd day")
    operate.get_by_role("button", name="Freeze").press("Enter")
    operate.get_by_label("admin key").fill("wrong key")
    operate.get_by_role("button", name="Go on").press("Enter")
    expect(operate.get_by_role("alert")).to_contain_text("admin key")
    check_accessible(page)
    operate.get_by_label("admin key").fill("open sesame")
    operate.get_by_role("button", name="Go on").press("Enter")
    expect(operate).to_contain_text("an odd day")
    expect(page.get_by_text("nothing is learned for now: an odd day")).to_be_visible()
    shoot(page, "operate-frozen")
    operate.get_by_role("button", name="Learn again").click()  # the key is known by now
    expect(operate.get_by_role("button", name="Freeze")).to_be_visible()

    live = service.http.get("/v1/models/vec").json()["model_version_status"][0]["version"]
    page.get_by_role("button", name=f"Label version {live}", exact=True).click()
    page.get_by_label(f"Label for version {live}").fill("stable")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Take the label stable away")).to_be_visible()

    misled(client, 400)
    expect(operate).to_contain_text("The guard took the live version back", timeout=60_000)
    expect(operate).to_contain_text("answers were wrong")
    check_accessible(page)
    operate.scroll_into_view_if_needed()
    shoot(page, "operate-quarantine")
    operate.get_by_role("button", name="Drop it").click()
    expect(operate.get_by_role("region", name="What was in quarantine")).to_contain_text("dropped")
    expect(operate.get_by_role("button", name="Freeze")).to_be_visible()
    page.get_by_role("button", name="Take the label stable away").click()
    expect(page.get_by_role("button", name="Take the label stable away")).to_have_count(0)


def test_what_the_gate_refused_is_listed_with_the_reason(visits: Visits, start: Start) -> None:
    service = start(GUARDED + 'canaries = [{ input = [1.0, 0.0], answer = "up" }]\n')
    client = service.client("vec")
    first = client.feedback([{"input": [1, 0], "label": "up"}, {"input": [0, 1], "label": "down"}])[-1]
    service.wait_learned("vec", first["offset"])
    client.feedback([{"input": [1, 0], "label": "down"}] * 20)
    page = visits.open(f"{service.url}/learning", width=360)
    refused = page.get_by_role("region", name="Refused versions", exact=True)
    expect(refused).to_contain_text("the canary '[1.0, 0.0]' would no longer get 'up'")
    check_accessible(page)
    refused.scroll_into_view_if_needed()
    shoot(page, "refused-versions")
