"""Feedback over time: bars of a length that fits the log, which add up to all that came in."""

from datetime import UTC, datetime, timedelta

import pytest

from online.evaluation.reports.plots import MAX_BARS, count_by_time
from online.prequential import CurveSegment

BEGAN = datetime(2026, 11, 25, 9, 58, 47, 250_000, tzinfo=UTC)


def build_curve(length: timedelta, segments: int = 20, count: int = 28) -> list[CurveSegment]:
    """Segments one after the other, with this many answers each."""
    times = [(BEGAN + length * place / segments).isoformat() for place in range(segments + 1)]
    return [
        CurveSegment(count * place, {"model": count}, {"model": 0.0}, count * place, times[place - 1], times[place])
        for place in range(1, segments + 1)
    ]


@pytest.mark.parametrize(
    ("length", "unit"),
    [
        (timedelta(seconds=13), "second"),
        (timedelta(minutes=20), "minute"),
        (timedelta(hours=20), "hour"),
        (timedelta(days=40), "day"),
        (timedelta(days=300), "week"),
        (timedelta(days=3_000), "month"),
    ],
)
def test_the_bars_fit_the_log_and_add_up(length: timedelta, unit: str) -> None:
    counted = count_by_time(build_curve(length))
    assert counted is not None and counted.unit == unit
    assert sum(counted.counts) == 560 and min(counted.counts) >= 0
    assert len(counted.starts) == len(counted.counts) and (unit == "month" or len(counted.counts) <= MAX_BARS + 1)
    assert counted.starts[0] <= BEGAN and counted.starts[0].microsecond == 0


def test_a_pause_is_a_gap() -> None:
    first, last = build_curve(timedelta(minutes=2), 2), build_curve(timedelta(minutes=22), 22)[-2:]
    counted = count_by_time([*first, *last])
    assert counted is not None and counted.unit == "minute"
    assert counted.counts[4:18] == [0] * 14 and sum(counted.counts) == 4 * 28


def test_one_moment_or_no_time_is_no_plot() -> None:
    assert count_by_time([]) is None
    assert count_by_time([CurveSegment(5, {"model": 5}, {"model": 1.0})]) is None
    assert count_by_time(build_curve(timedelta(milliseconds=20))) is None
