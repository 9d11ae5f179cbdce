"""The options of a kind, as data: what validates them is also what documents them.

OPTIONS (a tuple of Option beside each kind) --resolve--> {name: value}, valid and complete
                                             --describe_options (registry)--> the option reference
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches

from online.models.contract import Options
from online.schemas.json_values import JSON, JSONObject

TYPE_NAMES = {list: "list", dict: "table", str: "text", bool: "true or false", int: "integer", float: "number"}


class UnknownOption(ValueError):
    """An option that a kind does not have."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind.

    help: what it sets and when to change it. low, high: inclusive bounds; above, below: exclusive
    ones. choices: the allowed texts, if there is a fixed set of them.
    """

    name: str
    default: JSON
    help: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """The type of its values, in words."""
        return TYPE_NAMES[type(self.default)]

    @property
    def allowed(self) -> str:
        """Its allowed values, in words; "" if every value of its type is allowed."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.low is not None and self.high is not None:
            return f"in [{self.low:g}, {self.high:g}]"
        bounds = [("at least", self.low), ("at most", self.high), ("above", self.above), ("below", self.below)]
        return " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)

    def check(self, value: object) -> None:
        """Raise ValueError for a value of another type, or one that is not allowed."""
        number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        if type(value) is not type(self.default) and not (isinstance(self.default, float) and number is not None):
            raise ValueError(f"option {self.name!r} must be {type(self.default).__name__}, not {value!r}")
        if self.choices and value not in self.choices:
            raise ValueError(f"option {self.name!r} must be {self.allowed}, not {value!r}")
        if number is not None and not self._is_within_bounds(number):
            verb = "lie" if self.low is not None and self.high is not None else "be"
            raise ValueError(f"option {self.name!r} must {verb} {self.allowed}, not {value}")

    def _is_within_bounds(self, value: float) -> bool:
        """Return False for NaN too, unless there are no bounds."""
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


INPUT = Option(
    "input", "text", "What an instance is: a text, a list of numbers or an object.", choices=("text", "vector", "table")
)
SIZE = Option("size", 0, "Length of a vector. Required for input = vector.", unit="numbers", low=0)
KEY = Option(
    "key",
    "",
    "Keys for the signature of the state, as ID:HEX or HEX with blanks between them: the first signs, all verify. "
    "The service fills it in from the state folder.",
)


def resolve(options: Options, table: Sequence[Option]) -> JSONObject:
    """`options` completed with the defaults of `table`.

    Raises ValueError for an unknown name, with the option that was probably meant, and for a value
    that an option does not allow.
    """
    known = {option.name: option for option in table}
    for name in sorted(options):
        if name not in known:
            raise UnknownOption(name, describe_unknown(name, known))
    for name, value in options.items():
        known[name].check(value)
    return {**defaults(table), **options}


def defaults(table: Sequence[Option]) -> JSONObject:
    """Return the default of each option, by name."""
    return {option.name: option.default for option in table}


def describe_unknown(name: str, known: dict[str, Option]) -> str:
    """Return the message for an option that does not exist."""
    close = get_close_matches(name, known, n=1)
    elsewhere = find_setting(name, is_exact=bool(close))
    if elsewhere:
        return f"unknown option {name!r}; {elsewhere}"
    if close:
        return f"unknown option {name!r}; did you mean {close[0]!r}? {known[close[0]].help}"
    return f"unknown option {name!r}; this kind has {', '.join(sorted(known))}"


def find_setting(name: str, is_exact: bool) -> str:
    """Return a clause that says where a setting belongs that was given as an option; "" if there is none of this name.

    The settings are imported here: models run without them, and without pydantic.
    """
    with suppress(ImportError):
        from online.settings.places import find_place

        return find_place(name, given_in="options", is_exact=is_exact)
    return ""


def require_size(options: Options) -> None:
    """Raise ValueError if vectors are read and their length is not given."""
    if options["input"] == "vector" and options["size"] < 1:
        raise ValueError("input = 'vector' needs option 'size', the number of values in an instance")
