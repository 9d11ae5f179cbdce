"""Rows of numbers for scikit-learn, whose estimators read a fixed number of columns.

text     the int8 features of the sentence encoder, D = 384
vector   the numbers themselves, D = size
table    a column for each name in the order in which names appear, D = columns; later names share columns by a hash
all      standardised by the running mean and variance of the examples so far (`scale`)
"""

import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Options
from online.models.encoders.text import TEXT_WIDTH
from online.models.encoders.values import read_row
from online.models.options import INPUT, SIZE, Option, require_size
from online.plugins.libraries.river_estimators import LARGEST

COLUMNS = Option(
    "columns",
    64,
    "Columns of a table, fixed from the start. Names past this number share columns; raise it for tables with more.",
    unit="columns",
    low=1,
    high=100_000,
)
SCALE = Option(
    "scale",
    True,
    "Standardise numbers by the mean and variance so far. Turn it off for counts. Naive Bayes of counts, categories and "
    "bell curves reads numbers as they are given, whatever this says.",
)
OPTIONS = (INPUT, SIZE, COLUMNS, SCALE)
LARGEST_FEATURE = 1e3  # standard deviations; farther ones are clipped, because a step of SGD grows with them


@dataclass(slots=True)
class RowReader:
    """Turns encoded inputs into rows. places: the column of each name. mean, spread: of each column; spread: sum of squares."""

    input: str
    width: int
    scales: bool
    count: int = 0
    places: dict[str, int] = field(default_factory=dict)
    mean: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    spread: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, options: Options) -> "RowReader":
        """Create a reader for the options of a model. Raises ValueError for vectors without a size."""
        require_size(options)
        kind: str = options["input"]
        width = {"text": TEXT_WIDTH, "vector": options["size"], "table": options["columns"]}[kind]
        return cls(kind, width, options["scale"], 0, {}, np.zeros(width), np.zeros(width))

    def admit(self, features: bytes) -> None:
        """Give the names of a row their columns, and let its numbers count for the mean and the variance."""
        if self.input == "table":
            for name in sorted(read_column_values(features)):
                if name not in self.places and len(self.places) < self.width:
                    self.places[name] = len(self.places)
        if self.scales:
            self.count += 1
            x_D = self._read(features)
            before_D = x_D - self.mean
            self.mean = self.mean + before_D / self.count
            self.spread = self.spread + before_D * (x_D - self.mean)

    def row(self, features: bytes) -> NDArray[np.float64]:
        """Return one row, [1, D]."""
        x_D = self._read(features)
        if self.scales and self.count:
            deviation_D = np.sqrt(self.variance)
            x_D = np.divide(x_D - self.mean, deviation_D, out=np.zeros_like(x_D), where=deviation_D > 0)
            x_D = np.clip(x_D, -LARGEST_FEATURE, LARGEST_FEATURE)
        return np.asarray(x_D[None])

    def raw(self, features: bytes) -> NDArray[np.float64]:
        """Return one row as it was given, [1, D]."""
        return np.asarray(self._read(features)[None])

    @property
    def used(self) -> int:
        """How many columns have a name, all of them where they have none; at least 1."""
        return max(len(self.places), 1) if self.input == "table" else self.width

    @property
    def variance(self) -> NDArray[np.float64]:
        """Of each column, [D], over the rows so far."""
        return self.spread / max(self.count, 1)

    def _read(self, features: bytes) -> NDArray[np.float64]:
        if self.input == "text":
            return np.frombuffer(features, np.int8).astype(np.float64)
        if self.input == "vector":
            return np.clip(np.frombuffer(features, np.float64), -LARGEST, LARGEST)
        x_D = np.zeros(self.width)
        is_full = len(self.places) == self.width
        for name, value in read_column_values(features).items():
            place = self.places.get(name)
            if place is None and is_full:
                place = zlib.crc32(name.encode()) % self.width
            if place is not None:  # a name that no example had says nothing yet
                x_D[place] += value
        return np.clip(x_D, -LARGEST, LARGEST)


def read_column_values(features: bytes) -> dict[str, float]:
    """Return the columns of a table's row: numbers by name, and 1 for each `name=category`."""
    return {
        (name if isinstance(value, float) else f"{name}={value}"): (value if isinstance(value, float) else 1.0)
        for name, value in read_row(features).items()
    }
