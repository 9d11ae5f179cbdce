"""The questions that were asked, with what was answered and how that was rated, among the newest predictions.

There is no index by time. New ids sort after older ones of the same kind (see online/store/predictions.py), so each of the two
kinds is read from its end, and only so far.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from online.store.database.values import NO_TEXT
from online.store.predictions import PREDICTIONS, restore_features
from online.store.usage.ratings import RATINGS


class AskedQuestion(NamedTuple):
    """One input that got one answer. choice: None if it got none. newest: the id of its newest prediction."""

    input: str
    choice: str | None
    asked: int
    good: int
    bad: int
    newest: str
    asked_at: str


class QuestionSample(NamedTuple):
    """looked_at: predictions of the model, among the newest ones of all. oldest: the time of the oldest of all, if there are more."""

    questions: list[AskedQuestion]
    looked_at: int
    oldest: str | None


def load_questions(connection: Connection, model: str, since: str, until: str, newest: int) -> QuestionSample:
    """Return the questions in [since, until) among the newest predictions. Words that were erased are left out."""
    found, looked_at, oldest = list[AskedQuestion](), 0, None
    for of_kind in (PREDICTIONS.c.id < ":", PREDICTIONS.c.id >= ":"):
        names = ("id", "model", "input", "choice", "created_at")
        columns = [PREDICTIONS.c[name] for name in names]
        recent = select(*columns).where(of_kind).order_by(PREDICTIONS.c.id.desc()).limit(newest).subquery()
        rated = recent.outerjoin(RATINGS, RATINGS.c.prediction_id == recent.c.id)
        sums = [func.coalesce(func.sum(RATINGS.c[name]), 0) for name in ("good", "bad")]
        query = select(
            recent.c.input, recent.c.choice, func.count(), *sums, func.max(recent.c.id), func.max(recent.c.created_at)
        ).select_from(rated)
        of_model = (recent.c.model == model, recent.c.input != NO_TEXT)
        span = (recent.c.created_at >= since, recent.c.created_at < until)
        rows = connection.execute(query.where(*of_model, *span).group_by(recent.c.input, recent.c.choice))
        found += [
            AskedQuestion(input, choice, asked, int(good), int(bad), *last)
            for input, choice, asked, good, bad, *last in rows
        ]
        of_this = func.count().filter(recent.c.model == model)
        count, of_it, first = connection.execute(select(func.count(), of_this, func.min(recent.c.created_at))).one()
        looked_at += of_it
        if count == newest:
            oldest = first if oldest is None else max(oldest, first)
    return QuestionSample(found, looked_at, oldest)


def load_features(connection: Connection, ids: Sequence[str]) -> dict[str, bytes]:
    """Return id of a prediction -> its features."""
    columns = (PREDICTIONS.c.id, PREDICTIONS.c.input, PREDICTIONS.c.features)
    found = connection.execute(select(*columns).where(PREDICTIONS.c.id.in_(ids))).mappings()
    return {row["id"]: restore_features(row)["features"] for row in found}


def find_oldest_prediction(connection: Connection, model: str) -> str | None:
    """Return about when the oldest prediction that is kept was answered."""
    firsts = [
        connection.scalar(select(PREDICTIONS.c.created_at).where(of_kind).order_by(PREDICTIONS.c.id).limit(1))
        for of_kind in (PREDICTIONS.c.id < ":", PREDICTIONS.c.id >= ":")
    ]
    return min((first for first in firsts if first is not None), default=None)
