"""What a version would have answered that nobody hears: the one with the label `shadow` is asked everything that is asked.

Its answers stand beside those that were given, so that feedback judges both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select
from sqlmodel import Field, SQLModel


class ShadowRow(SQLModel, table=True):
    __tablename__ = "shadow"

    prediction_id: str = Field(primary_key=True)
    model: str = Field(index=True)
    version: int
    choice: str | None


SHADOWS: Any = ShadowRow.__table__  # type: ignore[attr-defined]
TABLES = [SHADOWS]


@dataclass(frozen=True, slots=True)
class Comparison:
    """answered: by the shadow. judged: of those, with feedback that says what was right. right: of these, each one's."""

    answered: int
    judged: int
    shadow_right: int
    live_right: int


def add_shadows(connection: Connection, rows: Sequence[ShadowRow]) -> None:
    """A version that gets the label anew begins anew."""
    ids = [row.prediction_id for row in rows]
    connection.execute(delete(SHADOWS).where(SHADOWS.c.prediction_id.in_(ids)))
    connection.execute(insert(SHADOWS), [row.model_dump() for row in rows])


def answered_by(connection: Connection, model: str, version: int) -> int:
    mine = (SHADOWS.c.model == model, SHADOWS.c.version == version)
    return connection.scalar(select(func.count()).select_from(SHADOWS).where(*mine)) or 0
