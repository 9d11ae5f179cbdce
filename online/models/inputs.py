"""What a head on exact statistics sees of its inputs: int8 features, and the warm-up that fixes their scales.

    bytes (text | vector | table) -> Inputs.features -> int8 [B, D]

The scale of a number is declared (`scale`) or frozen from the first 200 examples; until then those examples are kept
as they came and the sums are made anew from them, so that nothing is ever quantised twice.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import LARGEST_NUMBER, Example, Options, check_limits
from online.models.encoder import TEXT_WIDTH, Column, Columns, parse_row, text_epoch

WARM_UP = 200  # examples that fit the scales
BUMPS_UP_TO = 64  # numbers in a vector: beyond this four features a number cost more than they give
PROBES = 8

OPTIONS: dict[str, Any] = {
    "input": "text",  # text, vector or table
    "encoder": "",  # sha256 of the tuned encoder whose features texts are; "": the frozen one
    "size": 0,  # numbers in a vector
    "scale": 0.0,  # numbers lie in [-scale, scale]; 0: fitted to the first 200 examples
    "max_features": 1_024,  # columns of a table; names past it share a few
}


class Inputs:
    """columns: of vectors and tables. warm: the examples kept while their scales are not fixed; None from then on."""

    def __init__(self, options: Options, warms_up: bool = False) -> None:
        """warms_up: something besides the inputs is fitted to the first examples too."""
        check_limits(options, {"scale": (0.0, LARGEST_NUMBER), "max_features": (1, 1e6)})
        self.kind: str = options["input"]
        self.encoder: str = options["encoder"]
        self.size: int = options["size"]
        self.scale: float | None = options["scale"] or None
        self.limit: int = options["max_features"]
        if self.kind not in ("text", "vector", "table"):
            raise ValueError(f"option 'input' must be text, vector or table, not {self.kind!r}")
        if self.kind == "vector" and self.size < 1:
            raise ValueError("a model of vectors needs option 'size': how many numbers an instance has")
        self.columns = self._no_columns()
        scaled = self.kind == "text" or self.scale is not None
        self.warm: list[Example] | None = [] if warms_up or not scaled else None
        self.recent: list[bytes] = []

    @property
    def subtracts(self) -> bool:
        """Not once examples decide how others are seen: by the scales fitted to them, by a table's last free column."""
        if self.kind == "text" or self.warm is not None:
            return True
        full = self.kind == "table" and len(self.columns.columns) >= self.limit
        return self.scale is not None and not full

    @property
    def width(self) -> int:
        return TEXT_WIDTH if self.kind == "text" else self.columns.width

    def epoch(self) -> str:
        """Names the mapping from bytes to features."""
        if self.kind == "text":
            return text_epoch(self.encoder)
        return f"{self.kind}-warming" if self.warm is not None else f"{self.kind}-{self.columns.epoch()}"

    def features(self, inputs: Sequence[bytes]) -> NDArray[np.int8]:
        """int8 [B, D] by the columns there are."""
        if self.kind == "text":
            return np.frombuffer(b"".join(inputs), np.int8).reshape(-1, TEXT_WIDTH)
        if self.kind == "vector":
            known = bool(self.columns.columns)
            return self.columns.vectors(self._vectors(inputs)) if known else np.zeros((len(inputs), 0), np.int8)
        return self.columns.features([parse_row(data) for data in inputs])

    # examples

    def take(self, examples: Sequence[Example]) -> list[Example]:
        """Take note of examples; returns those whose features are fixed now, and can be counted.

        None during the warm-up; with the one that ends it, all that were kept.
        """
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]
        if self.warm is None:
            self._admit_each(examples)
            return list(examples)
        room = WARM_UP - len(self.warm)
        self.warm = [*self.warm, *examples[:room]]
        if len(self.warm) < WARM_UP:
            return []
        kept, self.warm = self.fitted(), None
        self._admit_each(examples[room:])
        return [*kept, *examples[room:]]

    def drop(self, examples: Sequence[Example]) -> list[Example]:
        """Forget examples; returns those that were counted, and must be subtracted."""
        erased = {example.features for example in examples}
        self.recent = [features for features in self.recent if features not in erased]
        if self.warm is None:
            return list(examples)
        gone = {example.offset for example in examples}
        self.warm = [example for example in self.warm if example.offset not in gone]
        return []

    def fitted(self) -> list[Example]:
        """The examples of the warm-up, with the columns that they alone make."""
        kept = self.warm or []
        self.columns = self._no_columns()
        self._admit([example.features for example in kept])
        return kept

    def _no_columns(self) -> Columns:
        columns = Columns(self.kind == "table" or self.size <= BUMPS_UP_TO, self.limit)
        if self.kind == "vector" and self.scale:
            columns.admit_vectors(np.zeros((0, self.size)), self.scale)
        return columns

    def _admit_each(self, examples: Sequence[Example]) -> None:
        for example in examples:  # one by one: a new column's scale must not depend on where a batch was cut
            self._admit([example.features])

    def _admit(self, inputs: Sequence[bytes]) -> None:
        if self.kind == "vector" and inputs:
            self.columns.admit_vectors(self._vectors(inputs), self.scale)
        elif self.kind == "table":
            self.columns.admit([parse_row(data) for data in inputs], self.scale)

    def _vectors(self, inputs: Sequence[bytes]) -> NDArray[np.float64]:
        return np.frombuffer(b"".join(inputs), np.float64).reshape(-1, self.size)

    # state

    def fingerprint(self, digest: Callable[[Sequence[str] | None], bytes]) -> str:
        """sha256 of what was learned: the examples of the warm-up, then the sums as `digest(names of features)`."""
        seen = hashlib.sha256(self.epoch().encode() if self.kind == "text" else self.kind.encode())
        if self.warm is None:
            seen.update(digest(None if self.kind == "text" else self.columns.names))
        else:
            for entry in sorted((example.features, example.label, example.reward) for example in self.warm):
                seen.update(repr(entry).encode())
        return seen.hexdigest()

    def mapping(self) -> dict[str, Any]:
        """What predicting needs of it, as JSON."""
        columns = [[c.name, c.number, c.exponent, c.centre] for c in self.columns.columns]
        return {"columns": columns, "warm": self.warm is not None}

    def memory(self) -> dict[str, Any]:
        """What learning on needs besides, as JSON."""
        kept = (
            None if self.warm is None else [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.warm]
        )
        return {"warm": kept, "recent": [features.hex() for features in self.recent]}

    def restore(self, mapping: dict[str, Any], memory: dict[str, Any] | None) -> None:
        bumps = self.columns.bumps
        self.columns = Columns(bumps, self.limit, (Column(*entry) for entry in mapping["columns"]))
        self.warm = [] if mapping["warm"] else None
        if memory is not None:
            self.recent = [bytes.fromhex(features) for features in memory["recent"]]
            if memory["warm"] is not None:
                self.warm = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["warm"]]
