"""Selects the replies that a policy may try in place of the best one: those that may well be right, and none where the best one is good.

    the best reply is withheld (choice.py)                      -> nothing: when in doubt, ask back
    a correction of almost this question, or ratings near it,
    speak for the best reply                                    -> nothing: the answer is good already
    belief in the best reply >= `explore_below`                 -> nothing, likewise
    otherwise                                                   -> r, if belief in r >= explore_floor * belief in the best
                                                                          and chance of r >= explore_floor * min_chance

The belief in a reply is its chance, which follows from its own likeness to the question (likeness.py), corrected by its ratings near
the question. In a reply that was taught for something else it is next to none. Where the best reply is a guess (a belief
below UNKNOWN), the texts say nothing about such questions: then replies without CONFIRMED ratings may be right as well as
any. `min_chance` bounds that too, so that it happens only where guesses may be given.

Shapes: R replies, K of them, E exemplars.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray, Options
from online.models.ranker.exemplars import (
    ALIKE,
    Exemplar,
    ExemplarIndex,
    normalise_rows,
    similarity_kernel,
    stack_features,
)
from online.models.ranker.likeness import Floats, Places, ScoredQuestion, to_chances

BACKED = 0.3  # signed evidence for the best reply from which nothing else is tried: one thumb up at cosine 0.77
CHANCE_WEIGHT = 0.3  # ratings near the question that a chance counts as
UNKNOWN = 0.5  # belief in the best reply below which it is a guess
CONFIRMED = 1.0  # confirmed ratings (support.py) from which a reply is known by its questions


# How well each reply is known: its ratings, each counted by how far the reply's other ratings agree with it.
#
#     agreement of a thumb up = sum over the reply's other ratings of kernel(cosine) * reward
#     counted as                0.3 alone, up to 1 with agreement; 0 where ratings near it contradict it
#
# Where thumbs are sometimes wrong, a wrong thumb up lies anywhere, and the questions that the reply is right for lie
# together. So a reply whose few thumbs up are scattered still counts as unknown (see `find_optimistic_choice`). Corrections
# and example questions count in full.
#
# Shapes: R replies, N ratings of one reply, D features.

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
        """Return the support of this many replies."""
        for reply, ratings in self._ratings.items():
            if reply not in self._confirmed:
                newest = [ratings[offset] for offset in sorted(ratings)[-NEWEST:]]
                self._confirmed[reply] = count_confirmed(newest)
        confirmed_R = np.zeros(replies)
        confirmed_R[list(self._confirmed)] = list(self._confirmed.values())
        return Support(confirmed_R, (self._downs + 1) / (self._thumbs + 1))


def count_confirmed(ratings: list[Exemplar]) -> float:
    """Return the confirmed ratings in favour of one reply."""
    if not ratings:
        return 0.0
    unit_ND = normalise_rows(stack_features([rating.features for rating in ratings]))
    reward_N = np.array([rating.reward for rating in ratings]) / 127
    kernel_NN = similarity_kernel(unit_ND @ unit_ND.T)
    np.fill_diagonal(kernel_NN, 0.0)
    counted_N = np.clip(ALONE + kernel_NN @ reward_N / AGREEMENT, 0.0, 1.0)
    counted_N[[not rating.thumb for rating in ratings]] = 1.0
    return float(counted_N[reward_N > 0].sum())


def find_plausible(
    scored: ScoredQuestion,
    centres_RD: NDArray[np.int8],
    neighbours: ExemplarIndex,
    support: Support | None,
    options: Options,
) -> Places:
    """Return the replies among which a policy may draw, the best one first, and it alone where nothing else is to be tried."""
    places = find_familiar(scored, options)
    chances_K = estimate_own_chances(scored, places, centres_RD)
    ratings = NearRatings.of(scored, places, neighbours)
    belief_K = ratings.correct(chances_K)
    is_corrected = scored.cosine_E[neighbours.taught_E].max(initial=-1.0) >= ALIKE
    if is_corrected or ratings.signed_K[0] >= BACKED or belief_K[0] >= options["explore_below"]:
        return places[:1]
    is_plausible_K = belief_K >= options["explore_floor"] * belief_K[0]
    if belief_K[0] < UNKNOWN and support is not None:
        is_plausible_K |= support.confirmed_R[places] < CONFIRMED
    is_plausible_K &= chances_K >= options["explore_floor"] * options["min_chance"]
    is_plausible_K[0] = True
    return np.compress(is_plausible_K, places)


def find_familiar(scored: ScoredQuestion, options: Options) -> Places:
    """Return the best reply, and those about which something is known that is like the question; the best score first."""
    is_familiar_K = scored.familiarity_R[scored.ranked] >= options["abstain_below"]
    is_familiar_K[0] = True
    return np.compress(is_familiar_K, scored.ranked)


def estimate_own_chances(scored: ScoredQuestion, places: Places, centres_RD: NDArray[np.int8]) -> Floats:
    """Return the chance of each reply by its own likeness, also where one before it has a smaller one."""
    leads_K = scored.scores_R[places] - scored.scores_R[places[0]]
    leads_K[0] = scored.lead
    return to_chances(leads_K, scored.compare(places, centres_RD))


class NearRatings(NamedTuple):
    """The ratings near a question for each of K replies, weighed by how near they are: their number, and their sum."""

    weight_K: AnyArray
    signed_K: AnyArray

    @classmethod
    def of(cls, scored: ScoredQuestion, places: Places, neighbours: ExemplarIndex) -> Self:
        """Collect the ratings near a question."""
        signed_E, count = similarity_kernel(scored.cosine_E) * neighbours.reward_E, len(scored.scores_R)
        near = np.flatnonzero(signed_E)
        reply_N, signed_N = neighbours.reply_E[near], signed_E[near]
        weight_R = np.bincount(reply_N, weights=np.abs(signed_N), minlength=count)
        signed_R = np.bincount(reply_N, weights=signed_N, minlength=count)
        return cls(weight_R[places], signed_R[places])

    def correct(self, chances_K: Floats) -> Floats:
        """Return the share of thumbs up to be expected: by the chances, and by these ratings."""
        liked_K = (self.weight_K + self.signed_K) / 2
        expected_K: Floats = (CHANCE_WEIGHT * chances_K + liked_K) / (CHANCE_WEIGHT + self.weight_K)
        return expected_K


# The optimistic choice: the reply that may be the best one, by an upper confidence bound (Auer 2002).
#
#     bound of r = chance of r + optimism * rejected / sqrt(1 + near / 0.3 + confirmed)
#
#     chance      softmax of the scores, over the best five replies
#     rejected    share of thumbs down among the ratings near the question; without any near it, among all
#     near        ratings that r got near the question, by the kernel of the evidence
#     confirmed   ratings in favour of r anywhere (`Support`)
#
# A reply whose text says nothing about its questions never has the best score, so a greedy choice never tries it.
# Where the answers near a question are liked, `rejected` is small and the best reply is given; where they are
# rejected, replies about which little is known are tried, if they are plausible.
#
# Shapes: R replies, E exemplars.

COMPARED = 5  # replies that share the chance
NEAR_WEIGHT = 0.3  # ratings near the question that halve the squared uncertainty
PRIOR_WEIGHT = 1.0  # ratings that the share of thumbs down everywhere counts as


def find_optimistic_choice(
    scored: ScoredQuestion, plausible: Places, neighbours: ExemplarIndex, support: Support, optimism: float
) -> int:
    """Return the reply with the highest bound among the plausible ones."""
    chances_R = scored.shares
    kernel_E = similarity_kernel(scored.cosine_E)
    near = np.flatnonzero(kernel_E)
    reply, weight, reward = neighbours.reply_E[near], kernel_E[near], neighbours.reward_E[near]
    near_R = np.bincount(reply, weights=weight * np.abs(reward), minlength=len(chances_R))
    against = float((weight * np.maximum(-reward, 0)).sum())
    rejected = (PRIOR_WEIGHT * support.rejected_ratio + against) / (PRIOR_WEIGHT + float(near_R.sum()))
    uncertainty_R = 1 / np.sqrt(1 + near_R / NEAR_WEIGHT + support.confirmed_R)
    compared = np.partition(chances_R, -COMPARED)[-COMPARED:] if len(chances_R) > COMPARED else chances_R
    bound_R = chances_R / compared.sum() + optimism * rejected * uncertainty_R
    return int(plausible[bound_R[plausible].argmax()])
