"""Finds a name that one JSON object has twice: a parser keeps the last value, and drops the first without a word."""

import json
import re
from collections.abc import Iterable
from contextlib import suppress

NAMES = re.compile(rb'"\s*:')  # what stands behind each name, and may stand in a text


def find_name_given_twice(text: bytes, value: object) -> str:
    """Return the first name that an object of a JSON text has twice; "" if none has. value: what the text was parsed to."""
    return "" if are_names_single(text, [value]) else parse_for_names(text)


def are_names_single(text: bytes, values: Iterable[object]) -> bool:
    """Return whether the objects of a text have as many names as the text shows. If not, a text in it may hold what looks like one."""
    return len(NAMES.findall(text)) == sum(map(count_names, values))


def count_names(value: object) -> int:
    """Count the names of an object and of the objects right in it."""
    if not isinstance(value, dict):
        return 0
    return len(value) + sum(len(inner) for inner in value.values() if isinstance(inner, dict))


def parse_for_names(text: bytes) -> str:
    """Return a name that an object of the JSON has twice; "" if there is none."""
    twice = list[str]()

    def check(pairs: list[tuple[str, object]]) -> None:
        names = set[str]()
        for name, _ in pairs:
            twice.extend([name] if name in names else [])
            names.add(name)

    with suppress(ValueError, RecursionError):  # a parser with other limits has read it
        json.loads(text, object_pairs_hook=check, parse_int=str, parse_float=str)
    return twice[0] if twice else ""
