"""The replicas that share a store, and which of them learns a model that only one may learn.

    replica --every second--> seen_at, what it serves and has learned     the others: who is there, and where are its files?
    learner of a kind that is not exact --lease--> holder, fence, until   a standby takes over when it has expired

The clock is that of the database, so that a replica whose own clock jumps neither loses its lease nor keeps one for too long.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, Float, delete, insert, literal_column, select, update
from sqlmodel import Field, SQLModel

from online.schemas.json_values import JSON
from online.store.database.tables import table_of
from online.store.publications import PUBLICATIONS, SERVING

ABSENT_AFTER_S = 5.0  # since it was last seen
FORGOTTEN_AFTER_S = 7 * 86_400.0


class ReplicaRow(SQLModel, table=True):
    """A service with a state folder of its own. url: where others reach it. seen_at: seconds of the database's clock.

    report: what it says of itself, as JSON.
    """

    __tablename__ = "replica"

    id: str = Field(primary_key=True)
    url: str
    started_at: float
    seen_at: float
    report: str


class LeaseRow(SQLModel, table=True):
    """The replica that alone learns a model. until: seconds of the database's clock. fence: counts the holders."""

    __tablename__ = "lease"

    model: str = Field(primary_key=True)
    holder: str
    fence: int
    until: float


REPLICAS, LEASES = table_of(ReplicaRow), table_of(LeaseRow)
REPLICA_TABLES = [PUBLICATIONS, SERVING, REPLICAS, LEASES]


class KnownReplica(NamedTuple):
    """A replica as the others see it. absent_s: how long it was not seen."""

    id: str
    url: str
    absent_s: float
    report: Mapping[str, JSON]

    @property
    def is_present(self) -> bool:
        """Whether it was seen lately."""
        return self.absent_s < ABSENT_AFTER_S


def report_replica(connection: Connection, id: str, url: str, report: Mapping[str, JSON]) -> float:
    """Say that a replica is here; return the seconds of the database's clock. Those that were not seen for a week are forgotten."""
    seen_at = read_clock(connection)
    values = {"url": url, "seen_at": seen_at, "report": json.dumps(report)}
    if not connection.execute(update(REPLICAS).where(REPLICAS.c.id == id).values(**values)).rowcount:
        connection.execute(delete(REPLICAS).where(REPLICAS.c.seen_at < seen_at - FORGOTTEN_AFTER_S))
        connection.execute(insert(REPLICAS), [{"id": id, "started_at": seen_at, **values}])
    return seen_at


def remove_replica(connection: Connection, id: str) -> None:
    """Forget a replica that stops, and let others have what it alone may learn."""
    connection.execute(delete(REPLICAS).where(REPLICAS.c.id == id))
    connection.execute(update(LEASES).where(LEASES.c.holder == id).values(until=0.0))


def list_replicas(connection: Connection) -> list[KnownReplica]:
    """Return every replica that is known, in the order of their ids."""
    now = read_clock(connection)
    rows = connection.execute(select(REPLICAS).order_by(REPLICAS.c.id)).all()
    return [KnownReplica(row.id, row.url, max(0.0, now - row.seen_at), json.loads(row.report)) for row in rows]


def take_lease(connection: Connection, model: str, holder: str, duration_s: float) -> int | None:
    """Return the fence of the lease on a model, taken or prolonged; None while another replica holds it."""
    now = read_clock(connection)
    found = connection.execute(select(LEASES).where(LEASES.c.model == model).with_for_update()).one_or_none()
    if found is None:
        connection.execute(insert(LEASES), [{"model": model, "holder": holder, "fence": 1, "until": now + duration_s}])
        return 1
    if found.holder != holder and found.until > now:
        return None
    fence = found.fence + (found.holder != holder)
    same = LEASES.c.model == model
    connection.execute(update(LEASES).where(same).values(holder=holder, fence=fence, until=now + duration_s))
    return int(fence)


def find_holder(connection: Connection, model: str) -> tuple[str, int] | None:
    """Return who holds the lease on a model, and its fence; None if nobody ever did."""
    found = connection.execute(select(LEASES.c.holder, LEASES.c.fence).where(LEASES.c.model == model)).one_or_none()
    return None if found is None else (found.holder, found.fence)


def read_clock(connection: Connection) -> float:
    """Return the seconds of the database's clock."""
    is_postgres = connection.dialect.name == "postgresql"
    clock = "extract(epoch from clock_timestamp())" if is_postgres else "(julianday('now') - 2440587.5) * 86400"
    return float(connection.scalar(select(literal_column(clock, Float))) or 0.0)
