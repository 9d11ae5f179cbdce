"""Questions grouped by meaning.

A question joins the first cluster whose mean it is near. Questions are taken by how often they were
asked, then by their text, so the same questions give the same clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from online.models.encoders.text import TEXT_WIDTH
from online.models.ranker.exemplars import normalise_rows, stack_features
from online.store.database.values import fold_text

MIN_COSINE = 0.6  # to the mean of a cluster; paraphrases are at 0.6 to 0.9


@dataclass(slots=True)
class RepeatedQuestion:
    """One text of a question. predictions: ids of its predictions, newest first."""

    text: str
    features: bytes
    asked_at: str
    predictions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Cluster:
    """Questions of similar meaning."""

    questions: list[RepeatedQuestion] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of predictions of all its questions."""
        return sum(len(question.predictions) for question in self.questions)


def cluster_questions(questions: Sequence[RepeatedQuestion]) -> list[Cluster]:
    """Group questions by meaning; the most frequent cluster comes first."""
    if not questions:
        return []
    ordered = sorted(questions, key=lambda question: (-len(question.predictions), fold_text(question.text)))
    units_QD = normalise_rows(stack_features([question.features for question in ordered]))
    clusters, sums_CD = list[Cluster](), np.zeros((len(ordered), TEXT_WIDTH))
    for question, unit_D in zip(ordered, units_QD, strict=True):
        place = find_near(sums_CD[: len(clusters)], unit_D)
        if place == len(clusters):
            clusters.append(Cluster())
        clusters[place].questions.append(question)
        sums_CD[place] += unit_D
    return sorted(clusters, key=lambda cluster: -cluster.count)


def find_near(sums_CD: NDArray[np.float64], unit_D: NDArray[np.float32]) -> int:
    """Return the first cluster whose mean a question is near; their number if there is none."""
    norms_C = np.linalg.norm(sums_CD, axis=1)
    is_near_C = (norms_C > 0) & (sums_CD @ unit_D >= MIN_COSINE * norms_C)
    return int(is_near_C.argmax()) if is_near_C.any() else len(sums_CD)
