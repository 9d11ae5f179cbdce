"""Windows over the newest examples of each class, and cuts before which a class is not trusted.

    all sums (exact.py)  -  sums before the class's cut  =  what its mean uses after drift
    newest N rows        -------------------------------->  what its mean uses under a fixed window

Nothing learned is lost: the sums stay whole, and windows only decide which examples the means use
when weights are solved. What is stored is a function of the set of examples and of the cuts, so
order, batches and workers do not change it. Rows are stored rather than a sum per bucket of
offsets: with many classes a bucket holds one example of a class anyway, in two bytes a feature
instead of one, and a window or a cut may fall between any two examples.

Shapes: B examples, C classes, D features.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Tensors, pack_json, unpack_json
from online.models.statistics.exact import ExactStatistics

T = TypeVar("T", np.int8, np.int64)

# newest examples that each class keeps when all are cut: fewer make poor means, more are outdated
KEPT_AT_LEAST = 8


@dataclass(slots=True)
class ClassWindow:
    """The newest rows of one class by offset, and the count and sum of its examples before the cut."""

    offsets: list[int] = field(default_factory=list)  # of the rows, ascending
    rows: dict[int, NDArray[np.int8]] = field(default_factory=dict)
    cut: int = 0
    before: int = 0
    before_D: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    newest_D: NDArray[np.int64] | None = None  # sum under the fixed window; None after a row or the cut changed

    def put(self, offset: int, row: NDArray[np.int8], room: int) -> None:
        """Store a row, and drop the oldest beyond the room."""
        if offset not in self.rows:
            insort(self.offsets, offset)
        self.rows[offset] = row.copy()
        if len(self.offsets) > room:
            del self.rows[self.offsets.pop(0)]

    def drop(self, offset: int) -> None:
        """Remove a row."""
        if self.rows.pop(offset, None) is not None:
            self.offsets.remove(offset)

    def since(self, offset: int) -> list[NDArray[np.int8]]:
        """Return the rows from an offset on."""
        return [self.rows[each] for each in self.offsets[bisect_left(self.offsets, offset) :]]


class Windows:
    """The windows of all classes.

    window: examples of a class that its mean uses (0: all). reach: how many examples back drift can
    cut (0: it cannot). Twice the window is stored, so that as many examples can be retracted before
    a dropped one is needed.
    """

    def __init__(self, window: int = 0, reach: int = 0) -> None:
        if min(window, reach) < 0:
            raise ValueError(
                f"options 'window' and 'drift_window' must be 0 or more examples, not {window} and {reach}"
            )
        self.window, self.reach = window, reach
        self.room = max(2 * window, reach)  # rows of a class
        self.held: dict[str, ClassWindow] = {}

    def add(self, features: NDArray[np.int8], labels: Sequence[str], offsets: Sequence[int], times: int = 1) -> None:
        """Store B examples (int8 [B, D]); times=-1 removes them."""
        if not self.room:
            return
        for row_D, label, offset in zip(features, labels, offsets, strict=True):
            held = self.held.setdefault(label, ClassWindow())
            held.newest_D = None
            if offset < held.cut:
                held.before += times
                held.before_D = pad_row(held.before_D, len(row_D)) + times * row_D.astype(np.int64)
            if times > 0:
                held.put(offset, row_D, self.room)
            else:
                held.drop(offset)

    def cut(self, label: str | None, since: int, statistics: ExactStatistics) -> None:
        """Let the means use only examples from offset `since` on, of one class or, with None, of all.

        When all are cut, each keeps at least its newest KEPT_AT_LEAST. A cut falls after the last
        dropped row, because dropped rows cannot be subtracted one by one, and never moves back.
        """
        if not self.reach:
            return
        for name in sorted(self.held) if label is None else [label]:
            held, count = self.held.get(name, ClassWindow()), self._count(name, statistics)
            at = min([since, *held.offsets[-KEPT_AT_LEAST:][:1]]) if label is None else since
            if len(held.offsets) < count:
                at = max([at, *held.offsets[:1]])
            later = held.since(at)
            if at > held.cut and len(later) < count:
                total_D = statistics.sums[0, statistics.index(name)]
                held.cut, held.newest_D = at, None
                held.before, held.before_D = count - len(later), total_D - sum_rows(later, statistics.width)

    @staticmethod
    def _count(label: str, statistics: ExactStatistics) -> int:
        place = statistics.index(label)
        return 0 if place is None else int(statistics.counts[0, place])

    def exhausted(self, statistics: ExactStatistics) -> bool:
        """Return whether a window that loses one more example may need a dropped one."""
        return any(
            len(held.rows) <= self.window and len(held.rows) < self._count(label, statistics)
            for label, held in self.held.items()
            if self.window
        )

    def compute_mean_sums(self, statistics: ExactStatistics) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return counts [C] and sums [C, D] that the means use; None stands for all examples.

        A class without examples since its cut uses all it has.
        """
        if not any(held.cut or self.window for held in self.held.values()):
            return None
        counts_C, sums_CD = statistics.counts[0].copy(), statistics.sums[0].copy()
        for label, held in self.held.items():
            place = statistics.index(label)
            if place is None or counts_C[place] <= held.before:
                continue
            counts_C[place] -= held.before
            sums_CD[place] -= pad_row(held.before_D, statistics.width)
            if self.window and counts_C[place] > self.window <= len(held.since(held.cut)):
                counts_C[place], sums_CD[place] = self.window, self._newest(held, statistics.width)
        return counts_C, sums_CD

    def _newest(self, held: ClassWindow, width: int) -> NDArray[np.int64]:
        if held.newest_D is None:
            held.newest_D = sum_rows([held.rows[offset] for offset in held.offsets[-self.window :]], width)
        return pad_row(held.newest_D, width)

    def count_cuts(self) -> int:
        """Return the number of classes that are cut."""
        return sum(held.cut > 0 for held in self.held.values())

    def without_examples(self) -> Windows:
        """Return windows with the same cuts and no examples."""
        copied = Windows(self.window, self.reach)
        copied.held = {label: ClassWindow(cut=held.cut) for label, held in self.held.items() if held.cut}
        return copied

    def merge(self, other: Windows) -> None:
        """Add the examples of another worker.

        Raises ValueError if the two are cut at different offsets, because they do not add up then.
        """
        for label, theirs in other.held.items():
            ours = self.held.setdefault(label, ClassWindow(cut=theirs.cut))
            if ours.cut != theirs.cut:
                raise ValueError(
                    f"the windows of {label!r} begin at {ours.cut} and {theirs.cut}; only workers with the same windows can be merged"
                )
            width = max(len(ours.before_D), len(theirs.before_D))
            ours.before += theirs.before
            ours.before_D, ours.newest_D = pad_row(ours.before_D, width) + pad_row(theirs.before_D, width), None
            for offset, row_D in theirs.rows.items():
                ours.put(offset, row_D, self.room)

    def tensors(self, width: int) -> Tensors:
        """Return copies, ordered by class and offset."""
        used = [(label, held) for label, held in sorted(self.held.items()) if held.rows or held.cut]
        rows = [pad_row(row_D, width) for _, held in used for row_D in held.since(0)]
        before = [pad_row(held.before_D, width) for _, held in used]
        offsets = [offset for _, held in used for offset in held.offsets]
        return {
            "rows": np.array(rows, np.int8).reshape(len(rows), width),
            "offsets": np.array(offsets, np.int64),
            "before": np.array(before, np.int64).reshape(len(used), width),
            "meta": pack_json([[label, len(held.offsets), held.cut, held.before] for label, held in used]),
        }

    def restore(self, tensors: Tensors) -> None:
        """Adopt the windows that a state holds."""
        self.held, end = {}, 0
        for place, (label, count, cut, before) in enumerate(unpack_json(tensors["meta"])):
            start, end = end, end + count
            offsets = tensors["offsets"][start:end].tolist()
            rows = dict(zip(offsets, tensors["rows"][start:end].copy(), strict=True))
            self.held[label] = ClassWindow(offsets, rows, cut, before, tensors["before"][place].copy())


def pad_row(row_D: NDArray[T], width: int) -> NDArray[T]:
    """Return the row [D] extended with zeros for features that are newer than it."""
    return row_D if len(row_D) == width else np.pad(row_D, (0, width - len(row_D)))


def sum_rows(rows: Sequence[NDArray[np.int8]], width: int) -> NDArray[np.int64]:
    """Return the sum [D] of rows that may be narrower than D."""
    total_D: NDArray[np.int64] = (
        np.array([pad_row(row_D, width) for row_D in rows], np.int64).reshape(len(rows), width).sum(0)
    )
    return total_D
