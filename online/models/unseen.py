"""Measures the share of inputs outside the ranges that a model reads, so that a replay can report it.

A number beyond every range of its column, or a number to predict beyond what the sums hold, counts as the end of
that range. It is no part of a state, and changes no answer.
"""

from collections.abc import Sequence
from typing import Any

from online.models.contract import Model
from online.models.retirement import unwrap


def count_outside(model: Model, inputs: Sequence[bytes]) -> int:
    """Return how many of these inputs hold a number outside all ranges of its column. 0 for a kind without ranges."""
    count: Any = getattr(unwrap(model), "count_outside", None)
    return 0 if count is None else int(count(inputs))


def count_targets_outside(model: Model, labels: Sequence[str]) -> int:
    """Return how many of these numbers to predict are cut off. 0 for a kind that cuts none off."""
    count: Any = getattr(unwrap(model), "count_targets_outside", None)
    return 0 if count is None else int(count(labels))
