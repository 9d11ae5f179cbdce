"""Is a challenger better than the champion? Their losses on the same examples, at every moment of a stream.

losses of the same offset --difference, scaled into [0, 1]--> AverageSequence --> better, worse, undecided
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from online.evaluation.confidence import AverageSequence
from online.evaluation.replay import Loss


@dataclass(slots=True)
class Duel:
    """A challenger against the champion. The difference: how much less the challenger loses, an example.

    numbers: errors of numbers have no bound: there the difference is who was nearer, -1, 0 or 1. decided_at: the number
    of pairs after which 0 was outside of the interval for the first time. waiting: losses whose other is not there yet.
    """

    numbers: bool
    sequence: AverageSequence = field(default_factory=AverageSequence)
    decided_at: int | None = None
    waiting: tuple[dict[int, float | None], dict[int, float | None]] = field(default_factory=lambda: ({}, {}))

    def add(self, champion: Sequence[Loss], challenger: Sequence[Loss]) -> None:
        for side, losses in zip(self.waiting, (champion, challenger), strict=True):
            side.update(losses)
        both = sorted(self.waiting[0].keys() & self.waiting[1].keys())
        pairs = [(self.waiting[0].pop(offset), self.waiting[1].pop(offset)) for offset in both]
        judged = [self._scaled(one, other) for one, other in pairs if one is not None and other is not None]
        if judged:
            before = self.sequence.count
            low, high = self.sequence.add(np.array(judged))
            decided = np.flatnonzero((low > 0.5) | (high < 0.5))
            if self.decided_at is None and len(decided):
                self.decided_at = before + 1 + int(decided[0])

    def _scaled(self, champion: float, challenger: float) -> float:
        """In [0, 1], 0.5 where they are alike."""
        gain = float(np.sign(champion - challenger)) if self.numbers else champion - challenger
        return (gain + 1) / 2

    @property
    def interval(self) -> tuple[float, float]:
        low, high = self.sequence.interval()
        return 2 * low - 1, 2 * high - 1

    @property
    def verdict(self) -> str:
        low, high = self.interval
        return "better" if low > 0 else "worse" if high < 0 else "undecided"

    def told(self) -> dict[str, Any]:
        low, high = self.interval
        count = self.sequence.count
        told = {"pairs": count, "difference": 2 * self.sequence.mean - 1 if count else None, "low": low, "high": high}
        return {**told, "verdict": self.verdict, "decided_at": self.decided_at}
