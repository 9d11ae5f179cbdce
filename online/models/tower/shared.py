"""Towers that several processes learn together, whatever wraps them."""

from typing import Any, Protocol, cast

from online.models.contract import Model, Options
from online.models.kinds import spec_of
from online.models.retirement import WithRetiredClasses
from online.models.tower.parallel.peers import Peers


class SharedModel(Protocol):
    """A model whose steps are cut into `parts`. is_alone: whether this process differentiates all of them."""

    parts: int

    @property
    def is_alone(self) -> bool: ...

    def learn_with(self, peers: Peers) -> None:
        """Share the parts of each step with other processes. Raises ValueError for a number that does not fit."""

    def learn_alone(self) -> None:
        """Leave the other processes."""


def learns_in_parts(kind: str, options: Options) -> bool:
    """Whether several processes can learn such a model together."""
    return spec_of(kind).has_parts and "challenger" not in options and options.get("accumulate", 1) > 1


def as_shared(model: Model) -> SharedModel:
    """The part of a model that several processes learn. Its kind must have parts."""
    own: Any = model.model if isinstance(model, WithRetiredClasses) else model
    return cast(SharedModel, own)
