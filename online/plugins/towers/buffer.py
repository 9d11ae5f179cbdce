"""A replay buffer: a bounded random sample of the examples so far, as they were logged.

    the n-th example goes to slot Philox(seed, offset) mod n, if there is such a slot   (Vitter 1985, algorithm R)
    rows to replay: Philox(seed, offset) again, with replacement

What is stored and drawn depends on the seed and the log alone, never on how often the buffer is read.
"""

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray, Tensors

SLOT, REPLAY = 1, 2  # purposes of draws


def draw_numbers(seed: int, purpose: int, offset: int, count: int, round: int = 0) -> NDArray[np.uint64]:
    """Return counter-based random numbers: equal arguments, equal numbers, on every machine."""
    counter = np.array([0, 0, purpose, round], np.uint64)
    return np.random.Philox(key=np.array([seed, offset], np.uint64), counter=counter).random_raw(count)


class Buffer:
    """Rows over N slots, the first `filled` of them in use.

    label_N: class indices. liked_N: whether the class is right, or known to be wrong. extra_N: what a
    strategy stores with each row.
    """

    def __init__(self, size: int, seed: int, width: int, dtype: type[np.generic]) -> None:
        self.seed = seed
        self.seen = self.filled = 0
        self.values_ND = np.zeros((size, width), dtype)
        self.label_N = np.zeros(size, np.int64)
        self.liked_N = np.zeros(size, np.bool_)
        self.offset_N = np.zeros(size, np.int64)
        self.extra_N: AnyArray = np.zeros((size, 0), np.float32)

    @property
    def size(self) -> int:
        """The number of slots."""
        return len(self.label_N)

    def put(self, offset: int, values_D: AnyArray, label: int, liked: bool) -> int | None:
        """Store an example. Returns its slot, or None if the sample does not include it."""
        self.seen += 1
        place = self._place(offset)
        if place is not None:
            self._widen(len(values_D))
            self.values_ND[place, : len(values_D)] = values_D
            self.label_N[place], self.liked_N[place], self.offset_N[place] = label, liked, offset
        return place

    def _place(self, offset: int) -> int | None:
        if self.filled < self.size:
            self.filled += 1
            return self.filled - 1
        place = int(draw_numbers(self.seed, SLOT, offset, 1)[0] % np.uint64(self.seen))
        return place if place < self.size else None

    def _widen(self, width: int) -> None:
        """Add a table's new columns, which are missing (NaN) in earlier rows."""
        missing = width - self.values_ND.shape[1]
        if missing > 0:
            self.values_ND = np.pad(self.values_ND, ((0, 0), (0, missing)), constant_values=np.nan)

    def draw(self, offset: int, round: int, count: int) -> NDArray[np.int64]:
        """Return slots of `count` rows to replay at `offset`, in the round-th step of a micro-batch."""
        numbers = draw_numbers(self.seed, REPLAY, offset, count, round)
        return (numbers % np.uint64(max(self.filled, 1))).astype(np.int64)

    def forget(self, label: int | None, before: int) -> None:
        """Drop the rows before an offset, of one class or, with None, of all."""
        old = self.offset_N[: self.filled] < before
        kept = np.flatnonzero(~(old & (self.label_N[: self.filled] == label) if label is not None else old))
        for rows in (self.values_ND, self.label_N, self.liked_N, self.offset_N, self.extra_N):
            rows[: len(kept)] = rows[kept]
        self.seen = self.seen * len(kept) // max(self.filled, 1)
        self.filled = len(kept)

    def tensors(self) -> Tensors:
        """Return the used slots as tensors."""
        used = slice(self.filled)
        counts = np.array([self.seen, self.filled], np.int64)
        rows = {
            "values": self.values_ND[used],
            "label": self.label_N[used],
            "liked": self.liked_N[used],
            "offset": self.offset_N[used],
            "extra": self.extra_N[used],
        }
        return {"counts": counts, **{name: tensor.copy() for name, tensor in rows.items()}}

    def restore(self, tensors: Tensors) -> None:
        """Adopt what `tensors` returned."""
        self.seen, self.filled = (int(count) for count in tensors["counts"])
        self.values_ND, self.label_N, self.liked_N = (self._slots(tensors[n]) for n in ("values", "label", "liked"))
        self.offset_N, self.extra_N = (self._slots(tensors[name]) for name in ("offset", "extra"))

    def _slots(self, rows: AnyArray) -> AnyArray:
        """Return the stored rows, followed by the free slots."""
        return np.pad(rows, [(0, self.size - len(rows))] + [(0, 0)] * (rows.ndim - 1))
