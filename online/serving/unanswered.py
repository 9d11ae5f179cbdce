"""Questions that still get no reply, those that mean much the same together, so that one reply can be taught to all.

    store --newest that abstained--> the live version answers them anew --still nothing--> clusters

A question joins the first cluster whose middle it is near; questions come by how often they were asked, then by their
words: the same questions give the same clusters.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import Model
from online.models.encoder import TEXT_WIDTH, text_of
from online.models.exemplars import features_of, unit_rows
from online.store import folded

NEAR = 0.6  # cosine to the middle of a cluster; paraphrases lie at 0.6 to 0.9
LOOKED_AT = 500  # different questions, the newest


@dataclass(slots=True)
class Question:
    """One way to ask. predictions: the ids of those that asked so, the newest first."""

    text: str
    features: bytes
    asked_at: str
    predictions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Cluster:
    middle_D: NDArray[np.float64]
    questions: list[Question] = field(default_factory=list)

    def add(self, question: Question, unit_D: NDArray[np.float32]) -> None:
        self.questions.append(question)
        self.middle_D = self.middle_D + unit_D

    @property
    def count(self) -> int:
        return sum(len(question.predictions) for question in self.questions)


def questions_of(rows: Iterable[dict[str, Any]]) -> list[Question]:
    """rows: of `store.abstained`, the newest first. The same words are one question."""
    found: dict[str, Question] = {}
    for row in rows:
        text = text_of(json.loads(row["input"]))
        if text is None or len(row["features"]) != TEXT_WIDTH:
            continue
        key = folded(text)
        if key not in found and len(found) == LOOKED_AT:
            continue
        question = found.setdefault(key, Question(" ".join(text.split()), row["features"], row["created_at"]))
        question.predictions.append(row["id"])
    return list(found.values())


def still_open(questions: Sequence[Question], model: Model) -> list[Question]:
    """Those that this version answers with nothing, too."""
    if not questions:
        return []
    answers = model.predict([question.features for question in questions])
    return [question for question, answer in zip(questions, answers, strict=True) if answer.choice is None]


def clustered(questions: Sequence[Question]) -> list[Cluster]:
    """The most asked first."""
    if not questions:
        return []
    ordered = sorted(questions, key=lambda question: (-len(question.predictions), folded(question.text)))
    units_QD = unit_rows(features_of([question.features for question in ordered]))
    clusters: list[Cluster] = []
    for question, unit_D in zip(ordered, units_QD, strict=True):
        near = next((each for each in clusters if cosine(each.middle_D, unit_D) >= NEAR), None)
        if near is None:
            near = Cluster(np.zeros(TEXT_WIDTH))
            clusters.append(near)
        near.add(question, unit_D)
    return sorted(clusters, key=lambda cluster: -cluster.count)


def cosine(middle_D: NDArray[np.float64], unit_D: NDArray[np.float32]) -> float:
    return float(middle_D @ unit_D / np.linalg.norm(middle_D))
