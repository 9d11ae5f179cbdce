"""The newest examples of a regression, and the correction that follows from them.

counted examples --> RecentRows --Tracker, when somebody asks--> Correction
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray, Tensors
from online.models.tracking.members import list_products
from online.models.tracking.reach import HIGHEST_LEVEL
from online.models.tracking.recent_rows import TrackedRows
from online.models.tracking.tracker import BEFORE, ROOM, Correction, Tracker, find_scan_start


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
