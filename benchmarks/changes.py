"""Other values of what is shipped: options of a kind, and constants of modules, while something is measured."""

import importlib
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from online.models import Options

Constants = Mapping[tuple[str, str], Any]  # by module and name


@dataclass(frozen=True, slots=True)
class Change:
    """What differs from what is shipped: options of the kind, and constants of modules."""

    options: Options = field(default_factory=dict)
    constants: Constants = field(default_factory=dict)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Replace the constants, and put them back."""
        with ExitStack() as stack:
            for (module, name), value in self.constants.items():
                *holders, last = name.split(".")
                holder = importlib.import_module(module)
                for each in holders:
                    holder = getattr(holder, each)
                stack.enter_context(patch.object(holder, last, value))
            yield


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a module, or of a class in it (`Class.NAME`)."""

    module: str
    name: str

    @property
    def shipped(self) -> Any:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return found

    def change(self, value: Any) -> Change:
        return Change(constants={(self.module, self.name): value})


def parse_constant(text: str) -> Change:
    """Read a command-line argument such as `models.ranker.exploration.COMPARED=10`: a constant below `online`, and a value.

    Raises ArgumentTypeError if there is no such constant, or if its type cannot hold the value.
    """
    place, _, value = text.partition("=")
    module, _, name = place.rpartition(".")
    constant = Constant(f"online.{module}", name)
    try:
        return constant.change(type(constant.shipped)(value))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{text!r} is not a constant below `online` with a value: {error}") from error
