"""The reports page in a real Chromium: the report of a model, and replays of uploaded logs."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Start
from tests.e2e.browsing import SIZES, Visits, check_accessible, shoot
from tests.support import Service

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
REPORT_MS = 180_000
DROP = """
([zone, name, text]) => {
  const files = new DataTransfer();
  files.items.add(new File([text], name));
  for (const type of ['dragover', 'drop'])
    zone.dispatchEvent(new DragEvent(type, { dataTransfer: files, bubbles: true, cancelable: true }));
}
"""


def give_feedback(service: Service, count: int) -> None:
    client = service.client("vec")
    for number in range(count):
        answer = client.predict([[number % 3, 1]])
        receipt = client.label(answer["prediction_ids"][0], f"n{number % 3}")
    service.wait_learned("vec", receipt["offset"])


def sides_csv(rows: int) -> str:
    return "\n".join(["x,y,side", *(f"{n % 7},{n % 5},{'left' if n % 7 > n % 5 else 'right'}" for n in range(rows))])


def expect_report(page: Page, title: str) -> None:
    """Expect the report in a sandboxed frame."""
    frame = page.locator(f'iframe[title="{title}"]')
    expect(frame).to_be_visible(timeout=REPORT_MS)
    assert frame.get_attribute("sandbox") == ""
    expect(page.frame_locator(f'iframe[title="{title}"]').get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_report_is_created_shown_and_renewed_and_a_dropped_log_is_replayed(
    visits: Visits, start: Start, width: int, scheme: str
) -> None:
    service = start(VEC)
    page = visits.open(f"{service.url}/reports", width=width, scheme=scheme)
    own = page.get_by_role("region", name="Report of vec")
    expect(own).to_contain_text("has no feedback yet")
    give_feedback(service, 9)
    own.get_by_role("button", name="Make the report").click()  # the page was updated by an event
    expect(page.get_by_role("progressbar", name="Progress of the report of vec")).to_be_visible()
    check_accessible(page)
    expect_report(page, "vec, up to event 9")
    check_accessible(page)
    shoot(page, f"reports-own-{scheme}")

    give_feedback(service, 3)
    expect(own).to_contain_text("3 new events since then")
    own.get_by_role("button", name="Refresh").click()
    expect_report(page, "vec, up to event 12")

    zone = page.get_by_role("group", name="Drop a log here")
    page.evaluate(DROP, [zone.element_handle(), "sides.csv", sides_csv(90)])
    expect(page.get_by_label("Label column")).to_have_value("side")
    check_accessible(page)
    shoot(page, f"reports-dropped-{scheme}")
    page.get_by_role("checkbox", name="logistic").check()
    page.get_by_role("checkbox", name="knn").check()
    expect(page.get_by_role("checkbox", name="all suitable")).not_to_be_checked()
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_role("listitem", name="sides.csv").get_by_role("progressbar")).to_be_visible()
    expect(page.get_by_text("The replay of sides.csv is done")).to_be_visible(timeout=REPORT_MS)
    expect_report(page, "Replay of sides.csv")
    expect(page.get_by_role("listitem", name="sides.csv")).to_contain_text("on logistic, knn")
    check_accessible(page)
    shoot(page, f"reports-replayed-{scheme}")

    own.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="vec, up to event 12")).to_be_focused()


def test_a_log_is_chosen_replayed_saved_and_deleted_by_keyboard_only(
    visits: Visits, start: Start, tmp_path: Path
) -> None:
    service = start(VEC, max_log_bytes=5_000)
    page = visits.open(f"{service.url}/reports")
    log, bad = tmp_path / "sides.csv", tmp_path / "bad.jsonl"
    log.write_text(sides_csv(60))
    bad.write_text('{"input": [1, 2], "label": "a"}\n{"input": [1, 2]}\n')

    def choose(path: Path) -> None:
        page.get_by_label("Choose a log").focus()
        with page.expect_file_chooser() as choosing:
            page.keyboard.press("Enter")
        choosing.value.set_files(path)

    choose(bad)
    expect(page.get_by_role("checkbox", name="all suitable")).to_be_focused()
    page.keyboard.press("Enter")  # submits the form
    expect(page.get_by_text("bad.jsonl could not be replayed")).to_be_visible(timeout=REPORT_MS)
    failed = page.get_by_role("listitem", name="bad.jsonl")
    expect(failed).to_contain_text('bad.jsonl, line 2: expected {"input": ..., "label": ...}')
    expect(page.get_by_label("Choose a log")).to_be_focused()
    shoot(page, "reports-failed")

    choose(log)
    expect(page.get_by_role("checkbox", name="all suitable")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("The replay of sides.csv is done")).to_be_visible(timeout=REPORT_MS)
    page.get_by_role("button", name="Show the report of sides.csv").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Replay of sides.csv")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Open in a new tab")).to_be_focused()
    page.keyboard.press("Tab")
    with page.expect_download() as saving:
        page.keyboard.press("Enter")
    assert "60 examples" in saving.value.path().read_text()

    forget = page.get_by_role("button", name="Delete sides.csv")
    forget.focus()
    page.keyboard.press("Enter")
    expect(forget).to_be_hidden()
    expect(page.get_by_role("heading", name="Replayed logs")).to_be_focused()

    (tmp_path / "large.csv").write_text(sides_csv(2_000))
    choose(tmp_path / "large.csv")
    expect(page.get_by_role("alert")).to_contain_text("this service accepts logs of at most 5 kB")
    check_accessible(page)


def test_a_report_opened_alone_is_sandboxed(visits: Visits, start: Start) -> None:
    service = start(VEC)
    give_feedback(service, 3)
    page = visits.open(f"{service.url}/v1/models/vec/report")
    expect(page.get_by_role("heading", name="The report of vec is in progress")).to_be_visible()
    expect(page.get_by_role("heading", name="vec", exact=True)).to_be_visible(timeout=REPORT_MS)
    assert page.evaluate("origin") == "null"
