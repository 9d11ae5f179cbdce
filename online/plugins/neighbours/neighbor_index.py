"""The examples of a window as arrays, and a search for those nearest to a question.

    numbers    [N, D] float64  as logged; NaN where one is missing
    places     [N, D] float32  position in the window's range of its column: 0 the lowest, 1 the highest
    categories [N, G] uint32   crc32 of the value; 0 where there is none

The squared distance is the sum over numbers of (difference of places)^2, plus 1 for each category
that differs. It is a function of the present examples and their order alone.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from online.models.encoders.values import Value

ROOM = 256  # initial capacity, in examples
UNKNOWN = 0.5  # the place of a missing number
OUTSIDE = 1.0  # distance outside the range, in ranges, at which places are clipped

Numbers = NDArray[np.float64]
Places = NDArray[np.float32]
Row = Numbers | Mapping[str, Value]


class NeighborIndex:
    """Grows at the end and shrinks at the start, in place; any other change needs a new index.

    names: the columns of a table. ranged: whether numbers are compared within their range, or as
    they are.
    """

    def __init__(self, width: int, names: Sequence[str] = (), ranged: bool = True) -> None:
        self.names = {name: at for at, name in enumerate(names)}
        self.classes: list[str] = []
        self._users = Counter[str]()  # examples by name
        self._members = Counter[str]()  # examples by label
        self._index: dict[str, int] = {}
        width = width or len(names)
        self._ranged = ranged
        self._low, self._high = np.full(width, np.inf), np.full(width, -np.inf)
        self._in_place = True  # whether the places belong to the present range
        self._start = self._end = 0
        self._numbers = np.zeros((ROOM, width))
        self._categories = np.zeros((ROOM, len(names)), np.uint32)
        self._label = np.zeros(ROOM, np.intp)
        self._sign = np.zeros(ROOM)
        self._places = np.zeros((ROOM, width), np.float32)
        self._norms = np.zeros(ROOM, np.float32)

    # change

    def append(self, row: Row, label: str, sign: int) -> bool:
        """Add a row; False, without any change, if it has an unknown name."""
        if not isinstance(row, np.ndarray) and not row.keys() <= self.names.keys():
            return False
        if self._end == len(self._label):
            self._make_room()
        at, self._end = self._end, self._end + 1
        self._numbers[at], self._categories[at] = self._read(row)
        self._label[at], self._sign[at] = self._index_of(label), sign
        if not isinstance(row, np.ndarray):
            self._users.update(row.keys())
        self._members[label] += 1
        self._extend_range(self._numbers[at])
        if self._in_place:
            self._update_places(at, at + 1)
        return True

    def without_unknown_names(self, row: Row) -> Row:
        """Return the row without unknown names."""
        if isinstance(row, np.ndarray):
            return row
        return {name: value for name, value in row.items() if name in self.names}

    def drop_oldest(self, row: Row, label: str) -> bool:
        """Drop the oldest example; False if it was the last of its class or of a name.

        After False the index is invalid and must be rebuilt.
        """
        names = row.keys() & self.names.keys() if not isinstance(row, np.ndarray) else ()
        self._users.subtract(names)
        self._members[label] -= 1
        gone, self._start = self._numbers[self._start], self._start + 1
        if not (self._members[label] and all(self._users[name] for name in names)):
            return False
        if self._ranged and bool(((gone <= self._low) | (gone >= self._high)).any()):
            self._measure_range()
        return True

    def _index_of(self, label: str) -> int:
        if label not in self._index:
            self._index[label] = len(self.classes)
            self.classes.append(label)
        return self._index[label]

    def _make_room(self) -> None:
        """Double the capacity and move the oldest example to the front, at a bounded cost per example."""
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
        if isinstance(row, np.ndarray):
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

    def _extend_range(self, numbers: Numbers) -> None:
        if ((numbers < self._low) | (numbers > self._high)).any():  # a missing number is neither
            self._set_range(np.fmin(self._low, numbers), np.fmax(self._high, numbers))

    def _measure_range(self) -> None:
        numbers = self._numbers[self._start : self._end]
        self._set_range(np.fmin.reduce(numbers, axis=0), np.fmax.reduce(numbers, axis=0))

    def _set_range(self, low: Numbers, high: Numbers) -> None:
        if not (np.array_equal(low, self._low, True) and np.array_equal(high, self._high, True)):
            self._low, self._high = low, high
            self._in_place = not self._ranged

    def _compute_places(self, numbers: Numbers) -> Places:
        """Return numbers [..., D] as places, float32."""
        if not self._ranged:
            return numbers.astype(np.float32)
        span = self._high - self._low
        with np.errstate(invalid="ignore", over="ignore"):  # a column without numbers; a span beyond float64
            share = (numbers - self._low) / np.where(span > 0, span, np.inf)
        places = np.where(np.isnan(share), UNKNOWN, np.minimum(np.maximum(share, -OUTSIDE), 1 + OUTSIDE))
        return np.asarray(places, np.float32)

    def _update_places(self, start: int, end: int) -> None:
        places = self._compute_places(self._numbers[start:end])
        self._places[start:end] = places
        self._norms[start:end] = (places * places).sum(1)

    # search

    def find_nearest(self, row: Row, count: int) -> tuple[NDArray[np.intp], NDArray[np.float64], Places]:
        """(class index, sign, squared distance) of the `count` nearest examples, nearest first; of equally near, the newest."""
        if not self._in_place:
            self._update_places(self._start, self._end)
            self._in_place = True
        squared_N = self._squared_distances(row)
        near = find_smallest(squared_N, count)
        return self._label[self._start + near], self._sign[self._start + near], squared_N[near]

    def _squared_distances(self, row: Row) -> Places:
        used = slice(self._start, self._end)
        numbers, categories = self._read(row)
        place_D = self._compute_places(numbers)
        squared_N: Places = self._norms[used] - 2 * (self._places[used] @ place_D) + place_D @ place_D
        if categories.size:
            squared_N += (self._categories[used] != categories).sum(1, dtype=np.float32)
        return np.maximum(squared_N, np.float32(0))


def find_smallest(values_N: Places, count: int) -> NDArray[np.intp]:
    """Return the places of the `count` smallest values, the smallest first; of equal ones, the last in the array.

    `argpartition` selects any of equal values, by an algorithm that depends on the processor.
    """
    if len(values_N) > count:
        bound = np.partition(values_N, count - 1)[count - 1]
        below, equal = np.flatnonzero(values_N < bound), np.flatnonzero(values_N == bound)
        near = np.concatenate([below, equal[len(equal) - (count - len(below)) :]])
    else:
        near = np.arange(len(values_N))
    return near[np.lexsort((near, values_N[near]))]
