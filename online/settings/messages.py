"""Error messages about invalid settings: where the setting was given, its value, and the remedy."""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from online.schemas.fields import Language
from online.settings.fields import Settings
from online.settings.models import GoldenQuestionSettings, ModelSettings, PageTexts, Placement
from online.settings.places import PLACES, ListOptions, find_place

CLOSE = 0.7  # ratio of difflib above which one name is taken for a misspelling of another
LONGEST_VALUE_CHARS = 60
TABLES: dict[str, type[BaseModel]] = {
    "models": ModelSettings,
    "placement": Placement,
    "golden_questions": GoldenQuestionSettings,
    "page_translations": PageTexts,
}
TABLE_KEYS = get_args(Language)  # name one of several tables, as a number does
PRIVATE = ("store", "stream")  # URLs that may hold a password
BOUNDS = (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
MOST_NAMED = 12  # names that a message lists


def describe(error: ValidationError) -> str:
    """Return a pydantic error as one sentence per finding: where it is, and what is wrong there."""
    return "; ".join(
        f"{'.'.join(map(str, finding['loc'])) or 'document'}: {plain_message(finding['msg'])}"
        for finding in error.errors()
    )


def describe_settings_error(
    error: ValidationError, place: Callable[[str], str], list_options: Callable[[], ListOptions] = dict
) -> str:
    """Return one sentence per finding.

    place: where a setting was given, such as `--port` or `online.toml: port`. list_options: lists the options of models.
    """
    by_location = {finding["loc"][:3]: finding for finding in reversed(error.errors())}  # a union has one per branch
    return "; ".join(describe_finding(finding, place, list_options) for finding in reversed(by_location.values()))


def describe_finding(
    finding: ErrorDetails, place: Callable[[str], str], list_options: Callable[[], ListOptions]
) -> str:
    """Return a finding about one setting."""
    location, kind = [str(part) for part in finding["loc"]], finding["type"]
    if not location:
        return plain_message(finding["msg"])
    if kind == "extra_forbidden":
        return describe_unknown(location, place, list_options)
    where = ".".join((place(location[0]), *location[1:]))
    if kind == "value_error":
        return f"{where}: {plain_message(finding['msg'])}"
    field = find_field(location)
    meaning = f" ({field.description})" if field and field.description else ""
    return f"{where}: {describe_value(finding, location[0], field)}{meaning}"


def describe_unknown(location: list[str], place: Callable[[str], str], list_options: Callable[[], ListOptions]) -> str:
    """Return the error for an unknown name, with the one that was meant."""
    table = find_table(location[:-1])
    fields = table.model_fields if table else {}
    given_in = next((name for name, each in PLACES.items() if each is table), "")
    where = f"{'.'.join((place(location[0]), *location[1:-1]))}: " if len(location) > 1 else place("")
    return f"{where}unknown setting {location[-1]!r}{explain(location[-1], fields, given_in, list_options)}"


def explain(name: str, fields: Mapping[str, FieldInfo], given_in: str, list_options: Callable[[], ListOptions]) -> str:
    """Return a clause for a name that is unknown where it was given: where it belongs, or the name that was probably meant."""
    is_misspelt = bool(get_close_matches(name, fields, n=1, cutoff=CLOSE))
    elsewhere = find_place(name, list_options, given_in, is_exact=is_misspelt)
    return f"; {elsewhere}" if elsewhere else suggest(name, help_of(fields))


def describe_value(finding: ErrorDetails, setting: str, field: FieldInfo | None) -> str:
    """Return the error for a value that does not fit, with its bounds."""
    value = show_value(finding.get("input"), setting)
    bounds = describe_bounds(field)
    if finding["type"] in ("greater_than_equal", "greater_than", "less_than_equal", "less_than") and bounds:
        return f"{value}is out of range: use {bounds}"
    message = plain_message(finding["msg"])
    return f"{value}is invalid: {message[:1].lower()}{message[1:]}"


def suggest(name: str, known: dict[str, str]) -> str:
    """Return a clause for an unknown name: the valid name that was probably meant, and its meaning.

    known: the help of each valid name.
    """
    close = get_close_matches(name, known, n=1, cutoff=CLOSE)
    if not close:
        return f"; known are {', '.join(known)}" if len(known) <= MOST_NAMED else "; `online config` lists all settings"
    return f"; did you mean {close[0]!r}: {known[close[0]]}"


def help_of(fields: Mapping[str, FieldInfo]) -> dict[str, str]:
    """Return the help of each setting."""
    return {name: field.description or "" for name, field in fields.items()}


def find_table(location: Iterable[str]) -> type[BaseModel] | None:
    """Return the table that a location leads into: ("models", "0") leads into ModelSettings."""
    table: type[BaseModel] | None = Settings
    for part in location:
        if not is_key(part):
            table = TABLES.get(part)
    return table


def is_key(part: str) -> bool:
    """Return whether a part of a location names one of several tables or values."""
    return part.isdigit() or part in TABLE_KEYS


def find_field(location: list[str]) -> FieldInfo | None:
    """Return the field that a location names."""
    names = [part for part in location if not is_key(part)]
    for depth, name in reversed(list(enumerate(names))):
        table = find_table(names[:depth])
        if table is not None and name in table.model_fields:
            return table.model_fields[name]
    return None


def describe_bounds(field: FieldInfo | None) -> str:
    """Return the range of a number in words: `at least 0 and at most 65535`."""
    metadata = field.metadata if field else []
    found = {sign: getattr(each, sign) for each in metadata for sign, _ in BOUNDS if hasattr(each, sign)}
    return " and ".join(f"{words} {found[sign]}" for sign, words in BOUNDS if sign in found)


def show_value(value: object, setting: str) -> str:
    """Return the value that was given, if it is short and no secret."""
    is_shown = isinstance(value, str | int | float) and setting not in (*PRIVATE, *secret_names())
    return f"{value!r} " if is_shown and len(str(value)) <= LONGEST_VALUE_CHARS else "the value "


def secret_names() -> list[str]:
    """Return the settings that hold a secret."""
    return [name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)]


def mask_password(url: str) -> str:
    """Return the URL with its password replaced; any other text as it is."""
    return re.sub(r"(://[^:/@]*:)[^@/]+@", r"\1***@", url)


def plain_message(message: str) -> str:
    """Return a message of pydantic, without the prefix that it puts before one of ours."""
    return message.removeprefix("Value error, ")
