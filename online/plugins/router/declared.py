"""The routes and settings of a router, by its options or by events of the log.

    options ----------------------+
    event `declare`, label ""     |--> settings and routes in force      the newest event about each holds
    event `declare`, label route  |
    event `retire` | `restore` ---+

Each event is kept by its offset, so that their order does not matter and each can be retracted.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from online.models.contract import BadExample, Example, Options
from online.plugins.router.options import BUDGET
from online.schemas.json_values import JSON, JSONObject

DECLARABLE = (BUDGET, "cost_weight", "latency_weight", "explore", "explore_new", "stay")
TYPICAL_TOKENS = 400.0  # of an answer, before any is known
GUESSED_PRIOR = 0.5


@dataclass(frozen=True, slots=True)
class DeclaredRoute:
    """The facts of a route that decide about it. Prices: US dollars per million tokens. prior: expected reward, if declared."""

    name: str
    price_in: float = 0.0
    price_out: float = 0.0
    price_cached: float | None = None
    prior: float | None = None

    @classmethod
    def of(cls, name: str, table: JSONObject) -> Self:
        """Return the facts that a table has. Raises ValueError for values of a wrong type."""
        cached, prior = table.get("price_cached"), table.get("prior")
        return cls(
            name,
            float(table.get("price_in") or 0.0),
            float(table.get("price_out") or 0.0),
            None if cached is None else float(cached),
            None if prior is None else float(prior),
        )

    def describe(self) -> JSONObject:
        """Return the table that `of` reads."""
        facts = {"price_cached": self.price_cached, "prior": self.prior}
        stated = {name: value for name, value in facts.items() if value is not None}
        return {"name": self.name, "price_in": self.price_in, "price_out": self.price_out, **stated}

    @property
    def price_level(self) -> float:
        """The level of its prices, by which costs are divided before they are learned: a declared change of prices needs no learning."""
        return (self.price_in + self.price_out) / 2 or 1.0

    def guess_cost(self, context_tokens: float) -> float:
        """Return the US dollars of an answer of typical length."""
        return 1e-6 * (context_tokens * self.price_in + TYPICAL_TOKENS * self.price_out)

    def saved_by_cache(self, context_tokens: float) -> float:
        """Return the US dollars that a prompt costs less where the endpoint has it in its cache."""
        cached = self.price_in if self.price_cached is None else self.price_cached
        return 1e-6 * context_tokens * (self.price_in - cached)


@dataclass(slots=True)
class Declarations:
    """The events of one log. declared: offset -> (route or "", table). changes: offset -> (route, whether it was restored)."""

    declared: dict[int, tuple[str, JSONObject]] = field(default_factory=dict)
    changes: dict[int, tuple[str, bool]] = field(default_factory=dict)

    def add(self, example: Example) -> None:
        """Add an event of the kind declare, retire or restore."""
        if example.kind == "declare":
            self.declared[example.offset] = example.label, json.loads(example.text)
        else:
            self.changes[example.offset] = example.label, example.kind == "restore"

    def remove(self, example: Example) -> None:
        """Remove an event."""
        (self.declared if example.kind == "declare" else self.changes).pop(example.offset, None)

    def settings(self, options: Options) -> JSONObject:
        """Return the options, with those that events have set."""
        return {**options, **self._newest().get("", {})}

    def paced_since(self) -> int:
        """Return the offset from which spending counts: that of the newest event that sets the budget; 0 without any."""
        return max((at for at, (name, table) in self.declared.items() if not name and BUDGET in table), default=0)

    def routes(self, options: Options, known: Sequence[str]) -> list[DeclaredRoute]:
        """Return the routes that may be chosen, by name. known: those that are rated, for a log without declared ones."""
        tables = {str(each["name"]): each for each in options["routes"]}
        tables |= {name: table for name, table in self._newest().items() if name}
        retired = {
            name for name, restored in dict(value for _, value in sorted(self.changes.items())).items() if not restored
        }
        names = sorted({*(tables or known)} - retired)
        return [DeclaredRoute.of(name, tables.get(name, {})) for name in names]

    def _newest(self) -> dict[str, JSONObject]:
        """Return what is declared about each name; of the settings, the newest value of each."""
        found = dict[str, JSONObject]()
        for _, (name, table) in sorted(self.declared.items()):
            found[name] = {**found.get(name, {}), **table} if not name else table
        return found

    def to_json(self) -> JSON:
        """Return the events as JSON; `from_json` is the inverse."""
        return [
            [[at, *value] for at, value in sorted(self.declared.items())],
            [[at, *value] for at, value in sorted(self.changes.items())],
        ]

    @classmethod
    def from_json(cls, data: JSON) -> Self:
        """Return the events of `to_json`."""
        declared, changes = data
        return cls({at: (name, table) for at, name, table in declared}, {at: (name, how) for at, name, how in changes})


def check_declaration(example: Example) -> None:
    """Raise BadExample for an event that declares nothing that a router knows."""
    try:
        table = json.loads(example.text)
        if not isinstance(table, dict):
            raise ValueError("it is not an object")
        if example.label:
            DeclaredRoute.of(example.label, table)
        elif unknown := {*table} - {*DECLARABLE}:
            raise ValueError(f"{min(unknown)!r} cannot be declared; use {', '.join(DECLARABLE)}")
        elif not all(isinstance(value, (int, float)) and 0 <= value < 1e9 for value in table.values()):
            raise ValueError("settings are numbers of at least 0")
    except (TypeError, ValueError) as error:
        raise BadExample(f"a declaration of {example.label or 'settings'}: {error}") from None
