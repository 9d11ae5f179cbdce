"""Which candidates are good enough to be given after the replies before them were rejected.

A first answer is given only if something like the question is known to belong to it, if it leads the others, and if its
chance reaches `min_chance`. The next one must do the same among those that are left, and no rated neighbour may speak
against it: otherwise a thumb down would lead to something worse than an honest "I do not know".

Shapes: K candidates.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Options
from online.models.ranker.chances import to_chances
from online.models.ranker.likeness import Likeness

Floats = NDArray[np.floating[Any]]


def find_acceptable(options: Options, leads_K: Floats, evidence_K: Floats, likeness: Likeness) -> NDArray[np.bool_]:
    """bool [K]: the candidates that may follow rejected ones.

    leads_K: of the score of each over the next one. likeness: with rivals among those after it.
    """
    is_likely_K = to_chances(leads_K, likeness) >= options["min_chance"]
    is_known_K = (likeness.familiarity_K >= options["abstain_below"]) & (leads_K >= options["abstain_margin"])
    accepted: NDArray[np.bool_] = is_likely_K & is_known_K & (evidence_K >= 0)
    return accepted
