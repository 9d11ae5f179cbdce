"""Standardises inputs for a network: float32 rows of mean 0 and variance 1, by running estimates.

    bytes --raw--> values [B, D], NaN where missing --scaled--> float32 [B, W], zeros where missing

A buffer stores the raw values; their scale follows the stream: the plain mean and variance of a
column's first MEMORY values, then fading ones. Where the newest values left that scale, or lie too near each other for
it (`encoders.ranges`), the estimates begin again from them. Updates are one by one and in order, so equal logs
give equal bits. Shapes: B rows, D columns, W inputs of the network.
"""

import math
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray, Tensors, pack_json, unpack_json
from online.models.encoders.columns import OVERFLOW_COLUMNS, Column, Columns, column_name
from online.models.encoders.ranges import RangeWatch
from online.models.encoders.text import TEXT_SCALE, TEXT_WIDTH
from online.models.encoders.values import parse_row
from online.schemas.json_values import JSONObject

MEMORY = 10_000  # values over which a column's scale averages
TRUSTED = 30  # values after which a single one moves the scale by at most OUTLIER deviations
OUTLIER = 10.0
RANGED = 200  # values after which a column has a range
BEGUN_AGAIN = 50  # values that the estimates of a new range count for
LARGEST = 1e100  # largest value; its square is still a float64
WIDEST = 4.0  # a scaled value lies within +-WIDEST
TEXT_DEVIATION = TEXT_SCALE / np.sqrt(TEXT_WIDTH)  # standard deviation of an int8 number of a unit vector


class InputScales:
    """Running scales of the inputs.

    input: text, vector (of `size` numbers) or table (of at most `limit` columns; further names share
    a few).
    """

    def __init__(self, input: str, size: int, limit: int) -> None:
        self.input, self.size, self.limit = input, size, limit
        self.columns: dict[str, int] = {}
        self.numeric = np.zeros(0, np.bool_)
        self.count, self.mean, self.variance = (np.zeros(0) for _ in range(3))
        self.ranges, self.watch = Columns(False, limit), RangeWatch()  # of the columns that have a range
        if input != "table":
            self._append([str(place) for place in range(TEXT_WIDTH if input == "text" else size)], input == "vector")

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def dtype(self) -> type[np.int8] | type[np.float64]:
        """The type in which rows are kept."""
        return np.int8 if self.input == "text" else np.float64

    def raw(self, inputs: Sequence[bytes]) -> AnyArray:
        """Raw values [B, D]; NaN where one is missing or its column is unknown."""
        if self.input != "table":
            rows: AnyArray = np.frombuffer(b"".join(inputs), self.dtype).reshape(-1, self.width)
            return rows
        values_BD = np.full((len(inputs), self.width), np.nan)
        for place, data in enumerate(inputs):
            for name, value in parse_row(data).items():
                column = self.columns.get(self._column(column_name(name, value)))
                if column is not None:
                    values_BD[place, column] = value if isinstance(value, float) and self.numeric[column] else 1.0
        return values_BD

    def observe(self, features: bytes, offset: int) -> AnyArray:
        """Return the raw values [D] of one example, after adding its new columns and updating every scale."""
        if self.input == "table":
            self._admit(features)
        values_D: AnyArray = self.raw([features])[0]
        if self.input != "text":
            self._update_scales(values_D)
            self._watch_ranges(values_D, offset)
        return values_D

    def _watch_ranges(self, values_D: NDArray[np.float64], offset: int) -> None:
        """Begin the estimates of a column again where its values have another range than before."""
        for name in self._list_names(np.flatnonzero(self.numeric & (self.count == RANGED))):
            if name not in {column.name for column in self.ranges.numbers}:
                self.ranges.extend([self._describe_range(name)])
        numbers = [self.columns[column.name] for column in self.ranges.numbers]
        bands = self.watch.observe(self.ranges, [offset], values_D[None, numbers])[1] if numbers else []
        for band in bands:
            place = self.columns[band.name]
            self.mean[place] = math.ldexp(band.centre, -band.exponent)
            self.variance[place] = math.ldexp(32, -band.exponent) ** 2
            self.count[place] = BEGUN_AGAIN
        self.ranges.extend(bands)

    def _list_names(self, places: NDArray[np.intp]) -> list[str]:
        names = list(self.columns) if len(places) else []
        return [names[place] for place in places]

    def _describe_range(self, name: str) -> Column:
        """Return the range of a column, as that of a feature: two standard deviations are 64 quanta."""
        mean, deviation = (float(each[self.columns[name]]) for each in (self.mean, np.sqrt(self.variance)))
        return Column.fit(name, [mean - 2 * deviation, mean, mean + 2 * deviation])

    def scaled(self, values_BD: AnyArray, width: int) -> NDArray[np.float32]:
        """Return standardised values, float32 [B, W]; columns past D are zeros."""
        out = np.zeros((len(values_BD), width), np.float32)
        if self.input == "text":
            out[:, : self.width] = values_BD / TEXT_DEVIATION
        else:
            # a constant column has no information
            deviation = np.where(self.variance > 0, np.sqrt(self.variance), np.inf)
            known = values_BD.shape[1]
            scaled = (bounded(values_BD, LARGEST) - self.mean[:known]) / deviation[:known]
            near = bounded(scaled, WIDEST)
            out[:, :known] = np.nan_to_num(near) if self.input == "table" else near  # a table's values may be missing
        return out

    def _update_scales(self, values_D: NDArray[np.float64]) -> None:
        is_present = self.numeric & ~np.isnan(values_D)
        self.count += is_present
        rate = 1 / np.minimum(np.maximum(self.count, 1), MEMORY)
        bound = np.where(self.count > TRUSTED, OUTLIER * np.sqrt(self.variance), np.inf)
        bound[bound == 0] = np.inf  # a constant column that starts to vary
        away = np.where(is_present, bounded(values_D, LARGEST) - self.mean, 0.0)
        away = bounded(away, bound)
        self.mean += rate * away
        grown = (1 - rate) * (self.variance + rate * away * away)
        self.variance = np.where(is_present, grown, self.variance)

    def _admit(self, features: bytes) -> None:
        row = {column_name(name, value): isinstance(value, float) for name, value in parse_row(features).items()}
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
        self.variance = np.append(self.variance, new if numeric else new + 1)  # a category is 1 if present, else 0

    def _column(self, name: str) -> str:
        """Return the column of a name: its own, or past the limit a shared one."""
        if name in self.columns or len(self.columns) < self.limit - OVERFLOW_COLUMNS:
            return name
        return f"overflow-{zlib.crc32(name.encode()) % OVERFLOW_COLUMNS}="

    def tensors(self) -> Tensors:
        """Return the running estimates as tensors."""
        return {
            "columns": pack_json(list(self.columns) if self.input == "table" else []),
            "numeric": self.numeric,
            "count": self.count.copy(),
            "mean": self.mean.copy(),
            "variance": self.variance,
        }

    def memory(self) -> JSONObject:
        """Return the ranges of its columns as JSON. What they decided is in the estimates."""
        columns = [column.entry for column in self.ranges.columns]
        return {"columns": columns, "watch": self.watch.memory()} if columns else {}

    def recall(self, memory: JSONObject) -> None:
        """Adopt what `memory` returned."""
        self.ranges = Columns(False, self.limit, [Column(*entry) for entry in memory.get("columns", ())])
        self.watch = RangeWatch()
        self.watch.restore(memory.get("watch", {}))

    def restore(self, tensors: Tensors) -> None:
        """Adopt what `tensors` returned."""
        if self.input == "table":
            self.columns = {name: place for place, name in enumerate(unpack_json(tensors["columns"]))}
        self.numeric, self.variance = tensors["numeric"], tensors["variance"]
        self.count, self.mean = tensors["count"].copy(), tensors["mean"].copy()
        self.variance = self.variance.copy()


def bounded(values: NDArray[np.float64], bound: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """`np.clip` to [-bound, bound], at a third of its cost for a row."""
    return np.minimum(np.maximum(values, -bound), bound)
