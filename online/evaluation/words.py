"""Words results in a language: sentences from its table, and numbers and dates as its readers write them.

IN_ENGLISH("judged", count=1234) -- the sentence with that key, with the values in it --> "1,234 answers"

The table of another language comes from the plugin that writes pages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from string import Formatter

from online.evaluation.english import ENGLISH
from online.schemas.fields import Language
from online.scoring.verdict import Reason

Table = Mapping[str, str]

MOMENTS: Mapping[Language, str] = {"en": "%Y-%m-%d %H:%M:%S", "de": "%d.%m.%Y %H:%M:%S"}
DURATIONS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))  # the same in every language
SWAPPED = str.maketrans(",.", ".,")


class NumberFormatter(Formatter):
    """Formats as `str.format` does, with the numbers of a language: `de` writes 1.234,5.

    A number and its percent sign stay in one line. `{count:line|lines}` is 1 line or 1,234 lines, and `{count:!it|they}` the word alone.
    """

    def __init__(self, language: Language) -> None:
        self.language = language

    def format_field(self, value: object, format_spec: str) -> str:
        """Format a number as the language writes it, or choose between singular and plural (`!one|many`)."""
        if "|" in format_spec:
            one, _, many = format_spec.removeprefix("!").partition("|")
            noun = one if value == 1 else many
            return noun if format_spec.startswith("!") else f"{self.format_field(value, ',')} {noun}"
        text: str = super().format_field(value, format_spec)
        if isinstance(value, str):
            return text
        text = text.replace("%", "\u00a0%")
        return text if self.language == "en" else text.translate(SWAPPED)


@dataclass(frozen=True, slots=True)
class LanguageWords:
    """The words of a language."""

    language: Language
    table: Table = field(repr=False)
    formatter: NumberFormatter = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "formatter", NumberFormatter(self.language))

    def __call__(self, key: str, /, **values: object) -> str:
        """Return the sentence with this key. values: what its placeholders stand for."""
        return self.formatter.vformat(self.table[key], (), values)

    def plural(self, key: str, count: int, /, **values: object) -> str:
        """Return the sentence `<key>.one` or `<key>.many`, in which the count is called `count`."""
        return self(f"{key}.{'one' if count == 1 else 'many'}", count=count, **values)

    def say(self, reason: Reason) -> str:
        """Return the sentence of a reason. A figure that is a reason itself is said within it."""
        values = {name: self.say(each) if isinstance(each, Reason) else each for name, each in reason.figures.items()}
        is_said = reason.code in self.table
        return self(reason.code if is_said else f"{reason.code}.{'one' if values['count'] == 1 else 'many'}", **values)

    def number(self, value: float, spec: str) -> str:
        """Return a number in a format of `format`."""
        return self.formatter.format_field(value, spec)

    def figure(self, value: float | None, spec: str) -> str:
        """Return a number, or a dash for one that is not known."""
        return "–" if value is None else self.number(value, spec)

    def duration(self, seconds: float) -> str:
        """Return a time in its two largest units: 120 ms, 8.2 s, 3 min 20 s, 2 h 15 min, 3 d 4 h."""
        if seconds < 0.9995:
            return f"{self.number(1_000 * seconds, '.3g')}\u00a0ms"
        if seconds < 59.5:
            return f"{self.number(seconds, '.2g' if seconds < 9.95 else '.0f')}\u00a0s"
        for (unit, length), (smaller, part) in pairwise(DURATIONS):
            count, rest = divmod(round(seconds / part), round(length / part))
            if count:
                return f"{self.number(count, ',')}\u00a0{unit}" + (f"\u00a0{rest}\u00a0{smaller}" if rest else "")
        raise AssertionError(seconds)

    def moment(self, at: datetime) -> str:
        """Return an instant as the language writes it."""
        return at.strftime(MOMENTS[self.language])


IN_ENGLISH = LanguageWords("en", ENGLISH)
