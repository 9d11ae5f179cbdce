"""The newest rows of a regression, in the order of their offsets.

    (offset, x int8 [D], q) --> the newest `room` of them, ascending

What is stored is a function of the set of examples, so order and batches do not change it. Rows are
stored rather than sums, so that each of them can be retracted and can be weighted by its age.

Numbers are integers, in quanta, until one of them needs more (`statistics.wide_targets`).

Shapes: B rows that are added, N stored rows, D features.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray, Tensors

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
