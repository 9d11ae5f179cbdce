"""The ratings of each rated prediction, counted along the log.

    log --events after `counted until`, a page--> the feedback they concern --> its predictions --> their rows, written new
                                                                      what is new in the rows --> counts

A row is computed from the feedback that stands, so a page may be counted again, and a retraction or a replacement takes
its effect when its event is counted. How far the log is counted is in the same transaction.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, func, select, text, update
from sqlmodel import Field, SQLModel

from online.models import spec_of
from online.schemas.events import Event, is_positive
from online.store.database.meta import META, load_kind, save_value
from online.store.database.tables import table_of
from online.store.database.values import insert_rows
from online.store.events import EVENTS, head_of
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS
from online.store.usage.answer_ratings import AnswerRatings, add_answer_ratings, forget_answers
from online.store.usage.counts import UsageCounts, add_counts, quarter_of

PAGE = 1_000  # events counted in one transaction
MAX_IDS = 500  # in one query
UNRATED = ("void", "outcome")  # kinds of events about a prediction that are no rating


class RatingRow(SQLModel, table=True):
    """The ratings of one prediction, as they are counted. quarter: of the question. choice: its answer; None for a number."""

    __tablename__ = "rating"

    prediction_id: str = Field(primary_key=True)
    model: str
    quarter: int
    choice: str | None = None
    rated: int
    good: int
    bad: int
    corrected: int
    helped: int


RATINGS = table_of(RatingRow)
NAMES = ("rated", "good", "bad", "corrected", "helped")


class CountingProgress(NamedTuple):
    """The progress of counting the log, and the log's end."""

    until: int
    head: int

    @property
    def is_complete(self) -> bool:
        """Whether everything is counted."""
        return self.until >= self.head


def load_progress(connection: Connection, model: str) -> CountingProgress:
    """Return how far the ratings are counted."""
    return CountingProgress(load_counted_until(connection, model), head_of(connection, model))


def load_counted_until(connection: Connection, model: str) -> int:
    """Return the offset up to which the ratings are counted."""
    return int(connection.scalar(select(META.c.value).where(META.c.key == counted_key(model))) or 0)


def counted_key(model: str) -> str:
    """Return the key under which the offset is kept."""
    return f"ratings/{model}"


def count_page(connection: Connection, model: str, page: int = PAGE) -> CountingProgress:
    """Count the next events of the log. Several processes may try: they count one after the other."""
    lock_ratings(connection, model)
    progress = load_progress(connection, model)
    if progress.is_complete:
        return progress
    until = min(progress.until + page, progress.head)
    span = (EVENTS.c.model == model, EVENTS.c.offset > progress.until, EVENTS.c.offset <= until)
    owner = func.coalesce(EVENTS.c.feedback_id, EVENTS.c.id)
    update_ratings(connection, model, list(connection.scalars(select(owner).where(*span, EVENTS.c.kind != "void"))))
    save_value(connection, counted_key(model), str(until))
    return CountingProgress(until, progress.head)


def lock_ratings(connection: Connection, model: str) -> None:
    """Let one transaction at a time change ratings: what is new in them depends on what they were."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"online/ratings/{model}"})


def count_until(connection: Connection, model: str, offset: int) -> None:
    """Count the log up to an offset, before something of it is deleted."""
    while load_counted_until(connection, model) < offset and not count_page(connection, model).is_complete:
        pass


def update_ratings(connection: Connection, model: str, feedback: Sequence[str]) -> None:
    """Compute the ratings of the predictions that feedback is about. feedback: ids; others are passed over."""
    lock_ratings(connection, model)
    about = set[str]()
    for ids in pages(sorted({*feedback})):
        of_ids = (FEEDBACK.c.model == model, FEEDBACK.c.id.in_(ids), FEEDBACK.c.prediction_id.is_not(None))
        about.update(connection.scalars(select(FEEDBACK.c.prediction_id).where(*of_ids)))
    for ids in pages(sorted(about)):
        replace_ratings(connection, model, ids, compute_ratings(connection, model, ids))


def replace_ratings(
    connection: Connection, model: str, predictions: Sequence[str], rows: Sequence[dict[str, Any]]
) -> None:
    """Write the ratings of predictions, and add what is new in them to the counts."""
    mine = RATINGS.c.prediction_id.in_(predictions)
    before = [dict(row) for row in connection.execute(select(RATINGS).where(mine)).mappings()]
    connection.execute(delete(RATINGS).where(mine))
    if rows:
        insert_rows(connection, RATINGS, rows)
    add_changes(connection, model, before, rows)


def add_changes(
    connection: Connection, model: str, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> None:
    """Add what is new in the rows of predictions to the counts of their quarters, and to those of their answers."""
    by_quarter = defaultdict[tuple[str, int], list[int]](lambda: [0] * len(NAMES))
    by_answer = defaultdict[str, list[int]](lambda: [0, 0])
    for sign, rows in ((-1, before), (1, after)):
        for row in rows:
            add_to(by_quarter[model, row["quarter"]], [sign * row[name] for name in NAMES])
            if row["choice"] is not None:
                add_to(by_answer[row["choice"]], [sign * row["good"], sign * row["bad"]])
    add_counts(connection, {key: UsageCounts(0, 0, *sums) for key, sums in by_quarter.items() if any(sums)})
    answers = {answer: AnswerRatings(*sums) for answer, sums in by_answer.items() if any(sums)}
    add_answer_ratings(connection, model, answers)


def add_to(sums: list[int], values: Sequence[int]) -> None:
    """Add values to sums, in place."""
    sums[:] = map(sum, zip(sums, values, strict=True))


def compute_ratings(connection: Connection, model: str, predictions: Sequence[str]) -> list[dict[str, object]]:
    """Return the rows of those of the predictions that have feedback that stands."""
    kind = load_kind(connection, model)
    predicts_numbers = kind is not None and spec_of(kind).predicts_numbers
    joined = FEEDBACK.join(EVENTS, (EVENTS.c.model == FEEDBACK.c.model) & (EVENTS.c.id == FEEDBACK.c.id)).join(
        PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id
    )
    in_force = (FEEDBACK.c.model == model, FEEDBACK.c.prediction_id.in_(predictions), EVENTS.c.kind.not_in(UNRATED))
    columns = (PREDICTIONS.c.id, PREDICTIONS.c.created_at, PREDICTIONS.c.choice, EVENTS.c.body)
    query = select(*columns).select_from(joined).where(*in_force, FEEDBACK.c.retracted_offset.is_(None))
    found = defaultdict[str, list[Row[str, str, str | None, str]]](list)
    for row in connection.execute(query):
        found[row.id].append(row)
    return [
        {
            "prediction_id": id,
            "model": model,
            "quarter": quarter_of(rows[0].created_at),
            "choice": None if predicts_numbers else rows[0].choice,
            **judge([Event.parse(row.body, b"") for row in rows], predicts_numbers),
        }
        for id, rows in found.items()
    ]


def judge(events: Sequence[Event], predicts_numbers: bool) -> dict[str, int]:
    """Return the counts of one prediction, from the feedback about it that stands: one rating for each person.

    Without an answer there is nothing to rate: a reply that was taught there is a correction only.
    """
    was_answered = any(event.choice is not None for event in events)
    opinions = [is_good(event, predicts_numbers) for event in events if was_answered]
    bad = opinions.count(False)
    return {
        "rated": len(opinions),
        "good": opinions.count(True),
        "bad": bad,
        "corrected": int(any(event.kind != "reward" and event.label != event.choice for event in events)),
        "helped": int(bad > 0),
    }


def is_good(event: Event, predicts_numbers: bool) -> bool | None:
    """Return whether a feedback says that the answer was right; None for a number, which is never simply right or wrong."""
    if event.kind == "reward":
        return is_positive(event.reward)
    return None if predicts_numbers else event.label == event.choice


def forget_ratings(connection: Connection, model: str, predictions: Sequence[str]) -> None:
    """Delete the ratings of predictions that are about to be deleted; they stay counted."""
    lock_ratings(connection, model)
    for ids in pages(predictions):
        connection.execute(delete(RATINGS).where(RATINGS.c.prediction_id.in_(ids)))


def forget_rated_answers(connection: Connection, model: str, answers: Collection[str]) -> None:
    """Leave erased answers out of what is counted for each answer."""
    if not answers:
        return
    lock_ratings(connection, model)
    rated = (RATINGS.c.model == model, RATINGS.c.choice.in_(answers))
    connection.execute(update(RATINGS).where(*rated).values(choice=None))
    forget_answers(connection, model, answers)


def pages(ids: Sequence[str]) -> list[Sequence[str]]:
    """Return ids in parts that fit into one query."""
    return [ids[start : start + MAX_IDS] for start in range(0, len(ids), MAX_IDS)]
