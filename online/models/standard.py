"""From encoded inputs to what a network reads: float32 rows of mean 0 and variance 1, as far as is known so far.

    bytes --raw--> values [B, D], NaN where missing --scaled--> float32 [B, W], zeros where missing

The values as they came are what a buffer keeps; their scale follows the stream: the plain mean and variance of the
first MEMORY values of a column, then fading ones. One by one, in order: equal logs give equal bits.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import Tensors, packed, unpacked
from online.models.encoder import OVERFLOW_COLUMNS, TEXT_SCALE, TEXT_WIDTH, named, parse_row

MEMORY = 10_000  # values that a column's scale remembers
TRUSTED = 30  # after so many values, one of them moves the scale by no more than OUTLIER deviations
OUTLIER = 10.0
LARGEST = 1e100  # its square is still a float64
WIDEST = 4.0  # a scaled value lies within +-WIDEST
TEXT_DEVIATION = TEXT_SCALE / np.sqrt(TEXT_WIDTH)  # of one number in a unit vector's int8


class Standard:
    """input: text, vector (of `size` numbers) or table (of at most `limit` columns; names past it share a few)."""

    def __init__(self, input: str, size: int, limit: int) -> None:
        self.input, self.size, self.limit = input, size, limit
        self.columns: dict[str, int] = {}
        self.numeric = np.zeros(0, np.bool_)
        self.count, self.mean, self.variance = (np.zeros(0) for _ in range(3))
        if input != "table":
            self._append([str(place) for place in range(TEXT_WIDTH if input == "text" else size)], input == "vector")

    @property
    def width(self) -> int:
        return len(self.columns)

    @property
    def dtype(self) -> type[np.int8] | type[np.float64]:
        return np.int8 if self.input == "text" else np.float64

    def raw(self, inputs: Sequence[bytes]) -> NDArray[Any]:
        """Values [B, D] as they came; NaN where one is missing or its column is not known."""
        if self.input != "table":
            rows: NDArray[Any] = np.frombuffer(b"".join(inputs), self.dtype).reshape(-1, self.width)
            return rows
        values_BD = np.full((len(inputs), self.width), np.nan)
        for place, data in enumerate(inputs):
            for name, value in parse_row(data).items():
                column = self.columns.get(self._column(named(name, value)))
                if column is not None:
                    values_BD[place, column] = value if isinstance(value, float) and self.numeric[column] else 1.0
        return values_BD

    def see(self, features: bytes) -> NDArray[Any]:
        """The values [D] of one example, after its new columns were admitted and every scale has followed it."""
        if self.input == "table":
            self._admit(features)
        values_D: NDArray[Any] = self.raw([features])[0]
        if self.input != "text":
            self._follow(values_D)
        return values_D

    def scaled(self, values_BD: NDArray[Any], width: int) -> NDArray[np.float32]:
        """float32 [B, W]; columns past D are zeros."""
        out = np.zeros((len(values_BD), width), np.float32)
        if self.input == "text":
            out[:, : self.width] = values_BD / TEXT_DEVIATION
        else:
            deviation = np.where(self.variance > 0, np.sqrt(self.variance), np.inf)  # what never varied says nothing
            known = values_BD.shape[1]
            scaled = (np.clip(values_BD, -LARGEST, LARGEST) - self.mean[:known]) / deviation[:known]
            near = np.clip(scaled, -WIDEST, WIDEST)
            out[:, :known] = np.nan_to_num(near) if self.input == "table" else near  # a table's values may be missing
        return out

    def _follow(self, values_D: NDArray[np.float64]) -> None:
        here = self.numeric & ~np.isnan(values_D)
        self.count += here
        rate = 1 / np.clip(self.count, 1, MEMORY)
        bound = np.where(self.count > TRUSTED, OUTLIER * np.sqrt(self.variance), np.inf)
        bound[bound == 0] = np.inf  # a constant that begins to vary
        away = np.where(here, np.clip(values_D, -LARGEST, LARGEST) - self.mean, 0.0)
        away = np.clip(away, -bound, bound)
        self.mean += rate * away
        grown = (1 - rate) * (self.variance + rate * away * away)
        self.variance = np.where(here, grown, self.variance)

    def _admit(self, features: bytes) -> None:
        row = {named(name, value): isinstance(value, float) for name, value in parse_row(features).items()}
        for name in sorted(row):
            column = self._column(name)
            if column not in self.columns:
                self._append([column], numeric=row[name] and column == name)

    def _append(self, names: Sequence[str], numeric: bool) -> None:
        for name in names:
            self.columns[name] = len(self.columns)
        new = np.zeros(len(names))
        self.numeric = np.append(self.numeric, np.full(len(names), numeric))
        self.count, self.mean = np.append(self.count, new), np.append(self.mean, new)
        self.variance = np.append(self.variance, new if numeric else new + 1)  # a category is 1 where it is, else 0

    def _column(self, name: str) -> str:
        """The column of a name: its own, or past the limit one that it shares."""
        if name in self.columns or len(self.columns) < self.limit - OVERFLOW_COLUMNS:
            return name
        return f"overflow-{zlib.crc32(name.encode()) % OVERFLOW_COLUMNS}="

    def tensors(self) -> Tensors:
        return {
            "columns": packed(list(self.columns) if self.input == "table" else []),
            "numeric": self.numeric,
            "count": self.count.copy(),
            "mean": self.mean.copy(),
            "variance": self.variance,
        }

    def restore(self, tensors: Tensors) -> None:
        if self.input == "table":
            self.columns = {name: place for place, name in enumerate(unpacked(tensors["columns"]))}
        self.numeric, self.variance = tensors["numeric"], tensors["variance"]
        self.count, self.mean = tensors["count"].copy(), tensors["mean"].copy()
