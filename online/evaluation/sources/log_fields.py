"""Reads the fields of one line of our own log: each has one type, and a value of another type is refused by its name."""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from online.evaluation.sources.log_format import Names
from online.io.instants import ISO_8601, InstantColumn
from online.models.encoders.values import format_value
from online.schemas.json_values import JSON

LARGEST_OFFSET = 2**63 - 1


@dataclass(slots=True)
class LineFields:
    """The fields of a prediction or an event. Each method returns one of them.

    times: for each field of instants, the reader of its values in the whole log, which share one unit. written: the name
    that the file gives a field, where it is another one. All methods raise ValueError, which ends "line 3 is not a line
    of ...: ".
    """

    fields: Mapping[str, JSON]
    times: dict[str, InstantColumn] = field(default_factory=dict)
    written: Names = field(default_factory=dict)

    def value(self, name: str) -> JSON:
        """Return a field of any type. Raises ValueError if it is absent."""
        if name not in self.fields:
            raise ValueError(f"it lacks {self.quote(name)}")
        return self.fields[name]

    def text(self, name: str, may_be_empty: bool = True) -> str:
        """Return a text. Raises ValueError."""
        value = self.value(name)
        if not isinstance(value, str):
            raise self.refuse(name, "a text")
        if not value and not may_be_empty:
            raise ValueError(f"its {self.quote(name)} is empty")
        return value

    def text_or_null(self, name: str) -> str | None:
        """Return a text or None. Raises ValueError."""
        return None if self.value(name) is None else self.text(name)

    def optional_text(self, name: str) -> str | None:
        """Return a text; None if it is null or absent. Raises ValueError."""
        return self.text_or_null(name) if name in self.fields else None

    def whole(self, name: str, least: int = 0) -> int:
        """Return a whole number of at least `least`. Raises ValueError."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_OFFSET:
            raise self.refuse(name, f"a whole number from {least}")
        return value

    def number(self, name: str) -> float:
        """Return a finite number. Raises ValueError."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.refuse(name, "a finite number")
        return value

    def share(self, name: str) -> float:
        """Return a number from 0 to 1. Raises ValueError."""
        value = self.number(name)
        if not 0 <= value <= 1:
            raise self.refuse(name, "from 0 to 1")
        return value

    def bytes(self, name: str) -> bytes:
        """Return bytes that are written in base64."""
        text = self.text(name)
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            raise ValueError(f"its {self.quote(name)} is no base64") from None

    def instant(self, name: str) -> str | None:
        """Return a time in ISO 8601 with a zone; None for null. A time without a zone is UTC."""
        value, column = self.value(name), self.times.setdefault(name, InstantColumn(is_calendar=True))
        if value is None or (column.unit == ISO_8601 and is_aware(value)):
            return value  # type: ignore[no-any-return]
        try:
            seconds = column.parse(value)
            return value if is_aware(value) else datetime.fromtimestamp(seconds, UTC).isoformat()
        except (ValueError, OverflowError, OSError) as error:
            raise ValueError(f"its {self.quote(name)} is {error}") from None

    def optional_instant(self, name: str) -> str | None:
        """Return an instant as ISO 8601; None if it is absent. Raises ValueError."""
        return self.instant(name) if name in self.fields else None

    def scores(self, name: str) -> tuple[tuple[str, float], ...]:
        """Return pairs of an id and its score, which is NaN where it is null."""
        value = self.value(name)
        if not isinstance(value, list):
            raise self.refuse(name, "a list")
        if wrong := [pair for pair in value if not is_scored(pair)]:
            raise ValueError(f"its {self.quote(name)} has {wrong[0]!r:.60}, which is no pair of an id and a score")
        return tuple((id, math.nan if score is None else score) for id, score in value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; empty if it is absent. Raises ValueError."""
        value = self.fields.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.refuse(name, "a list of texts")
        return tuple(value)

    def refuse(self, name: str, expected: str) -> ValueError:
        """Return the error for a field of another type."""
        return ValueError(f"its {self.quote(name)} is {format_value(self.fields[name])}, not {expected}")

    def quote(self, name: str) -> str:
        """Return the name that the file gives a field, in quotes."""
        return repr(self.written.get(name, name))


def is_aware(value: object) -> bool:
    """Return whether a time that could be parsed says its zone."""
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def is_scored(pair: object) -> bool:
    """Return whether a value is [class, score or null]."""
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        return False
    return pair[1] is None or (isinstance(pair[1], (int, float)) and not isinstance(pair[1], bool))
