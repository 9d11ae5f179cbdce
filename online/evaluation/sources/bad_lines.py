"""Counts the lines of a source that cannot be used, and parses the numbers of those that can."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from online.errors import BadInput
from online.schemas.json_values import JSON, JSONObject

ALL_DIGITS = 15  # of a float that was not rounded when it was written
MAX_SHOWN = 5  # bad lines named in an error
LINE_PROBLEMS = (
    "not_json",
    "no_example",
    "too_many_cells",
    "too_few_cells",
    "open_quote",
    "no_label",
    "not_vw",
    "bad_input",
    "bad_header",
    "no_header",
    "unknown_line",
    "wrong_field",
    "contradiction",
    "out_of_order",
    "other_log",
    "cut_off",
    "other",
)


@dataclass(slots=True)
class LogGaps:
    """The repeated and the missing lines of our own log.

    repeated: lines that say what an earlier one said, and count once. events: offsets that no usable line has; first:
    the first of them, 0 if there is none. predictions: how many the header counts and the log has not.
    """

    repeated: int = 0
    events: int = 0
    first: int = 0
    predictions: int = 0

    def miss(self, start: int, stop: int) -> None:
        """Count the offsets from `start` to before `stop` as missing."""
        if start < stop:
            self.first = self.first or start
            self.events += stop - start

    def as_figures(self) -> JSONObject:
        """Return the figures by the names that a report gives them."""
        missing = {"missing_events": self.events, "first_missing": self.first, "missing_predictions": self.predictions}
        return {"repeated_lines": self.repeated, **missing}


@dataclass(slots=True)
class BadLines:
    """Lines that could not be used. max_ratio: the share of them that is accepted.

    line, problem: of the first of them; what is wrong is one of LINE_PROBLEMS. problems: how many have each. gaps: of a
    log of ours, what it has twice and lacks.
    """

    max_ratio: float = 0.0
    count: int = 0
    first: list[str] = field(default_factory=list)
    line: int = 0
    problem: str = ""
    problems: Counter[str] = field(default_factory=Counter)
    gaps: LogGaps = field(default_factory=LogGaps)

    def add(self, cause: str, line: int = 0, problem: str = "other", lines: int = 1) -> None:
        """Count a line. Raises BadInput at once if none is accepted and there are enough to show.

        line: its number; 0 if it has none. lines: how many it stands for, of which a quote has made one.
        """
        if not self.count:
            self.line, self.problem = line, problem
        self.count += lines
        self.problems[problem] += lines
        if len(self.first) < MAX_SHOWN:
            self.first.append(cause)
        if not self.max_ratio and len(self.first) == MAX_SHOWN:
            raise self._refuse("at least ")

    def add_all(self, causes: Sequence[str], count: int) -> None:
        """Count lines that another process has read. causes: of the first of them. Raises BadInput as `add` does."""
        for cause in causes:
            self.add(cause)
        self.count += count - len(causes)
        self.problems["other"] += count - len(causes)

    def as_json(self) -> JSONObject:
        """Return the counts and the first lines as JSON."""
        return {"count": self.count, "problems": dict(self.problems), "first": list(self.first)}

    @staticmethod
    def join(one: Mapping[str, JSON], other: Mapping[str, JSON]) -> JSONObject:
        """Return what two counts of lines say together; {} for none."""
        problems: Counter[str] = Counter(one.get("problems", {})) + Counter(other.get("problems", {}))
        first = [*one.get("first", ()), *other.get("first", ())][:MAX_SHOWN]
        return {"count": problems.total(), "problems": dict(problems), "first": first}

    def check(self, lines: int) -> None:
        """Raise BadInput if too many of `lines` were bad."""
        if self.count > self.max_ratio * lines:
            of = f" of {lines:,}" if self.max_ratio else ""
            raise self._refuse("", of)

    def _refuse(self, least: str, of: str = "") -> BadInput:
        refused = BadInput(self.describe(least, of))
        return refused.because("log_lines_invalid", line=self.line, problem=self.problem, count=self.count)

    def describe(self, least: str = "", of: str = "") -> str:
        """Say which lines cannot be used, and why; the first of them."""
        if self.count == 1:
            return self.first[0]
        more = f"; {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return f"{least}{self.count:,} lines{of} cannot be used: {'; '.join(self.first)}{more}"


def parse_finite(value: JSON) -> float:
    """Return the number. Raises ValueError for a value that is not a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number


def parse_probability(value: object) -> float:
    """Return the probability of something that happened. Raises ValueError unless it lies in (0, 1]."""
    number = parse_finite(value)
    if not 0 < number <= 1 + 1e-6:
        raise ValueError(f"its propensity is {number:g}, which is not above 0 and at most 1")
    return number


def roundings_of(values: Iterable[float]) -> dict[float, float]:
    """Return by how much each of some numbers may have been rounded when they were written.

    That is half a unit of the last place, if all were written with as many decimal places as the longest of them, or
    with as many digits: .0005 for 0.333 beside 0.5, and .0005 for 0.333 beside 0.0125. Nothing for numbers of which
    one has all the digits that a float has.
    """
    written = {value: Decimal(repr(value)) for value in {*values}}
    places = max((-each.as_tuple().exponent for each in written.values()), default=0)  # type: ignore[operator]
    digits = max((len(each.as_tuple().digits) for each in written.values()), default=0)
    if digits >= ALL_DIGITS:
        return dict.fromkeys(written, 0.0)
    return {value: 0.5 * 10.0 ** max(-places, each.adjusted() + 1 - digits) for value, each in written.items()}
