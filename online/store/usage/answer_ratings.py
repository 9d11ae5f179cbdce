"""The sums of the ratings in force of each reply or class, where it was the answer.

They change with the ratings of predictions, in the same transaction, and stay when retention deletes the predictions.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, delete, select, text
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of


class AnswerRatingRow(SQLModel, table=True):
    """answer: the id of the reply, or the class."""

    __tablename__ = "answer_rating"

    model: str = Field(primary_key=True)
    answer: str = Field(primary_key=True)
    good: int
    bad: int


ANSWER_RATINGS = table_of(AnswerRatingRow)
ADD = text(
    "INSERT INTO answer_rating (model, answer, good, bad) VALUES (:model, :answer, :good, :bad) "
    "ON CONFLICT (model, answer) DO UPDATE SET "
    "good = answer_rating.good + excluded.good, bad = answer_rating.bad + excluded.bad"
)


class AnswerRatings(NamedTuple):
    """The ratings that stand: one for each person and prediction."""

    good: int = 0
    bad: int = 0


def add_answer_ratings(connection: Connection, model: str, changes: Mapping[str, AnswerRatings]) -> None:
    """changes: by answer; negative where ratings were taken back. The ratings of the model are locked."""
    rows = [{"model": model, "answer": answer, **changes[answer]._asdict()} for answer in sorted(changes)]
    if rows:
        connection.execute(ADD, rows)


def load_answer_ratings(connection: Connection, model: str, answer: str) -> AnswerRatings:
    """Return the sums of the ratings of one answer."""
    of_answer = (ANSWER_RATINGS.c.model == model, ANSWER_RATINGS.c.answer == answer)
    found = connection.execute(select(ANSWER_RATINGS.c.good, ANSWER_RATINGS.c.bad).where(*of_answer)).one_or_none()
    return AnswerRatings() if found is None else AnswerRatings(*found)


def forget_answers(connection: Connection, model: str, answers: Collection[str]) -> None:
    """Delete the sums of answers whose names are erased."""
    of_answers = (ANSWER_RATINGS.c.model == model, ANSWER_RATINGS.c.answer.in_(answers))
    connection.execute(delete(ANSWER_RATINGS).where(*of_answers))
