"""Answers of the shadow: the version with the label `shadow` predicts on a copy of the traffic, for comparison only.

Its answers are stored beside those that were given, so that feedback judges both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, select
from sqlmodel import Field, SQLModel

from online.schemas.events import Event, is_positive
from online.store.database.tables import TableGroup, table_of
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS


class ShadowAnswerRow(SQLModel, table=True):
    """An answer of the shadow version, beside the served one."""

    __tablename__ = "shadow"

    prediction_id: str = Field(primary_key=True)
    model: str = Field(index=True)
    version: int
    choice: str | None


SHADOW_ANSWERS = table_of(ShadowAnswerRow)
SHADOW_TABLES = TableGroup("shadow", (SHADOW_ANSWERS,), ("1",), Path(__file__).parent / "migrations", was_core=True)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of the shadow with the live version.

    answered: by the shadow. judged: of those, the ones with feedback that judges both answers. shadow_right,
    live_right: of those, the right answers of each.
    """

    answered: int
    judged: int
    shadow_right: int
    live_right: int


def add_shadow_answers(connection: Connection, rows: Sequence[ShadowAnswerRow]) -> None:
    """Add answers; they replace earlier shadow answers to the same predictions."""
    delete_shadow_answers(connection, [row.prediction_id for row in rows])
    connection.execute(insert(SHADOW_ANSWERS), [row.model_dump() for row in rows])


def delete_shadow_answers(connection: Connection, ids: Sequence[str]) -> None:
    """Delete the shadow's answers beside these predictions."""
    connection.execute(delete(SHADOW_ANSWERS).where(SHADOW_ANSWERS.c.prediction_id.in_(ids)))


def count_shadow_answers(connection: Connection, model: str, version: int) -> int:
    """Return the number of answers that a shadow version has given."""
    mine = (SHADOW_ANSWERS.c.model == model, SHADOW_ANSWERS.c.version == version)
    return connection.scalar(select(func.count()).select_from(SHADOW_ANSWERS).where(*mine)) or 0


def compare_with_live(connection: Connection, model: str, version: int) -> Comparison:
    """Compare the answers of a shadow version with those that were given, by the feedback on them.

    A reward judges only predictions to which both gave the same answer.
    """
    shadows = SHADOW_ANSWERS
    feedback = FEEDBACK.join(EVENTS, (EVENTS.c.model == FEEDBACK.c.model) & (EVENTS.c.id == FEEDBACK.c.id))
    about = feedback.join(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id)
    joined = about.join(shadows, shadows.c.prediction_id == PREDICTIONS.c.id)
    query = select(EVENTS.c.body, PREDICTIONS.c.choice, shadows.c.choice.label("shadow")).select_from(joined)
    mine = (FEEDBACK.c.model == model, shadows.c.version == version, FEEDBACK.c.retracted_offset.is_(None))
    outcomes = list[tuple[bool, bool]]()
    for row in connection.execute(query.where(*mine)).mappings():
        event = Event.parse(row["body"], b"")
        if event.kind != "reward":
            outcomes.append((row["shadow"] == event.label, row["choice"] == event.label))
        elif row["shadow"] == row["choice"]:
            outcomes.append((is_positive(event.reward), is_positive(event.reward)))
    right = [sum(each) for each in zip(*outcomes, strict=True)] or [0, 0]
    return Comparison(count_shadow_answers(connection, model, version), len(outcomes), right[0], right[1])
