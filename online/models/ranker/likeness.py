"""The likeness of a question to the known questions of each reply, from which the chance of a reply is computed.

    familiarity   cosine to the nearest question, or text, that is known to belong to the reply
    closeness     cosine to the centre of all of them; one that is almost the same question counts by itself
    rival         the familiarity of another reply, the most familiar one

One similar question is weak evidence: "How do I become a teacher?" is near "What do I need to get a teacher's card?", and
far from the other questions about that card. A centre is the direction of a sum of int8 features: of the questions that the reply was
right for, and of its text. These sums are exact, so a centre follows from the state alone.

Shapes: R replies, K of them, D features, E exemplars.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray
from online.models.encoders.text import quantise
from online.models.ranker.corrections import Redirection
from online.models.ranker.exemplars import (
    ExemplarIndex,
    normalise_rows,
)
from online.models.statistics.calibration import softmax

Floats = NDArray[np.float32 | np.float64]
Places = NDArray[np.intp]

SOFTMAX_SCALE = 40.0  # score units

DUPLICATE_SLOPE = 3.0  # closeness lost by a cosine that is lower by 1: .95 to one known question is a closeness of .85
LEAST_RIVAL = 0.35  # cosine: in a small repertoire, nothing else being near says little


class Likeness(NamedTuple):
    """Cosines of one question, for each of K replies."""

    familiarity_K: Floats
    closeness_K: Floats
    rival_K: Floats

    @classmethod
    def of(
        cls,
        unit_D: NDArray[np.float32],
        places: NDArray[np.intp],
        familiarity_R: Floats,
        allowed_R: NDArray[np.bool_],
        centres_RD: NDArray[np.int8],
        redirections: Sequence[Redirection],
    ) -> Self:
        """Return the likeness to the replies at these places. allowed_R: the replies that may be given, and so be rivals."""
        familiarity_K = familiarity_R[places]
        closeness_K = find_closeness(unit_D, places, familiarity_K, centres_RD, redirections)
        active_R = mask_superseded(np.where(allowed_R, familiarity_R, -1.0), redirections)
        return cls(familiarity_K, closeness_K, find_rivals(active_R, places))

    def after_others(self, places: NDArray[np.intp], familiarity_R: Floats, allowed_R: NDArray[np.bool_]) -> Self:
        """Return the same for each reply once those before it were rejected, which then are no rivals."""
        left_R, rivals = np.where(allowed_R, familiarity_R, -1.0), list[float]()
        for place in places:
            left_R[place] = -1.0
            rivals.append(left_R.max())
        return self._replace(rival_K=np.maximum(rivals, LEAST_RIVAL))


def find_familiarities(
    unit_D: NDArray[np.float32],
    texts_RD: NDArray[np.float32],
    cosine_E: NDArray[np.float32],
    neighbours: ExemplarIndex,
    redirections: Sequence[Redirection],
) -> NDArray[np.float32]:
    """Return cosine [R] to the nearest question, or text, that is known to belong to each reply, or that it took over.

    texts_RD: the replies' texts as rows of length 1.
    """
    familiarity_R: NDArray[np.float32] = texts_RD @ unit_D
    positive_E = neighbours.reward_E > 0
    np.maximum.at(familiarity_R, neighbours.reply_E[positive_E], cosine_E[positive_E])
    for each in redirections:
        familiarity_R[each.new] = max(familiarity_R[each.new], each.likeness)
    return familiarity_R


def find_closeness(
    unit_D: NDArray[np.float32],
    places: NDArray[np.intp],
    familiarity_K: Floats,
    centres_RD: NDArray[np.int8],
    redirections: Sequence[Redirection],
) -> Floats:
    """Return closeness [K]; a reply that took over questions is as close as the one that had them."""
    own_K = (normalise_rows(centres_RD[places]) * unit_D).sum(1)  # unlike @, the same whatever K is
    for each in redirections:
        old = normalise_rows(centres_RD[each.old : each.old + 1])[0] @ unit_D
        own_K[places == each.new] = np.maximum(own_K[places == each.new], old)
    closeness_K: Floats = np.maximum(own_K, 1 - DUPLICATE_SLOPE * (1 - familiarity_K))
    return closeness_K


def find_rivals(active_R: Floats, places: NDArray[np.intp]) -> Floats:
    """Return the greatest number [K] of another reply than each."""
    best = int(active_R.argmax())
    next_best = np.delete(active_R, best).max(initial=-1.0)
    rival_K: Floats = np.maximum(np.where(places == best, next_best, active_R[best]), LEAST_RIVAL)
    return rival_K


def mask_superseded(active_R: Floats, redirections: Sequence[Redirection]) -> Floats:
    """Return the same without the replies whose questions another one took over."""
    masked_R = active_R.copy()
    masked_R[[each.old for each in redirections]] = -1.0
    return masked_R


def compute_centres(sums_RD: NDArray[np.int64], described_RD: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return int8 [R, D]: centres, as features. sums_RD: of the questions that each reply was right for."""
    total_RD = (sums_RD + described_RD).astype(np.float64)
    return quantise(total_RD / np.maximum(np.linalg.norm(total_RD, axis=1, keepdims=True), 1))


# The chance that a person would thumb a reply up, from how it stands among the candidates.
#
#     familiarity, closeness, rival    cosines, as above
#     lead                             of its score over the next one; below 0 for every reply but the best
#
#     chance = 1 / (1 + exp(-(FAMILIARITY * familiarity + CLOSENESS * closeness - RIVAL * rival
#                             + LEAD * tanh(lead / scale) + BIAS)))
#
# The five numbers are fixed, so a chance follows from the state alone. They are fitted by logistic regression (Platt 1999)
# to rankers that knew the names of 20, 60 or 150 intents of CLINC150 and 0, 1, 3, 7 or 20 training questions of each (two
# seeds): to the best candidate for validation questions of these intents, for those of the other intents, and for questions of no
# intent. They are printed by `python -m benchmarks.chances`, with how well they are calibrated on test questions and a third seed.

FAMILIARITY, CLOSENESS, RIVAL, LEAD, BIAS = 2.86, 11.05, 8.05, 1.33, -3.81
LEAD_SCALE = 40.0  # score units


def estimate_chances(scores_K: Floats, lead: float, likeness: Likeness) -> Floats:
    """Return the chance of each of K candidates, the best first; a later one is never above an earlier one.

    scores_K: their scores, in falling order. lead: of the best over the next one.
    """
    leads_K = scores_K - scores_K[0]
    leads_K[0] = lead
    chances_K: Floats = np.minimum.accumulate(to_chances(leads_K, likeness))
    return chances_K


def to_chances(leads_K: Floats, likeness: Likeness) -> Floats:
    """Return the chance of each of K candidates if it were the best one. leads_K: of each over the next one."""
    known_K = FAMILIARITY * likeness.familiarity_K + CLOSENESS * likeness.closeness_K - RIVAL * likeness.rival_K
    chances_K: Floats = 1 / (1 + np.exp(-known_K - LEAD * np.tanh(leads_K / LEAD_SCALE) - BIAS))
    return chances_K


@dataclass(frozen=True)
class ScoredQuestion:
    """One question as a ranker sees it: the score of each reply, and how like the question is to what is known about it.

    unit_D: its features as a row of length 1. cosine_E: to the rated questions. allowed_R: the replies that may be given.

    redirections: the corrections of scope reply that it is near to.
    """

    unit_D: NDArray[np.float32]
    cosine_E: NDArray[np.float32]
    evidence_R: NDArray[np.float64]
    scores_R: NDArray[np.float32 | np.float64]
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
        """Return how like the question is to what is known about some replies."""
        return Likeness.of(self.unit_D, places, self.familiarity_R, self.allowed_R, centres_RD, self.redirections)


def measure_lead(scores: AnyArray) -> float:
    """Return the lead of the best score over the next one; infinite for a single score."""
    if len(scores) < 2:
        return float("inf")
    next_best, best = np.partition(scores, -2)[-2:]
    return float(best - next_best)
