"""The report of a service's own log: written by a separate process, cached, and with the reason of a failure."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from online.plugins.reports.report_jobs import ReportJobs
from online.settings import Settings
from online.state.workspace import Workspace
from tests.conftest import Start, config
from tests.support import Service, run_online, until

REPORT_S = 120.0
MODELS = """
[[models]]
name = "numbers"
kind = "classifier"
options = { input = "vector", size = 2, scale = 10.0 }

[[models]]
name = "silent"
kind = "classifier"
options = { input = "vector", size = 2, scale = 10.0 }
"""


@pytest.fixture(scope="module")
def labelled_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with twelve predictions, whose labels are learned."""
    folder = tmp_path_factory.mktemp("reports")
    service = Service(folder / "state", config(folder, MODELS))
    give_labels(service, *(f"n{number % 3}" for number in range(12)))
    service.wait_learned("numbers", 12)
    yield service
    service.stop()


def give_labels(service: Service, *labels: str) -> None:
    """Predict one row for each label, and give the label as feedback."""
    with service.client("numbers") as client:
        for number, label in enumerate(labels):
            answer = client.predict([[number % 3, 1]])
            client.label(answer["prediction_ids"][0], label)


def page(service: Service, **query: str) -> httpx.Response:
    response = service.http.get("/v1/models/numbers/report", params=query)
    assert response.status_code in (200, 202), response.text
    return response


def wait_for_report(service: Service) -> httpx.Response:
    def finished_report() -> httpx.Response | None:
        response = page(service)
        return response if response.status_code == 200 else None

    response: httpx.Response = until(finished_report, REPORT_S, "the report")
    return response


def report_pid(state: Path) -> int | None:
    """The id of the process that writes a report of this service."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"log\0report" in command and str(state).encode() in command:
            return int(folder.name)
    return None


@pytest.mark.long
def test_a_report_is_written_on_request_and_counts_the_served_answers(labelled_service: Service) -> None:
    waiting = page(labelled_service)
    assert waiting.status_code == 202 and waiting.headers["Retry-After"] == "2"
    assert "The report of numbers is in progress" in waiting.text and 'http-equiv="refresh"' in waiting.text
    report = wait_for_report(labelled_service)
    assert "12 examples and 12 events" in report.text and "<svg" in report.text
    match = re.search(r"gave (\d+) of (\d+) answers as they were served", report.text)
    assert match is not None and match.groups() == ("12", "12")


def test_a_report_is_selected_by_its_last_event(labelled_service: Service) -> None:
    newest = wait_for_report(labelled_service)
    assert page(labelled_service, until="12").text == newest.text
    missing = labelled_service.http.get("/v1/models/numbers/report", params={"until": "7"})
    assert missing.status_code == 404 and "no report of numbers up to event 7" in missing.json()["error"]


def test_the_state_lists_the_reports_with_what_they_found(labelled_service: Service) -> None:
    report = wait_for_report(labelled_service)
    assert report.headers["Content-Disposition"] == 'inline; filename="report-on-numbers-up-to-event-12.html"'
    assert "<title>Report on numbers, up to event 12</title>" in report.text
    (entry,) = labelled_service.http.get("/v1/models/numbers/report/state").json()["reports"]
    assert entry["until"] == 12 and entry["finding"]["level"] == "unclear"
    assert entry["finding"]["sentence"].startswith("Only 12 answers could be judged")


def test_a_report_is_in_the_language_that_is_asked_for_or_that_the_browser_prefers(labelled_service: Service) -> None:
    wait_for_report(labelled_service)
    english = page(labelled_service)
    assert (english.headers["Content-Language"], english.headers["Cache-Control"]) == ("en", "no-store")
    german = page(labelled_service, language="de")
    preferred = labelled_service.http.get("/v1/models/numbers/report", headers={"Accept-Language": "de-AT, en;q=0.5"})
    assert german.text == preferred.text and "<title>Bericht über numbers, bis Ereignis 12</title>" in german.text
    assert "12 Beispiele und 12 Ereignisse" in german.text and german.headers["Content-Language"] == "de"
    assert "Accept-Language" in german.headers["Vary"] and german.headers["Content-Security-Policy"].startswith(
        "sandbox"
    )
    german_browser = {"Accept-Language": "de"}
    chosen = labelled_service.http.get("/v1/models/numbers/report?language=en", headers=german_browser)
    assert chosen.text == english.text
    state = labelled_service.http.get("/v1/models/numbers/report/state", params={"language": "de"})
    (entry,) = state.json()["reports"]
    assert entry["finding"]["sentence"].startswith("Nur 12 Antworten konnten beurteilt werden")
    assert entry["finding"]["language"] == "de" and "Accept-Language" in state.headers["Vary"]
    unknown = labelled_service.http.get("/v1/models/numbers/report", params={"language": "fr"})
    assert unknown.status_code == 400 and "language" in unknown.json()["error"]


@pytest.mark.long
def test_the_page_that_waits_for_a_report_is_in_german_too(start: Start) -> None:
    service = start(MODELS)
    give_labels(service, "one")
    waiting = page(service, language="de")
    assert waiting.status_code == 202 and "Der Bericht über numbers wird erstellt" in waiting.text
    assert '<html lang="de">' in waiting.text and "Diese Seite zeigt das Ergebnis" in waiting.text


def test_a_report_of_an_older_release_is_shown_in_english(labelled_service: Service) -> None:
    wait_for_report(labelled_service)
    translation = labelled_service.state / "reports" / "numbers" / "12.de.html"
    content = translation.read_bytes()
    translation.unlink()
    try:
        shown = page(labelled_service, language="de")
        assert shown.headers["Content-Language"] == "en" and '<html lang="en">' in shown.text
        state = labelled_service.http.get("/v1/models/numbers/report/state", params={"language": "de"}).json()
        assert state["reports"][0]["finding"]["language"] == "en"
    finally:
        translation.write_bytes(content)


def test_only_the_newest_reports_are_kept_and_older_addresses_still_show_theirs(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path)
    reports = ReportJobs(settings, Workspace(settings))
    folder = reports.workspace.state / "reports" / "numbers"
    folder.mkdir(parents=True)
    for until_event in (2, 9, 10, 30):
        (folder / f"{until_event}.html").write_text('<meta name="verdict" content="good">')
    (folder / "11.html").write_text(
        '<meta name="verdict" content="good"><meta name="description" content="&lt;b&gt; is right.">'
    )
    state = reports.state("numbers", 40)
    assert [each.until for each in state.reports] == [30, 11, 10, 9, 2] and state.until == 30
    found = [each.finding and each.finding.sentence for each in state.reports]
    assert found == [None, "<b> is right.", None, None, None]
    (folder / "9.de.html").write_text("")
    reports.prune("numbers", 3)
    assert not (folder / "9.de.html").exists()
    assert [each.until for each in reports.state("numbers", 40).reports] == [30, 11, 10]


@pytest.mark.long
def test_a_report_in_progress_is_cancelled_and_can_be_made_again(start: Start) -> None:
    service = start(MODELS)
    give_labels(service, "one")
    making = service.http.post("/v1/models/numbers/report").json()["making"]
    assert making["percent"] == 0 and making["ahead"] == 0 and making["left_s"] is None
    assert service.http.delete("/v1/models/numbers/report").json() == {"cancelled": True}
    state = service.http.get("/v1/models/numbers/report/state").json()
    assert state["making"] is None and state["failed"] is None and state["reports"] == []
    until(lambda: report_pid(service.state) is None, what="its end")
    assert service.http.delete("/v1/models/numbers/report").json() == {"cancelled": False}
    assert "1 example and 1 event, replayed" in wait_for_report(service).text


def test_a_model_without_feedback_has_no_report(labelled_service: Service) -> None:
    response = labelled_service.http.get("/v1/models/silent/report")
    assert response.status_code == 404 and "has received no feedback yet" in response.json()["error"]


def test_a_report_is_available_while_another_replaces_it(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path)
    reports = ReportJobs(settings, Workspace(settings))
    folder = reports.workspace.state / "reports" / "numbers"
    folder.mkdir(parents=True)
    (folder / "1.html").write_text("")
    ended = threading.Event()

    def replace() -> None:
        for number in count(2):
            (folder / f"{number}.html").write_text("")
            (folder / f"{number - 1}.html").unlink()
            if ended.is_set():
                return

    thread = threading.Thread(target=replace)
    thread.start()
    last, changes, deadline = 0, 0, time.monotonic() + 60
    try:
        while changes < 200:
            assert time.monotonic() < deadline, f"{changes} changes seen"
            until_event = reports.state("numbers", 1_000_000).until
            assert until_event is not None and until_event >= last
            last, changes = until_event, changes + (until_event > last)
    finally:
        ended.set()
        thread.join()


@pytest.mark.long
def test_a_failed_report_is_explained_once_and_the_next_attempt_succeeds(start: Start) -> None:
    service = start(MODELS)
    give_labels(service, "one")
    page(service)
    os.kill(until(lambda: report_pid(service.state), what="the report process"), signal.SIGKILL)

    def failed_response() -> httpx.Response | None:
        response = service.http.get("/v1/models/numbers/report")
        return response if response.status_code == 503 else None

    error = until(failed_response, what="the reason").json()["error"]
    assert "could not be written" in error and "-9" in error
    assert "1 example and 1 event, replayed" in wait_for_report(service).text
    names = sorted(path.name for path in (service.state / "reports" / "numbers").iterdir())
    assert names == ["1.de.html", "1.html"]


@pytest.mark.long
def test_a_service_that_stops_leaves_no_report_process_behind(start: Start) -> None:
    service = start(MODELS)
    give_labels(service, "one")
    page(service)
    until(lambda: report_pid(service.state), what="the report process")
    assert service.stop() == 0
    until(lambda: report_pid(service.state) is None, what="its end")


@pytest.mark.long
def test_the_command_line_writes_the_same_report(labelled_service: Service, tmp_path: Path) -> None:
    settings = labelled_service.state.parent / f"{labelled_service.state.name}.toml"
    flags = ("--state", str(labelled_service.state), "--config", str(settings))
    process = run_online("log", "report", *flags, "--model", "numbers", "--output", str(tmp_path / "page.html"))
    assert process.returncode == 0, process.stderr
    assert "reports on every event up to 12" in process.stdout and "12 examples" in (tmp_path / "page.html").read_text()
    german = run_online(
        "log", "report", *flags, "--model", "numbers", "--output", str(tmp_path / "page.html"), "--language", "de"
    )
    assert german.returncode == 0 and "12 Beispiele" in (tmp_path / "page.html").read_text()
    nothing = run_online("log", "report", *flags, "--model", "silent", "--output", str(tmp_path / "none.html"))
    assert nothing.returncode == 2 and "has no events yet" in nothing.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
