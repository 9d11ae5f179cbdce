"""One question as a ranker sees it: the score of each reply, and how like the question is to what is known about it.

Shapes: R replies, K of them, D features, E exemplars.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models.ranker.corrections import Redirection
from online.models.ranker.likeness import Likeness
from online.models.statistics.calibration import softmax

SOFTMAX_SCALE = 40.0

Places = NDArray[np.intp]


@dataclass(frozen=True)
class ScoredQuestion:
    """unit_D: its features as a row of length 1. cosine_E: to the rated questions. allowed_R: the replies that may be given.

    redirections: the corrections of scope reply that it is near to.
    """

    unit_D: NDArray[np.float32]
    cosine_E: NDArray[np.float32]
    evidence_R: NDArray[np.float64]
    scores_R: NDArray[np.floating[Any]]
    allowed_R: NDArray[np.bool_]
    familiarity_R: NDArray[np.float32]
    redirections: Sequence[Redirection]

    @cached_property
    def ranked(self) -> Places:
        """The replies that may be given, the best score first."""
        order = np.argsort(-np.where(self.allowed_R, self.scores_R, -np.inf), kind="stable")
        return order[: self.allowed_R.sum()]

    @cached_property
    def lead(self) -> float:
        """The lead of the best score over the next one; infinite for a single reply."""
        return measure_lead(self.scores_R[self.allowed_R])

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The softmax [R] of the scores, 0 for replies that may not be given."""
        return softmax(np.where(self.allowed_R, self.scores_R / SOFTMAX_SCALE, -np.inf))

    def compare(self, places: Places, centres_RD: NDArray[np.int8]) -> Likeness:
        """How like the question is to what is known about some replies."""
        return Likeness.of(self.unit_D, places, self.familiarity_R, self.allowed_R, centres_RD, self.redirections)


def measure_lead(scores: NDArray[Any]) -> float:
    """The lead of the best score over the next one; infinite for a single score."""
    if len(scores) < 2:
        return float("inf")
    next_best, best = np.partition(scores, -2)[-2:]
    return float(best - next_best)
