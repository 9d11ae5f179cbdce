"""The optimistic choice: the reply that may be the best one, by an upper confidence bound (Auer 2002).

    bound of r = chance of r + optimism * rejected / sqrt(1 + near / 0.3 + confirmed)

    chance      softmax of the scores, over the best five replies
    rejected    share of thumbs down among the ratings near the question; without any near it, among all
    near        ratings that r got near the question, by the kernel of the evidence
    confirmed   ratings in favour of r anywhere (`support`)

A reply whose text says nothing about its questions never has the best score, so a greedy choice never tries it.
Where the answers near a question are liked, `rejected` is small and the best reply is given; where they are
rejected, replies about which nothing is known are tried. The best reply is also given where ratings near the
question speak for it, and where a correction is near.

Shapes: R replies, E exemplars.
"""

import numpy as np
from numpy.typing import NDArray

from online.models.ranker.exemplars import ALIKE, ExemplarIndex, similarity_kernel
from online.models.ranker.support import Support

COMPARED = 5  # replies that share the chance
NEAR_WEIGHT = 0.3  # ratings near the question that halve the squared uncertainty
PRIOR_WEIGHT = 1.0  # ratings that the share of thumbs down everywhere counts as
BACKED = 0.3  # signed evidence for the best reply from which nothing else is tried: one thumb up at cosine 0.77


def find_optimistic_choice(
    chances_R: NDArray[np.float64],
    allowed_R: NDArray[np.bool_],
    cosine_E: NDArray[np.float32],
    neighbours: ExemplarIndex,
    support: Support,
    optimism: float,
) -> int:
    """The reply with the highest bound. chances_R: of all replies, 0 for those that are not allowed."""
    best = int(chances_R.argmax())
    if cosine_E[neighbours.taught_E].max(initial=-1.0) >= ALIKE:
        return best
    kernel_E = similarity_kernel(cosine_E)
    near = np.flatnonzero(kernel_E)
    reply, weight, reward = neighbours.reply_E[near], kernel_E[near], neighbours.reward_E[near]
    if float((weight * reward)[reply == best].sum()) >= BACKED:
        return best
    near_R = np.bincount(reply, weights=weight * np.abs(reward), minlength=len(chances_R))
    against = float((weight * np.maximum(-reward, 0)).sum())
    rejected = (PRIOR_WEIGHT * support.rejected_ratio + against) / (PRIOR_WEIGHT + float(near_R.sum()))
    uncertainty_R = 1 / np.sqrt(1 + near_R / NEAR_WEIGHT + support.confirmed_R)
    compared = np.partition(chances_R, -COMPARED)[-COMPARED:] if len(chances_R) > COMPARED else chances_R
    bound_R = chances_R / compared.sum() + optimism * rejected * uncertainty_R
    return int(np.where(allowed_R, bound_R, -np.inf).argmax())
