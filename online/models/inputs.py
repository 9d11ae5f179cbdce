"""The inputs of a head on exact statistics: int8 features, and the warm-up that fixes their scales.

    bytes (text | vector | table) -> Inputs.features -> int8 [B, D]

The scale of a number is declared (`scale`) or fitted to the first 200 examples. Until then those
examples are stored as logged and the sums are recomputed from them, so that nothing is quantised
twice. After that, a number whose values leave a fitted scale gets a further one (`encoders.ranges`).
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from online.models.contract import LARGEST_NUMBER, Example, Options
from online.models.encoders.columns import Column, Columns
from online.models.encoders.hashed import HASHED_EPOCH
from online.models.encoders.ranges import RangeWatch
from online.models.encoders.text import TEXT_WIDTH, text_epoch
from online.models.encoders.values import read_row
from online.models.kinds import HASHED, MINILM
from online.models.options import INPUT, SIZE, Option, require_size
from online.schemas.json_values import JSONArray, JSONObject

WARM_UP = 200  # examples to which the scales are fitted
BUMPS_UP_TO = 64  # length of a vector: for longer ones, four features a number cost more than they bring
PROBES = 8

MAX_FEATURES = Option(
    "max_features",
    1_024,
    "Columns of a table; names past this number share a few. Raise it for tables with many categories.",
    unit="columns",
    low=1,
    high=1e6,
)
OPTIONS = (
    INPUT,
    Option(
        "text_features",
        MINILM,
        "What texts become: the numbers of a network that knows meanings (minilm), or of hashed words and parts of "
        "words (hashed), which a browser computes without any download.",
        choices=(MINILM, HASHED),
    ),
    Option("encoder", "", "sha256 of the tuned text encoder; empty: the one that is shipped. Set by `online adapt`."),
    SIZE,
    Option(
        "scale",
        0.0,
        "Numbers lie in [-scale, scale]; 0: fitted to the first 200 examples. "
        "Declare it if you know it: the model then learns from the first example and retractions are subtracted.",
        low=0.0,
        high=LARGEST_NUMBER,
    ),
    MAX_FEATURES,
)


class Inputs:
    """Turns logged inputs into features, and holds examples back until scales are fixed.

    columns: the mapping of vectors and tables. warm: the examples held during the warm-up; None
    after it. recent: the newest inputs, to probe a proposed snapshot with. watch: notices numbers that leave their
    scales; None where the scales are declared, and of texts.
    """

    def __init__(self, options: Options, warms_up: bool = False) -> None:
        """warms_up: whether something other than the inputs is fitted to the first examples, too."""
        require_size(options)
        self.kind: str = options["input"]
        self.encoder: str = options["encoder"]
        self.is_hashed: bool = options["text_features"] == HASHED
        if self.is_hashed and (self.kind != "text" or self.encoder):
            raise ValueError("option text_features = 'hashed' needs input = 'text', and no tuned encoder")
        self.size: int = options["size"]
        self.scale: float | None = options["scale"] or None
        self.limit: int = options["max_features"]
        self.columns = self._no_columns()
        scaled = self.kind == "text" or self.scale is not None
        self.warm: list[Example] | None = [] if warms_up or not scaled else None
        self.recent: list[bytes] = []
        self.watch: RangeWatch | None = None if scaled else RangeWatch()
        self._newest: tuple[tuple[bytes, Columns, int], NDArray[np.int8]] | None = None  # see `features`

    @property
    def subtracts(self) -> bool:
        """Whether examples can be subtracted.

        False once examples decide how others are read: by scales fitted to them, or because a
        table has no free column left.
        """
        if self.kind == "text" or self.warm is not None:
            return True
        full = self.kind == "table" and self.columns.is_full
        return self.scale is not None and not full

    @property
    def width(self) -> int:
        """The number of features."""
        return TEXT_WIDTH if self.kind == "text" else self.columns.width

    def number_places(self) -> list[int]:
        """Return the features that are values of numbers; none of a text."""
        return [] if self.kind == "text" else self.columns.number_places

    def epoch(self) -> str:
        """Return the name of the mapping from bytes to features."""
        if self.kind == "text":
            return HASHED_EPOCH if self.is_hashed else text_epoch(self.encoder)
        return f"{self.kind}-warming" if self.warm is not None else f"{self.kind}-{self.columns.epoch()}"

    def features(self, inputs: Sequence[bytes]) -> NDArray[np.int8]:
        """Return features int8 [B, D] of the present columns.

        Those of the newest single input are kept, because an input that was answered is often learned next.
        """
        if self.kind == "text":
            return np.frombuffer(b"".join(inputs), np.int8).reshape(-1, TEXT_WIDTH)
        if len(inputs) != 1:
            return self._read(inputs)
        key = inputs[0], self.columns, self.columns.width
        if self._newest is None or self._newest[0] != key:
            self._newest = key, self._read(inputs)
        return self._newest[1]

    def _read(self, inputs: Sequence[bytes]) -> NDArray[np.int8]:
        if self.kind == "vector":
            known = bool(self.columns.columns)
            return self.columns.vectors(self._vectors(inputs)) if known else np.zeros((len(inputs), 0), np.int8)
        return self.columns.features([read_row(data) for data in inputs])

    def features_as_counted(self, examples: Sequence[Example]) -> NDArray[np.int8]:
        """Return features int8 [B, D] as they were added to the sums: without the bands that began after an example."""
        x_BD = self.features([example.features for example in examples])
        if self.watch is None or not self.watch.begins:
            return x_BD
        x_BD, offsets_B = x_BD.copy(), np.array([example.offset for example in examples])
        # not strict: while the last examples before a band are counted, it is not among the columns yet
        for features, begin in zip(self.columns.list_bands(), self.watch.begins, strict=False):
            x_BD[offsets_B < begin, features] = 0
        return x_BD

    def measure_beyond(self, inputs: Sequence[bytes]) -> NDArray[np.float64] | None:
        """Return how far each number lies beyond all its ranges, in quanta [B, N]; None if none does, and of texts."""
        if self.kind == "text" or not self.columns.columns:
            return None
        if self.kind == "vector":
            return self.columns.measure_vectors_beyond(self._vectors(inputs))
        return self.columns.measure_beyond([read_row(data) for data in inputs])

    def count_outside(self, inputs: Sequence[bytes]) -> int:
        """Return how many inputs hold a number beyond all its ranges; 0 while these are being fitted."""
        beyond_BN = None if self.warm is not None or not inputs else self.measure_beyond(inputs)
        return 0 if beyond_BN is None else int((beyond_BN > 0).any(1).sum())

    # examples

    def take(self, examples: Sequence[Example]) -> Iterator[list[Example]]:
        """Read examples, and yield those whose features are fixed now, in parts; each must be counted before the next.

        During the warm-up there are none; its last example yields all that were held. A part ends where a number gets a
        further scale, with which the examples after it are read, wherever a batch ends.
        """
        self.recent = [*self.recent, *(example.features for example in examples[-PROBES:])][-PROBES:]
        if self.warm is not None:
            room = WARM_UP - len(self.warm)
            self.warm, examples = [*self.warm, *examples[:room]], examples[room:]
            if len(self.warm) < WARM_UP:
                return
            held, self.warm = self.refit_columns(), None
            yield held
        while examples:
            count, bands = self._observe(examples)
            if count:
                yield list(examples[:count])
            self.columns.extend(bands)
            examples = examples[count:]

    def _observe(self, examples: Sequence[Example]) -> tuple[int, list[Column]]:
        """Admit the columns of examples, up to the first that needs a band: how many these are, and the bands."""
        known = len(self.columns.columns)
        self._admit_each(examples)
        if self.watch is None:
            return len(examples), []
        count, bands = self.watch.observe(self.columns, *self._list_numbers(examples))
        if bands:  # columns are appended in the order of the examples, wherever a batch ends
            self.columns = Columns(self.columns.bumps, self.limit, self.columns.columns[:known])
            self._admit_each(examples[:count])
        return count, bands

    def summarise(self, reader: "Inputs", examples: Sequence[Example]) -> JSONArray | None:
        """Return what `absorb` needs to know of the numbers of examples that a reader of these inputs has read, as JSON.

        None if one of them may need a band, so that they must be learned one after the other.
        """
        return [] if self.watch is None else RangeWatch().summarise(reader.columns, *reader._list_numbers(examples))

    def absorb(self, summary: JSONArray, mapping: JSONObject) -> bool:
        """Note the numbers of a summary. False, without any change, if one of them needs a band.

        mapping: of the reader, with the columns that it appended.
        """
        if self.watch is None:
            return True
        columns = Columns(self.columns.bumps, self.limit, (Column(*entry) for entry in mapping["columns"]))
        return self.watch.absorb(columns, summary)

    def _list_numbers(self, examples: Sequence[Example]) -> tuple[list[int], NDArray[np.float64]]:
        """Return the offsets of examples, and their numbers."""
        return [example.offset for example in examples], self._numbers([example.features for example in examples])

    def _numbers(self, inputs: Sequence[bytes]) -> NDArray[np.float64]:
        if self.kind == "vector":
            return self._vectors(inputs)
        return self.columns.read_numbers([read_row(data) for data in inputs])

    def drop(self, examples: Sequence[Example]) -> list[Example]:
        """Forget examples and return those that were counted, and must be subtracted."""
        self._newest = None
        erased = {example.features for example in examples}
        self.recent = [features for features in self.recent if features not in erased]
        if self.warm is None:
            return list(examples)
        gone = {example.offset for example in examples}
        self.warm = [example for example in self.warm if example.offset not in gone]
        return []

    def refit_columns(self) -> list[Example]:
        """Return the examples of the warm-up, after columns were fitted to them alone."""
        held = self.warm or []
        self.columns = self._no_columns()
        self.watch = None if self.watch is None else RangeWatch()
        self._admit([example.features for example in held])
        return held

    def _no_columns(self) -> Columns:
        columns = Columns(self.kind == "table" or self.size <= BUMPS_UP_TO, self.limit)
        if self.kind == "vector" and self.scale:
            columns.admit_vectors(np.zeros((0, self.size)), self.scale)
        return columns

    def _admit_each(self, examples: Sequence[Example]) -> None:
        if self.kind == "text":
            return
        for example in examples:  # one by one: a column's scale must not depend on where batches end
            self._admit([example.features])

    def _admit(self, inputs: Sequence[bytes]) -> None:
        if self.kind == "vector" and inputs and len(self.columns.columns) < self.size:
            self.columns.admit_vectors(self._vectors(inputs), self.scale)
        elif self.kind == "table":
            self.columns.admit([read_row(data) for data in inputs], self.scale)

    def _vectors(self, inputs: Sequence[bytes]) -> NDArray[np.float64]:
        return np.frombuffer(b"".join(inputs), np.float64).reshape(-1, self.size)

    # state

    def fingerprint(self, digest: Callable[[Sequence[str] | None], bytes]) -> str:
        """Return sha256 of the examples of the warm-up, then of `digest(feature names)` of the sums."""
        seen = hashlib.sha256(self.epoch().encode() if self.kind == "text" else self.kind.encode())
        if self.warm is None:
            seen.update(digest(None if self.kind == "text" else self.columns.names))
        else:
            for entry in sorted((example.features, example.label, example.reward) for example in self.warm):
                seen.update(repr(entry).encode())
        return seen.hexdigest()

    def mapping(self) -> dict[str, object]:
        """Return the part of its state that prediction needs, as JSON."""
        columns = [column.entry for column in self.columns.columns]
        return {"columns": columns, "warm": self.warm is not None}

    def create_reader(self) -> "Inputs":
        """Return inputs without examples that read them as these do. They hold none back for a warm-up."""
        reader = copy(self)
        reader.columns = Columns(self.columns.bumps, self.limit, self.columns.columns)
        reader.warm, reader.recent, reader._newest, reader.watch = None, [], None, None
        return reader

    def extend(self, mapping: JSONObject, recent: Sequence[bytes]) -> None:
        """Take over the columns that a reader of these inputs appended, and the newest inputs that it read."""
        known = len(self.columns.columns)
        self.columns.extend(Column(*entry) for entry in mapping["columns"][known:])
        self.recent = [*self.recent, *recent][-PROBES:]

    def memory(self) -> JSONObject:
        """Return the rest of its state, which learning needs, as JSON."""
        held = (
            None if self.warm is None else [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.warm]
        )
        watched = {} if self.watch is None else self.watch.memory()
        return {
            "warm": held,
            "recent": [features.hex() for features in self.recent],
            **({"ranges": watched} if watched else {}),
        }

    def restore(self, mapping: JSONObject, memory: JSONObject | None) -> None:
        """Adopt the columns and the rows of a warm-up that a state holds."""
        bumps = self.columns.bumps
        self.columns = Columns(bumps, self.limit, (Column(*entry) for entry in mapping["columns"]))
        self.warm = [] if mapping["warm"] else None
        if memory is not None:
            self.recent = [bytes.fromhex(features) for features in memory["recent"]]
            if self.watch is not None:
                self.watch = RangeWatch()
                self.watch.restore(memory.get("ranges", {}))
            if memory["warm"] is not None:
                self.warm = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["warm"]]
