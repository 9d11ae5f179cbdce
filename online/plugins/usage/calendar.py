"""Hours, days, weeks and months of a time zone, as spans of quarters of an hour.

    2026-10-25, Europe/Berlin, by hour:  00:00+02  01:00+02  02:00+02  02:00+01  03:00+01 ...     25 hours

A day is as long as it is there: 23, 24 or 25 hours, where the clocks change. Weeks begin on Monday.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from online.errors import BadInput
from online.store.usage.counts import QUARTER_S

Unit = Literal["hour", "day", "week", "month"]
MAX_SPANS = 2_000
DEFAULT_DAYS = 30
HOUR = timedelta(hours=1)


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone. Raises BadInput for a name that is no time zone."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # there is none, it is a folder, or no relative path
        raise BadInput(f"there is no time zone {name[:80]!r}; send a name such as Europe/Berlin or UTC") from None


def parse_instant(name: str, value: str, zone: ZoneInfo) -> datetime:
    """Return an instant from a date or from a date and a time, which without an offset are those of the zone.

    Raises BadInput. name: of the parameter, for the error.
    """
    try:
        parsed = datetime.fromisoformat(value)
        local = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=zone)
        return floor_to_quarter(local.astimezone(UTC))
    except (ValueError, OverflowError):
        raise BadInput(
            f"{name} is {value[:80]!r}; send a date such as 2026-05-01, or an instant such as 2026-05-01T12:00:00Z"
        ) from None


def default_range(now: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """From the midnight with which the last 30 days begin, today included, until the end of this quarter of an hour."""
    first = now.astimezone(zone).date() - timedelta(days=DEFAULT_DAYS - 1)
    return midnight(first, zone), floor_to_quarter(now) + timedelta(seconds=QUARTER_S)


def floor_to_quarter(at: datetime) -> datetime:
    """Return the beginning of a quarter of an hour."""
    return datetime.fromtimestamp(at.timestamp() // QUARTER_S * QUARTER_S, UTC)


def quarter_number(at: datetime) -> int:
    """Return the number of a quarter of an hour since 1970."""
    return int(at.timestamp()) // QUARTER_S


def list_starts(since: datetime, until: datetime, unit: Unit, zone: ZoneInfo) -> list[datetime]:
    """Return when each hour, day, week or month that has a part in [since, until) begins; the first one begins at `since`.

    Raises BadInput for an empty range, and for one with too many of them.
    """
    if since >= until:
        raise BadInput(f"from ({since:%Y-%m-%dT%H:%MZ}) is not before until ({until:%Y-%m-%dT%H:%MZ})")
    starts, following = [since], FOLLOWING[unit]
    while (at := following(starts[-1], zone)) < until:
        starts.append(at)
        if len(starts) > MAX_SPANS:
            raise BadInput(f"the range has more than {MAX_SPANS:,} spans by {unit}; choose a larger unit")
    return starts


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return when a day begins, in UTC."""
    return floor_to_quarter(datetime.combine(day, time(), zone).astimezone(UTC))


def next_hour(at: datetime, zone: ZoneInfo) -> datetime:
    """Return the next full hour of the clocks there. Where they go back by half an hour, an hour has that much more."""
    local = (at + HOUR).astimezone(zone)
    full = floor_to_quarter(local.astimezone(UTC) - timedelta(minutes=local.minute))
    return full if full > at else at + HOUR


def next_day(at: datetime, zone: ZoneInfo) -> datetime:
    """Return the next midnight in a time zone."""
    return midnight(at.astimezone(zone).date() + timedelta(days=1), zone)


def next_week(at: datetime, zone: ZoneInfo) -> datetime:
    """Return the midnight before the next Monday."""
    day = at.astimezone(zone).date()
    return midnight(day + timedelta(days=7 - day.weekday()), zone)


def next_month(at: datetime, zone: ZoneInfo) -> datetime:
    """Return the midnight before the first of the next month."""
    day = at.astimezone(zone).date()
    return midnight((day.replace(day=1) + timedelta(days=32)).replace(day=1), zone)


FOLLOWING: dict[Unit, Callable[[datetime, ZoneInfo], datetime]] = {
    "hour": next_hour,
    "day": next_day,
    "week": next_week,
    "month": next_month,
}
