"""Alarms of the drift detectors."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, insert, select
from sqlmodel import Field, SQLModel

from online.schemas.json_values import JSON
from online.store.database.tables import table_of
from online.store.database.values import now


class DriftAlarmRow(SQLModel, table=True):
    """An alarm: what changed, where and by how much. online/learning/drift.py explains the columns."""

    __tablename__ = "drift"

    model: str = Field(primary_key=True)
    offset: int = Field(primary_key=True)
    what: str = Field(primary_key=True)
    label: str | None
    projection: int | None
    since: int
    before: float
    after: float
    size: float
    window: int
    noted_at: str


DRIFT_ALARMS = table_of(DriftAlarmRow)


def add_drift_alarms(connection: Connection, model: str, alarms: Sequence[Mapping[str, JSON]]) -> None:
    """Add alarms. An alarm of the same kind at the same offset is known already and stays as it is."""
    for alarm in alarms:
        same = (
            DRIFT_ALARMS.c.model == model,
            DRIFT_ALARMS.c.offset == alarm["offset"],
            DRIFT_ALARMS.c.what == alarm["what"],
        )
        if connection.scalar(select(DRIFT_ALARMS.c.offset).where(*same)) is None:
            connection.execute(insert(DRIFT_ALARMS).values(model=model, noted_at=now(), **alarm))


def load_loss_alarms(connection: Connection, model: str, offsets: Sequence[int]) -> dict[int, DriftAlarmRow]:
    """Return the alarms of a rising loss that the feedback at these offsets raised, by offset."""
    query = select(DRIFT_ALARMS).where(
        DRIFT_ALARMS.c.model == model, DRIFT_ALARMS.c.what == "loss", DRIFT_ALARMS.c.offset.in_(offsets)
    )
    return {row["offset"]: DriftAlarmRow(**row) for row in connection.execute(query).mappings()}


def load_drift_alarms(connection: Connection, model: str, count: int) -> list[DriftAlarmRow]:
    """Return the newest alarms, newest first."""
    query = (
        select(DRIFT_ALARMS)
        .where(DRIFT_ALARMS.c.model == model)
        .order_by(DRIFT_ALARMS.c.offset.desc(), DRIFT_ALARMS.c.what)
    )
    return [DriftAlarmRow(**row) for row in connection.execute(query.limit(count)).mappings()]
