"""Towers that several processes learn together, whatever wraps them."""

from typing import cast

from online.models.contract import Model, Options
from online.models.kinds import spec_of
from online.models.retirement import unwrap
from online.models.wrappers import find_wrapper
from online.plugins.towers.tower import Tower


def learns_in_parts(kind: str, options: Options) -> bool:
    """Return whether several processes can learn such a model together."""
    return spec_of(kind).has_parts and find_wrapper(options) is None and options.get("accumulate", 1) > 1


def as_tower(model: Model) -> Tower:
    """Return the tower that a model is or wraps. Its kind must have parts."""
    return cast(Tower, unwrap(model))
