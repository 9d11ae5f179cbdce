"""The rows of a step, and the parts into which they are cut.

    | fresh rows | replayed rows, first draw | second draw |      sections of a step
      0 0 1 1      0 0 0 1 1 1 -               0 0 0 1 1 1 -     parts 0 and 1; "-" only fills the shape

A part has an equal share of each section, so that a strategy reads it like a whole step. All parts have the same
shape: rows that only fill it have the weight 0. The gradient of the step is the sum of those of its parts.

Shapes: B rows, F fresh rows, D columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray


@dataclass(frozen=True, slots=True)
class FreshRows:
    """The F examples of a micro-batch, the last of which is at `offset`."""

    offset: int
    values_FD: AnyArray
    label_F: NDArray[np.int64]
    liked_F: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StepRows:
    """B rows: fresh ones, then those to replay, from these slots of the buffer.

    sections: how many rows are fresh, and how many belong to each draw. share_B: weights; 0 for rows without effect.
    is_first: whether no step on the micro-batch precedes it.
    """

    x_BD: NDArray[np.float32]
    label_B: NDArray[np.int64]
    liked_B: NDArray[np.bool_]
    share_B: NDArray[np.float32]
    slots: NDArray[np.int64]
    sections: Sequence[int]
    is_first: bool

    @property
    def fresh(self) -> int:
        """The number of fresh rows."""
        return self.sections[0]

    def cut(self, part: int, count: int) -> "StepRows":
        """Part `part` of `count` equal ones; the step itself if there is one."""
        if count == 1:
            return self
        starts = accumulate(self.sections, initial=0)
        taken = [select_rows(start, length, part, count) for start, length in zip(starts, self.sections, strict=False)]
        places_B, is_own_B = (np.concatenate(each) for each in zip(*taken, strict=True))
        fresh = len(taken[0][0])
        return StepRows(
            self.x_BD[places_B],
            self.label_B[places_B],
            self.liked_B[places_B],
            self.share_B[places_B] * is_own_B,
            self.slots[places_B[fresh:] - self.fresh],
            [len(places) for places, _ in taken],
            self.is_first,
        )


def select_rows(start: int, length: int, part: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the places of a part's rows of one section, and whether each belongs to the part or only fills its shape."""
    size = -(-length // count)
    index = np.arange(part * size, (part + 1) * size)
    return start + index % max(length, 1), index < length
