"""Questions that still get no reply, grouped by meaning, so that one reply can be taught to a group.

store --newest abstentions--> the live version answers them again --still no reply--> clusters --dismissed?--> shown

A dismissed question stays away, with all that means the same, until enough others have asked since then.

A question joins the first cluster whose mean it is near. Questions are taken by how often they were
asked, then by their text, so the same questions give the same clusters.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import Model
from online.models.encoders.follow_ups import read_text
from online.models.encoders.text import TEXT_WIDTH
from online.models.ranker.exemplars import normalise_rows, stack_features
from online.schemas.json_values import JSONObject
from online.store.database.values import fold_text

MIN_COSINE = 0.6  # to the mean of a cluster; paraphrases are at 0.6 to 0.9
MAX_QUESTIONS = 500  # different ones, the newest
COMES_BACK_AFTER = 5  # users who ask a dismissed question after it was dismissed


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


def collect_questions(rows: Iterable[JSONObject]) -> list[RepeatedQuestion]:
    """Return the different questions among rows of abstentions, newest first."""
    found: dict[str, RepeatedQuestion] = {}
    for row in rows:
        text = read_text(json.loads(row["input"]))
        if text is None or len(row["features"]) != TEXT_WIDTH:
            continue
        key = fold_text(text)
        if key not in found and len(found) == MAX_QUESTIONS:
            continue
        question = found.setdefault(key, RepeatedQuestion(" ".join(text.split()), row["features"], row["created_at"]))
        question.predictions.append(row["id"])
    return list(found.values())


def select_unanswered(questions: Sequence[RepeatedQuestion], model: Model) -> list[RepeatedQuestion]:
    """Return the questions to which this version gives no reply either."""
    if not questions:
        return []
    answers = model.predict([question.features for question in questions])
    return [question for question, answer in zip(questions, answers, strict=True) if answer.choice is None]


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


def leave_out_dismissed(
    clusters: Iterable[Cluster], rows: Iterable[Mapping[str, Any]], dismissed: Mapping[str, str]
) -> list[Cluster]:
    """Return the clusters that a curator should see. rows: of the abstentions. dismissed: prediction -> when it was dismissed."""
    asked = {row["id"]: (row["created_at"], row["user"]) for row in rows} if dismissed else {}
    return [cluster for cluster in clusters if not is_dismissed(cluster, asked, dismissed)]


def is_dismissed(cluster: Cluster, asked: Mapping[str, tuple[str, str | None]], dismissed: Mapping[str, str]) -> bool:
    """asked: prediction -> when, and by which user; predictions without a user count as those of different ones."""
    ids = [id for question in cluster.questions for id in question.predictions]
    since = max((dismissed[id] for id in ids if id in dismissed), default=None)
    if since is None:
        return False
    later = {user if user is not None else id for id in ids for at, user in [asked[id]] if at > since}
    return len(later) < COMES_BACK_AFTER
