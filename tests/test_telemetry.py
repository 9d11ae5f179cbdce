"""Log lines in both formats, reports of outages, and the metrics page."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from online.telemetry import JsonFormatter, Metrics, OutageLog, TextFormatter, configure_logging, log_event


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("online.test_telemetry")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield logger
    logger.handlers = []


@pytest.fixture
def stream(logger: logging.Logger) -> io.StringIO:
    return attach(logger, TextFormatter())


def attach(logger: logging.Logger, formatter: logging.Formatter) -> io.StringIO:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    return stream


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_of_text_has_a_time_a_level_a_logger_an_event_and_its_fields(
    logger: logging.Logger, stream: io.StringIO
) -> None:
    log_event(logger, "published", model="chat", version=12, reason="two words", note="")
    moment, line = stream.getvalue().split(" ", 1)
    assert len(moment) == len("2026-11-22T17:00:01.123Z") and moment[10] == "T" and moment.endswith("Z")
    assert line == 'INFO test_telemetry published model=chat version=12 reason="two words" note=""\n'


def test_a_value_with_a_line_break_stays_on_one_line(logger: logging.Logger, stream: io.StringIO) -> None:
    log_event(logger, "failed", reason="first\nsecond")
    assert stream.getvalue().count("\n") == 1


def test_a_line_of_json_is_one_object(logger: logging.Logger) -> None:
    stream = attach(logger, JsonFormatter())
    log_event(logger, "published", logging.WARNING, model="chat", version=12, time="never")
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "test_telemetry",
        "event": "published",
        "model": "chat",
        "version": 12,
    }


def test_an_exception_is_part_of_the_json_object(logger: logging.Logger) -> None:
    stream = attach(logger, JsonFormatter())
    try:
        raise ValueError("no")
    except ValueError:
        logger.exception("failed %d times", 3)
    line = json.loads(stream.getvalue())
    assert line["event"] == "failed 3 times" and "ValueError: no" in line["exception"]


def test_configured_logging_drops_events_below_its_level(capsys: pytest.CaptureFixture[str]) -> None:
    root, ours = logging.getLogger(), logging.getLogger("online")
    before = root.handlers, ours.level
    try:
        configure_logging("warning", "json")
        log_event(logging.getLogger("online.learner"), "published")
        log_event(logging.getLogger("online.learner"), "refused", logging.ERROR)
    finally:
        root.handlers, ours.level = before
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["refused"]


def test_an_outage_is_reported_when_it_begins_each_minute_and_when_it_ends(
    logger: logging.Logger, stream: io.StringIO
) -> None:
    clock = Clock()
    outage = OutageLog(logger, "store unavailable", clock, model="chat")
    outage.record_success()
    for _ in range(200):
        outage.record_failure("connection refused")
        clock.now += 0.5
    assert outage.is_ongoing
    outage.record_success()
    outage.record_success()
    assert not outage.is_ongoing
    assert [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()] == [
        'WARNING test_telemetry store unavailable model=chat reason="connection refused"',
        'WARNING test_telemetry store unavailable model=chat reason="connection refused" failures=121 seconds=60',
        "INFO test_telemetry store unavailable: recovered model=chat failures=200 seconds=100",
    ]


def test_the_next_outage_is_reported_immediately(logger: logging.Logger, stream: io.StringIO) -> None:
    outage = OutageLog(logger, "store unavailable", Clock())
    for _ in range(2):
        outage.record_failure("down")
        outage.record_success()
    assert stream.getvalue().count("reason=down") == 2


def test_the_metrics_page_has_every_metric_with_its_help() -> None:
    metrics = Metrics()
    metrics.predictions.labels("chat").inc(3)
    page = metrics.text([(0, "chat", 7)], {"chat": 3}).decode()
    assert 'online_predictions_total{model="chat"} 3.0' in page
    assert 'online_lag_events{model="chat",worker="0"} 7.0' in page
    help_lines = [line for line in page.splitlines() if line.startswith("# HELP")]
    assert len(help_lines) >= 18 and all(line.split(" ", 3)[3][0].isupper() or "1 while" in line for line in help_lines)
