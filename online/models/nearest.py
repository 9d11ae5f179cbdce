"""Where the examples of a window lie, and which of them are nearest to a question.

    numbers    [N, D] float64  as they came; NaN where one is missing
    places     [N, D] float32  where in the window's range of its column each lies: 0 the lowest, 1 the highest
    categories [N, G] uint32   crc32 of the value; 0 where there is none

The squared distance is the sum over numbers of (difference of places)^2, and 1 for each category that differs. All of
it is a function of the examples that are in it, in their order, whatever was in it before.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from online.models.encoder import Value

ROOM = 256  # examples there is room for at first
UNKNOWN = 0.5  # the place of a missing number
OUTSIDE = 1.0  # how far outside the range, in ranges, a question may lie: beyond it all is equally far

Numbers = NDArray[np.float64]
Places = NDArray[np.float32]
Row = Numbers | Mapping[str, Value]


class Map:
    """Appended to at the end and dropped from at the start, in place; what else changes makes a new one.

    names: the columns of a table. ranged: whether numbers are seen within their range, or as they are.
    """

    def __init__(self, width: int, names: Sequence[str] = (), ranged: bool = True) -> None:
        self.names = {name: at for at, name in enumerate(names)}
        self.labels: list[str] = []
        self._users = Counter[str]()  # examples by name
        self._members = Counter[str]()  # examples by label
        self._index: dict[str, int] = {}
        width = width or len(names)
        self._ranged = ranged
        self._low, self._high = np.full(width, np.inf), np.full(width, -np.inf)
        self._in_place = True  # whether the places are those of this range
        self._start = self._end = 0
        self._numbers = np.zeros((ROOM, width))
        self._categories = np.zeros((ROOM, len(names)), np.uint32)
        self._label = np.zeros(ROOM, np.intp)
        self._sign = np.zeros(ROOM)
        self._places = np.zeros((ROOM, width), np.float32)
        self._norms = np.zeros(ROOM, np.float32)

    # change

    def append(self, row: Row, label: str, sign: int) -> bool:
        """False, with nothing changed, where the row has a name that is not known."""
        if isinstance(row, Mapping) and not row.keys() <= self.names.keys():
            return False
        if self._end == len(self._label):
            self._make_room()
        at, self._end = self._end, self._end + 1
        self._numbers[at], self._categories[at] = self._read(row)
        self._label[at], self._sign[at] = self._index_of(label), sign
        self._users.update(row.keys() if isinstance(row, Mapping) else ())
        self._members[label] += 1
        self._stretch(self._numbers[at])
        if self._in_place:
            self._place(at, at + 1)
        return True

    def known(self, row: Row) -> Row:
        """The row without the names it was not made for."""
        return {n: value for n, value in row.items() if n in self.names} if isinstance(row, Mapping) else row

    def drop_oldest(self, row: Row, label: str) -> bool:
        """False, and the map is of no more use, where it was the last with its label or with one of its names."""
        names = row.keys() & self.names.keys() if isinstance(row, Mapping) else ()
        self._users.subtract(names)
        self._members[label] -= 1
        gone, self._start = self._numbers[self._start], self._start + 1
        if not (self._members[label] and all(self._users[name] for name in names)):
            return False
        if self._ranged and bool(((gone <= self._low) | (gone >= self._high)).any()):
            self._measure()
        return True

    def _index_of(self, label: str) -> int:
        if label not in self._index:
            self._index[label] = len(self.labels)
            self.labels.append(label)
        return self._index[label]

    def _make_room(self) -> None:
        """Twice what is used, with the oldest moved to the front: each example is moved a bounded number of times."""
        used = slice(self._start, self._end)
        count = self._end - self._start
        for name in ("_numbers", "_categories", "_label", "_sign", "_places", "_norms"):
            old = getattr(self, name)
            new = np.zeros((max(2 * count, ROOM), *old.shape[1:]), old.dtype)
            new[:count] = old[used]
            setattr(self, name, new)
        self._start, self._end = 0, count

    def _read(self, row: Row) -> tuple[Numbers, NDArray[np.uint32]]:
        categories = np.zeros(len(self.names), np.uint32)
        if not isinstance(row, Mapping):
            return row, categories
        numbers = np.full(len(self.names), np.nan)
        for name, value in row.items():
            at = self.names.get(name)
            if at is not None and isinstance(value, str):
                categories[at] = zlib.crc32(value.encode()) or 1
            elif at is not None:
                numbers[at] = value
        return numbers, categories

    # ranges

    def _stretch(self, numbers: Numbers) -> None:
        low, high = np.fmin(self._low, numbers), np.fmax(self._high, numbers)
        self._take_range(low, high)

    def _measure(self) -> None:
        numbers = self._numbers[self._start : self._end]
        self._take_range(np.fmin.reduce(numbers, axis=0), np.fmax.reduce(numbers, axis=0))

    def _take_range(self, low: Numbers, high: Numbers) -> None:
        if not (np.array_equal(low, self._low, True) and np.array_equal(high, self._high, True)):
            self._low, self._high = low, high
            self._in_place = not self._ranged

    def _placed(self, numbers: Numbers) -> Places:
        """Numbers [..., D] as places, float32."""
        if not self._ranged:
            return numbers.astype(np.float32)
        span = self._high - self._low
        with np.errstate(invalid="ignore", over="ignore"):  # a column without numbers; the width of float64
            share = (numbers - self._low) / np.where(span > 0, span, np.inf)
        places = np.where(np.isnan(share), UNKNOWN, np.clip(share, -OUTSIDE, 1 + OUTSIDE))
        return np.asarray(places, np.float32)

    def _place(self, start: int, end: int) -> None:
        places = self._placed(self._numbers[start:end])
        self._places[start:end] = places
        self._norms[start:end] = (places * places).sum(1)

    # ask

    def nearest(self, row: Row, count: int) -> tuple[NDArray[np.intp], NDArray[np.float64], Places]:
        """(label, sign, squared distance) of the `count` nearest, nearest first."""
        if not self._in_place:
            self._place(self._start, self._end)
            self._in_place = True
        squared_N = self._squared_distances(row)
        near = np.arange(len(squared_N)) if len(squared_N) <= count else np.argpartition(squared_N, count)[:count]
        near = near[np.lexsort((near, squared_N[near]))]
        return self._label[self._start + near], self._sign[self._start + near], squared_N[near]

    def _squared_distances(self, row: Row) -> Places:
        used = slice(self._start, self._end)
        numbers, categories = self._read(row)
        place_D = self._placed(numbers)
        squared_N: Places = self._norms[used] - 2 * (self._places[used] @ place_D) + place_D @ place_D
        if categories.size:
            squared_N += (self._categories[used] != categories).sum(1, dtype=np.float32)
        return np.maximum(squared_N, np.float32(0))
