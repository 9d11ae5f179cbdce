"""Compares a challenger with the champion by their losses on the same examples, at every moment of a stream.

losses of the same offset --difference, scaled into [0, 1]--> AverageSequence --> better, worse, undecided
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from online.schemas.json_values import JSONObject
from online.scoring.intervals import AverageSequence
from online.scoring.score import Loss


@dataclass(slots=True)
class PairedComparison:
    """Compares a challenger with the champion. The difference is the champion's loss minus the challenger's.

    numbers: whether numbers are predicted; their errors are unbounded, so the difference of an
    example is its sign, -1, 0 or 1. decided_at: the number of pairs after which the interval first
    excluded 0. waiting: losses for which the other model's has not arrived.
    """

    numbers: bool
    sequence: AverageSequence = field(default_factory=AverageSequence)
    decided_at: int | None = None
    waiting: tuple[dict[int, float | None], dict[int, float | None]] = field(default_factory=lambda: ({}, {}))

    def add(self, champion: Sequence[Loss], challenger: Sequence[Loss]) -> None:
        """Add losses of either model, in any chunks."""
        for side, losses in zip(self.waiting, (champion, challenger), strict=True):
            side.update(losses)
        both = sorted(self.waiting[0].keys() & self.waiting[1].keys())
        pairs = [(self.waiting[0].pop(offset), self.waiting[1].pop(offset)) for offset in both]
        differences = [self._scaled(one, other) for one, other in pairs if one is not None and other is not None]
        if differences:
            before = self.sequence.count
            low, high = self.sequence.add(np.array(differences))
            decided = np.flatnonzero((low > 0.5) | (high < 0.5))
            if self.decided_at is None and len(decided):
                self.decided_at = before + 1 + int(decided[0])

    def _scaled(self, champion: float, challenger: float) -> float:
        """Return the difference scaled to [0, 1]; 0.5 if the losses are equal."""
        gain = float(np.sign(champion - challenger)) if self.numbers else champion - challenger
        return (gain + 1) / 2

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the mean difference of losses."""
        low, high = self.sequence.interval()
        return 2 * low - 1, 2 * high - 1

    @property
    def verdict(self) -> str:
        """The verdict: better, worse or undecided."""
        low, high = self.interval
        return "better" if low > 0 else "worse" if high < 0 else "undecided"

    def stands_among(self, count: int) -> bool:
        """Return whether 0 is excluded where so many comparisons are made at once: each may err with a part of the probability."""
        low, high = replace(self.sequence, alpha=self.sequence.alpha / count).interval()
        return low > 0.5 or high < 0.5

    def as_dict(self, among: int = 1) -> JSONObject:
        """among: the number of comparisons that are made."""
        low, high = self.interval
        count = self.sequence.count
        figures = {
            "pairs": count,
            "difference": 2 * self.sequence.mean - 1 if count else None,
            "low": low,
            "high": high,
        }
        stands = self.stands_among(among)
        return {**figures, "verdict": self.verdict, "decided_at": self.decided_at, "stands_among_all": stands}
