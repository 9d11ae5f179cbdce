"""Forgetting on purpose: the newest examples of each class held apart, and cuts before which a class is not believed.

    all sums (exact.py)  -  what lies before the class's cut  =  what its mean rests on after a drift
    newest N rows held apart                                  =  what it rests on under a standing window

Nothing learned is lost: the sums stay whole, and windows decide only what the means rest on when weights are solved.
What is held is a function of the set of examples and of the cuts, so order, batches and workers do not change it.
Rows are held rather than a sum per bucket of offsets: where classes are many, a bucket holds one example of a class
anyway, in two bytes a feature instead of one; and a window, or a cut, may fall between any two examples.

Shapes: B examples, C classes, D features.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from online.models import Tensors, packed, unpacked
from online.models.exact import ExactStatistics

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazily import torch

T = TypeVar("T", np.int8, np.int64)

LEFT = 8  # newest examples a class keeps when all are cut at once: fewer make poor means, more keep what is outdated


@dataclass(slots=True)
class Held:
    """One class: its newest rows by offset, and the count and sums of its examples with offsets below the cut."""

    offsets: list[int] = field(default_factory=list)  # of the rows, ascending
    rows: dict[int, NDArray[np.int8]] = field(default_factory=dict)
    cut: int = 0
    before: int = 0
    before_D: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    newest_D: NDArray[np.int64] | None = None  # the sum under the standing window, until a row or the cut changes

    def put(self, offset: int, row: NDArray[np.int8], room: int) -> None:
        if offset not in self.rows:
            insort(self.offsets, offset)
        self.rows[offset] = row.copy()
        if len(self.offsets) > room:
            del self.rows[self.offsets.pop(0)]

    def drop(self, offset: int) -> None:
        if self.rows.pop(offset, None) is not None:
            self.offsets.remove(offset)

    def since(self, offset: int) -> list[NDArray[np.int8]]:
        return [self.rows[each] for each in self.offsets[bisect_left(self.offsets, offset) :]]


class Windows:
    """window: examples of a class that its mean rests on (0: all). reach: how many back drift can cut (0: it cannot).

    Twice the window is held, so that as many can be taken back again before one is missed that was dropped.
    """

    def __init__(self, window: int = 0, reach: int = 0) -> None:
        if min(window, reach) < 0:
            raise ValueError("a window is a count of examples: options 'window' and 'drift_window' must be 0 or more")
        self.window, self.reach = window, reach
        self.room = max(2 * window, reach)  # rows of a class
        self.held: dict[str, Held] = {}

    def add(self, features: NDArray[np.int8], labels: Sequence[str], offsets: Sequence[int], times: int = 1) -> None:
        """Hold B examples (int8 [B, D]); times=-1 takes them out again."""
        if not self.room:
            return
        for row_D, label, offset in zip(features, labels, offsets, strict=True):
            held = self.held.setdefault(label, Held())
            held.newest_D = None
            if offset < held.cut:
                held.before += times
                held.before_D = wide(held.before_D, len(row_D)) + times * row_D.astype(np.int64)
            if times > 0:
                held.put(offset, row_D, self.room)
            else:
                held.drop(offset)

    def cut(self, label: str | None, since: int, statistics: ExactStatistics) -> None:
        """Rest on what came since, for one label or for all; of all labels, each keeps its newest LEFT at least.

        What was dropped cannot be told apart: a cut falls behind the last of it. A cut never moves back.
        """
        if not self.reach:
            return
        for name in sorted(self.held) if label is None else [label]:
            held, count = self.held.get(name, Held()), self._count(name, statistics)
            at = min([since, *held.offsets[-LEFT:][:1]]) if label is None else since
            if len(held.offsets) < count:
                at = max([at, *held.offsets[:1]])
            left = held.since(at)
            if at > held.cut and len(left) < count:
                total_D = statistics.sums[0, statistics.index(name)].cpu().numpy()
                held.cut, held.newest_D = at, None
                held.before, held.before_D = count - len(left), total_D - added(left, statistics.width)

    @staticmethod
    def _count(label: str, statistics: ExactStatistics) -> int:
        place = statistics.index(label)
        return 0 if place is None else int(statistics.counts[0, place])

    def exhausted(self, statistics: ExactStatistics) -> bool:
        """Whether a window that loses one more example may need one that was dropped."""
        return any(
            len(held.rows) <= self.window and len(held.rows) < self._count(label, statistics)
            for label, held in self.held.items()
            if self.window
        )

    def rested_on(self, statistics: ExactStatistics) -> tuple[Tensor, Tensor] | None:
        """Counts [C] and sums [C, D] that the means rest on; None: all there are.

        A class of which nothing came since its cut rests on all it has.
        """
        if not any(held.cut or self.window for held in self.held.values()):
            return None
        counts_C, sums_CD = statistics.counts[0].cpu().numpy().copy(), statistics.sums[0].cpu().numpy().copy()
        for label, held in self.held.items():
            place = statistics.index(label)
            if place is None or counts_C[place] <= held.before:
                continue
            counts_C[place] -= held.before
            sums_CD[place] -= wide(held.before_D, statistics.width)
            if self.window and counts_C[place] > self.window <= len(held.since(held.cut)):
                counts_C[place], sums_CD[place] = self.window, self._newest(held, statistics.width)
        return torch.from_numpy(counts_C).to(statistics.device), torch.from_numpy(sums_CD).to(statistics.device)

    def _newest(self, held: Held, width: int) -> NDArray[np.int64]:
        if held.newest_D is None:
            held.newest_D = added([held.rows[offset] for offset in held.offsets[-self.window :]], width)
        return wide(held.newest_D, width)

    def cuts(self) -> int:
        """How many classes are cut."""
        return sum(held.cut > 0 for held in self.held.values())

    def emptied(self) -> Windows:
        """The same cuts, without an example."""
        made = Windows(self.window, self.reach)
        made.held = {label: Held(cut=held.cut) for label, held in self.held.items() if held.cut}
        return made

    def merge(self, other: Windows) -> None:
        """Add what another worker holds. Raises ValueError where the two are cut at different offsets."""
        for label, theirs in other.held.items():
            ours = self.held.setdefault(label, Held(cut=theirs.cut))
            if ours.cut != theirs.cut:
                raise ValueError(f"the windows of {label!r} are cut at {ours.cut} and {theirs.cut}: they do not add up")
            width = max(len(ours.before_D), len(theirs.before_D))
            ours.before += theirs.before
            ours.before_D, ours.newest_D = wide(ours.before_D, width) + wide(theirs.before_D, width), None
            for offset, row_D in theirs.rows.items():
                ours.put(offset, row_D, self.room)

    def tensors(self, width: int) -> Tensors:
        """Copies, in the order of labels and offsets."""
        used = [(label, held) for label, held in sorted(self.held.items()) if held.rows or held.cut]
        rows = [wide(row_D, width) for _, held in used for row_D in held.since(0)]
        before = [wide(held.before_D, width) for _, held in used]
        offsets = [offset for _, held in used for offset in held.offsets]
        return {
            "rows": np.array(rows, np.int8).reshape(len(rows), width),
            "offsets": np.array(offsets, np.int64),
            "before": np.array(before, np.int64).reshape(len(used), width),
            "meta": packed([[label, len(held.offsets), held.cut, held.before] for label, held in used]),
        }

    def restore(self, tensors: Tensors) -> None:
        self.held, end = {}, 0
        for place, (label, count, cut, before) in enumerate(unpacked(tensors["meta"])):
            start, end = end, end + count
            offsets = tensors["offsets"][start:end].tolist()
            rows = dict(zip(offsets, tensors["rows"][start:end].copy(), strict=True))
            self.held[label] = Held(offsets, rows, cut, before, tensors["before"][place].copy())


def wide(row_D: NDArray[T], width: int) -> NDArray[T]:
    """With zeros for features that were not known when it was made."""
    return row_D if len(row_D) == width else np.pad(row_D, (0, width - len(row_D)))


def added(rows: Sequence[NDArray[np.int8]], width: int) -> NDArray[np.int64]:
    total_D: NDArray[np.int64] = (
        np.array([wide(row_D, width) for row_D in rows], np.int64).reshape(len(rows), width).sum(0)
    )
    return total_D
