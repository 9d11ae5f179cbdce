"""The nearest of the newest: distance-weighted votes over a window of labelled examples.

    input = "text" | "vector" | "table"
    bytes -> numbers, categories --the window's ranges--> places [N, D] in [0, 1] -> k nearest -> votes

Its memory is a set: the examples with the `window` largest offsets. Neither order nor batches affect
it, and an example is retracted by removing it. Numbers are compared by the share of the window's
range between them, categories by equality. C is for classes.
"""

import hashlib
import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from online.models.contract import (
    Answer,
    Candidate,
    Example,
    Options,
    State,
    StatePart,
    Tensors,
    new_revision,
    pack_json,
    unpack_json,
)
from online.models.encoders.text import TEXT_WIDTH, TextEncoder
from online.models.encoders.values import parse_row
from online.models.example_checks import check
from online.models.options import INPUT, SIZE, Option, require_size, resolve
from online.plugins.neighbours.neighbor_index import NeighborIndex, Row
from online.plugins.neighbours.views import ExampleView, ViewChoice
from online.schemas.events import is_positive

PROBES = 8
CHUNK = 256  # offsets per file: files of full chunks are hard-linked from version to version
FAINT = 0.1  # vote of a class without neighbours
NEAREST = 1e-3  # squared distance below which a neighbour's vote no longer grows

OPTIONS = (
    INPUT,
    SIZE,
    Option(
        "window",
        5_000,
        "Newest examples that are kept and compared. Lower it to follow change faster and answer sooner.",
        unit="examples",
        low=1,
    ),
    Option(
        "neighbours", 10, "Nearest examples that vote. Lower it for fine boundaries, raise it for noisy classes.", low=1
    ),
    Option(
        "max_features",
        256,
        "Names of a table that are compared: the first ones in the alphabet.",
        unit="columns",
    ),
)


@dataclass(frozen=True, slots=True)
class StoredExample:
    """An example of the window. sign: 1 for a right class, -1 for a wrong one."""

    offset: int
    features: bytes
    label: str
    sign: int

    def digest(self) -> int:
        """Return a hash of the example, whose sum over all identifies the memory."""
        data = f"{self.offset} {self.label} {self.sign} ".encode() + self.features
        return int.from_bytes(hashlib.sha256(data).digest(), "little")


class RowDigest:
    """A multiset hash of the stored examples: the sum of their hashes modulo 2^256.

    It is brought up to date when it is asked for, which is seldom: rows that came and went since are never hashed.
    """

    def __init__(self) -> None:
        self._known = 0
        self._added: dict[int, StoredExample] = {}  # since then, by offset
        self._gone: dict[int, StoredExample] = {}

    def add(self, row: StoredExample) -> None:
        """Add an example to the digest."""
        self._added[row.offset] = row

    def subtract(self, row: StoredExample) -> None:
        """Note that a row is no longer stored."""
        if self._added.pop(row.offset, None) is None:
            self._gone[row.offset] = row

    def compute(self, stored: Mapping[int, StoredExample]) -> int:
        """Return the digest of the stored rows."""
        changes = len(self._added) + len(self._gone)
        if changes >= len(stored):
            self._known = sum(row.digest() for row in stored.values())
        else:
            self._known += sum(row.digest() for row in self._added.values())
            self._known -= sum(row.digest() for row in self._gone.values())
        self._known %= 2**256
        self._added, self._gone = {}, {}
        return self._known


class Knn:
    """A k-nearest-neighbours classifier over a window. Implements `contract.Model`."""

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        require_size(self.options)
        self.input: str = self.options["input"]
        self.stored: dict[int, StoredExample] = {}
        self.offsets: list[int] = []  # of stored examples, ascending
        self.evicted = False
        self._digest = RowDigest()
        self._parts: dict[int, StatePart] = {}  # parts of chunks that have not changed since
        self.choice = ViewChoice()
        self._index: NeighborIndex | None = None  # built from the examples that answer at the first prediction

    @property
    def subtracts(self) -> bool:
        """False once an example was evicted: only a replay knows which one would have stayed."""
        return not self.evicted

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return TextEncoder.epoch if self.input == "text" else self.input

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        if not self.offsets:
            return [Answer(None, ()) for _ in inputs]
        if self._index is None:
            self._index = self._build_index(self.choice.view, self.offsets)
        return [self._answer(self._index, self._parse(data)) for data in inputs]

    def _answer(self, index: NeighborIndex, row: Row) -> Answer:
        """Rank every class of the window by its votes; those with only negative votes come last."""
        if not index.classes:
            return Answer(None, ())
        label, sign, squared = index.find_nearest(row, self.options["neighbours"])
        votes_C = np.bincount(label, sign / (squared + NEAREST), minlength=len(index.classes))
        chances_C = np.maximum(votes_C, 0) + FAINT
        chances = (
            chances_C / math.fsum(chances_C)
        ).tolist()  # an exact sum, which does not depend on the order of classes
        order = sorted(range(len(chances)), key=lambda c: (-chances[c], -votes_C[c], index.classes[c]))
        candidates = tuple(Candidate(index.classes[c], chances[c]) for c in order)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    def _build_index(self, view: ExampleView, offsets: Sequence[int]) -> NeighborIndex:
        """Return the examples with these offsets, as a view reads them."""
        labels = {offset: view.read(offset, self.stored[offset].label) for offset in offsets}
        rows = [(self.stored[offset], label) for offset, label in labels.items() if label is not None]
        names = sorted({name for row, _ in rows for name in parse_row(row.features)}) if self.input == "table" else []
        index = NeighborIndex(self._width(), names[: self.options["max_features"]], self.input != "text")
        for row, label in rows:
            index.append(index.without_unknown_names(self._parse(row.features)), label, row.sign)
        return index

    def _choose(self, view: ExampleView, known: Sequence[int], asked: Sequence[int]) -> list[str | None]:
        """Return what the examples with the offsets `known` answer to those with the offsets `asked`, as a view reads them."""
        index = self._build_index(view, known)
        return [self._answer(index, self._parse(self.stored[offset].features)).choice for offset in asked]

    def _width(self) -> int:
        return {"text": TEXT_WIDTH, "vector": int(self.options["size"])}.get(self.input, 0)

    def _parse(self, data: bytes) -> Row:
        if self.input == "vector":
            return np.frombuffer(data, np.float64)
        if self.input == "table":
            return parse_row(data)
        direction = np.frombuffer(data, np.int8).astype(np.float64)
        return direction / max(float(np.linalg.norm(direction)), 1.0)

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn the examples in order, all or none of them. Raises BadExample."""
        self.check(examples)
        for example in examples:
            self._store(
                StoredExample(example.offset, example.features, example.label, 1 if is_positive(example.reward) else -1)
            )
            if self.choice.contest is not None and self.choice.judge(self._labels(), self._choose):
                self._index = None

    def _labels(self) -> dict[int, str]:
        """Return the classes of the positive examples by offset, ascending."""
        return {offset: self.stored[offset].label for offset in self.offsets if self.stored[offset].sign > 0}

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        for example in examples:
            check(example, "knn model", self.input, self.options["size"])

    def _store(self, row: StoredExample) -> None:
        self._forget(row.offset)
        newest = not self.offsets or row.offset > self.offsets[-1]
        self.stored[row.offset] = row
        insort(self.offsets, row.offset)
        self._digest.add(row)
        self._parts.pop(row.offset // CHUNK, None)
        if not newest or (
            self._index is not None and not self._index.append(self._parse(row.features), row.label, row.sign)
        ):
            self._index = None
        if len(self.offsets) > self.options["window"]:
            self._forget(self.offsets[0])
            self.evicted = True

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove the examples from the state."""
        for example in examples:
            self._forget(example.offset)

    def _forget(self, offset: int) -> None:
        row = self.stored.pop(offset, None)
        if row is None:
            return
        place = bisect_left(self.offsets, offset)
        del self.offsets[place]
        self._digest.subtract(row)
        self._parts.pop(offset // CHUNK, None)
        label = self.choice.view.read(offset, row.label)
        if label is None or self._index is None:
            return
        if place or not self._index.drop_oldest(self._parse(row.features), label):
            self._index = None

    # state

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        digest = self._digest.compute(self.stored)
        return hashlib.sha256(f"{self.feature_epoch()} {digest} {self.evicted}".encode()).hexdigest()

    def drifted(self, label: str | None, since: int) -> None:
        """Compare the window with its newest examples from now on (`views`): what it holds stays the same."""
        if self.choice.begin(since, label is None, self._labels(), self._choose):
            self._index = None

    def facts(self) -> Mapping[str, float]:
        """Return the figures of the state that versions show."""
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return [(self.stored[offset].features, None) for offset in self.offsets[-PROBES:]]

    def state(self, serving_only: bool = False) -> State:
        """Chunks by offset; prediction needs all of them."""
        chunks: dict[int, list[StoredExample]] = {}
        for offset in self.offsets:
            chunks.setdefault(offset // CHUNK, []).append(self.stored[offset])
        for stale in self._parts.keys() - chunks.keys():
            del self._parts[stale]
        for number, rows in chunks.items():
            if number not in self._parts:
                self._parts[number] = StatePart(rows_to_tensors(rows), serving=True, revision=new_revision())
        window = StatePart({"meta": pack_json({"evicted": self.evicted, **self.choice.memory()})}, serving=True)
        return {"window": window, **{f"window-{number}": self._parts[number] for number in sorted(chunks)}}

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        self.stored, self.offsets, self._digest, self._parts, self._index = {}, [], RowDigest(), {}, None
        for name, part in state.items():
            for row in read_rows(part) if name != "window" else ():
                self._store(row)
        meta = unpack_json(state["window"].tensors["meta"])
        self.evicted = bool(meta.pop("evicted"))
        self.choice.restore(meta)


def rows_to_tensors(rows: Sequence[StoredExample]) -> Tensors:
    """Return the examples of a chunk as tensors."""
    return {
        "features": np.frombuffer(b"".join(row.features for row in rows), np.uint8),
        "ends": np.cumsum([len(row.features) for row in rows], dtype=np.int64),
        "offset": np.array([row.offset for row in rows], np.int64),
        "sign": np.array([row.sign for row in rows], np.int8),
        "label": pack_json([row.label for row in rows]),
    }


def read_rows(part: StatePart) -> list[StoredExample]:
    """Return the inverse of `rows_to_tensors`."""
    tensors = part.tensors
    data, ends = tensors["features"].tobytes(), [0, *tensors["ends"].tolist()]
    features = [data[start:end] for start, end in pairwise(ends)]
    rows = zip(
        tensors["offset"].tolist(), features, unpack_json(tensors["label"]), tensors["sign"].tolist(), strict=True
    )
    return [StoredExample(*row) for row in rows]
