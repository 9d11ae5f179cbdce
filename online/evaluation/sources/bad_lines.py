"""Counts the lines of a source that cannot be used, and parses the numbers of those that can."""

import math
from dataclasses import dataclass, field
from typing import Any

from online.errors import BadInput

MAX_SHOWN = 5  # bad lines named in an error


@dataclass(slots=True)
class BadLines:
    """Lines that could not be used. max_ratio: the share of them that is accepted."""

    max_ratio: float = 0.0
    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, cause: str) -> None:
        """Count a line. Raises BadInput at once if none is accepted and there are enough to show."""
        self.count += 1
        if len(self.first) < MAX_SHOWN:
            self.first.append(cause)
        if not self.max_ratio and self.count == MAX_SHOWN:
            raise BadInput(self._describe("at least "))

    def check(self, lines: int) -> None:
        """Raise BadInput if too many of `lines` were bad."""
        if self.count > self.max_ratio * lines:
            of = f" of {lines:,}" if self.max_ratio else ""
            raise BadInput(self._describe("", of))

    def _describe(self, least: str, of: str = "") -> str:
        if self.count == 1:
            return self.first[0]
        more = f"; {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return f"{least}{self.count:,} lines{of} cannot be used: {'; '.join(self.first)}{more}"


def parse_finite(value: Any) -> float:
    """Raises ValueError for a value that is not a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number


def parse_probability(value: Any) -> float:
    """Return the probability of something that happened. Raises ValueError unless it lies in (0, 1]."""
    number = parse_finite(value)
    if not 0 < number <= 1 + 1e-6:
        raise ValueError(f"its propensity is {number:g}, which is not above 0 and at most 1")
    return number
