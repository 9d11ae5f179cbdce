"""The use of quotas by each caller, by the hour: durable, and shared by all servers of a store."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of

KEPT = timedelta(hours=48)


class QuotaRow(SQLModel, table=True):
    """The use of quotas by a holder within one hour. hour: ISO 8601 up to the hour, in UTC."""

    __tablename__ = "quota_use"

    holder: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    hour: str = Field(primary_key=True, index=True)
    count: int


QUOTAS = table_of(QuotaRow)


def hour_of(at: datetime) -> str:
    """Return the hour for which a quota is counted."""
    return at.strftime("%Y-%m-%dT%H")


def delete_quotas_of(connection: Connection, holder: str) -> None:
    """Delete the counts of a holder."""
    connection.execute(delete(QUOTAS).where(QUOTAS.c.holder == holder))


def use_quota(connection: Connection, holder: str, kind: str, count: int, at: datetime) -> int:
    """Add to what a holder has used within the hour of `at`; return the sum."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(QUOTAS).values(holder=holder, kind=kind, hour=hour_of(at), count=count)
    keys = [QUOTAS.c.holder, QUOTAS.c.kind, QUOTAS.c.hour]
    added = {"count": QUOTAS.c.count + statement.excluded.count}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=added))
    of_hour = (QUOTAS.c.holder == holder, QUOTAS.c.kind == kind, QUOTAS.c.hour == hour_of(at))
    used: int = connection.execute(select(QUOTAS.c["count"]).where(*of_hour)).scalar_one()
    if used == count:  # the holder's first use of the hour: a good time to forget old hours
        connection.execute(delete(QUOTAS).where(QUOTAS.c.hour < hour_of(at - KEPT)))
    return used


def used_since(connection: Connection, holder: str, kind: str, since: datetime) -> int:
    """Return what a holder has used since the beginning of an hour, as far as it is still known."""
    of_holder = (QUOTAS.c.holder == holder, QUOTAS.c.kind == kind, QUOTAS.c.hour >= hour_of(since))
    return connection.scalar(select(func.sum(QUOTAS.c["count"])).where(*of_holder)) or 0
