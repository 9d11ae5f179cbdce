"""The values of instances, and how error messages show them."""

import json
from collections.abc import Mapping
from functools import lru_cache

Value = float | str
Row = Mapping[str, Value]


def format_value(value: object) -> str:
    """Return a value as text of at most 60 characters, for an error message."""
    text = json.dumps(value, default=str) if not isinstance(value, (dict, list)) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


@lru_cache(maxsize=16)
def parse_row(data: bytes) -> Row:
    """Return the row of an encoded table instance. Cached, because each member of an ensemble reads the same one."""
    row: Row = json.loads(data)
    return row


@lru_cache(maxsize=16)
def read_row(data: bytes) -> Row:
    """Parse a row that must not be changed: the same one is checked, admitted and read, one after the other."""
    return parse_row(data)
