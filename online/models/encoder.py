"""From what a caller sends to what a head learns from.

    text            -> TextEncoder   -> int8 [384], final       (a network that stands still, quantised once)
    [numbers]       -> VectorEncoder -> float64 [N]  --Columns--> int8 [D]
    {name: value}   -> TableEncoder  -> JSON         --Columns--> int8 [D]

The encoder runs once, in the service; its bytes are logged with the prediction and the learner reads those. `Columns`
is the fixed integer mapping behind it: the same bytes give the same int8 features on every machine.
"""

import hashlib
import json
import math
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.errors import TooLarge
from online.models import challenger_of, minilm

TEXT_WIDTH = minilm.WIDTH
TEXT_SCALE = 512  # int8 = clip(rint(512 * unit vector)): CLINC150 accuracy is the same as with floats
CACHED_TEXTS = 4_096
OVERFLOW_COLUMNS = 16  # names past a table's limit share these, by crc32

Value = float | str
Row = Mapping[str, Value]


class TextEncoder:
    """all-MiniLM-L6-v2 through ONNX Runtime, one text at a time: a text's features never depend on its company."""

    epoch = f"minilm-{minilm.WEIGHTS_SHA256[:8]}-int8x{TEXT_SCALE}-{minilm.GRAPH_VERSION}"

    def __init__(self, cache: Path, threads: int = 2, max_chars: int = 8_000, tuned: Path | None = None) -> None:
        """tuned: a file of tuned tensors named by its sha256; features of another epoch come out."""
        import onnxruntime

        if tuned is not None:
            self.epoch = text_epoch(tuned.stem)
        self.max_chars = max_chars
        self._tokenizer = minilm.tokenizer()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning would starve the learner
        path = minilm.onnx_file(cache, tuned)
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, instances: Sequence[Any]) -> list[bytes]:
        texts = [self._text(instance, place) for place, instance in enumerate(instances)]
        return [self._features(text) for text in texts]

    def _text(self, instance: Any, place: int) -> str:
        text = text_of(instance)
        if text is None:
            raise ValueError(f'instance {place} must be a text or {{"text": ...}}, not {shown(instance)}')
        if len(text) > self.max_chars:
            raise TooLarge(
                f"instance {place} has {len(text)} characters; at most {self.max_chars} are answered (max_text_chars)"
            )
        return " ".join(text.split())

    def _features(self, text: str) -> bytes:
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        vector = self._session.run(None, {"ids": ids})[0][0]
        features = quantised(vector).tobytes()
        with self._lock:
            self._known[text] = features
            while len(self._known) > CACHED_TEXTS:
                self._known.popitem(last=False)
        return features


FIXED_INPUTS = {"ranker": "text", "river": "table"}  # of the kinds that read one thing alone


def reads(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a model of this kind takes: `input` (text, vector or table), and of a vector how many numbers, `size`."""
    fixed = FIXED_INPUTS.get(kind)
    return {"input": fixed or options.get("input", "text"), "size": 0 if fixed else int(options.get("size", 0))}


def reads_any(kind: str) -> bool:
    """Whether it has an option `input`, and reads whatever that says."""
    return kind not in FIXED_INPUTS


def adapts(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether a model of this kind, and its challenger if it has one, reads texts by an encoder that can be tuned."""
    kinds = {kind, challenger_of(kind, options) or kind}
    return kinds <= {"ranker", "classifier"} and options.get("input", "text") == "text"


def with_encoder(options: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """A model's options with the name of the tuned encoder it reads by; "" for the frozen one."""
    return {**options, "encoder": encoder} if encoder else dict(options)


def text_of(instance: Any) -> str | None:
    """The text of an instance that is one, or has one."""
    text = instance.get("text") if isinstance(instance, dict) else instance
    return text if isinstance(text, str) and text.strip() else None


def quantised(unit: NDArray[np.float32]) -> NDArray[np.int8]:
    """Unit vectors as int8 features."""
    return np.clip(np.rint(TEXT_SCALE * unit), -127, 127).astype(np.int8)


def text_epoch(tuned: str) -> str:
    """Of the encoder tuned to the file with this sha256; "" is the frozen one."""
    return f"minilm-{tuned[:16]}-int8x{TEXT_SCALE}-{minilm.GRAPH_VERSION}" if tuned else TextEncoder.epoch


class Numbers(list[float]):
    """An instance that whoever parsed it found to be nothing but numbers. text: the JSON that it was."""

    __slots__ = ("text",)

    def __init__(self, values: list[float], text: str) -> None:
        super().__init__(values)
        self.text = text


class VectorEncoder:
    """A list of `size` finite numbers -> float64 bytes. size 0 takes any length (a replay that has yet to see one)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.epoch = f"vector-{size}"

    def encode(self, instances: Sequence[Any]) -> list[bytes]:
        return [self._vector(instance, place) for place, instance in enumerate(instances)]

    def _vector(self, instance: Any, place: int) -> bytes:
        if not isinstance(instance, list):
            raise ValueError(f"instance {place} must be a list of {self.size} numbers, not {shown(instance)}")
        if self.size and len(instance) != self.size:
            raise ValueError(f"instance {place} has {len(instance)} numbers; this model takes {self.size}")
        if type(instance) is not Numbers and not {int, float}.issuperset(map(type, instance)):
            at = next(at for at, value in enumerate(instance) if type(value) not in (int, float))
            raise ValueError(f"instance {place} must be numbers; at {at} it has {shown(instance[at])}")
        try:
            vector = struct.pack(f"={len(instance)}d", *instance)
        except (OverflowError, struct.error):
            raise ValueError(f"instance {place} has a number too large for a float64") from None
        finite = np.isfinite(np.frombuffer(vector, np.float64))
        if not finite.all():
            at = int(np.flatnonzero(~finite)[0])
            raise ValueError(f"instance {place} has {instance[at]} at {at}; numbers must be finite")
        return vector


class TableEncoder:
    """A dict of numbers, texts and booleans -> canonical JSON bytes. Missing values (null) are left out.

    A list is a dict of its places.
    """

    epoch = "table"

    def encode(self, instances: Sequence[Any]) -> list[bytes]:
        return [self._row(instance, place) for place, instance in enumerate(instances)]

    def _row(self, instance: Any, place: int) -> bytes:
        if isinstance(instance, list):
            instance = {str(at): value for at, value in enumerate(instance)}
        if not isinstance(instance, dict):
            raise ValueError(f"instance {place} must be an object of features, not {shown(instance)}")
        row = {str(name): self._value(value, place, name) for name, value in instance.items() if value is not None}
        return json.dumps(row, sort_keys=True, separators=(",", ":")).encode()

    def _value(self, value: Any, place: int, name: Any) -> Value:
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and len(value) <= 1_000:
            return value
        try:
            if isinstance(value, (int, float)) and math.isfinite(value):
                return float(value)
        except OverflowError:
            pass
        raise ValueError(
            f"instance {place} has {shown(value)} as {shown(name)}; use a finite number, a short text or a boolean"
        )


def shown(value: Any) -> str:
    """A value as an error may show it: short."""
    text = json.dumps(value, default=str) if not isinstance(value, (dict, list)) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class Column:
    """One name. A number x becomes q = clip(rint(x * 2^exponent) - centre, -127, 127) and its bumps; a category 127."""

    name: str
    number: bool
    exponent: int = 0
    centre: int = 0

    @classmethod
    def fitted(cls, name: str, values: Sequence[float]) -> "Column":
        """The scale that puts 95 % of the values within 32..64 of their median, as a power of two: exact everywhere."""
        ordered = sorted(values)
        median = ordered[len(ordered) // 2]
        spreads = sorted(abs(value - median) for value in ordered)
        spread = spreads[min(len(spreads) - 1, int(0.95 * len(spreads)))] or spreads[-1] or abs(median) or 1.0
        exponent = math.floor(math.log2(64 / min(max(spread, 2.0**-890), 2.0**900)))  # a float64 holds 64 / spread
        return cls(name, True, exponent, round(math.ldexp(median, exponent)))

    def quantised(self, value: float) -> int:
        try:
            steps = round(math.ldexp(value, self.exponent))  # halves to even, as np.rint
        except OverflowError:
            return 127 if value > 0 else -127
        return max(-127, min(127, steps - self.centre))

    @classmethod
    def declared(cls, name: str, scale: float) -> "Column":
        """The scale that puts [-scale, scale] within int8, as a power of two."""
        return cls(name, True, math.floor(math.log2(127 / scale)))


class Columns:
    """The fixed mapping from rows to int8 features: columns are append-only, their scales never change once set."""

    KNOTS = (-96, 0, 96)  # of the bumps: triangles of this half-width, in integers, so that a linear head can bend

    def __init__(self, bumps: bool, limit: int, columns: Iterable[Column] = ()) -> None:
        self.bumps, self.limit = bumps, limit
        self.columns: list[Column] = []
        self._places: dict[str, tuple[int, Column]] = {}
        self.names: list[str] = []  # one per feature, with its scale, for the digest
        self._scales: tuple[NDArray[np.int32], NDArray[np.float64]] | None = None  # exponents and centres, once asked
        for column in columns:
            self._append(column)

    def _append(self, column: Column) -> None:
        self.columns.append(column)
        self._scales = None
        self._places[column.name] = (len(self.names), column)
        parts = ["", *(f"~{knot}" for knot in self.KNOTS)] if column.number and self.bumps else [""]
        self.names += [f"{column.name}{part} {column.exponent} {column.centre}" for part in parts]

    @property
    def width(self) -> int:
        return len(self.names)

    def admit(self, rows: Sequence[Row], scale: float | None) -> None:
        """Append the names in `rows` that are new: numbers with the declared scale or one fitted to these rows."""
        found: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row.items():
                found.setdefault(named(name, value), []).extend([value] if isinstance(value, float) else [])
        for name in sorted(found.keys() - self._places.keys()):
            key = self._key(name)
            if key == name:
                self._append(number_column(name, found[name], scale) if found[name] else Column(name, number=False))
            elif key not in self._places:
                self._append(Column(key, number=False))

    def admit_vectors(self, values_BN: NDArray[np.float64], scale: float | None) -> None:
        """The columns of vectors: numbers named 0..N-1."""
        for place in range(len(self.columns), values_BN.shape[1]):
            self._append(number_column(str(place), values_BN[:, place].tolist(), scale))

    def _key(self, name: str) -> str:
        """The column of a name: its own, or past the limit one that it shares."""
        if name in self._places or len(self.columns) < self.limit:
            return name
        return f"overflow-{zlib.crc32(name.encode()) % OVERFLOW_COLUMNS}="

    def features(self, rows: Sequence[Row]) -> NDArray[np.int8]:
        """int8 [B, D]. Names it does not know and missing values are zeros."""
        out = np.zeros((len(rows), self.width), np.int8)
        for place, row in enumerate(rows):
            for name, value in row.items():
                known = self._places.get(self._key(named(name, value)))
                if known is not None:
                    self._set(out[place], *known, value)
        return out

    def _set(self, out: NDArray[np.int8], start: int, column: Column, value: Value) -> None:
        if isinstance(value, str) or not column.number:
            out[start] = 127
            return
        q = column.quantised(value)
        out[start] = q
        if self.bumps:
            for at, knot in enumerate(self.KNOTS):
                out[start + 1 + at] = bump(q, knot)

    def vectors(self, values_BN: NDArray[np.float64]) -> NDArray[np.int8]:
        """int8 [B, D] for rows whose columns are numbers named 0..N-1, in that order."""
        if self._scales is None:
            exponents = np.array([column.exponent for column in self.columns], np.int32)
            self._scales = exponents, np.array([column.centre for column in self.columns], np.float64)
        exponents, centres = self._scales
        steps_BN = np.rint(np.ldexp(values_BN, exponents)) - centres
        q_BN = np.minimum(np.maximum(steps_BN, -127), 127).astype(np.int64)
        if not self.bumps:
            return q_BN.astype(np.int8)
        layers = [q_BN, *(np.maximum(127 * (96 - np.abs(q_BN - knot)) // 96, 0) for knot in self.KNOTS)]
        return np.stack(layers, 2).reshape(len(values_BN), self.width).astype(np.int8)

    def epoch(self) -> str:
        """Names this mapping: equal for equal columns, whatever order they came in."""
        known = sorted((column.name, column.number, column.exponent, column.centre) for column in self.columns)
        return hashlib.sha256(json.dumps([known, self.bumps]).encode()).hexdigest()[:12]


def named(name: str, value: Value) -> str:
    """What a column for it is called: every value of a category has its own."""
    return name if isinstance(value, float) else f"{name}={value}"


def number_column(name: str, values: Sequence[float], scale: float | None) -> Column:
    return Column.declared(name, scale) if scale else Column.fitted(name, values)


def bump(q: int, knot: int) -> int:
    """A triangle of half-width 96 around the knot, height 127, in integers."""
    return max(127 * (96 - abs(q - knot)) // 96, 0)


def parse_row(data: bytes) -> dict[str, Value]:
    row: dict[str, Value] = json.loads(data)
    return row


def encoder(
    options: Mapping[str, Any], cache: Path, threads: int = 2, max_chars: int = 8_000, tuned: Path | None = None
) -> Any:
    """The encoder that a model's options ask for (`input`, `size`); of texts, the one that was tuned to a file."""
    match options.get("input", "text"):
        case "text":
            return TextEncoder(cache, threads, max_chars, tuned)
        case "vector":
            return VectorEncoder(int(options.get("size", 0)))
        case _:
            return TableEncoder()
