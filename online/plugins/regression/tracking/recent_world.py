"""The newest examples of a regression, in the order of their offsets, and the correction that follows from them.

    (offset, x int8 [D], q) --> TrackedRows: the newest `room` of them, ascending --Tracker, when somebody asks--> Correction

What is stored is a function of the set of examples, so order and batches do not change it. Rows are
stored rather than sums, so that each of them can be retracted and can be weighted by its age.

Numbers are integers, in quanta, until one of them needs more (`wide_targets`).

Shapes: B rows that are added, N stored rows, D features.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray, Tensors
from online.plugins.regression.tracking.members import list_products
from online.plugins.regression.tracking.reach import HIGHEST_LEVEL
from online.plugins.regression.tracking.tracker import BEFORE, ROOM, Correction, Tracker, find_scan_start

Integers = NDArray[np.int64]


class TrackedRows:
    """offsets_N, x_ND, q_N: the stored rows. Each change replaces the arrays."""

    def __init__(self, room: int, width: int = 0) -> None:
        self.room = room
        self.offsets_N: Integers = np.zeros(0, np.int64)
        self.x_ND: NDArray[np.int8] = np.zeros((0, width), np.int8)
        self.q_N: AnyArray = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.offsets_N)

    def add(self, offsets: Sequence[int], x_BD: NDArray[np.int8], q_B: AnyArray) -> bool:
        """Store rows, and drop the oldest beyond `room`. Return whether they were appended in order."""
        given = np.array(offsets, np.int64)
        newest = self.offsets_N[-1:]
        in_order = bool((np.diff(np.concatenate([newest, given])) > 0).all())
        self.offsets_N = np.concatenate([self.offsets_N, given])
        self.x_ND, self.q_N = np.concatenate([self._padded(x_BD.shape[1]), x_BD]), np.concatenate([self.q_N, q_B])
        if not in_order:
            _, last = np.unique(self.offsets_N[::-1], return_index=True)  # of equal offsets, the one added last
            self._keep(len(self.offsets_N) - 1 - last)
        if len(self) > self.room:
            self._keep(slice(len(self) - self.room, None))
        return in_order

    def remove(self, offsets: Sequence[int]) -> None:
        """Remove rows that were retracted."""
        self._keep(np.flatnonzero(~np.isin(self.offsets_N, np.array(offsets, np.int64))))

    def _keep(self, places: NDArray[np.intp] | slice) -> None:
        self.offsets_N, self.x_ND, self.q_N = self.offsets_N[places], self.x_ND[places], self.q_N[places]

    def _padded(self, width: int) -> NDArray[np.int8]:
        """Return the rows with zeros for features that are newer than they."""
        more = width - self.x_ND.shape[1]
        return np.pad(self.x_ND, ((0, 0), (0, more))) if more > 0 else self.x_ND

    def extended(self, start: int, width: int) -> NDArray[np.float64]:
        """z = (1, q, x) of the rows from index `start` on, for features [width]."""
        z_NE = np.ones((len(self) - start, 2 + width))
        z_NE[:, 1], z_NE[:, 2:] = self.q_N[start:], self._padded(width)[start:]
        return z_NE

    def tensors(self, width: int) -> Tensors:
        """Return the rows as tensors, padded to a width."""
        return {
            "offsets": self.offsets_N.copy(),
            "rows": np.ascontiguousarray(self._padded(width)).copy(),
            "quanta": self.q_N.copy(),
        }

    def restore(self, tensors: Tensors) -> None:
        """Adopt what `tensors` returned."""
        self.offsets_N, self.x_ND = tensors["offsets"].copy(), tensors["rows"].copy()
        self.q_N = tensors["quanta"].copy()


class RecentWorld:
    """level: the promised share of numbers inside their intervals."""

    def __init__(self, level: float) -> None:
        self.level = min(level, HIGHEST_LEVEL)
        self.clear()

    def clear(self) -> None:
        """Forget all rows and the correction."""
        self.rows = TrackedRows(ROOM)
        self._tracker: Tracker | None = None
        self.correction: Correction | None = None
        self.is_current = False  # whether `correction` knows all examples

    def count(self, offsets: Sequence[int], x_BD: NDArray[np.int8], q_B: AnyArray, times: int) -> None:
        """Store examples; times=-1 removes them."""
        self.is_current = False
        grows = x_BD.shape[1] > self.rows.x_ND.shape[1]
        in_order = times > 0 and self.rows.add(offsets, x_BD, q_B)
        if times < 0:
            self.rows.remove(offsets)
        if grows or not in_order:
            self._tracker = None

    def is_exhausted(self, count: int) -> bool:
        """Return whether losing one more of `count` examples may require a row that was dropped."""
        needed = count - 1 - max(0, find_scan_start(count - 1, warming=False) - BEFORE)
        return len(self.rows) < count and len(self.rows) - 1 < needed

    def update(self, moments: AnyArray, numbers: list[int], warming: bool) -> None:
        """Compute the correction. moments: of all examples. numbers: the features that are values of numbers."""
        self.correction = self._track(moments, numbers, warming)
        self.is_current = True

    def _track(self, moments: AnyArray, numbers: list[int], warming: bool) -> Correction | None:
        if not len(self.rows):
            return None
        width, dropped = len(moments) - 2, int(moments[0, 0]) - len(self.rows)
        start = max(find_scan_start(int(moments[0, 0]), warming), dropped)
        used = np.flatnonzero(moments.diagonal()[2:])  # features whose examples were all retracted must not count
        if self._tracker is None or (self._tracker.start, self._tracker.used) != (start, len(used)):
            scanned_NE = self.rows.extended(start - dropped, width)
            earlier = moments - (scanned_NE.T @ scanned_NE).astype(moments.dtype)
            before_NE = self.rows.extended(max(0, start - dropped - BEFORE), width)[: -len(scanned_NE)]
            products_2P = list_products([] if warming else sorted(set(numbers) & set(used.tolist())))
            self._tracker = Tracker(earlier, before_NE, products_2P, start, len(used), self.level, warming)
        self._tracker.add(self.rows.extended(start + self._tracker.scanned - dropped, width))
        return self._tracker.correction()

    # state

    def serving_tensors(self) -> Tensors:
        """Return the present correction, which prediction needs."""
        if self.correction is None:
            return {}
        parts = self.correction
        return {f"follow_{name}": getattr(parts, name) for name in ("weights", "products", "scalars")}

    def restore(self, solved: Tensors, tensors: Tensors | None) -> None:
        """solved: with the tensors of `serving_tensors`."""
        self.clear()
        names = ("weights", "products", "scalars")
        if "follow_weights" in solved:
            self.correction = Correction(*(solved[f"follow_{name}"] for name in names))
        self.is_current = True
        if tensors is not None:
            self.rows.restore(tensors)
