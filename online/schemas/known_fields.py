"""Dataclasses from JSON that another release may have written."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from online.errors import NewerRelease

T = TypeVar("T")


def build_known(cls: type[T], values: Mapping[str, Any], what: str) -> T:
    """Return an object of a dataclass. what: names the JSON, for the error. Raises NewerRelease for a field that the class lacks."""
    if unknown := values.keys() - {each.name for each in fields(cls)}:  # type: ignore[arg-type]
        raise NewerRelease(what, min(unknown))
    return cls(**values)
