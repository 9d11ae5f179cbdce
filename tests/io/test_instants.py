"""How times are read: by magnitude, in UTC, and in one unit for each column."""

import os
import time
from collections.abc import Iterator

import pytest

from online.io.instants import InstantColumn, parse_instant

NEW_YEAR = 1_767_225_600  # 2026-01-01T00:00Z


@pytest.fixture(params=["UTC", "America/New_York", "Pacific/Kiritimati"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    os.environ.pop("TZ")
    time.tzset()


@pytest.mark.few(16)
@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    "value",
    [
        NEW_YEAR,
        float(NEW_YEAR),
        NEW_YEAR * 1_000,
        NEW_YEAR * 1_000_000,
        NEW_YEAR * 1_000_000_000,
        str(NEW_YEAR),
        f"{NEW_YEAR}000",
        "2026-01-01",
        "2026-01-01T00:00",
        "2026-01-01 00:00:00",
        "2026-01-01T00:00:00.000",
        "2026-01-01T00:00:00Z",
        "2026-01-01T01:00:00+01:00",
        "2025-12-31T19:00:00-05:00",
        20260101,
        "20260101",
    ],
)
def test_a_time_is_read_by_its_magnitude_and_without_a_zone_as_utc(value: object) -> None:
    assert parse_instant(value)[0] == NEW_YEAR


@pytest.mark.parametrize(("value", "seconds"), [(0, 0.0), (48.5, 48.5), (-3, -3.0), ("3600", 3600.0)])
def test_small_numbers_are_seconds_of_a_clock_of_its_own(value: object, seconds: float) -> None:
    assert parse_instant(value)[0] == seconds


@pytest.mark.parametrize(
    "value", [None, True, "", "soon", float("nan"), float("inf"), 1e21, "2026-13-01", "99999-01-01", "12:30", [1]]
)
def test_what_is_no_time_is_refused_with_its_value(value: object) -> None:
    with pytest.raises(ValueError, match=r"neither a number nor a time|no time"):
        parse_instant(value)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (NEW_YEAR, NEW_YEAR * 1_000, "in milliseconds, below values in seconds"),
        (NEW_YEAR * 1_000, "2026-01-01", "in ISO 8601, below values in milliseconds"),
        (5, NEW_YEAR, "in seconds, below values in seconds of a clock of its own"),
        (20260101, 20260199, "below values in dates"),
    ],
)
def test_a_column_has_one_unit(first: object, second: object, words: str) -> None:
    column = InstantColumn()
    column.parse(first)
    with pytest.raises(ValueError, match=words):
        column.parse(second)


def test_the_hour_that_summer_time_repeats_is_told_apart_by_its_zone() -> None:
    column = InstantColumn()
    first, second = map(column.parse, ("2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"))
    assert second - first == 3_600
