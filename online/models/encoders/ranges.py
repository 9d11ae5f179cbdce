"""Notices that the numbers of a column left its scale, and fits it another one: a band (`columns`).

    numbers outside every range of a column, ENOUGH of them within SPAN offsets    --> a band around them
    numbers inside, for an eighth of the log within a few quanta of each other     --> a finer band around them

Scales are fitted to the first examples, and a start is not the world: sensors move, prices grow, units change. A band
is appended and changes no other feature, so whatever was learned stays as it is, a single outlier costs nobody their
resolution, and nothing is quantised twice. Where a band begins is a function of the log: numbers are noted one by one,
by the offsets of their examples, wherever a batch ends.

Shapes: B rows, N numbers. A number that a row lacks is NaN.
"""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from online.models.encoders.columns import Column, Columns
from online.schemas.json_values import JSONArray, JSONObject

Floats = NDArray[np.float64]

ENOUGH, SPAN = 16, 320  # numbers outside, and the offsets among which they must be: one in twenty
BLOCK = 64  # offsets after which it is asked whether the numbers need a finer scale
NARROW = 4.0  # quanta: less is no resolution
LEAST_RUN, RUN_SHARE = 96, 8  # numbers, and the share of the log, that must be narrow
MOST_BANDS = 12  # of one number
MOST_FEATURES = 768  # that bands may add in all: memory grows with the square of the features
WIDER = 2  # bits by which a band is coarser than the range that it continues, so that growth needs few of them
NEAR = 8.0  # spreads of the numbers within which they continue a range
REACH = 120  # quanta from the centre of such a band to the end of that range


class ColumnRange(NamedTuple):
    """The range of numbers that a column or a band reads, from low to high."""

    low: float
    high: float
    exponent: int

    @classmethod
    def of(cls, column: Column) -> "ColumnRange":
        """Return the range that a column reads."""
        return cls(*column.find_ends(), column.exponent)

    def holds(self, low: float, high: float) -> bool:
        """Return whether the range includes another one."""
        return self.low <= low and high <= self.high

    def distance(self, value: float) -> float:
        """Return how far outside a number lies; 0 inside."""
        return max(self.low - value, value - self.high, 0.0)


class NumberRun(NamedTuple):
    """Numbers in a row that lie near each other. start: the first offset. size: how many there are."""

    start: int
    size: int
    low: float
    high: float


class RangeWatch:
    """outside: of each column, [offset, number] of the newest that no range holds. runs: of each column, its present run.

    extents: of each column, the count, lowest and highest of its numbers inside ranges, in the present block.
    begins: of each band in order, the first offset whose example may be read with it.
    """

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.outside: dict[str, list[list[float]]] = {}
        self.block = -1
        self.extents: dict[str, list[float]] = {}
        self.runs: dict[str, NumberRun] = {}
        self._pending: list[Floats] = []  # rows of the present block that `extents` do not know yet
        self._names: list[str] = []
        self._known: tuple[Columns | None, int] = (None, 0)
        self._ranges: dict[str, list[ColumnRange]] = {}
        self._low_N = self._high_N = np.zeros(0)

    def observe(self, columns: Columns, offsets: Sequence[int], values_BN: Floats) -> tuple[int, list[Column]]:
        """Note the numbers of rows in order, up to the first that needs a band.

        Return how many rows were noted, and the bands to append before the next one. values_BN: a number for each of
        `columns.numbers`.
        """
        self._know(columns)
        for start, stop in cut_into_blocks(offsets):
            bands = self._begin_block(columns, offsets[start])
            if bands:
                self.begins += [self.block * BLOCK] * len(bands)
                return start, bands
            noted, bands = self._note(columns, offsets[start:stop], values_BN[start:stop])
            if bands:
                self.begins += [offsets[start + noted - 1] + 1] * len(bands)
                return start + noted, bands
        return len(offsets), []

    def summarise(self, columns: Columns, offsets: Sequence[int], values_BN: Floats) -> JSONArray | None:
        """Return the numbers of rows as JSON, for `absorb`: [first offset, numbers outside, extents] of each block.

        None if so many are outside that one of these rows may need a band.
        """
        self._know(columns)
        parts = []
        for start, stop in cut_into_blocks(offsets):
            self.block, self.extents = offsets[start] // BLOCK, {}
            if self._note(columns, offsets[start:stop], values_BN[start:stop])[1]:
                return None
            self._fold()
            outside = {
                name: [each for each in found if each[0] >= offsets[start]] for name, found in self.outside.items()
            }
            parts.append([offsets[start], outside, self.extents])
        return parts

    def absorb(self, columns: Columns, parts: JSONArray) -> bool:
        """Note the numbers of a summary. False, without any change, if one of them needs a band."""
        trial = RangeWatch()
        trial.restore(deepcopy(self.memory()))
        trial._know(columns)
        for offset, outside, extents in parts:
            if trial._begin_block(columns, offset):
                return False
            for name, found in outside.items():
                if any(trial._add_outside(columns, name, *each) for each in found):
                    return False
            for name, extent in extents.items():
                trial._extend(name, *extent)
        self.restore(trial.memory())
        return True

    def _begin_block(self, columns: Columns, offset: int) -> list[Column]:
        """Begin the block of an offset; return the bands that the numbers of the one before need."""
        if offset // BLOCK == self.block:
            return []
        bands = self._end_block(columns, offset)
        self.block = offset // BLOCK
        return bands

    def _know(self, columns: Columns) -> None:
        """Read the ranges of columns, if there are others than before."""
        if self._known[0] is columns and self._known[1] == len(columns.columns):
            return
        self._fold()
        self._known, self._names = (columns, len(columns.columns)), [column.name for column in columns.numbers]
        self._ranges = {
            column.name: [
                ColumnRange.of(column),
                *(ColumnRange.of(band) for _, band in columns.bands.get(column.name, ())),
            ]
            for column in columns.numbers
        }
        self._low_N = np.array([ranges[0].low for ranges in self._ranges.values()])
        self._high_N = np.array([ranges[0].high for ranges in self._ranges.values()])

    def _note(self, columns: Columns, offsets: Sequence[int], values_BN: Floats) -> tuple[int, list[Column]]:
        """Note rows of one block, up to the first that needs bands; return how many, and these."""
        outside_BN = (values_BN < self._low_N) | (values_BN > self._high_N)
        rows, bands = len(offsets), list[Column]()
        if outside_BN.any():
            values_BN = values_BN.copy()
            for row in np.flatnonzero(outside_BN.any(1)).tolist():
                bands = self._note_outside(columns, offsets[row], values_BN[row], np.flatnonzero(outside_BN[row]))
                if bands:
                    rows = row + 1
                    break
        self._pending.append(values_BN[:rows])
        return rows, bands

    def _note_outside(self, columns: Columns, offset: int, values_N: Floats, places: NDArray[np.intp]) -> list[Column]:
        """Note those numbers of a row that no range holds, and make them NaN; return the bands that they need."""
        bands = list[Column]()
        for place in places.tolist():
            name, value = self._names[place], float(values_N[place])
            if any(each.holds(value, value) for each in self._ranges[name]):
                continue
            values_N[place] = np.nan
            if self._add_outside(columns, name, offset, value, len(bands)):
                bands.append(self._fit([number for _, number in self.outside.pop(name)], name))
        return bands

    def _add_outside(self, columns: Columns, name: str, offset: int, value: float, more: int = 0) -> bool:
        """Note a number that no range holds; return whether its column gets a band now. more: bands that others get."""
        newest = [each for each in self.outside.get(name, ()) if each[0] > offset - SPAN]
        self.outside[name] = [*newest, [offset, value]][-ENOUGH:]
        return len(self.outside[name]) == ENOUGH and has_room(columns, name, more)

    def _fit(self, numbers: list[float], name: str) -> Column:
        """Return the band of numbers outside all ranges. One that continues a range is coarser than that, and begins at its end."""
        own = Column.fit(name, numbers)
        middle, spread = sorted(numbers)[len(numbers) // 2], math.ldexp(64.0, -own.exponent)
        nearest = min(self._ranges[name], key=lambda each: each.distance(middle))
        exponent = nearest.exponent - WIDER
        if nearest.distance(middle) > NEAR * spread or own.exponent <= exponent:
            return Column(name, True, own.exponent, own.centre, True)
        is_above = middle > nearest.high
        end = round(math.ldexp(nearest.high if is_above else nearest.low, exponent))
        return Column(name, True, exponent, end + (REACH if is_above else -REACH), True)

    # numbers that lie too near each other for their scale

    def _fold(self) -> None:
        """Let the extents of the present block know all rows."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        rows_BN = np.concatenate(pending)
        counts = np.count_nonzero(~np.isnan(rows_BN), axis=0).tolist()
        lows, highs = np.fmin.reduce(rows_BN).tolist(), np.fmax.reduce(rows_BN).tolist()
        for name, count, low, high in zip(self._names, counts, lows, highs, strict=False):
            if count:
                self._extend(name, count, low, high)

    def _extend(self, name: str, count: int, low: float, high: float) -> None:
        before = self.extents.get(name, [0, low, high])
        self.extents[name] = [before[0] + count, min(before[1], low), max(before[2], high)]

    def _end_block(self, columns: Columns, now: int) -> list[Column]:
        """Return the bands of numbers that have long been too near each other."""
        self._fold()
        extents, self.extents = self.extents, {}
        found = list[Column]()
        for name, (count, low, high) in extents.items():
            run = self._continue(name, self.block * BLOCK, int(count), low, high)
            is_long = run is not None and run.size >= LEAST_RUN and now - run.start >= run.start / RUN_SHARE
            if run is not None and is_long and run.high > run.low and has_room(columns, name, len(found)):
                found.append(fit_finer(name, run))
                del self.runs[name]
        return found

    def _continue(self, name: str, start: int, count: int, low: float, high: float) -> NumberRun | None:
        """Return the run of a column with the numbers of one more block; None if they are not near each other."""
        run = self.runs.pop(name, None)
        if run is not None and self._is_narrow(name, min(low, run.low), max(high, run.high)):
            self.runs[name] = NumberRun(run.start, run.size + count, min(low, run.low), max(high, run.high))
        elif self._is_narrow(name, low, high):
            self.runs[name] = NumberRun(start, count, low, high)
        return self.runs.get(name)

    def _is_narrow(self, name: str, low: float, high: float) -> bool:
        """Return whether the finest range of a column that holds numbers gives them only a few quanta."""
        exponent = max((each.exponent for each in self._ranges.get(name, ()) if each.holds(low, high)), default=None)
        return exponent is not None and math.ldexp(high - low, exponent) <= NARROW

    # state

    def memory(self) -> JSONObject:
        """Return its state as JSON; empty before the first example."""
        self._fold()
        if self.block < 0:
            return {}
        begins = {"begins": self.begins} if self.begins else {}
        return {"outside": self.outside, "block": self.block, "extents": self.extents, "runs": self.runs, **begins}

    def restore(self, memory: JSONObject) -> None:
        """Adopt what `memory` returned."""
        if not memory:
            return
        self.outside, self.block, self.begins = memory["outside"], memory["block"], memory.get("begins", [])
        self.extents, self.runs = memory["extents"], {name: NumberRun(*run) for name, run in memory["runs"].items()}


def cut_into_blocks(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the rows of each block."""
    start = 0
    for _, run in groupby(offsets, lambda offset: offset // BLOCK):
        stop = start + sum(1 for _ in run)
        yield start, stop
        start = stop


def fit_finer(name: str, run: NumberRun) -> Column:
    """Return a band of finer quanta for numbers that lie near each other."""
    middle = run.low + (run.high - run.low) / 2
    column = Column.fit(name, [run.low, middle, run.high])
    return Column(name, True, column.exponent, column.centre, True)


def has_room(columns: Columns, name: str, more: int = 0) -> bool:
    """Return whether a column may get a band, beside `more` others."""
    count = more + sum(map(len, columns.bands.values()))
    features = len(Column(name, True, is_band=True).parts(columns.bumps))
    return len(columns.bands.get(name, ())) < MOST_BANDS and (count + 1) * features <= MOST_FEATURES
