"""The chance that a person would thumb a reply up, from how it stands among the candidates.

    familiarity, closeness, rival    cosines (likeness.py)
    lead                             of its score over the next one; below 0 for every reply but the best

    chance = 1 / (1 + exp(-(FAMILIARITY * familiarity + CLOSENESS * closeness - RIVAL * rival
                            + LEAD * tanh(lead / scale) + BIAS)))

The five numbers are fixed, so a chance follows from the state alone. They are fitted by logistic regression (Platt 1999)
to rankers that knew the names of 20, 60 or 150 intents of CLINC150 and 0, 1, 3, 7 or 20 training questions of each (two
seeds): to the best candidate for validation questions of these intents, for those of the other intents, and for questions of no
intent. They are printed by `python -m benchmarks.chances`, with how well they are calibrated on test questions and a third seed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models.ranker.likeness import Likeness

Floats = NDArray[np.floating[Any]]

FAMILIARITY, CLOSENESS, RIVAL, LEAD, BIAS = 2.86, 11.05, 8.05, 1.33, -3.81
LEAD_SCALE = 40.0  # score units


def estimate_chances(scores_K: Floats, lead: float, likeness: Likeness) -> Floats:
    """The chance of each of K candidates, the best first; a later one is never above an earlier one.

    scores_K: their scores, in falling order. lead: of the best over the next one.
    """
    leads_K = scores_K - scores_K[0]
    leads_K[0] = lead
    chances_K: Floats = np.minimum.accumulate(to_chances(leads_K, likeness))
    return chances_K


def to_chances(leads_K: Floats, likeness: Likeness) -> Floats:
    """The chance of each of K candidates if it were the best one. leads_K: of each over the next one."""
    known_K = FAMILIARITY * likeness.familiarity_K + CLOSENESS * likeness.closeness_K - RIVAL * likeness.rival_K
    chances_K: Floats = 1 / (1 + np.exp(-known_K - LEAD * np.tanh(leads_K / LEAD_SCALE) - BIAS))
    return chances_K
