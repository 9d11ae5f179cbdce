"""The newest answers of a router as its log has them: who answered, with which probability, what it was worth and took."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from online.plugins.router.inputs import RoutedInput
from online.store.conversations.turns import extract_question
from online.store.database.values import ERASED, NO_TEXT
from online.store.feedback import FEEDBACK
from online.store.predictions import PredictionRow, load_predictions

NEWEST = 5_000  # answers of a report
PER_ANSWER = 3  # feedback that is read for each, at most: an outcome, a thumb, a signal
BATCH = 500


@dataclass(slots=True)
class LoggedAnswer:
    """One answer. reward: of the newest thumb or, without any, of the newest signal. cost: US dollars. None: not known."""

    id: str
    created_at: str
    route: str
    propensity: float
    input: RoutedInput
    features: bytes
    question: str
    reward: float | None = None
    cost: float | None = None
    seconds: float | None = None


@dataclass(slots=True)
class GivenFeedback:
    """The feedback about one answer. rewards: the newest by its signal; "" for thumbs and labels."""

    rewards: dict[str, float] = field(default_factory=dict)
    label: str | None = None
    outcome: Mapping[str, float] | None = None

    def add(self, content: Mapping[str, object]) -> None:
        """Add older feedback."""
        reward, label, outcome = content.get("reward"), content.get("label"), content.get("outcome")
        if isinstance(reward, (int, float)):
            self.rewards.setdefault(str(content.get("signal") or ""), float(reward))
        if isinstance(label, str) and self.label is None:
            self.label = label
        if isinstance(outcome, Mapping) and self.outcome is None:
            self.outcome = outcome

    def read_reward(self, route: str) -> float | None:
        """Return what the route's answer was worth; None where nobody has said it."""
        if "" in self.rewards:
            return self.rewards[""]
        if self.label is not None:
            return float(self.label == route)
        return next(iter(self.rewards.values()), None)


def load_answers(connection: Connection, model: str, newest: int = NEWEST) -> list[LoggedAnswer]:
    """Return the newest answers whose outcome or rating is known, in order of time."""
    columns = (FEEDBACK.c.prediction_id, FEEDBACK.c.content)
    known = (FEEDBACK.c.model == model, FEEDBACK.c.prediction_id.is_not(None), FEEDBACK.c.retracted_offset.is_(None))
    query = select(*columns).where(*known).order_by(FEEDBACK.c.offset.desc()).limit(PER_ANSWER * newest)
    given = dict[str, GivenFeedback]()
    for id, content in connection.execute(query):
        if content != ERASED and (id in given or len(given) < newest):
            given.setdefault(id, GivenFeedback()).add(json.loads(content))
    ids, answers = [*given], list[LoggedAnswer]()
    for start in range(0, len(ids), BATCH):
        rows = load_predictions(connection, model, ids[start : start + BATCH])
        answers += [answer for row in rows.values() if (answer := read_answer(row, given[row.id])) is not None]
    return sorted(answers, key=lambda each: (each.created_at, each.id))


def read_answer(row: PredictionRow, given: GivenFeedback) -> LoggedAnswer | None:
    """Return an answer; None for one that was erased, or that no route has given."""
    if row.choice is None or not row.features:
        return None
    outcome = given.outcome or {}
    return LoggedAnswer(
        row.id,
        row.created_at,
        row.choice,
        row.propensity,
        RoutedInput.parse(row.features),
        row.features,
        "" if row.input == NO_TEXT else str(extract_question(json.loads(row.input))),
        given.read_reward(row.choice),
        outcome.get("cost"),
        outcome.get("seconds"),
    )
