"""Questions that still get no reply, grouped by meaning, so that one reply can be taught to a group.

store --newest abstentions--> the live version answers them again --still no reply--> clusters --dismissed?--> shown

A dismissed question stays away, with all that means the same, until enough others have asked since then.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from online.models import Model
from online.models.encoders.follow_ups import read_text
from online.models.encoders.text import TEXT_WIDTH
from online.plugins.moderation.inbox.tables import UnansweredPrediction
from online.serving.repertoire.question_clusters import Cluster, RepeatedQuestion
from online.store.database.values import fold_text

MAX_QUESTIONS = 500  # different ones, the newest
COMES_BACK_AFTER = 5  # users who ask a dismissed question after it was dismissed


def collect_questions(rows: Iterable[UnansweredPrediction]) -> list[RepeatedQuestion]:
    """Return the different questions among rows of abstentions, newest first."""
    found: dict[str, RepeatedQuestion] = {}
    for row in rows:
        text = read_text(json.loads(row.input))
        if text is None or len(row.features) != TEXT_WIDTH:
            continue
        key = fold_text(text)
        if key not in found and len(found) == MAX_QUESTIONS:
            continue
        question = found.setdefault(key, RepeatedQuestion(" ".join(text.split()), row.features, row.created_at))
        question.predictions.append(row.id)
    return list(found.values())


def select_unanswered(questions: Sequence[RepeatedQuestion], model: Model) -> list[RepeatedQuestion]:
    """Return the questions to which this version gives no reply either."""
    if not questions:
        return []
    answers = model.predict([question.features for question in questions])
    return [question for question, answer in zip(questions, answers, strict=True) if answer.choice is None]


def leave_out_dismissed(
    clusters: Iterable[Cluster], rows: Iterable[UnansweredPrediction], dismissed: Mapping[str, str]
) -> list[Cluster]:
    """Return the clusters that a curator should see. rows: of the abstentions. dismissed: prediction -> when it was dismissed."""
    asked = {row.id: (row.created_at, row.user) for row in rows} if dismissed else {}
    return [cluster for cluster in clusters if not is_dismissed(cluster, asked, dismissed)]


def is_dismissed(cluster: Cluster, asked: Mapping[str, tuple[str, str | None]], dismissed: Mapping[str, str]) -> bool:
    """asked: prediction -> when, and by which user; predictions without a user count as those of different ones."""
    ids = [id for question in cluster.questions for id in question.predictions]
    since = max((dismissed[id] for id in ids if id in dismissed), default=None)
    if since is None:
        return False
    later = {user if user is not None else id for id in ids for at, user in [asked[id]] if at > since}
    return len(later) < COMES_BACK_AFTER
