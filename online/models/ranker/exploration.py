"""Which replies a policy may try in place of the best one: those that may well be right, and none where the best one is good.

    the best reply is withheld (choice.py)                      -> nothing: when in doubt, ask back
    a correction of almost this question, or ratings near it,
    speak for the best reply                                    -> nothing: the answer is good already
    belief in the best reply >= `explore_below`                 -> nothing, likewise
    otherwise                                                   -> r, if belief in r >= explore_floor * belief in the best
                                                                          and chance of r >= explore_floor * min_chance

The belief in a reply is its chance, which follows from its own likeness to the question (chances.py), corrected by its ratings near
the question. In a reply that was taught for something else it is next to none. Where the best reply is a guess (a belief
below UNKNOWN), the texts say nothing about such questions: then replies without CONFIRMED ratings may be right as well as
any. `min_chance` bounds that too, so that it happens only where guesses may be given.

Shapes: R replies, K of them, E exemplars.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Options
from online.models.ranker.chances import Floats, to_chances
from online.models.ranker.exemplars import ALIKE, ExemplarIndex, similarity_kernel
from online.models.ranker.scored_question import Places, ScoredQuestion
from online.models.ranker.support import Support

BACKED = 0.3  # signed evidence for the best reply from which nothing else is tried: one thumb up at cosine 0.77
CHANCE_WEIGHT = 0.3  # ratings near the question that a chance counts as
UNKNOWN = 0.5  # belief in the best reply below which it is a guess
CONFIRMED = 1.0  # confirmed ratings (support.py) from which a reply is known by its questions


def find_plausible(
    scored: ScoredQuestion,
    centres_RD: NDArray[np.int8],
    neighbours: ExemplarIndex,
    support: Support | None,
    options: Options,
) -> Places:
    """The replies among which a policy may draw, the best one first, and it alone where nothing else is to be tried."""
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
    """The best reply, and those about which something is known that is like the question; the best score first."""
    is_familiar_K = scored.familiarity_R[scored.ranked] >= options["abstain_below"]
    is_familiar_K[0] = True
    return np.compress(is_familiar_K, scored.ranked)


def estimate_own_chances(scored: ScoredQuestion, places: Places, centres_RD: NDArray[np.int8]) -> Floats:
    """The chance of each reply by its own likeness, also where one before it has a smaller one."""
    leads_K = scored.scores_R[places] - scored.scores_R[places[0]]
    leads_K[0] = scored.lead
    return to_chances(leads_K, scored.compare(places, centres_RD))


class NearRatings(NamedTuple):
    """The ratings near a question for each of K replies, weighed by how near they are: their number, and their sum."""

    weight_K: NDArray[Any]
    signed_K: NDArray[Any]

    @classmethod
    def of(cls, scored: ScoredQuestion, places: Places, neighbours: ExemplarIndex) -> Self:
        signed_E, count = similarity_kernel(scored.cosine_E) * neighbours.reward_E, len(scored.scores_R)
        near = np.flatnonzero(signed_E)
        reply_N, signed_N = neighbours.reply_E[near], signed_E[near]
        weight_R = np.bincount(reply_N, weights=np.abs(signed_N), minlength=count)
        signed_R = np.bincount(reply_N, weights=signed_N, minlength=count)
        return cls(weight_R[places], signed_R[places])

    def correct(self, chances_K: Floats) -> Floats:
        """The share of thumbs up to be expected: by the chances, and by these ratings."""
        liked_K = (self.weight_K + self.signed_K) / 2
        expected_K: Floats = (CHANCE_WEIGHT * chances_K + liked_K) / (CHANCE_WEIGHT + self.weight_K)
        return expected_K
