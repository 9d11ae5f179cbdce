"""The fixed integer mapping from numbers and categories to int8 features.

    float64 [N] or JSON --Columns--> int8 [D]      the same bytes give the same features everywhere

Columns are append-only, and a column's scale never changes once it is set, so that nothing is
quantised twice. A number whose values leave its scale gets a band: one more column for the same number with a scale
of its own, which is zero for every value outside it (`ranges` decides when).
Shapes: B rows, N numbers, K bands, D features.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from online.models.encoders.values import Row, Value
from online.schemas.json_values import JSONArray

OVERFLOW_COLUMNS = 16  # names past a table's limit share these, by crc32
FARTHEST = 1 << 1100  # quanta
MOST_BEYOND = 2**500  # quanta
BAND_MARK = "@"
KNOTS = (-96, 0, 96)  # centres of the bumps: integer triangles of half-width 96, with which a linear head can bend


def list_bumps() -> NDArray[np.int8]:
    """Return int8 [255, 4]: each q from -127 on, and the heights of its bumps, at most 127, in integers."""
    q = np.arange(-127, 128)
    return np.stack([q, *(np.maximum(127 * (96 - np.abs(q - knot)) // 96, 0) for knot in KNOTS)], 1).astype(np.int8)


BUMPS = list_bumps()
BUMP_BYTES = [row.tobytes() for row in BUMPS]


@dataclass(frozen=True, slots=True)
class Column:
    """A named column.

    A number x becomes q = clip(rint(x * 2^exponent) - centre, -127, 127) and its bumps; a category
    becomes 127. A band gives the same for a number within its 255 quanta, and 127 to say so; zeros for all others.
    """

    name: str
    number: bool
    exponent: int = 0
    centre: int = 0
    is_band: bool = False

    @property
    def entry(self) -> JSONArray:
        """The column as JSON, from which `Column(*entry)` makes it again."""
        return [self.name, self.number, self.exponent, self.centre, *([True] if self.is_band else [])]

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
        """Return a number in quanta of the column's scale, clipped to int8."""
        return max(-127, min(127, self.steps(value)))

    def steps(self, value: float) -> int:
        """Return how many quanta a number lies from the centre; 2^1100 for one that is farther than float64 reaches."""
        try:
            return round(math.ldexp(value, self.exponent)) - self.centre  # halves to even, as np.rint
        except OverflowError:
            return FARTHEST if value > 0 else -FARTHEST

    def find_ends(self) -> tuple[float, float]:
        """Return the lowest and the highest number that are read without being cut off."""
        return scale_back(self.centre - 127.5, self.exponent), scale_back(self.centre + 127.5, self.exponent)

    def parts(self, bumps: bool) -> list[str]:
        """Return what the names of its features add to its own."""
        mark = BAND_MARK if self.is_band else ""
        bent = [f"{mark}~{knot}" for knot in KNOTS] if self.number and bumps else []
        return [mark, *bent, *([f"{mark}inside"] if self.is_band else [])]

    @classmethod
    def with_scale(cls, name: str, scale: float) -> "Column":
        """Return a column with the power of two that puts [-scale, scale] within int8."""
        return cls(name, True, math.floor(math.log2(127 / scale)))


class Scales(NamedTuple):
    """exponents, centres: of numbers, or of bands. numbers: the place in the vector of what each of them reads."""

    numbers: NDArray[np.intp]
    exponents: NDArray[np.int32]
    centres: NDArray[np.float64]

    @classmethod
    def of(cls, columns: Sequence[Column], bands: bool) -> "Scales":
        """Return the scales of a vector's columns, whose names are their places."""
        chosen = [column for column in columns if column.is_band == bands]
        return cls(
            np.array([int(column.name) for column in chosen], np.intp),
            np.array([column.exponent for column in chosen], np.int32),
            np.array([column.centre for column in chosen], np.float64),
        )


class Columns:
    """The mapping from rows to int8 features. bumps: whether numbers get bumps. limit: own columns."""

    def __init__(self, bumps: bool, limit: int, columns: Iterable[Column] = ()) -> None:
        self.bumps, self.limit = bumps, limit
        self.columns: list[Column] = []
        self._places: dict[str, tuple[int, Column]] = {}
        self.bands: dict[str, list[tuple[int, Column]]] = {}  # of a number: the first feature of each, and the band
        self._bounds: dict[str, tuple[int, float, float]] | None = None  # cache: see `bounds`
        self._ends: NDArray[np.float64] | None = None  # cache: the ends of these ranges
        self.number_places: list[int] = []  # the feature of each number that is its value
        self.names: list[str] = []  # one per feature, with its scale, for the digest
        self._scales: tuple[Scales, Scales] | None = None  # cache: of the numbers of a vector, and of their bands
        for column in columns:
            self._append(column)

    def _append(self, column: Column) -> None:
        self.columns.append(column)
        self._scales = None
        if column.is_band:
            self.bands.setdefault(column.name, []).append((len(self.names), column))
        else:
            self._places[column.name] = (len(self.names), column)
            self._bounds = self._ends = None
            self.number_places += [len(self.names)] if column.number else []
        parts = column.parts(self.bumps)
        self.names += [f"{column.name}{part} {column.exponent} {column.centre}" for part in parts]

    def extend(self, columns: Iterable[Column]) -> None:
        """Append columns that another mapping with the same ones so far has appended."""
        for column in columns:
            self._append(column)

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.names)

    @property
    def is_full(self) -> bool:
        """Whether further names share columns. Bands do not count."""
        return len(self._places) >= self.limit

    @property
    def numbers(self) -> list[Column]:
        """The columns of numbers, without their bands."""
        return [column for column in self.columns if column.number and not column.is_band]

    @property
    def bounds(self) -> dict[str, tuple[int, float, float]]:
        """The name of each number -> its place among them, and the ends of its own range."""
        if self._bounds is None:
            numbers = enumerate(self.numbers)
            self._bounds = {column.name: (place, *column.find_ends()) for place, column in numbers}
        return self._bounds

    def list_bands(self) -> list[slice]:
        """Return the features of each band, in the order in which the bands were appended."""
        found = sorted((each for bands in self.bands.values() for each in bands), key=itemgetter(0))
        return [slice(place, place + len(band.parts(self.bumps))) for place, band in found]

    def read_numbers(self, rows: Sequence[Row]) -> NDArray[np.float64]:
        """Return float64 [B, N]: the number that each row has for each of `numbers`; NaN where it has none."""
        names = [column.name for column in self.numbers]
        found = [[value if isinstance(value := row.get(name), float) else math.nan for name in names] for row in rows]
        return np.array(found, np.float64).reshape(len(rows), len(names))

    def measure_beyond(self, rows: Sequence[Row]) -> NDArray[np.float64] | None:
        """Return float64 [B, N]: the quanta by which each of `numbers` lies beyond all its ranges; None if none does."""
        found, bounds_of = list[tuple[int, int, float]](), self.bounds
        for place, row in enumerate(rows):
            for name, value in row.items():
                bounds = bounds_of.get(name)
                if bounds is not None and not isinstance(value, str) and not bounds[1] <= value <= bounds[2]:
                    found += [(place, bounds[0], beyond) for beyond in self._beyond(name, value)]
        if not found:
            return None
        beyond_BN = np.zeros((len(rows), len(bounds_of)))
        for place, number, beyond in found:
            beyond_BN[place, number] = beyond
        return beyond_BN

    def measure_vectors_beyond(self, values_BN: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the same for vectors."""
        if self._ends is None:
            self._ends = np.array([[low, high] for _, low, high in self.bounds.values()]).reshape(-1, 2).T
        outside_BN = (values_BN < self._ends[0]) | (values_BN > self._ends[1])
        if not outside_BN.any():
            return None
        return self.measure_beyond([dict(zip(self.bounds, row, strict=True)) for row in values_BN.tolist()])

    def _beyond(self, name: str, value: float) -> list[float]:
        if any(abs(band.steps(value)) <= 127 for _, band in self.bands.get(name, ())):
            return []
        return [float(min(abs(self._places[name][1].steps(value)) - 127, MOST_BEYOND))]

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
        """Return the column of a name: its own, or past the limit a shared one."""
        if name in self._places or not self.is_full:
            return name
        return f"overflow-{zlib.crc32(name.encode()) % OVERFLOW_COLUMNS}="

    def features(self, rows: Sequence[Row]) -> NDArray[np.int8]:
        """Return features int8 [B, D] of rows. Unknown names and missing values are zeros."""
        places, width = self._places, self.width
        out = bytearray(len(rows) * width)
        for start, row in zip(range(0, len(out), max(width, 1)), rows, strict=False):
            for name, value in row.items():
                full = column_name(name, value)
                known = places.get(full) or places.get(self._key(full))
                if known is not None:
                    self._set(out, start + known[0], known[1], value)
                    if self.bands and not isinstance(value, str):
                        self._set_bands(out, start, known[1].name, value)
        return np.frombuffer(out, np.int8).reshape(len(rows), width)

    def _set(self, out: bytearray, at: int, column: Column, value: Value) -> None:
        if isinstance(value, str) or not column.number:
            out[at] = 127
        elif self.bumps:
            out[at : at + 1 + len(KNOTS)] = BUMP_BYTES[column.quantise(value) + 127]
        else:
            out[at] = column.quantise(value) & 255

    def _set_bands(self, out: bytearray, start: int, name: str, value: float) -> None:
        for place, band in self.bands.get(name, ()):
            if abs(steps := band.steps(value)) <= 127:
                read = BUMP_BYTES[steps + 127] if self.bumps else bytes([steps & 255])
                out[start + place : start + place + len(read) + 1] = read + b"\x7f"

    def vectors(self, values_BN: NDArray[np.float64]) -> NDArray[np.int8]:
        """Return int8 [B, D] for rows whose columns are numbers named 0..N-1, in that order, and their bands."""
        if self._scales is None:
            self._scales = Scales.of(self.columns, False), Scales.of(self.columns, True)
        numbers, bands = self._scales
        steps_BN = np.rint(np.ldexp(values_BN, numbers.exponents)) - numbers.centres
        q_BN = np.minimum(np.maximum(steps_BN, -127), 127)
        known_BX = q_BN.astype(np.int8)
        if self.bumps:
            known_BX = BUMPS[q_BN.astype(np.int64) + 127].reshape(len(q_BN), q_BN.shape[1] * BUMPS.shape[1])
        return np.concatenate([known_BX, self._read_bands(values_BN, bands)], 1) if self.bands else known_BX

    def _read_bands(self, values_BN: NDArray[np.float64], bands: "Scales") -> NDArray[np.int8]:
        steps_BK = np.rint(np.ldexp(values_BN[:, bands.numbers], bands.exponents)) - bands.centres
        inside_BK = np.abs(steps_BK) <= 127
        q_BK = np.where(inside_BK, steps_BK, 0).astype(np.int64)
        read_BKX = BUMPS[q_BK + 127] * inside_BK[..., None] if self.bumps else q_BK[..., None].astype(np.int8)
        marked_BKX = np.concatenate([read_BKX, 127 * inside_BK[..., None].astype(np.int8)], 2)
        _, count, width = marked_BKX.shape
        return marked_BKX.astype(np.int8).reshape(len(values_BN), count * width)

    def epoch(self) -> str:
        """Return the name of this mapping, equal for equal columns in any order."""
        known = sorted(tuple(column.entry) for column in self.columns)
        return hashlib.sha256(json.dumps([known, self.bumps]).encode()).hexdigest()[:12]


def scale_back(quanta: float, exponent: int) -> float:
    """Return the number that lies at so many quanta of 2^-exponent; infinity where float64 has none."""
    try:
        return math.ldexp(quanta, -exponent)
    except OverflowError:
        return math.copysign(math.inf, quanta)


def column_name(name: str, value: Value) -> str:
    """Return the name of a value's column: each value of a category has its own."""
    return name if isinstance(value, float) else f"{name}={value}"


def make_number_column(name: str, values: Sequence[float] | NDArray[np.float64], scale: float | None) -> Column:
    """Return the column of a number: with a declared scale, or fitted to values."""
    return Column.with_scale(name, scale) if scale else Column.fit(name, values)
