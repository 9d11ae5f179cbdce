"""The reports page in a real Chromium: the report of a model, and replays of uploaded logs."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.runs import replay_all
from online.evaluation.sources.opening import open_source
from online.evaluation.words import LanguageWords
from online.plugins.reports.languages import ALL_WORDS
from online.plugins.reports.report_page import write_report
from tests.conftest import Start
from tests.e2e.browsing import SIZES, Visits, check_accessible, check_fits, shoot
from tests.evaluation.replaying import ignore_progress
from tests.support import Service

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
REPORT_MS = 180_000
USED_FONTS = "document.fonts.ready.then(() => [...document.fonts].map(({family, status}) => `${family.replaceAll('\"', '')} ${status}`))"
BROKEN_WORDS = """
() => [...document.querySelectorAll('th')].flatMap((head) => {
  const texts = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let text = texts.nextNode(); text; text = texts.nextNode())
    for (const { index, 0: word } of text.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) broken.push(word);
    }
  return broken;
})
"""
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
    if page.viewport_size and page.viewport_size["width"] <= 640:  # where no area scrolls inside another
        expect(page.get_by_role("region", name=title).get_by_role("link", name="Open the report")).to_be_visible(
            timeout=REPORT_MS
        )
        expect(page.locator("iframe")).to_have_count(0)
        return
    frame = page.locator(f'iframe[title="{title}"]')
    expect(frame).to_be_visible(timeout=REPORT_MS)
    assert frame.get_attribute("sandbox") == ""
    expect(page.frame_locator(f'iframe[title="{title}"]').get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_report_is_created_shown_and_renewed_and_a_dropped_log_is_replayed(
    visits: Visits, start: Start, width: int, scheme: str
) -> None:
    service = start(VEC)
    page = visits.open(f"{service.url}/reports", width=width, scheme=scheme)
    own = page.get_by_role("region", name="Report on vec")
    expect(own).to_contain_text("has no feedback yet")
    give_feedback(service, 9)
    own.get_by_role("button", name="Make the report").click()  # the page was updated by an event
    expect(page.get_by_role("progressbar", name="Progress of Report on vec")).to_be_visible()
    check_accessible(page)
    expect_report(page, "vec, up to event 9")
    expect(own).to_contain_text("Only 9 answers could be judged")  # what the report found
    assert page.title().startswith("vec, up to event 9 · Reports")
    check_accessible(page)
    shoot(page, f"reports-own-{scheme}")

    give_feedback(service, 3)
    expect(own).to_contain_text("3 new events since then")
    own.get_by_role("button", name="Make a new report").click()
    expect_report(page, "vec, up to event 12")
    own.get_by_text("1 older report").click()
    own.get_by_role("link", name="Up to event 9").click()
    expect_report(page, "vec, up to event 9")
    assert page.url.endswith("/reports?model=vec&until=9")

    zone = page.get_by_role("group", name="Drop a log here")
    page.evaluate(DROP, [zone.element_handle(), "sides.csv", sides_csv(90)])
    expect(page.get_by_text("CSV table, 3 columns, 90 rows.")).to_be_visible()
    expect(page.get_by_role("region", name="The first 5 rows")).to_contain_text("side to predict")
    expect(page.get_by_label("Which column should be predicted?")).to_have_value("side")
    check_accessible(page)
    shoot(page, f"reports-dropped-{scheme}")
    page.get_by_text("Options").click()
    page.get_by_role("checkbox", name="logistic").check()
    page.get_by_role("checkbox", name="knn").check()
    expect(page.get_by_role("checkbox", name="those that fit")).not_to_be_checked()
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_role("listitem", name="sides.csv").get_by_role("progressbar")).to_be_visible()
    expect(page.get_by_role("heading", name="Replay of sides.csv")).to_be_focused()
    page.reload()  # in the middle: it finds the running replay again, by its address
    expect(page.get_by_text("The replay of sides.csv is done")).to_be_attached(timeout=REPORT_MS)
    expect_report(page, "Replay of sides.csv")
    listed = page.get_by_role("listitem", name="sides.csv")
    expect(listed).to_contain_text("on logistic, knn")
    expect(listed).to_contain_text("Only 90 answers could be judged")
    check_accessible(page)
    shoot(page, f"reports-replayed-{scheme}")

    own.get_by_role("link", name="Show").click()
    expect(page.get_by_role("heading", name="vec, up to event 12")).to_be_focused()
    page.go_back()
    expect_report(page, "Replay of sides.csv")


@pytest.mark.long
def test_a_log_is_chosen_replayed_saved_and_deleted_by_keyboard_only(
    visits: Visits, start: Start, tmp_path: Path
) -> None:
    service = start(VEC, max_log_bytes=5_000)
    page = visits.open(f"{service.url}/reports")
    log, bad = tmp_path / "sides.csv", tmp_path / "bad.jsonl"
    log.write_text(sides_csv(60))
    bad.write_text('{"input": [1, 2], "label": "a"}\n{"input": [1, 2]}\n')

    def choose(path: Path) -> None:
        page.get_by_label("Choose a file").focus()
        with page.expect_file_chooser() as choosing:
            page.keyboard.press("Enter")
        choosing.value.set_files(path)

    choose(bad)
    expect(page.get_by_role("checkbox", name="those that fit")).to_be_hidden()  # in the options, which are closed
    page.get_by_role("button", name="Replay", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("bad.jsonl could not be replayed").first).to_be_attached(timeout=REPORT_MS)
    failed = page.get_by_role("listitem", name="bad.jsonl")
    expect(failed).to_contain_text('Line 2 is no example: expected {"input": …, "label": …}.')
    expect(page.get_by_text("Correct the file, or allow invalid lines")).to_be_visible()
    check_accessible(page)
    shoot(page, "reports-failed")

    choose(log)
    expect(page.get_by_label("Which column should be predicted?")).to_be_focused()
    page.get_by_role("button", name="Replay", exact=True).focus()
    page.keyboard.press("Enter")
    expect_report(page, "Replay of sides.csv")
    page.get_by_role("link", name="sides.csv").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Replay of sides.csv")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Open in a new tab")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy link")).to_be_focused()
    page.keyboard.press("Tab")
    with page.expect_download() as saving:
        page.keyboard.press("Enter")
    assert "60 examples" in saving.value.path().read_text()

    page.get_by_role("button", name="Actions for sides.csv").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Open in a new tab")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Delete the report on sides.csv?")).to_be_visible()
    check_accessible(page)
    page.get_by_role("dialog").get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("listitem", name="sides.csv")).to_be_hidden()
    expect(page.get_by_role("heading", name="Replayed logs")).to_be_focused()
    assert page.url.endswith("/reports")  # the report that was shown is gone

    (tmp_path / "large.csv").write_text(sides_csv(2_000))
    choose(tmp_path / "large.csv")
    expect(page.get_by_role("alert")).to_contain_text("This service takes logs of at most 5 kB")
    check_accessible(page)


@pytest.mark.long
def test_a_running_replay_shows_its_progress_and_is_cancelled(visits: Visits, start: Start) -> None:
    service = start(VEC)
    query = {"name": "slow.csv", "label": "side", "model": "river:estimator=arf"}
    sent = service.http.post("/v1/replays", content=sides_csv(20_000).encode(), params=query).json()
    page = visits.open(f"{service.url}/reports?replay={sent['id']}", width=320)
    expect(page.get_by_role("region", name="Replay of slow.csv")).to_contain_text("The report appears here")
    listed = page.get_by_role("listitem", name="slow.csv")
    expect(listed).to_contain_text("events ·", timeout=REPORT_MS)  # how many of how many, how fast
    expect(listed).to_contain_text(" left")
    expect(listed).to_contain_text("of about 20,000 events")  # from the first on
    check_accessible(page)
    button, card = listed.get_by_role("button", name="Cancel"), listed.bounding_box()
    box = button.bounding_box()
    assert box and card and box["x"] + box["width"] <= card["x"] + card["width"] - 16  # within the card's padding
    button.click()
    expect(page.get_by_text("Cancelled. Nothing of slow.csv was kept.")).to_be_visible()
    expect(page.get_by_text("Logs that you replay are listed here.")).to_be_visible()
    page.goto(f"{service.url}/reports?replay={sent['id']}")
    expect(page.get_by_role("alert")).to_contain_text("This replay no longer exists")


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (320, "dark")])
def test_a_report_is_accessible_and_fits_in_both_schemes(
    visits: Visits, start: Start, width: int, scheme: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    lines = [{"input": [n % 7, n % 5], "label": f"class {(n % 7) * (n % 5) % 9}"} for n in range(400)]
    log.write_text("\n".join(map(json.dumps, lines)))
    source = open_source(str(log))
    results, _ = replay_all(source, [CandidateSpec("knn", name="knn", every=10)], ScoredSpan(), 0.0, ignore_progress)
    path = tmp_path / "report.html"
    write_report(results, "log.jsonl", False, path)
    page = visits.open(path.as_uri(), width=width, scheme=scheme)
    check_accessible(page)
    colour = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
    assert colour == ("rgb(23, 33, 28)" if scheme == "light" else "rgb(228, 235, 231)")
    explain = page.get_by_role("button", name="What does Accuracy mean?").first
    explain.hover()
    expect(page.get_by_role("tooltip").filter(visible=True)).to_contain_text("The share of judged answers")
    page.mouse.move(0, 0)
    page.get_by_role("button", name="What does Kappa mean?").click()
    expect(page.get_by_role("tooltip").filter(visible=True)).to_contain_text("Kappa.")
    check_accessible(page)
    page.emulate_media(forced_colors="active")
    check_accessible(page)
    shoot(page, f"report-{scheme}")


@pytest.mark.long
def test_reports_are_in_german_on_the_german_page(visits: Visits, start: Start) -> None:
    service = start(VEC)
    give_feedback(service, 9)
    page = visits.open(f"{service.url}/reports", locale="de-DE")
    title = "vec, bis Ereignis 9"
    expect_report(page, title)
    own = page.get_by_role("region", name="Bericht über vec")
    expect(own).to_contain_text("Nur 9 Antworten konnten beurteilt werden")
    expect(own.locator("[lang=de]")).to_have_count(1)
    expect(page.get_by_text("Der Bericht ist auf Englisch.")).to_be_hidden()
    report = page.frame_locator(f'iframe[title="{title}"]')
    expect(report.get_by_text("Was jetzt zu tun ist:")).to_be_visible()
    expect(report.get_by_role("button", name="Was bedeutet Trefferquote?").first).to_be_visible()
    check_accessible(page)
    shoot(page, "reports-german")
    with page.expect_download() as saving:
        page.get_by_role("link", name="Herunterladen").click()
    assert '<html lang="de">' in saving.value.path().read_text()


@pytest.mark.long
def test_what_is_wrong_with_a_log_is_said_in_german_on_the_german_page(visits: Visits, start: Start) -> None:
    service = start(VEC)
    sent = service.http.post(
        "/v1/replays", content=b'{"input": [1, 2], "label": "a"}\n{"input": [1, 2]}\n', params={"name": "bad.jsonl"}
    )
    page = visits.open(f"{service.url}/reports?replay={sent.json()['id']}", locale="de-DE")
    problem = page.locator(".report .problem")
    expect(problem).to_contain_text("Zeile 2 ist kein Beispiel", timeout=REPORT_MS)
    expect(problem).not_to_have_attribute("lang", "en")
    expect(page.get_by_role("listitem", name="bad.jsonl")).to_contain_text("Zeile 2 ist kein Beispiel")
    check_accessible(page)
    page.get_by_label("Datei auswählen").set_input_files(
        {"name": "empty.jsonl", "mimeType": "application/json", "buffer": b""}
    )
    page.get_by_role("button", name="Auswerten", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Die Datei ist leer.")
    shoot(page, "reports-refused-german")


@pytest.mark.long
def test_a_report_opened_alone_is_sandboxed(visits: Visits, start: Start) -> None:
    service = start(VEC)
    give_feedback(service, 3)
    page = visits.open(f"{service.url}/v1/models/vec/report")
    expect(page.get_by_role("heading", name="The report of vec is in progress")).to_be_visible()
    expect(page.get_by_role("heading", name="vec", exact=True)).to_be_visible(timeout=REPORT_MS)
    assert page.title() == "Report on vec, up to event 3"
    assert page.evaluate("origin") == "null"
    assert page.evaluate(USED_FONTS) == ["Figtree Variable loaded"]  # which the policy allows


@pytest.mark.long
def test_a_report_is_made_again_without_new_events(visits: Visits, start: Start) -> None:
    service = start(VEC)
    give_feedback(service, 3)
    page = visits.open(f"{service.url}/reports")
    expect_report(page, "vec, up to event 3")
    own = page.get_by_role("region", name="Report on vec")
    made_at = service.http.get("/v1/models/vec/report/state").json()["made_at"]
    own.get_by_role("button", name="Make a new report").click()
    expect(page.get_by_role("progressbar", name="Progress of Report on vec")).to_be_visible()
    expect(page.get_by_role("progressbar", name="Progress of Report on vec")).to_be_hidden(timeout=REPORT_MS)
    assert service.http.get("/v1/models/vec/report/state").json()["made_at"] > made_at
    expect_report(page, "vec, up to event 3")


@pytest.mark.long
def test_a_phone_is_led_to_the_report_and_opens_it_by_itself(visits: Visits, start: Start) -> None:
    service = start(VEC)
    give_feedback(service, 3)
    page = visits.open(f"{service.url}/reports", width=390)
    expect_report(page, "vec, up to event 3")
    page.get_by_role("link", name="Go to the report").click()
    heading = page.get_by_role("heading", name="vec, up to event 3")
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
    check_accessible(page)
    shoot(page, "reports-phone")
    page.get_by_role("link", name="Open the report").click()
    expect(page.get_by_role("heading", name="vec", exact=True)).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 320])
@pytest.mark.parametrize("words", ALL_WORDS, ids=lambda words: words.language)
def test_words_in_the_heads_of_tables_stay_whole_on_a_phone(
    visits: Visits, tmp_path: Path, width: int, words: LanguageWords
) -> None:
    names = ["opening hours", "place", "complaints", "reservations", "accessibility"]
    log = tmp_path / "log.jsonl"
    lines = [{"input": [n % 7, n % 5], "label": names[(n % 7) * (n % 5) % 5]} for n in range(1_200)]
    log.write_text("\n".join(map(json.dumps, lines)))
    specs = [CandidateSpec("knn", name="knn", every=10, baseline=True)]
    results, _ = replay_all(open_source(str(log)), specs, ScoredSpan(), 0.0, ignore_progress)
    path = tmp_path / "report.html"
    write_report(results, "log.jsonl", False, path, words=words)
    page = visits.open(path.as_uri(), width=width)
    page.evaluate("document.fonts.ready")
    assert page.evaluate(BROKEN_WORDS) == []
    check_fits(page)
    drawings = page.locator("figure svg.narrow")
    assert drawings.count() >= 2 and page.locator("figure svg.broad").filter(visible=True).count() == 0
    for drawing in drawings.all():
        box = drawing.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= width
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg.narrow text')].map((text) => text.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 9  # pixels: legible, though the plot fits


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_columns_of_a_chosen_file_are_shown_and_can_be_left_out_before_its_replay(
    visits: Visits, start: Start, width: int, scheme: str
) -> None:
    page = visits.open(f"{start(VEC).url}/reports", width=width, scheme=scheme)
    zone = page.get_by_role("group", name="Drop a log here")
    rows = [f"p{n:03},2026-04-{n % 28 + 1:02},{n % 7},,{'ab'[n % 2]}" for n in range(40)]
    page.evaluate(DROP, [zone.element_handle(), "plants.csv", "\n".join(["plant,seen,height,note,label", *rows])])
    columns = page.get_by_role("group", name="Columns that are read")
    expect(columns).to_contain_text("Recognised by the first 40 rows.")
    plant, height = (columns.get_by_role("checkbox", name=name) for name in ("plant", "height"))
    expect(plant).not_to_be_checked()
    expect(columns).to_contain_text("Identifier: left out; another word in every row")
    expect(columns).to_contain_text("Date: read as days since 1970, day of the week and hour")
    check_accessible(page)
    check_fits(page)
    columns.scroll_into_view_if_needed()
    shoot(page, f"reports-columns-{width}-{scheme}")
    plant.check()
    height.uncheck()
    expect(columns).to_contain_text("Number: not read, as you chose")
    with page.expect_request(lambda request: "/v1/replays?" in request.url) as sent:
        page.get_by_role("button", name="Replay", exact=True).click()
    assert "feature=plant" in sent.value.url and "height" not in sent.value.url
