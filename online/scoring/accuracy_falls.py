"""Finds where the accuracy of a model fell, from its learning curve.

segments of the curve --split where the two sides differ most, as long as chance does not explain it--> levels --> fall

A split is made where the difference of two shares is LIMIT standard errors or more. A curve has at most 512 segments,
so chance alone makes one in less than one of a thousand curves of independent answers.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.scoring.prequential import CurveSegment

LIMIT = 5.0  # standard errors
MIN_JUDGED = 30  # answers on either side of a split
MIN_FALL = 0.05  # smaller ones are not worth a reader's time
MAX_DEPTH = 4  # of splits within splits
DEEP_FALL = 0.2  # from here on a fall matters although the accuracy came back
LONG_ANSWERS, LONG_SHARE = 100, 0.1  # and a shallower one if it lasted for so many answers, and for this share of all
FEW_AFTER = 100  # answers; a recovery that rests on fewer may not last

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Level:
    """Consecutive answers of about the same accuracy. after: the offset of the event before the first of them."""

    after: int
    judged: int
    right: float

    @property
    def share(self) -> float:
        return self.right / self.judged


@dataclass(frozen=True, slots=True)
class Fall:
    """The largest fall of a curve. before, after: the accuracies. now: at the end, over the last `judged` answers.

    until: where the accuracy first came back; None if it did not. fallen: the answers in between. total: of the curve.
    """

    offset: int
    before: float
    after: float
    now: float
    judged: int
    until: int | None
    fallen: int
    total: int

    @property
    def has_recovered(self) -> bool:
        return self.now >= self.before - MIN_FALL

    @property
    def has_hardly_recovered(self) -> bool:
        """Whether the recovery rests on few answers."""
        return self.has_recovered and self.judged < FEW_AFTER

    @property
    def matters(self) -> bool:
        """Whether a reader must know of it: a short and shallow one that is well over says nothing about today."""
        is_deep = self.before - self.after >= DEEP_FALL
        is_long = self.fallen >= max(LONG_ANSWERS, LONG_SHARE * self.total)
        return not self.has_recovered or is_deep or is_long or self.has_hardly_recovered


def find_fall(curve: Sequence[CurveSegment]) -> Fall | None:
    """Return the largest fall of the accuracy of the model; None if there is none that matters."""
    levels = find_levels(curve)
    steps = [(one.share - two.share, one, two) for one, two in itertools.pairwise(levels)]
    size, before, after = max(steps, key=lambda step: step[0], default=(0.0, None, None))
    if before is None or after is None or size < MIN_FALL:
        return None
    least, later = before.share - MIN_FALL, levels[levels.index(after) :]
    low = [*itertools.takewhile(lambda level: level.share < least, later)]
    back = later[len(low)] if len(low) < len(later) else None
    recovered = [*itertools.takewhile(lambda level: level.share >= least, reversed(later))]
    newest = recovered or levels[-1:]
    judged, right = sum(level.judged for level in newest), sum(level.right for level in newest)
    fallen, total = sum(level.judged for level in low), sum(level.judged for level in levels)
    until = None if back is None else back.after
    return Fall(after.after, before.share, after.share, right / judged, judged, until, fallen, total)


def find_levels(curve: Sequence[CurveSegment]) -> list[Level]:
    known = [segment for segment in curve if segment.counts.get("model")]
    if not known:
        return []
    counts_S = np.array([segment.counts["model"] for segment in known], float)
    rights_S = np.array([segment.sums["model"] for segment in known], float)
    starts = [0, *split(counts_S, rights_S, 0, MAX_DEPTH), len(known)]
    return [
        Level(
            known[start - 1].offset if start else 0, int(counts_S[start:stop].sum()), float(rights_S[start:stop].sum())
        )
        for start, stop in itertools.pairwise(starts)
    ]


def split(counts_S: Floats, rights_S: Floats, start: int, depth: int) -> list[int]:
    """Return where the segments are split, in order. start: of the first of them in the curve."""
    if len(counts_S) < 2 or not depth:
        return []
    place, size = find_split(counts_S, rights_S)
    if size < LIMIT:
        return []
    left = split(counts_S[:place], rights_S[:place], start, depth - 1)
    right = split(counts_S[place:], rights_S[place:], start + place, depth - 1)
    return [*left, start + place, *right]


def find_split(counts_S: Floats, rights_S: Floats) -> tuple[int, float]:
    """Return the place that separates the segments best, and the difference there in standard errors."""
    total, right = counts_S.sum(), rights_S.sum()
    before_S, right_before_S = np.cumsum(counts_S)[:-1], np.cumsum(rights_S)[:-1]
    after_S = total - before_S
    share = right / total
    spread = math.sqrt(share * (1 - share)) or math.inf
    gaps_S = np.abs(right_before_S / before_S - (right - right_before_S) / after_S)
    sizes_S = gaps_S / (spread * np.sqrt(1 / before_S + 1 / after_S))
    sizes_S[(before_S < MIN_JUDGED) | (after_S < MIN_JUDGED)] = 0.0
    place = int(sizes_S.argmax())
    return place + 1, float(sizes_S[place])
