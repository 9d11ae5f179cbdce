"""What a page says before there is much to say: with few ratings, without a chat, and while the server is down."""

import re

import pytest
from playwright.sync_api import expect

from tests.conftest import Start
from tests.e2e.browsing import SIZES, Visits, check_accessible, shoot

DRAWINGS = '[[models]]\nname = "digits"\nkind = "classifier"\noptions = { input = "vector", size = 64, scale = 16.0 }\n'
TABLE = '[[models]]\nname = "prices"\nkind = "classifier"\noptions = { input = "table" }\n'


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_before_thirty_ratings_the_learning_page_says_what_is_missing(
    visits: Visits, start: Start, width: int, scheme: str
) -> None:
    service = start(TABLE)
    client = service.client("prices")
    for size in (1, 2):
        answer = client.predict([{"size": size}])
        receipt = client.feedback([{"prediction_id": answer["prediction_ids"][0], "label": f"class {size}"}])
        client.wait_until_learned(receipt[0]["offset"], 60)
    page = visits.open(f"{service.url}/learning", width=width, scheme=scheme)
    figures = page.get_by_role("region", name="Answers now")
    expect(figures).to_contain_text(re.compile(r"[12] of 30 judged answers"))
    expect(figures).to_contain_text("more ratings: until then it would mostly be chance")
    expect(figures.locator(".large")).to_have_text("–")
    expect(figures).to_contain_text("2 answers")
    expect(figures).not_to_contain_text("%")
    check_accessible(page)
    shoot(page, f"few-ratings-{width}-{scheme}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("models", "page_name"), [(DRAWINGS, "draw"), pytest.param(TABLE, "learning", marks=pytest.mark.long)]
)
def test_a_service_without_a_chat_opens_on_what_it_has(
    visits: Visits, start: Start, models: str, page_name: str
) -> None:
    service = start(models)
    page = visits.open(f"{service.url}/")
    expect(page).to_have_url(f"{service.url}/{page_name}")
    expect(page.get_by_role("navigation").get_by_role("link", name="Chat")).to_have_count(0)
    check_accessible(page)


@pytest.mark.long
def test_with_the_server_down_the_learning_page_claims_nothing(visits: Visits, start: Start) -> None:
    service = start(TABLE)
    page = visits.open(f"{service.url}/learning")
    expect(page.get_by_text("No answer has been judged yet.")).to_be_visible()
    page.route("**/v1/models/prices*/**", lambda route: route.abort())
    page.route("**/v1/models/prices", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("region", name="Answers now")).to_contain_text("not known")
    expect(page.get_by_text("Not known: the figures could not be read.")).to_be_visible()
    expect(page.get_by_text("Not known: the alarms could not be read.")).to_be_visible()
    for claim in ("Nothing judged yet", "No answer has been judged yet.", "No alarm so far."):
        expect(page.get_by_text(claim)).to_have_count(0)
