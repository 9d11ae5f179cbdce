"""Hours, days, weeks and months of time zones, also where the clocks change."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from online.errors import BadInput
from online.plugins.usage.calendar import Unit, default_range, find_zone, list_starts, parse_instant

BERLIN = ZoneInfo("Europe/Berlin")


def starts(since: str, until: str, unit: Unit, zone: str = "Europe/Berlin") -> list[str]:
    """As local times with offsets."""
    there = find_zone(zone)
    span = [parse_instant("from", value, there) for value in (since, until)]
    return [at.astimezone(there).isoformat(timespec="minutes") for at in list_starts(span[0], span[1], unit, there)]


def test_the_day_on_which_the_clocks_go_back_has_25_hours() -> None:
    hours = starts("2026-10-25", "2026-10-26", "hour")
    assert len(hours) == 25
    assert hours[1:4] == ["2026-10-25T01:00+02:00", "2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00"]


def test_the_day_on_which_the_clocks_go_forward_has_23_hours() -> None:
    hours = starts("2026-03-29", "2026-03-30", "hour")
    assert len(hours) == 23
    assert hours[1:3] == ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"]


def test_days_begin_at_the_midnight_there_on_both_sides_of_a_change() -> None:
    assert starts("2026-10-24", "2026-10-27", "day") == [
        "2026-10-24T00:00+02:00",
        "2026-10-25T00:00+02:00",
        "2026-10-26T00:00+01:00",
    ]


def test_a_day_without_a_midnight_begins_at_one() -> None:
    days = starts("2026-04-23", "2026-04-26", "day", "Africa/Cairo")
    assert days[1] == "2026-04-24T01:00+03:00" and len(days) == 3


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    assert starts("2026-01-01", "2026-01-13", "week") == [f"2026-01-{day:02}T00:00+01:00" for day in (1, 5, 12)]
    months = starts("2026-01-31", "2026-04-02", "month")
    assert [each[:10] for each in months] == ["2026-01-31", "2026-02-01", "2026-03-01", "2026-04-01"]


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "Asia/Kolkata", "Australia/Eucla", "America/St_Johns"])
def test_hours_of_zones_with_odd_offsets_are_whole_quarters(zone: str) -> None:
    assert starts("2026-05-01", "2026-05-02", "hour", zone) == [
        f"2026-05-01T{hour:02}:00{starts('2026-05-01', '2026-05-02', 'day', zone)[0][16:]}" for hour in range(24)
    ]


def test_where_the_clocks_go_back_by_half_an_hour_every_hour_is_there() -> None:
    hours = starts("2026-04-05", "2026-04-06", "hour", "Australia/Lord_Howe")
    assert len(hours) == len(set(hours)) and hours == sorted(hours, key=datetime.fromisoformat)
    assert hours[-1] == "2026-04-05T23:00+10:30"


def test_dates_are_those_of_the_zone_and_instants_are_rounded_down_to_a_quarter_of_an_hour() -> None:
    assert parse_instant("from", "2026-05-01", BERLIN) == datetime(2026, 4, 30, 22, tzinfo=UTC)
    assert parse_instant("from", "2026-05-01T10:29:59Z", BERLIN) == datetime(2026, 5, 1, 10, 15, tzinfo=UTC)
    assert parse_instant("from", "2026-05-01T10:00", BERLIN) == datetime(2026, 5, 1, 8, tzinfo=UTC)


def test_the_default_is_30_days_with_today() -> None:
    since, until = default_range(datetime(2026, 5, 30, 21, 50, tzinfo=UTC), BERLIN)
    assert (since, until) == (datetime(2026, 4, 30, 22, tzinfo=UTC), datetime(2026, 5, 30, 22, tzinfo=UTC))
    assert len(list_starts(since, until, "day", BERLIN)) == 30


@pytest.mark.parametrize("value", ["yesterday", "", "2026-13-01", "9999-12-31T23:59:59-23:00", "0001-01-01"])
def test_what_is_no_instant_is_refused(value: str) -> None:
    with pytest.raises(BadInput, match=r"until is '.*'; send a date such as"):
        parse_instant("until", value, BERLIN)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "a" * 300, "A\0"])
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="there is no time zone"):
        find_zone(name)


def test_empty_ranges_and_too_many_spans_are_refused() -> None:
    with pytest.raises(BadInput, match="is not before until"):
        starts("2026-05-01", "2026-05-01", "day")
    with pytest.raises(BadInput, match="more than 2,000 spans by hour"):
        starts("2026-01-01", "2026-05-01", "hour")


def test_every_span_is_as_long_as_it_should_be_all_year() -> None:
    since = datetime(2026, 1, 1, tzinfo=BERLIN).astimezone(UTC)
    days = list_starts(since, since + timedelta(days=365), "day", BERLIN)
    lengths = {(end - start) // timedelta(hours=1) for start, end in pairwise(days)}
    assert lengths == {23, 24, 25} and len(days) == 365
