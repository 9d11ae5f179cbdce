"""Reads instants from values: one rule for numbers, texts and dates, wherever a file gives a time.

    1767225600, 1767225600000, ...             since 1970 in s, ms, us or ns, by the magnitude
    20260131                                   a date
    "2026-01-31", "2026-01-31T12:00+01:00"     ISO 8601; without a zone it is UTC, whatever the zone of this machine
    0, 48, 3600                                seconds of a clock of its own: below 100,000,000

The units are disjoint for every instant from 1973 to 5138. A column is in one unit: a value in another one is refused.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

UNITS = ((1e11, "seconds", 1.0), (1e14, "milliseconds", 1e3), (1e17, "microseconds", 1e6), (1e20, "nanoseconds", 1e9))
OWN_CLOCK = 1e8  # below it, a number does not say when in the calendar it is
OWN_CLOCK_UNIT = "seconds of a clock of its own"
ISO_8601 = "ISO 8601"
DIGITS = re.compile(r"[+-]?\d+(?:\.\d*)?", re.ASCII)


@dataclass(slots=True)
class InstantColumn:
    """Reads the instants of one column. unit: that of its first value. is_calendar: whether no clock of its own is meant."""

    unit: str = ""
    is_calendar: bool = False

    def parse(self, value: object) -> float:
        """Return seconds, since 1970 unless the column has a clock of its own. Raises ValueError for other values."""
        seconds, unit = parse_instant(value)
        if self.is_calendar and unit == OWN_CLOCK_UNIT:
            raise ValueError(f"{value!r}, which is no time since 1970")
        self.unit = self.unit or unit
        if unit != self.unit:
            raise ValueError(f"{value!r}, which is in {unit}, below values in {self.unit}")
        return seconds


def parse_instant(value: object) -> tuple[float, str]:
    """Return (seconds, unit) of a value. Raises ValueError that ends a sentence with what the value is not."""
    if isinstance(value, str) and DIGITS.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return parse_instant_number(float(value))
    return parse_instant_text(str(value)), ISO_8601


def parse_instant_number(number: float) -> tuple[float, str]:
    """Return a number as seconds since 1970, with the unit in which it was read. Raises ValueError if it is no instant."""
    if math.isfinite(number):
        if (day := find_day(number)) is not None:
            return datetime.combine(day, time(), UTC).timestamp(), "dates"
        if abs(number) < OWN_CLOCK:
            return number, OWN_CLOCK_UNIT
        for limit, unit, per_second in UNITS:
            if abs(number) < limit:
                return number / per_second, unit
    raise ValueError(f"{number!r}, which is no time: it is in none of s, ms, us and ns since 1970")


def find_day(number: float) -> date | None:
    """Return the day that a number is written as, 20260131; None if it is none of 1900 to 2100."""
    if not (number.is_integer() and 19_000_101 <= number <= 21_001_231):
        return None
    try:
        return datetime.strptime(str(int(number)), "%Y%m%d").date()
    except ValueError:
        return None


def parse_instant_text(text: str) -> float:
    """Return the seconds since 1970 of ISO 8601. Raises ValueError."""
    try:
        parsed = datetime.fromisoformat(text.strip())
        return (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r}, which is neither a number nor a time") from None
