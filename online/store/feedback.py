"""Acknowledged feedback: what was received, and what became of it.

accepted --learned by a version--> learned
    |                                 |
    +---------- retract --------------+--> retracted --un-learned by a version--> retracted, with that version
    +--- the model could not learn it ---> refused
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Index, Update, bindparam, func, select, update
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import index_only_where, insert_rows

PREFERENCE = "preference"  # the signal of a reward that is an opinion


class FeedbackRow(SQLModel, table=True):
    """One feedback and its state.

    offset: of its event. content: the item as received, as JSON, to tell a repetition from a conflict.
    version: the first version that has learned it or, after a retraction, un-learned it.
    slot, slot_turn: of feedback that replaces earlier feedback of the same key, the key and its number.
    caller: the id of the caller that gave it; None for feedback of releases that had no callers.
    about: the reply or class that it is about; None for a number, sums, and feedback of releases that had no callers.
    example_count: of how many examples it is the sums; None for any other feedback.
    answer, answered_until: of a label with an input of its own, what the live version answered to that input before the label
    was learned, and what that version had learned; None where it answered nothing, and for any other feedback.
    """

    __tablename__ = "feedback"
    __table_args__ = (  # the model comes first, or SQLite walks all feedback of a model to find a few offsets
        Index("feedback_by_offset", "model", "offset"),
        Index("feedback_taken_back", "model", "retracted_offset", **index_only_where("retracted_offset IS NOT NULL")),
        Index("feedback_by_slot", "model", "slot", "slot_turn", **index_only_where("slot IS NOT NULL")),
        Index("feedback_by_prediction", "prediction_id", **index_only_where("prediction_id IS NOT NULL")),
    )

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    offset: int
    content: str
    prediction_id: str | None
    input: str | None  # JSON
    user: str | None = Field(index=True)
    created_at: str
    status: str = "accepted"
    version: int | None = None
    learned_at: str | None = None
    refusal: str | None = None
    retracted_offset: int | None = None
    slot: str | None = None
    slot_turn: int | None = None
    caller: str | None = None
    about: str | None = None
    example_count: int | None = None
    answer: str | None = None
    answered_until: int | None = None


FEEDBACK = table_of(FeedbackRow)
MAX_OUTCOMES = 1_000  # whose newest ones are sent to those who follow the events of another replica
given_by: ColumnElement[str] = func.coalesce(FEEDBACK.c.user, FEEDBACK.c.caller)  # who has the opinion
Index("feedback_by_holder", FEEDBACK.c.model, given_by, FEEDBACK.c.about, FEEDBACK.c.created_at)


NEW: dict[str, object] = dict.fromkeys(FEEDBACK.c.keys()) | {"status": "accepted"}


class FeedbackInForce(NamedTuple):
    """Feedback about a prediction that stands. holder: its user, or else its caller."""

    prediction_id: str
    holder: str
    id: str
    offset: int
    content: str

    @property
    def subject(self) -> str:
        """The matter that it is about: the newest of a holder about the same matter replaces those before. See `find_subject`."""
        return find_subject(self.content)


def find_subject(content: str) -> str:
    """Return the matter that feedback is about: "" for an opinion, else what an answer took, or a signal that is no opinion.

    content: the feedback as JSON. A preference is an opinion, as a thumb is.
    """
    if '"outcome"' not in content and '"signal"' not in content:
        return ""
    given = json.loads(content)
    if given.get("outcome") is not None:
        return "outcome"
    signal = str(given.get("signal") or "")
    return "" if signal == PREFERENCE else signal


def load_first_time(connection: Connection, model: str, after: int) -> str | None:
    """Return when the first feedback after an offset was given; None without any."""
    later = (FEEDBACK.c.model == model, FEEDBACK.c.offset > after)
    query = select(FEEDBACK.c.created_at).where(*later).order_by(FEEDBACK.c.offset).limit(1)
    found: str | None = connection.scalar(query)
    return found


def add_feedback(connection: Connection, rows: Sequence[dict[str, object]]) -> None:
    """rows: the columns that are not as in any new feedback."""
    insert_rows(connection, FEEDBACK, [NEW | row for row in rows])


def load_feedback(connection: Connection, model: str, ids: Sequence[str]) -> dict[str, FeedbackRow]:
    """Return id -> feedback, for the ids that exist."""
    found = connection.execute(select(FEEDBACK).where(FEEDBACK.c.model == model, FEEDBACK.c.id.in_(ids)))
    return {row["id"]: FeedbackRow(**row) for row in found.mappings()}


def load_feedback_about(connection: Connection, model: str, predictions: Sequence[str]) -> list[FeedbackRow]:
    """Return the feedback about predictions that is not retracted, the oldest first."""
    about = (FEEDBACK.c.model == model, FEEDBACK.c.prediction_id.in_(predictions))
    query = select(FEEDBACK).where(*about, FEEDBACK.c.retracted_offset.is_(None)).order_by(FEEDBACK.c.offset)
    return [FeedbackRow(**row) for row in connection.execute(query).mappings()]


def load_feedback_between(connection: Connection, model: str, span: tuple[int, int]) -> dict[str, FeedbackRow]:
    """Return id -> the newest feedback whose event or retraction is in (after, until], at most MAX_OUTCOMES."""
    after, until = span
    of_model, newest = FEEDBACK.c.model == model, max(after, until - MAX_OUTCOMES)
    rows = dict[str, FeedbackRow]()
    for offset in (FEEDBACK.c.offset, FEEDBACK.c.retracted_offset):
        found = connection.execute(select(FEEDBACK).where(of_model, offset > newest, offset <= until))
        rows |= {row["id"]: FeedbackRow(**row) for row in found.mappings()}
    return rows


def load_slot(connection: Connection, model: str, key: str) -> list[FeedbackRow]:
    """Return the feedback of a slot, in the order in which it was given."""
    query = select(FEEDBACK).where(FEEDBACK.c.model == model, FEEDBACK.c.slot == key)
    return [FeedbackRow(**row) for row in connection.execute(query.order_by(FEEDBACK.c.slot_turn)).mappings()]


def assign_slot(connection: Connection, model: str, id: str, key: str, turn: int) -> None:
    """Make a feedback the turn of a slot."""
    values = {"slot": key, "slot_turn": turn}
    connection.execute(update(FEEDBACK).where(FEEDBACK.c.model == model, FEEDBACK.c.id == id).values(**values))


def list_opinions(connection: Connection, model: str, predictions: Sequence[str]) -> list[FeedbackInForce]:
    """Return the opinions about predictions that are not retracted, the oldest first."""
    return [each for each in list_in_force(connection, model, predictions) if not each.subject]


def list_in_force(connection: Connection, model: str, predictions: Sequence[str]) -> list[FeedbackInForce]:
    """Return the feedback about predictions that is not retracted, whatever it is about, the oldest first."""
    if not predictions:
        return []
    unretracted = (FEEDBACK.c.prediction_id.in_(predictions), FEEDBACK.c.model == model)
    columns = (FEEDBACK.c.prediction_id, given_by, FEEDBACK.c.id, FEEDBACK.c.offset, FEEDBACK.c.content)
    query = select(*columns).where(*unretracted, FEEDBACK.c.retracted_offset.is_(None))
    return [FeedbackInForce(*row) for row in connection.execute(query.order_by(FEEDBACK.c.offset))]


def replace_content(connection: Connection, model: str, id: str, content: str) -> None:
    """Replace the words of a feedback; what is learned from it does not change."""
    connection.execute(update(FEEDBACK).where(FEEDBACK.c.model == model, FEEDBACK.c.id == id).values(content=content))


def update_learned(status: str, offset: ColumnElement[int], new_status: str) -> Update:
    """Build the statement that marks the feedback of a status with offsets in (after, until]."""
    due = (FEEDBACK.c.model == bindparam("of_model"), FEEDBACK.c.status == status, FEEDBACK.c.version.is_(None))
    span = (offset > bindparam("after"), offset <= bindparam("until"))
    values = {"status": new_status, "version": bindparam("by"), "learned_at": bindparam("at")}
    return update(FEEDBACK).where(*due, *span).values(**values)


LEARNED = update_learned("accepted", FEEDBACK.c.offset, "learned")
UNLEARNED = update_learned("retracted", FEEDBACK.c.retracted_offset, "retracted")


def mark_learned(connection: Connection, model: str, spans: Sequence[tuple[int, int, int, str]]) -> None:
    """Record that versions have learned the feedback, and un-learned the retractions, in (after, until].

    spans: (after, until, version, at) of each version.
    """
    rows = [dict(zip(("after", "until", "by", "at"), span, strict=True), of_model=model) for span in spans]
    if rows:
        connection.execute(LEARNED, rows)
        connection.execute(UNLEARNED, rows)


def set_refusal(connection: Connection, model: str, id: str, reason: str) -> None:
    """Keep why a feedback is not learned, for its caller."""
    by_id = (FEEDBACK.c.model == model, FEEDBACK.c.id == id)
    connection.execute(update(FEEDBACK).where(*by_id).values(refusal=reason))


def mark_retracted(connection: Connection, model: str, id: str, offset: int) -> None:
    """offset: of the retraction."""
    values = {"status": "retracted", "retracted_offset": offset, "version": None, "learned_at": None}
    connection.execute(update(FEEDBACK).where(FEEDBACK.c.model == model, FEEDBACK.c.id == id).values(**values))


def mark_all_retracted(connection: Connection, model: str, ids: Sequence[str], retraction: object) -> None:
    """Mark feedback whose retractions are in the log. retraction: a query for the offset of each, given the row."""
    by_id = (FEEDBACK.c.model == model, FEEDBACK.c.id.in_(ids))
    values: dict[str, object] = {"status": "retracted", "version": None, "learned_at": None}
    connection.execute(update(FEEDBACK).where(*by_id).values(**values, retracted_offset=retraction))


def list_unretracted(connection: Connection, model: str, ids: Sequence[str]) -> list[tuple[int, str]]:
    """Return (offset, id) of those of the feedback that is not retracted, in order."""
    unretracted = (FEEDBACK.c.model == model, FEEDBACK.c.id.in_(ids), FEEDBACK.c.retracted_offset.is_(None))
    query = select(FEEDBACK.c.offset, FEEDBACK.c.id).where(*unretracted)  # sorted here: SQLite would read every row
    return sorted((offset, id) for offset, id in connection.execute(query))


def list_unretracted_between(connection: Connection, model: str, since: int, until: int) -> list[str]:
    """Return the ids of the feedback with offsets in [since, until] that is not retracted, in order."""
    span = (FEEDBACK.c.offset >= since, FEEDBACK.c.offset <= until, FEEDBACK.c.retracted_offset.is_(None))
    query = select(FEEDBACK.c.id).where(FEEDBACK.c.model == model, *span)
    return list(connection.scalars(query.order_by(FEEDBACK.c.offset)))


def count_unretracted(
    connection: Connection, model: str, holder: str, since: str, about: str | None, except_prediction: str | None
) -> int:
    """Return how much feedback of a holder since an instant stands: about one reply or class, or (None) in all.

    except_prediction: of a prediction whose feedback does not count, because it is about to be replaced.
    """
    of_holder = (FEEDBACK.c.model == model, given_by == holder, FEEDBACK.c.created_at >= since)
    query = select(func.count()).select_from(FEEDBACK).where(*of_holder, FEEDBACK.c.retracted_offset.is_(None))
    if about is not None:
        query = query.where(FEEDBACK.c.about == about)
    if except_prediction is not None:
        query = query.where(FEEDBACK.c.prediction_id.is_distinct_from(except_prediction))
    return connection.scalar(query) or 0


def count_summed_examples(connection: Connection, model: str, holder: str) -> int:
    """Return the number of examples in the sums of a holder that are neither retracted nor refused."""
    of_holder = (FEEDBACK.c.model == model, given_by == holder, FEEDBACK.c.example_count.is_not(None))
    stands = (FEEDBACK.c.retracted_offset.is_(None), FEEDBACK.c.status != "refused")
    return connection.scalar(select(func.sum(FEEDBACK.c.example_count)).where(*of_holder, *stands)) or 0


def load_unretracted_of_holder(
    connection: Connection, model: str, holder: str, count: int, after: int = 0
) -> list[FeedbackRow]:
    """Return the oldest feedback of a holder after an offset that is not retracted."""
    of_holder = (FEEDBACK.c.model == model, given_by == holder, FEEDBACK.c.retracted_offset.is_(None))
    later = select(FEEDBACK).where(*of_holder, FEEDBACK.c.offset > after)
    found = connection.execute(later.order_by(FEEDBACK.c.offset).limit(count))
    return [FeedbackRow(**row) for row in found.mappings()]
