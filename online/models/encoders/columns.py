"""The fixed integer mapping from numbers and categories to int8 features.

    float64 [N] or JSON --Columns--> int8 [D]      the same bytes give the same features everywhere

Columns are append-only, and a column's scale never changes once it is set, so that nothing is
quantised twice. Shapes: B rows, N numbers, D features.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.models.encoders.values import Row, Value

OVERFLOW_COLUMNS = 16  # names past a table's limit share these, by crc32
KNOTS = (-96, 0, 96)  # centres of the bumps: integer triangles of half-width 96, with which a linear head can bend


def list_bumps() -> NDArray[np.int8]:
    """int8 [255, 4]: each q from -127 on, and the heights of its bumps, at most 127, in integers."""
    q = np.arange(-127, 128)
    return np.stack([q, *(np.maximum(127 * (96 - np.abs(q - knot)) // 96, 0) for knot in KNOTS)], 1).astype(np.int8)


BUMPS = list_bumps()
BUMP_BYTES = [row.tobytes() for row in BUMPS]


@dataclass(frozen=True, slots=True)
class Column:
    """A named column.

    A number x becomes q = clip(rint(x * 2^exponent) - centre, -127, 127) and its bumps; a category
    becomes 127.
    """

    name: str
    number: bool
    exponent: int = 0
    centre: int = 0

    @classmethod
    def fit(cls, name: str, values: Sequence[float] | NDArray[np.float64]) -> "Column":
        """Fit the power of two that puts 95 % of the values within 32..64 quanta of their median."""
        ordered = np.sort(np.asarray(values))
        median = float(ordered[len(ordered) // 2])
        with np.errstate(over="ignore"):  # a distance beyond float64
            spreads = np.sort(np.abs(ordered - median))
        spread = float(spreads[min(len(spreads) - 1, int(0.95 * len(spreads)))] or spreads[-1]) or abs(median) or 1.0
        exponent = math.floor(math.log2(64 / min(max(spread, 2.0**-890), 2.0**900)))  # a float64 holds 64 / spread
        return cls(name, True, exponent, round(math.ldexp(median, exponent)))

    def quantise(self, value: float) -> int:
        try:
            steps = round(math.ldexp(value, self.exponent))  # halves to even, as np.rint
        except OverflowError:
            return 127 if value > 0 else -127
        return max(-127, min(127, steps - self.centre))

    @classmethod
    def with_scale(cls, name: str, scale: float) -> "Column":
        """A column with the power of two that puts [-scale, scale] within int8."""
        return cls(name, True, math.floor(math.log2(127 / scale)))


class Columns:
    """The mapping from rows to int8 features. bumps: whether numbers get bumps. limit: own columns."""

    def __init__(self, bumps: bool, limit: int, columns: Iterable[Column] = ()) -> None:
        self.bumps, self.limit = bumps, limit
        self.columns: list[Column] = []
        self._places: dict[str, tuple[int, Column]] = {}
        self.number_places: list[int] = []  # the feature of each number that is its value
        self.names: list[str] = []  # one per feature, with its scale, for the digest
        self._scales: tuple[NDArray[np.int32], NDArray[np.float64]] | None = None  # cache: exponents and centres
        for column in columns:
            self._append(column)

    def _append(self, column: Column) -> None:
        self.columns.append(column)
        self._scales = None
        self._places[column.name] = (len(self.names), column)
        self.number_places += [len(self.names)] if column.number else []
        parts = ["", *(f"~{knot}" for knot in KNOTS)] if column.number and self.bumps else [""]
        self.names += [f"{column.name}{part} {column.exponent} {column.centre}" for part in parts]

    def extend(self, columns: Iterable[Column]) -> None:
        """Append columns that another mapping with the same ones so far has appended."""
        for column in columns:
            self._append(column)

    @property
    def width(self) -> int:
        return len(self.names)

    def admit(self, rows: Sequence[Row], scale: float | None) -> None:
        """Append columns for new names in `rows`. Numbers get `scale`, or one fitted to these rows."""
        found: dict[str, list[float]] = {}
        for row in rows:
            if all(column_name(name, value) in self._places for name, value in row.items()):
                continue
            for name, value in row.items():
                found.setdefault(column_name(name, value), []).extend([value] if isinstance(value, float) else [])
        for name in sorted(found.keys() - self._places.keys()):
            key = self._key(name)
            if key == name:
                self._append(
                    make_number_column(name, found[name], scale) if found[name] else Column(name, number=False)
                )
            elif key not in self._places:
                self._append(Column(key, number=False))

    def admit_vectors(self, values_BN: NDArray[np.float64], scale: float | None) -> None:
        """Append the columns of vectors [B, N]: numbers named 0..N-1."""
        for place in range(len(self.columns), values_BN.shape[1]):
            self._append(make_number_column(str(place), values_BN[:, place], scale))

    def _key(self, name: str) -> str:
        """The column of a name: its own, or past the limit a shared one."""
        if name in self._places or len(self.columns) < self.limit:
            return name
        return f"overflow-{zlib.crc32(name.encode()) % OVERFLOW_COLUMNS}="

    def features(self, rows: Sequence[Row]) -> NDArray[np.int8]:
        """Features int8 [B, D] of rows. Unknown names and missing values are zeros."""
        places, width = self._places, self.width
        out = bytearray(len(rows) * width)
        for start, row in zip(range(0, len(out), max(width, 1)), rows, strict=False):
            for name, value in row.items():
                full = column_name(name, value)
                known = places.get(full) or places.get(self._key(full))
                if known is not None:
                    self._set(out, start + known[0], known[1], value)
        return np.frombuffer(out, np.int8).reshape(len(rows), width)

    def _set(self, out: bytearray, at: int, column: Column, value: Value) -> None:
        if isinstance(value, str) or not column.number:
            out[at] = 127
        elif self.bumps:
            out[at : at + 1 + len(KNOTS)] = BUMP_BYTES[column.quantise(value) + 127]
        else:
            out[at] = column.quantise(value) & 255

    def vectors(self, values_BN: NDArray[np.float64]) -> NDArray[np.int8]:
        """int8 [B, D] for rows whose columns are numbers named 0..N-1, in that order."""
        if self._scales is None:
            exponents = np.array([column.exponent for column in self.columns], np.int32)
            self._scales = exponents, np.array([column.centre for column in self.columns], np.float64)
        exponents, centres = self._scales
        steps_BN = np.rint(np.ldexp(values_BN, exponents)) - centres
        q_BN = np.minimum(np.maximum(steps_BN, -127), 127)
        if not self.bumps:
            return q_BN.astype(np.int8)
        return BUMPS[q_BN.astype(np.int64) + 127].reshape(len(values_BN), self.width)

    def epoch(self) -> str:
        """The name of this mapping, equal for equal columns in any order."""
        known = sorted((column.name, column.number, column.exponent, column.centre) for column in self.columns)
        return hashlib.sha256(json.dumps([known, self.bumps]).encode()).hexdigest()[:12]


def column_name(name: str, value: Value) -> str:
    """The name of a value's column: each value of a category has its own."""
    return name if isinstance(value, float) else f"{name}={value}"


def make_number_column(name: str, values: Sequence[float] | NDArray[np.float64], scale: float | None) -> Column:
    return Column.with_scale(name, scale) if scale else Column.fit(name, values)
