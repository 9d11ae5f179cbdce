"""The lead of a baseline over the model, on the examples that judge both.

scores of the same examples --difference, scaled into [0, 1]--> AverageSequence --> Lead
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from online.scoring.intervals import AverageSequence, last_sum

FAR_POINTS = 0.02  # a baseline is far ahead if its lead in accuracy is surely larger
FAR_SHARE = 0.9  # or if its mean error is at most this share of the model's, and it is surely nearer more often


@dataclass(frozen=True, slots=True)
class Lead:
    """A baseline against the model, on the `pairs` examples that judge both.

    model, other: their accuracies, or their mean absolute errors. low, high: a 95 % interval, valid at every moment,
    of the baseline's lead in accuracy; for numbers, of the share of examples on which it is nearer, less the share on
    which the model is nearer. shared: the baseline's figure on those of the `pairs` that judge the learned baseline too,
    which may run on a sample only; None where there are none.
    """

    baseline: str
    pairs: int
    model: float
    other: float
    low: float
    high: float
    numbers: bool = False
    shared: float | None = None

    @property
    def is_far(self) -> bool:
        """Whether the lead is too large for chance."""
        if self.numbers:
            return self.low > 0 and self.other < FAR_SHARE * self.model
        return self.low > FAR_POINTS

    @property
    def size(self) -> float:
        """The lead as a share: of all examples, or of the model's error."""
        return 1 - self.other / self.model if self.numbers and self.model else self.other - self.model


@dataclass(slots=True)
class LeadCounts:
    """Collects the scores of the model and of a baseline: 1 or 0 for a class, the absolute error of a number."""

    numbers: bool = False
    sequence: AverageSequence = field(default_factory=AverageSequence)
    model: float = 0.0
    other: float = 0.0
    shared: float = 0.0
    shared_pairs: int = 0

    def add_all(
        self,
        model: Sequence[float | None],
        other: Sequence[float | None],
        learned: Sequence[float | None] | None = None,
    ) -> None:
        """Add the scores of consecutive examples; None for one that does not judge.

        learned: the scores of the learned baseline, if it answered any of them.
        """
        pairs = [(one, two) for one, two in zip(model, other, strict=True) if one is not None and two is not None]
        if not pairs:
            return
        model_N, other_N = np.array(pairs).T
        gains_N = np.sign(model_N - other_N) if self.numbers else other_N - model_N
        self.sequence.add((gains_N + 1) / 2)
        self.model, self.other = last_sum(self.model, model_N), last_sum(self.other, other_N)
        self._add_shared(model, other, learned or ())

    def _add_shared(
        self, model: Sequence[float | None], other: Sequence[float | None], learned: Sequence[float | None]
    ) -> None:
        triples = zip(model, other, learned, strict=False)
        shared = [score for one, score, third in triples if one is not None and score is not None and third is not None]
        self.shared, self.shared_pairs = self.shared + sum(shared), self.shared_pairs + len(shared)

    def lead(self, baseline: str) -> Lead | None:
        """Return the lead so far; None without a pair."""
        count = self.sequence.count
        if not count:
            return None
        low, high = (round(2 * end - 1, 6) for end in self.sequence.interval())
        model, other = (float(f"{total / count:.6g}") for total in (self.model, self.other))
        shared = float(f"{self.shared / self.shared_pairs:.6g}") if self.shared_pairs else None
        return Lead(baseline, count, model, other, low, high, self.numbers, shared)
