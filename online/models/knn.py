"""The nearest of the newest: distance-weighted votes over a window of labelled examples.

    input = "text" | "vector" | "table"
    bytes -> numbers, categories --the window's ranges--> places [N, D] in [0, 1] -> k nearest -> votes

Its memory is a set, the examples with the `window` largest offsets: neither order nor batches leave a trace in it, and
an example is taken back by taking it out. Numbers are compared by the share of the window's range that lies between
them, categories by being equal or not. C is for classes.
"""

import hashlib
import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from online.models import (
    Answer,
    Candidate,
    Example,
    Options,
    Part,
    State,
    Tensors,
    new_revision,
    packed,
    take,
    unpacked,
)
from online.models.encoder import TEXT_WIDTH, TextEncoder, parse_row
from online.models.nearest import Map, Row
from online.models.rows import check

PROBES = 8
CHUNK = 256  # examples in one file, by offset: full ones are hard-linked from version to version
FAINT = 0.1  # the vote of a label without neighbours
NEAREST = 1e-3  # squared distance below which a neighbour's vote grows no more

OPTIONS: dict[str, Any] = {
    "input": "text",  # text, vector or table
    "size": 0,  # numbers in a vector
    "window": 5_000,  # examples, the newest
    "neighbours": 10,
    "max_features": 256,  # names in a table; of more, the first in the alphabet are looked at
}


@dataclass(frozen=True, slots=True)
class Kept:
    """An example of the window. sign: 1 for what was right, -1 for what was not."""

    offset: int
    features: bytes
    label: str
    sign: int

    def digest(self) -> int:
        data = f"{self.offset} {self.label} {self.sign} ".encode() + self.features
        return int.from_bytes(hashlib.sha256(data).digest(), "little")


class Knn:
    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        self.input: str = self.options["input"]
        if self.input not in ("text", "vector", "table"):
            raise ValueError(f"option 'input' must be text, vector or table, not {self.input!r}")
        if self.input == "vector" and self.options["size"] < 1:
            raise ValueError("a vector model needs option 'size': how many numbers an instance has")
        if min(self.options["window"], self.options["neighbours"]) < 1:
            raise ValueError("options 'window' and 'neighbours' must be at least 1")
        self.kept: dict[int, Kept] = {}
        self.offsets: list[int] = []  # of what is kept, ascending
        self.evicted = False
        self._digest = 0  # multiset hash: the sum of theirs modulo 2^256
        self._parts: dict[int, Part] = {}  # of the chunks that have not changed since
        self._map: Map | None = None  # made from what is kept, when it is asked for

    @property
    def subtracts(self) -> bool:
        """Once an example was given up for room, only a replay knows which one would still be here."""
        return not self.evicted

    def feature_epoch(self) -> str:
        return TextEncoder.epoch if self.input == "text" else self.input

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        if not self.offsets:
            return [Answer(None, ()) for _ in inputs]
        seen = self._mapped()
        return [self._answer(seen, self._seen(data)) for data in inputs]

    def _answer(self, seen: Map, row: Row) -> Answer:
        """Every label of the window by its neighbours' votes; one that only opposing votes name comes last."""
        label, sign, squared = seen.nearest(row, self.options["neighbours"])
        votes_C = np.bincount(label, sign / (squared + NEAREST), minlength=len(seen.labels))
        chances_C = np.maximum(votes_C, 0) + FAINT
        chances = (chances_C / math.fsum(chances_C)).tolist()  # exact: in whatever order the labels came
        order = sorted(range(len(chances)), key=lambda c: (-chances[c], -votes_C[c], seen.labels[c]))
        candidates = tuple(Candidate(seen.labels[c], chances[c]) for c in order)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    def _mapped(self) -> Map:
        if self._map is None:
            rows = [self.kept[offset] for offset in self.offsets]
            names = sorted({name for row in rows for name in parse_row(row.features)}) if self.input == "table" else []
            self._map = Map(self._width(), names[: self.options["max_features"]], self.input != "text")
            for row in rows:
                self._map.append(self._map.known(self._seen(row.features)), row.label, row.sign)
        return self._map

    def _width(self) -> int:
        return {"text": TEXT_WIDTH, "vector": int(self.options["size"])}.get(self.input, 0)

    def _seen(self, data: bytes) -> Row:
        if self.input == "vector":
            return np.frombuffer(data, np.float64)
        if self.input == "table":
            return parse_row(data)
        direction = np.frombuffer(data, np.int8).astype(np.float64)
        return direction / max(float(np.linalg.norm(direction)), 1.0)

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self.check(examples)
        for example in examples:
            self._keep(Kept(example.offset, example.features, example.label, 1 if example.reward >= 0.5 else -1))

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            check(example, "knn model", self.input, self.options["size"])

    def _keep(self, row: Kept) -> None:
        self._forget(row.offset)
        newest = not self.offsets or row.offset > self.offsets[-1]
        self.kept[row.offset] = row
        insort(self.offsets, row.offset)
        self._digest = (self._digest + row.digest()) % 2**256
        self._parts.pop(row.offset // CHUNK, None)
        if not newest or (
            self._map is not None and not self._map.append(self._seen(row.features), row.label, row.sign)
        ):
            self._map = None
        if len(self.offsets) > self.options["window"]:
            self._forget(self.offsets[0])
            self.evicted = True

    def unlearn(self, examples: Sequence[Example]) -> None:
        for example in examples:
            self._forget(example.offset)

    def _forget(self, offset: int) -> None:
        row = self.kept.pop(offset, None)
        if row is None:
            return
        place = bisect_left(self.offsets, offset)
        del self.offsets[place]
        self._digest = (self._digest - row.digest()) % 2**256
        self._parts.pop(offset // CHUNK, None)
        if self._map is not None and (place or not self._map.drop_oldest(self._seen(row.features), row.label)):
            self._map = None

    # state

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.feature_epoch()} {self._digest} {self.evicted}".encode()).hexdigest()

    def drifted(self, label: str | None, since: int) -> None:
        """Its window is as short as it was told to be: what it keeps is a function of offsets alone."""

    def facts(self) -> Mapping[str, float]:
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(self.kept[offset].features, None) for offset in self.offsets[-PROBES:]]

    def state(self, serving_only: bool = False) -> State:
        """Chunks by offset, all of them needed to predict."""
        chunks: dict[int, list[Kept]] = {}
        for offset in self.offsets:
            chunks.setdefault(offset // CHUNK, []).append(self.kept[offset])
        for stale in self._parts.keys() - chunks.keys():
            del self._parts[stale]
        for number, rows in chunks.items():
            if number not in self._parts:
                self._parts[number] = Part(tensors_of(rows), serving=True, revision=new_revision())
        window = Part({"meta": packed({"evicted": self.evicted})}, serving=True)
        return {"window": window, **{f"window-{number}": self._parts[number] for number in sorted(chunks)}}

    def restore(self, state: State) -> None:
        self.kept, self.offsets, self._digest, self._parts, self._map = {}, [], 0, {}, None
        for name, part in state.items():
            for row in rows_of(part) if name != "window" else ():
                self._keep(row)
        self.evicted = bool(unpacked(state["window"].tensors["meta"])["evicted"])


def tensors_of(rows: Sequence[Kept]) -> Tensors:
    return {
        "features": np.frombuffer(b"".join(row.features for row in rows), np.uint8),
        "ends": np.cumsum([len(row.features) for row in rows], dtype=np.int64),
        "offset": np.array([row.offset for row in rows], np.int64),
        "sign": np.array([row.sign for row in rows], np.int8),
        "label": packed([row.label for row in rows]),
    }


def rows_of(part: Part) -> list[Kept]:
    """The inverse of `tensors_of`."""
    tensors = part.tensors
    data, ends = tensors["features"].tobytes(), [0, *tensors["ends"].tolist()]
    features = [data[start:end] for start, end in pairwise(ends)]
    rows = zip(tensors["offset"].tolist(), features, unpacked(tensors["label"]), tensors["sign"].tolist(), strict=True)
    return [Kept(*row) for row in rows]
