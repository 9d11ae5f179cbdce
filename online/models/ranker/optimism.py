"""The optimistic choice: the reply that may be the best one, by an upper confidence bound (Auer 2002).

    bound of r = chance of r + optimism * rejected / sqrt(1 + near / 0.3 + confirmed)

    chance      softmax of the scores, over the best five replies
    rejected    share of thumbs down among the ratings near the question; without any near it, among all
    near        ratings that r got near the question, by the kernel of the evidence
    confirmed   ratings in favour of r anywhere (`support`)

A reply whose text says nothing about its questions never has the best score, so a greedy choice never tries it.
Where the answers near a question are liked, `rejected` is small and the best reply is given; where they are
rejected, replies about which little is known are tried, if they are plausible (exploration.py).

Shapes: R replies, E exemplars.
"""

import numpy as np

from online.models.ranker.exemplars import ExemplarIndex, similarity_kernel
from online.models.ranker.scored_question import Places, ScoredQuestion
from online.models.ranker.support import Support

COMPARED = 5  # replies that share the chance
NEAR_WEIGHT = 0.3  # ratings near the question that halve the squared uncertainty
PRIOR_WEIGHT = 1.0  # ratings that the share of thumbs down everywhere counts as


def find_optimistic_choice(
    scored: ScoredQuestion, plausible: Places, neighbours: ExemplarIndex, support: Support, optimism: float
) -> int:
    """The reply with the highest bound among the plausible ones."""
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
