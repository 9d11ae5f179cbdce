"""Texts that language models have answered: of conversations of the page, and of those that are recorded for a caller.

Other texts pass through and are not kept. They go with their predictions: when these expire, and when their user is erased.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, tuple_, update
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import ERASED, NO_TEXT
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS


class AnswerTextRow(SQLModel, table=True):
    """The text of one answer. prediction_id: of the router. question_id: the prediction of the model in front; "" for none."""

    __tablename__ = "generated_answer"

    prediction_id: str = Field(primary_key=True)
    model: str
    question_id: str = Field(index=True)
    route: str
    text: str
    created_at: str  # ISO 8601, UTC


ANSWER_TEXTS = table_of(AnswerTextRow)


def add_answer_text(connection: Connection, row: AnswerTextRow) -> None:
    """Store the text of an answer. Where the words of its question were deleted meanwhile, those of its prediction go as well."""
    ids = [each for each in (row.prediction_id, row.question_id) if each]
    words = connection.scalars(select(PREDICTIONS.c.input).where(PREDICTIONS.c.id.in_(ids))).all()
    if len(words) < len(ids) or NO_TEXT in words:
        blank_predictions(connection, [row.prediction_id])
        return
    connection.execute(insert(ANSWER_TEXTS).values(**row.model_dump()))


def load_answer_texts(connection: Connection, questions: Sequence[str]) -> list[AnswerTextRow]:
    """Return the answers to questions of a model in front, in order of time."""
    query = select(ANSWER_TEXTS).where(ANSWER_TEXTS.c.question_id.in_(questions))
    rows = connection.execute(query.order_by(ANSWER_TEXTS.c.created_at, ANSWER_TEXTS.c.prediction_id)).mappings()
    return [AnswerTextRow(**row) for row in rows]


def load_answers_after(connection: Connection, model: str, after: tuple[str, str], limit: int) -> list[AnswerTextRow]:
    """Return the answers of a router that follow one, in order of time. after: its created_at and its id."""
    place = tuple_(ANSWER_TEXTS.c.created_at, ANSWER_TEXTS.c.prediction_id)
    query = select(ANSWER_TEXTS).where(ANSWER_TEXTS.c.model == model, place > after)
    rows = connection.execute(query.order_by(ANSWER_TEXTS.c.created_at, ANSWER_TEXTS.c.prediction_id).limit(limit))
    return [AnswerTextRow(**row) for row in rows.mappings()]


def delete_answer_texts(connection: Connection, ids: Sequence[str]) -> None:
    """Delete the texts of predictions of the router, and of questions that were asked in front of it."""
    gone = ANSWER_TEXTS.c.prediction_id.in_(ids) | ANSWER_TEXTS.c.question_id.in_(ids)
    connection.execute(delete(ANSWER_TEXTS).where(gone))


def blank_answers(connection: Connection, questions: Sequence[str]) -> None:
    """Delete the answers to questions of a model in front, and the words of the router's own predictions. What was learned stays."""
    texts = ANSWER_TEXTS.c.question_id.in_(questions)
    ids = connection.scalars(select(ANSWER_TEXTS.c.prediction_id).where(texts)).all()
    blank_predictions(connection, ids)
    connection.execute(update(FEEDBACK).where(FEEDBACK.c.prediction_id.in_(ids)).values(content=ERASED))
    connection.execute(delete(ANSWER_TEXTS).where(texts))


def blank_predictions(connection: Connection, ids: Sequence[str]) -> None:
    """Delete the words of predictions. What was learned from them stays."""
    connection.execute(update(PREDICTIONS).where(PREDICTIONS.c.id.in_(ids)).values(input=NO_TEXT, user=None))
