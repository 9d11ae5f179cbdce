"""Rows, vectors or texts -> a label, by exact statistics and linear discriminant analysis.

    input = "text" | "vector" | "table"
    bytes -> features int8 [B, D] -> sums (learn) -> solved weights (publish) -> scores (predict)

The scale of a number is declared (`scale`) or frozen from the first 200 examples; until then those examples are kept
as they came and the sums are made anew from them, so that nothing is ever quantised twice.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import Answer, BadExample, Candidate, Example, Options, Part, State, packed, take, unpacked
from online.models.encoder import TEXT_WIDTH, Column, Columns, parse_row, text_epoch
from online.models.exact import ExactStatistics, LinearWeights, solve_slda

WARM_UP = 200  # examples that fit the scales
BUMPS_UP_TO = 64  # numbers in a vector: beyond this four features a number cost more than they give
PROBES = 8

OPTIONS: dict[str, Any] = {
    "input": "text",  # text, vector or table
    "encoder": "",  # sha256 of the tuned encoder whose features texts are; "": the frozen one
    "size": 0,  # numbers in a vector
    "scale": 0.0,  # numbers lie in [-scale, scale]; 0: fitted to the first 200 examples
    "shrinkage": 0.0,  # of the covariance, in examples per feature; 0: 2.5 for texts, 0.5 otherwise
    "priors": True,  # frequent labels are preferred
    "max_labels": 1_000,
    "max_features": 1_024,  # columns of a table; names past it share a few
}


class Classifier:
    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        self.input: str = self.options["input"]
        if self.input not in ("text", "vector", "table"):
            raise ValueError(f"option 'input' must be text, vector or table, not {self.input!r}")
        if self.input == "vector" and self.options["size"] < 1:
            raise ValueError("a vector classifier needs option 'size': how many numbers an instance has")
        self.device = device
        self.columns = self._no_columns()
        self.warm: list[Example] | None = None if self.input == "text" or self.options["scale"] else []
        self.statistics = ExactStatistics(self._width(), device)
        self.recent: list[bytes] = []
        self._weights: LinearWeights | None = None

    @property
    def subtracts(self) -> bool:
        """Not once examples decide how others are seen: by the scales fitted to them, by a table's last free column."""
        if self.input == "text" or self.warm is not None:
            return True
        full = self.input == "table" and len(self.columns.columns) >= self.options["max_features"]
        return bool(self.options["scale"]) and not full

    # what it knows about its input

    def _no_columns(self) -> Columns:
        bumps = self.input == "table" or self.options["size"] <= BUMPS_UP_TO
        columns = Columns(bumps, self.options["max_features"])
        if self.input == "vector" and self.options["scale"]:
            columns.admit_vectors(np.zeros((0, self.options["size"])), self.options["scale"])
        return columns

    def _width(self) -> int:
        return TEXT_WIDTH if self.input == "text" else self.columns.width

    def _features(self, inputs: Sequence[bytes], columns: Columns) -> NDArray[np.int8]:
        if self.input == "text":
            return np.frombuffer(b"".join(inputs), np.int8).reshape(-1, TEXT_WIDTH)
        if self.input == "vector":
            return columns.vectors(self._vectors(inputs)) if columns.columns else np.zeros((len(inputs), 0), np.int8)
        return columns.features([parse_row(data) for data in inputs])

    def _vectors(self, inputs: Sequence[bytes]) -> NDArray[np.float64]:
        return np.frombuffer(b"".join(inputs), np.float64).reshape(-1, self.options["size"])

    def _admit(self, columns: Columns, inputs: Sequence[bytes]) -> None:
        scale = self.options["scale"] or None
        if self.input == "vector" and inputs:
            columns.admit_vectors(self._vectors(inputs), scale)
        elif self.input == "table":
            columns.admit([parse_row(data) for data in inputs], scale)

    def feature_epoch(self) -> str:
        if self.input == "text":
            return text_epoch(self.options["encoder"])
        return f"{self.input}-warming" if self.warm is not None else f"{self.input}-{self.columns.epoch()}"

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        weights = self._solved()
        if not weights.active.any():
            return [Answer(None, ()) for _ in inputs]
        x_BD = self._features(inputs, self.columns).astype(np.float32)
        known = weights.matrix.shape[0]
        scores_BC = x_BD[:, :known] @ weights.matrix + weights.bias
        scores_BC[:, ~weights.active] = -np.inf
        return [self._answer(scores_C) for scores_C in scores_BC]

    def _answer(self, scores_C: NDArray[np.float32]) -> Answer:
        odds_C = np.exp(scores_C - scores_C.max())
        chances = (odds_C / odds_C.sum()).tolist()
        order = sorted(np.flatnonzero(self._solved().active), key=lambda c: -chances[c])
        candidates = tuple(Candidate(self.statistics.labels[c], chances[c]) for c in order)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    def _solved(self) -> LinearWeights:
        if self._weights is None:
            if self.warm is not None:
                self._fit(self.warm)
            shrinkage = self.options["shrinkage"] or (2.5 if self.input == "text" else 0.5)
            self._weights = solve_slda(self.statistics, shrinkage, self.options["priors"])
        return self._weights

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self._check_all(examples)
        self._weights = None
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]
        if self.warm is not None:
            room = WARM_UP - len(self.warm)
            self.warm, examples = [*self.warm, *examples[:room]], examples[room:]
            if len(self.warm) < WARM_UP:
                return
            self._fit(self.warm)
            self.warm = None
        self._count(examples, times=1)

    def unlearn(self, examples: Sequence[Example]) -> None:
        self._weights = None
        erased = {example.features for example in examples}
        self.recent = [features for features in self.recent if features not in erased]
        if self.warm is None:
            self._count(examples, times=-1)
        else:
            gone = {example.offset for example in examples}
            self.warm = [example for example in self.warm if example.offset not in gone]

    def _fit(self, warm: Sequence[Example]) -> None:
        """Columns and sums from the first examples alone."""
        self.columns = self._no_columns()
        self._admit(self.columns, [example.features for example in warm])
        self.statistics = ExactStatistics(self._width(), self.device)
        self._count(warm, times=1)

    def _count(self, examples: Sequence[Example], times: int) -> None:
        for example in examples:  # one by one: a new column's scale must not depend on where a batch was cut
            self._admit(self.columns, [example.features])
        self.statistics.widen(self._width())
        for example in examples:  # in this order, wherever a batch was cut
            self.statistics.add_label(example.label)
        for negative in (False, True):
            chosen = [example for example in examples if (example.reward < 0.5) == negative]
            if chosen:
                classes = [self.statistics.add_label(example.label) for example in chosen]
                self.statistics.add(
                    self._features([example.features for example in chosen], self.columns), classes, negative, times
                )

    def _check_all(self, examples: Sequence[Example]) -> None:
        for example in examples:
            self._check(example)
        known = self.statistics.labels if self.warm is None else [example.label for example in self.warm]
        labels = {*known, *(example.label for example in examples)}
        if len(labels) > self.options["max_labels"]:
            raise BadExample(f"more than {self.options['max_labels']} labels (option max_labels)")

    def _check(self, example: Example) -> None:
        if example.kind not in ("label", "reward"):
            raise BadExample(f"a classifier learns labels and rewards, not a {example.kind}")
        if not example.label:
            raise BadExample("there is no label to learn: the answer it refers to had none")
        expected = {"text": TEXT_WIDTH, "vector": 8 * int(self.options["size"])}.get(self.input)
        if expected is not None and len(example.features) != expected:
            raise BadExample(f"features of {len(example.features)} bytes where {expected} are expected")
        if self.input == "table":
            self._check_row(example.features)

    def _check_row(self, features: bytes) -> None:
        try:
            row = parse_row(features)
        except ValueError:
            raise BadExample("features that are not JSON") from None
        if not isinstance(row, dict) or not all(isinstance(value, (float, str)) for value in row.values()):
            raise BadExample("features that are not an object of numbers and texts")

    # state

    def fingerprint(self) -> str:
        seen = hashlib.sha256(self.feature_epoch().encode() if self.input == "text" else self.input.encode())
        if self.warm is None:
            seen.update(self.statistics.digest(None if self.input == "text" else self.columns.names))
        else:
            for entry in sorted((example.features, example.label, example.reward) for example in self.warm):
                seen.update(repr(entry).encode())
        return seen.hexdigest()

    def drifted(self, label: str | None, since: int) -> None:
        """It has no windows to shorten."""

    def facts(self) -> Mapping[str, float]:
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        weights = self._solved()
        meta = {
            "labels": self.statistics.labels,
            "columns": [[c.name, c.number, c.exponent, c.centre] for c in self.columns.columns],
            "warm": self.warm is not None,
        }
        solved = {"matrix": weights.matrix, "bias": weights.bias, "active": weights.active, "meta": packed(meta)}
        parts = {"weights": Part(solved, serving=True)}
        if not serving_only:
            parts["statistics"] = Part({**self.statistics.tensors(), "memory": packed(self._memory())}, serving=False)
        return parts

    def _memory(self) -> dict[str, Any]:
        warm = (
            None if self.warm is None else [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.warm]
        )
        return {"warm": warm, "recent": [features.hex() for features in self.recent]}

    def restore(self, state: State) -> None:
        solved = state["weights"].tensors
        meta = unpacked(solved["meta"])
        self.columns = Columns(
            self._no_columns().bumps, self.options["max_features"], (Column(*entry) for entry in meta["columns"])
        )
        self.warm = [] if meta["warm"] else None
        self._weights = LinearWeights(solved["matrix"], solved["bias"], solved["active"])
        self.statistics.labels = meta["labels"]
        if "statistics" in state:
            tensors = state["statistics"].tensors
            self.statistics = ExactStatistics.restored(meta["labels"], tensors, self.device)
            self._recall(unpacked(tensors["memory"]))

    def _recall(self, memory: dict[str, Any]) -> None:
        self.recent = [bytes.fromhex(features) for features in memory["recent"]]
        if memory["warm"] is not None:
            self.warm = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["warm"]]
