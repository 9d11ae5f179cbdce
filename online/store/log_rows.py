"""Events joined with their predictions and feedback: for exports and curves."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Join, case, delete, func, insert, select
from sqlmodel import Field, SQLModel

from online.store.conversations.turns import TURNS
from online.store.database.tables import table_of
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS, is_kept, restore_features


class TallyRow(SQLModel, table=True):
    """The counts of a model's learning curve so far. format: of `counts`, which is JSON."""

    __tablename__ = "tally"

    model: str = Field(primary_key=True)
    format: int
    counts: str


TALLIES = table_of(TallyRow)


class LogRow(NamedTuple):
    """An event with its feedback and prediction.

    own_input: of the feedback; input: of the prediction. is_about_kept: whether the event is about a prediction that is in
    the store and was not erased.
    """

    offset: int
    body: str
    features: bytes
    user: str | None
    created_at: str | None
    learned_at: str | None
    prediction_id: str | None
    own_input: str | None
    answer: str | None
    answered_until: int | None
    input: str | None
    is_about_kept: bool


class Outcome(NamedTuple):
    """The event of a feedback.

    choice: the answer that it judges. learned_until: what had been learned when that was given: of its prediction, or of the
    version that was live when a label came with an input; None without either.
    """

    offset: int
    body: str
    created_at: str
    prediction_id: str | None
    choice: str | None
    learned_until: int | None


def load_log_rows(connection: Connection, model: str, after: int, count: int) -> list[LogRow]:
    """Return events after an offset, in order, with their feedback and prediction, to export a log."""
    feedback, prediction = FEEDBACK.alias(), PREDICTIONS.alias()
    joined = EVENTS.outerjoin(
        feedback, (feedback.c.model == EVENTS.c.model) & (feedback.c.id == EVENTS.c.id)
    ).outerjoin(prediction, prediction.c.id == feedback.c.prediction_id)
    given = [feedback.c[name] for name in ("user", "created_at", "learned_at", "prediction_id")]
    own = (feedback.c.input, feedback.c.answer, feedback.c.answered_until)
    is_about_kept = func.coalesce(is_kept(prediction), False)
    columns = (EVENTS.c.offset, EVENTS.c.body, EVENTS.c.features, *given, *own, prediction.c.input, is_about_kept)
    query = select(*columns).select_from(joined)
    page = EVENTS.c.offset.between(after + 1, after + count)  # offsets have no gaps
    return [
        LogRow(*row) for row in connection.execute(query.where(EVENTS.c.model == model, page).order_by(EVENTS.c.offset))
    ]


def select_prediction_order(model: str, head: int) -> Any:
    """Return the query for the predictions of a log that ends at `head`, in the order of the log.

    Those of an erased user are left out. Rows are (id, after, feedback_count). after: the offset behind which the prediction
    stands: what its version had learned, or less where feedback on it comes before that. Such a version had learned a log
    that was lost, because an older backup was restored. feedback_count counts the feedback on the prediction up to `head`.
    """
    about = (FEEDBACK.c.model == model, FEEDBACK.c.offset <= head, FEEDBACK.c.prediction_id.is_not(None))
    counts = select(
        FEEDBACK.c.prediction_id, func.count().label("feedback_count"), func.min(FEEDBACK.c.offset).label("first")
    ).where(*about)
    counted = counts.group_by(FEEDBACK.c.prediction_id).subquery()
    joined = PREDICTIONS.outerjoin(counted, counted.c.prediction_id == PREDICTIONS.c.id)
    feedback_count = func.coalesce(counted.c.feedback_count, 0).label("feedback_count")
    is_before_feedback = counted.c.first.is_(None) | (PREDICTIONS.c.learned_until < counted.c.first)
    after = case((is_before_feedback, PREDICTIONS.c.learned_until), else_=counted.c.first - 1).label("after")
    query = select(PREDICTIONS.c.id, after, feedback_count).select_from(joined)
    in_log = (PREDICTIONS.c.model == model, after <= head, is_kept())
    return query.where(*in_log).order_by(after, PREDICTIONS.c.id)


def load_prediction_rows(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return id -> all columns of the prediction, and the answers to leave out (`exclude`, JSON or None)."""
    joined = PREDICTIONS.outerjoin(TURNS, TURNS.c.prediction_id == PREDICTIONS.c.id)
    query = select(PREDICTIONS, TURNS.c.exclude).select_from(joined)
    found = connection.execute(query.where(PREDICTIONS.c.id.in_(ids))).mappings()
    return {row["id"]: restore_features(row) for row in found}


def load_outcomes(connection: Connection, model: str, after: int, until: int) -> list[Outcome]:
    """Return the events of feedback with offsets in (after, until], in order."""
    joined = feedback_events().outerjoin(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    event = (EVENTS.c.offset, EVENTS.c.body, FEEDBACK.c.created_at, FEEDBACK.c.prediction_id)
    choice = func.coalesce(PREDICTIONS.c.choice, FEEDBACK.c.answer).label("choice")
    learned_until = func.coalesce(PREDICTIONS.c.learned_until, FEEDBACK.c.answered_until).label("learned_until")
    query = select(*event, choice, learned_until).select_from(joined)
    span = (EVENTS.c.model == model, EVENTS.c.offset > after, EVENTS.c.offset <= until)
    return [Outcome(*row) for row in connection.execute(query.where(*span).order_by(EVENTS.c.offset))]


def load_newest_outcomes(
    connection: Connection, model: str, offset: int, count: int
) -> list[tuple[int, str, str | None]]:
    """Return (offset, body, prediction id) of the newest events of feedback up to an offset, newest first."""
    query = select(EVENTS.c.offset, EVENTS.c.body, FEEDBACK.c.prediction_id).select_from(feedback_events())
    newest = query.where(EVENTS.c.model == model, EVENTS.c.offset <= offset).order_by(EVENTS.c.offset.desc())
    return [(at, body, prediction) for at, body, prediction in connection.execute(newest.limit(count))]


def feedback_events() -> Join:
    """Return the join of feedback with its own event, which has the same id."""
    return EVENTS.join(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.id))


def load_counts(connection: Connection, model: str, format: int) -> str | None:
    """Return the saved counts of a model's learning curve; None if there are none in this format."""
    saved = (TALLIES.c.model == model, TALLIES.c.format == format)
    return connection.scalar(select(TALLIES.c.counts).where(*saved))


def save_counts(connection: Connection, model: str, format: int, counts: str) -> None:
    """Save the counts of a model's curve."""
    connection.execute(delete(TALLIES).where(TALLIES.c.model == model))
    connection.execute(insert(TALLIES).values(model=model, format=format, counts=counts))


def load_input(connection: Connection, model: str, offset: int) -> str | None:
    """Return the input that the event at an offset is about, as JSON: the prediction's or its own."""
    at = (FEEDBACK.c.model == model, FEEDBACK.c.offset == offset)
    joined = FEEDBACK.outerjoin(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    input = func.coalesce(PREDICTIONS.c.input, FEEDBACK.c.input)
    found: str | None = connection.scalar(select(input).select_from(joined).where(*at))
    return found
