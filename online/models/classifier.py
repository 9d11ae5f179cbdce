"""Rows, vectors or texts -> a label, by exact statistics and a head that is solved from them.

    input = "text" | "vector" | "table"        head = "slda" | "ridge" | "rp_ridge" | "best"
    bytes -> features int8 [B, M] -> sums (learn) -> solved weights (publish) -> chances (predict)

The scale of a number is declared (`scale`) or frozen from the first 200 examples; until then those examples are kept
as they came and the sums are made anew from them, so that nothing is ever quantised twice.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import Answer, BadExample, Candidate, Example, Options, Part, State, packed, take, unpacked
from online.models.calibration import Holdout
from online.models.encoder import TEXT_WIDTH, Column, Columns, TextEncoder, parse_row
from online.models.exact import ExactStatistics, LinearWeights
from online.models.heads import HEADS, HELD_OUT_SHARE, Decided, Head, Solved
from online.models.projection import Projection

WARM_UP = 200  # examples that fit the scales
BUMPS_UP_TO = 64  # numbers in a vector: beyond this four features a number cost more than they give
PROBES = 8
OUTSIDE_KEPT = 256  # examples of what belongs to no label
TEXT_OCTAVE = 10.35, 0.0  # of unit vectors times 512, chosen on CLINC150's validation questions; all of one bandwidth
TEXT_NAMES = [str(place) for place in range(TEXT_WIDTH)]
OTHER_OCTAVES = 2.0

OPTIONS: dict[str, Any] = {
    "input": "text",  # text, vector or table
    "size": 0,  # numbers in a vector
    "scale": 0.0,  # numbers lie in [-scale, scale]; 0: fitted to the first 200 examples
    "head": "slda",  # slda, ridge, rp_ridge (ridge on random features) or best (held-out feedback chooses)
    "random_features": 1_024,  # of rp_ridge and best, beside the inputs themselves
    "seed": 0,  # of the random features
    "shrinkage": 0.5,  # of the covariance, in examples per feature
    "priors": True,  # frequent labels are preferred
    "abstain_below": 0.0,  # no answer where the chance that it is right, learned from feedback, is less
    "outside": "",  # a label that means "none of these": it is never answered, it teaches when to abstain
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
        if self.options["head"] not in HEADS:
            raise ValueError(f"option 'head' must be one of {', '.join(HEADS)}, not {self.options['head']!r}")
        self.device = device
        self.columns = self._no_columns()
        self.warm: list[Example] | None = None if self.input == "text" or self.options["scale"] else []
        self.head = self._new_head()
        self.held_out, self.outside = Holdout(), Holdout(OUTSIDE_KEPT)
        self.outside_digest = 0  # of everything outside, kept or not: the sum of hashes modulo 2^256
        self.recent: list[bytes] = []
        self._solution: Solved | None = None

    @property
    def statistics(self) -> ExactStatistics:
        return self.head.statistics

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

    def _new_head(self) -> Head:
        octave, octaves = TEXT_OCTAVE if self.input == "text" else (self._octave(), OTHER_OCTAVES)
        projection = Projection(self._random_features(), self.options["seed"], octave, octaves)
        head = Head(self.options["head"], projection, self.options["shrinkage"], self.options["priors"], self.device)
        head.name_columns(self._names())
        return head

    def _random_features(self) -> int:
        return int(self.options["random_features"]) if self.options["head"] in ("rp_ridge", "best") else 0

    def _octave(self) -> float:
        """Of a typical distance: a number lies within 64 quanta of its median, differences add up in squares."""
        numbers = self.options["size"] or len(self.columns.columns) or 1
        return float(np.log2(32 * np.sqrt(2 * numbers)))

    def _names(self) -> list[str]:
        return TEXT_NAMES if self.input == "text" else self.columns.names

    def _features(self, inputs: Sequence[bytes]) -> NDArray[np.int8]:
        return self.head.features(self._quantised(inputs))

    def _quantised(self, inputs: Sequence[bytes]) -> NDArray[np.int8]:
        if self.input == "text":
            return np.frombuffer(b"".join(inputs), np.int8).reshape(-1, TEXT_WIDTH)
        if self.input == "vector":
            known = bool(self.columns.columns)
            return self.columns.vectors(self._vectors(inputs)) if known else np.zeros((len(inputs), 0), np.int8)
        return self.columns.features([parse_row(data) for data in inputs])

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
            return TextEncoder.epoch
        return f"{self.input}-warming" if self.warm is not None else f"{self.input}-{self.columns.epoch()}"

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        solution = self._solved()
        if not solution.weights.active.any():
            return [Answer(None, ()) for _ in inputs]
        judged = solution.judge(self._features(inputs))
        return [self._answer(*pair, solution) for pair in zip(judged.chances, judged.confidence.tolist(), strict=True)]

    def _answer(self, chances_C: NDArray[np.float64], confidence: float, solution: Solved) -> Answer:
        active = np.flatnonzero(solution.weights.active)
        order = active[np.argsort(-chances_C[active], kind="stable")]
        candidates = tuple(Candidate(self.statistics.labels[c], float(chances_C[c])) for c in order)
        if confidence < self.options["abstain_below"]:
            return Answer(None, candidates, candidates[0].score, abstained=True)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    def _solved(self) -> Solved:
        if self._solution is None:
            if self.warm is not None:
                self._fit(self.warm)
            self._solution = self.head.solve()
        return self._solution

    def _decide(self) -> None:
        """Ask the held-out examples: a quarter of them while the log is short, so that most of it is learned from."""
        held_out = self.held_out.lowest(int(HELD_OUT_SHARE * self.head.count))
        strange = self.outside.examples()
        classes = np.array([self.statistics.add_label(example.label) for example in held_out])
        self.head.decide(
            self._features([example.features for example in held_out]),
            classes,
            self._features([example.features for example in strange]),
        )

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self._check_all(examples)
        self._solution = None
        self.recent = [*self.recent, *(e.features for e in examples if not self._is_outside(e))][-PROBES:]
        if self.warm is not None:
            examples = self._warm_up(self.warm, examples)
        while examples:
            now, examples = self._up_to_decision(examples)
            self._remember(now)
            self._count(now, times=1)
            self._decide_if_due()

    def _warm_up(self, warm: list[Example], examples: Sequence[Example]) -> Sequence[Example]:
        """Keep examples until there are enough to fit the scales; what is left to learn in the usual way."""
        inside = [place for place, example in enumerate(examples) if not self._is_outside(example)]
        missing = WARM_UP - len(warm)
        cut = len(examples) if len(inside) < missing else inside[missing - 1] + 1
        self._remember(examples[:cut])
        self.warm = [*warm, *(examples[place] for place in inside[:missing])]
        if len(self.warm) == WARM_UP:
            self._fit(self.warm)
            self.warm = None
            self._decide_if_due()
        return examples[cut:]

    def _up_to_decision(self, examples: Sequence[Example]) -> tuple[Sequence[Example], Sequence[Example]]:
        """Cut where the next decision is due: it must not depend on how the log was cut into batches."""
        missing = max(1, self.head.decides_at - self.head.count)
        counted = [place for place, e in enumerate(examples) if e.reward >= 0.5 and not self._is_outside(e)]
        cut = len(examples) if len(counted) < missing else counted[missing - 1] + 1
        return examples[:cut], examples[cut:]

    def _decide_if_due(self) -> None:
        if self.head.count >= self.head.decides_at:
            self._decide()

    def _remember(self, examples: Sequence[Example]) -> None:
        """What is held out to judge by, and what belongs to no label."""
        outside = [example for example in examples if self._is_outside(example)]
        self.held_out.add(e for e in examples if e.reward >= 0.5 and not self._is_outside(e))
        self.outside.add(outside)
        self._sum_digest(outside, 1)

    def unlearn(self, examples: Sequence[Example]) -> None:
        self._solution = None
        outside = [example for example in examples if self._is_outside(example)]
        self.outside.remove(outside)
        self._sum_digest(outside, -1)
        self.held_out.remove(examples)
        erased = {example.features for example in examples}
        self.recent = [features for features in self.recent if features not in erased]
        if self.warm is None:
            self._count(examples, times=-1)
        else:
            gone = {example.offset for example in examples}
            self.warm = [example for example in self.warm if example.offset not in gone]

    def _is_outside(self, example: Example) -> bool:
        return bool(self.options["outside"]) and example.label == self.options["outside"] and example.reward >= 0.5

    def _sum_digest(self, outside: Sequence[Example], times: int) -> None:
        for example in outside:
            own = hashlib.sha256(example.offset.to_bytes(8, "little") + example.features).digest()
            self.outside_digest = (self.outside_digest + times * int.from_bytes(own, "little")) % 2**256

    def _fit(self, warm: Sequence[Example]) -> None:
        """Columns and sums from the first examples alone."""
        self.columns = self._no_columns()
        self._admit(self.columns, [example.features for example in warm])
        self.head = self._new_head()
        self._count(warm, times=1)

    def _count(self, examples: Sequence[Example], times: int) -> None:
        examples = [example for example in examples if not self._is_outside(example)]
        for example in examples:  # one by one: a new column's scale must not depend on where a batch was cut
            self._admit(self.columns, [example.features])
        self.head.name_columns(self._names())
        for example in examples:  # in this order, wherever a batch was cut
            self.statistics.add_label(example.label)
        for negative in (False, True):
            chosen = [example for example in examples if (example.reward < 0.5) == negative]
            if chosen:
                classes = [self.statistics.add_label(example.label) for example in chosen]
                self.head.add(self._features([example.features for example in chosen]), classes, negative, times)

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
        seen = hashlib.sha256(TextEncoder.epoch.encode() if self.input == "text" else self.input.encode())
        if self.warm is None:
            names = [f"#{place}" for place in range(self.head.start)] + self._names()
            seen.update(self.statistics.digest(None if self.input == "text" else names))
        else:
            for entry in sorted((example.features, example.label, example.reward) for example in self.warm):
                seen.update(repr(entry).encode())
        seen.update(self.outside_digest.to_bytes(32, "little"))
        return seen.hexdigest()

    def drifted(self, label: str | None, since: int) -> None:
        """It has no windows to shorten."""

    def facts(self) -> Mapping[str, float]:
        decided = self.head.decided
        return {"temperature": decided.temperature, "held_out": len(self.held_out), "held_out_loss": decided.loss}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        weights, decided = self._solved().weights, self._solved().decided
        meta = {
            "labels": self.statistics.labels,
            "decided": decided.memory(),
            "columns": [[c.name, c.number, c.exponent, c.centre] for c in self.columns.columns],
            "warm": self.warm is not None,
        }
        solved = {"matrix": weights.matrix, "bias": weights.bias, "active": weights.active, "meta": packed(meta)}
        parts = {"weights": Part(solved, serving=True)}
        if not serving_only:
            parts["statistics"] = Part({**self.statistics.tensors(), "memory": packed(self._memory())}, serving=False)
            parts["held_out"], parts["outside"] = self.held_out.part(), self.outside.part()
        return parts

    def _memory(self) -> dict[str, Any]:
        warm = (
            None if self.warm is None else [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.warm]
        )
        return {
            "warm": warm,
            "recent": [features.hex() for features in self.recent],
            "outside_digest": self.outside_digest,
        }

    def restore(self, state: State) -> None:
        solved = state["weights"].tensors
        meta = unpacked(solved["meta"])
        self.columns = Columns(
            self._no_columns().bumps, self.options["max_features"], (Column(*entry) for entry in meta["columns"])
        )
        self.warm = [] if meta["warm"] else None
        self.head = self._new_head()
        self.head.decided = Decided.recalled(meta["decided"])
        weights = LinearWeights(solved["matrix"], solved["bias"], solved["active"])
        start = 0 if self.head.decided.head == "ridge" else self.head.start
        self._solution = Solved(weights, start, self.head.decided)
        self.statistics.labels = meta["labels"]
        if "statistics" in state:
            tensors = state["statistics"].tensors
            self.head.statistics = ExactStatistics.restored(meta["labels"], tensors, self.device)
            self.held_out.recall(state["held_out"])
            self.outside.recall(state["outside"])
            self._recall(unpacked(tensors["memory"]))

    def _recall(self, memory: dict[str, Any]) -> None:
        self.recent = [bytes.fromhex(features) for features in memory["recent"]]
        self.outside_digest = memory["outside_digest"]
        if memory["warm"] is not None:
            self.warm = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["warm"]]
