"""How well each reply is known: its ratings, each counted by how far the reply's other ratings agree with it.

    agreement of a thumb up = sum over the reply's other ratings of kernel(cosine) * reward
    counted as                0.3 alone, up to 1 with agreement; 0 where ratings near it contradict it

Where thumbs are sometimes wrong, a wrong thumb up lies anywhere, and the questions that the reply is right for lie
together. So a reply whose few thumbs up are scattered still counts as unknown (see `optimism`). Corrections
and example questions count in full.

Shapes: R replies, N ratings of one reply, D features.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.models.ranker.exemplars import Exemplar, normalise_rows, similarity_kernel, stack_features

ALONE = 0.3  # what a thumb up counts without another rating near it
AGREEMENT = 0.3  # of a thumb up, from which on it would count 1 more
NEWEST = 128  # ratings of a reply that are read: one with more is known well enough


@dataclass(frozen=True, slots=True)
class Support:
    """confirmed_R: the confirmed ratings for each reply. rejected_ratio: the share of all thumbs that are down."""

    confirmed_R: NDArray[np.float64]
    rejected_ratio: float


class SupportCounter:
    """Keeps `Support` up to date: only replies with a changed rating are counted again."""

    def __init__(self) -> None:
        self._ratings: dict[int, dict[int, Exemplar]] = {}  # by reply and offset
        self._confirmed: dict[int, float] = {}  # of replies that have not changed since
        self._thumbs = self._downs = 0

    def add(self, exemplar: Exemplar, times: int = 1) -> None:
        """Count an exemplar (times=-1: remove it)."""
        ratings = self._ratings.setdefault(exemplar.reply, {})
        if times > 0:
            ratings[exemplar.offset] = exemplar
        else:
            del ratings[exemplar.offset]
        self._confirmed.pop(exemplar.reply, None)
        self._thumbs += times * exemplar.thumb
        self._downs += times * (exemplar.thumb and exemplar.reward < 0)

    def count(self, replies: int) -> Support:
        """The support of this many replies."""
        for reply, ratings in self._ratings.items():
            if reply not in self._confirmed:
                newest = [ratings[offset] for offset in sorted(ratings)[-NEWEST:]]
                self._confirmed[reply] = count_confirmed(newest)
        confirmed_R = np.zeros(replies)
        confirmed_R[list(self._confirmed)] = list(self._confirmed.values())
        return Support(confirmed_R, (self._downs + 1) / (self._thumbs + 1))


def count_confirmed(ratings: list[Exemplar]) -> float:
    """The confirmed ratings in favour of one reply."""
    if not ratings:
        return 0.0
    unit_ND = normalise_rows(stack_features([rating.features for rating in ratings]))
    reward_N = np.array([rating.reward for rating in ratings]) / 127
    kernel_NN = similarity_kernel(unit_ND @ unit_ND.T)
    np.fill_diagonal(kernel_NN, 0.0)
    counted_N = np.clip(ALONE + kernel_NN @ reward_N / AGREEMENT, 0.0, 1.0)
    counted_N[[not rating.thumb for rating in ratings]] = 1.0
    return float(counted_N[reward_N > 0].sum())
