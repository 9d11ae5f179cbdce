"""The report of a service's own log: made beside it, shown while it is fresh, and honest about what went wrong."""

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

from online.serving.reports import Reports
from online.settings import Settings
from online.workspace import Workspace
from tests.conftest import Start, config
from tests.support import Service, run_online, until

MADE_S = 120.0
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
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Twelve questions were answered, each was told what is right, and all of it is learned."""
    folder = tmp_path_factory.mktemp("reports")
    service = Service(folder / "state", config(folder, MODELS))
    tell(service, *(f"n{number % 3}" for number in range(12)))
    service.wait_learned("numbers", 12)
    yield service
    service.stop()


def tell(service: Service, *labels: str) -> None:
    """Ask about as many rows, and say what is right."""
    with service.client("numbers") as client:
        for number, label in enumerate(labels):
            asked = client.predict([[number % 3, 1]])
            client.label(asked["prediction_ids"][0], label)


def page(service: Service, **query: str) -> httpx.Response:
    response = service.http.get("/v1/models/numbers/report", params=query)
    assert response.status_code in (200, 202), response.text
    return response


def made(service: Service) -> httpx.Response:
    def whole() -> httpx.Response | None:
        response = page(service)
        return response if response.status_code == 200 else None

    response: httpx.Response = until(whole, MADE_S, "the report")
    return response


def report_pid(state: Path) -> int | None:
    """The process that makes a report of this service."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"log\0report" in command and str(state).encode() in command:
            return int(folder.name)
    return None


def test_it_is_made_while_one_waits_and_tells_what_was_served(told: Service) -> None:
    waiting = page(told)
    assert waiting.status_code == 202 and waiting.headers["Retry-After"] == "2"
    assert "The report of numbers is being made" in waiting.text and 'http-equiv="refresh"' in waiting.text
    report = made(told)
    assert "12 examples and 12 events" in report.text and "<svg" in report.text
    counted = re.search(r"gave (\d+) of (\d+) answers as they were served", report.text)
    assert counted is not None and counted.groups() == ("12", "12")


def test_an_older_one_is_shown_by_the_event_that_it_ends_with(told: Service) -> None:
    newest = made(told)
    assert page(told, until="12").text == newest.text
    missing = told.http.get("/v1/models/numbers/report", params={"until": "7"})
    assert missing.status_code == 404 and "no report of numbers up to event 7" in missing.json()["error"]


def test_a_model_that_was_told_nothing_has_none(told: Service) -> None:
    response = told.http.get("/v1/models/silent/report")
    assert response.status_code == 404 and "told nothing yet" in response.json()["error"]


def test_a_report_that_takes_the_place_of_another_is_never_missing(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path)
    reports = Reports(settings, Workspace(settings))
    folder = reports.workspace.reports("numbers")
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
    last, changes, gives_up = 0, 0, time.monotonic() + 60
    try:
        while changes < 200:
            assert time.monotonic() < gives_up, f"{changes} changes seen"
            until_event = reports.state("numbers", 1_000_000).until
            assert until_event is not None and until_event >= last
            last, changes = until_event, changes + (until_event > last)
    finally:
        ended.set()
        thread.join()


def test_a_failed_attempt_says_why_once_and_the_next_one_succeeds(start: Start) -> None:
    service = start(MODELS)
    tell(service, "one")
    page(service)
    os.kill(until(lambda: report_pid(service.state), what="the process that makes the report"), signal.SIGKILL)

    def refused() -> httpx.Response | None:
        response = service.http.get("/v1/models/numbers/report")
        return response if response.status_code == 503 else None

    error = until(refused, what="the reason").json()["error"]
    assert "could not be made" in error and "-9" in error
    assert "1 examples and 1 events" in made(service).text
    assert [path.name for path in (service.state / "reports" / "numbers").iterdir()] == ["1.html"]


def test_a_service_that_stops_leaves_no_report_process_behind(start: Start) -> None:
    service = start(MODELS)
    tell(service, "one")
    page(service)
    until(lambda: report_pid(service.state), what="the process that makes the report")
    assert service.stop() == 0
    until(lambda: report_pid(service.state) is None, what="its end")


def test_the_same_page_comes_from_the_command_line(told: Service, tmp_path: Path) -> None:
    settings = told.state.parent / f"{told.state.name}.toml"
    flags = ("--state", str(told.state), "--config", str(settings))
    done = run_online("log", "report", *flags, "--model", "numbers", "--output", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    assert "everything up to event 12" in done.stdout and "12 examples" in (tmp_path / "page.html").read_text()
    nothing = run_online("log", "report", *flags, "--model", "silent", "--output", str(tmp_path / "none.html"))
    assert nothing.returncode == 2 and "told nothing yet" in nothing.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
