"""The replicas that share a store.

    replica --every second--> seen_at, what it serves and has learned     the others: who is there, and where are its files?

The clock is that of the database, so that a replica whose own clock jumps is neither absent nor present for too long.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update
from sqlmodel import Field, SQLModel

from online.schemas.json_values import JSON
from online.store.bases import BASE_TABLES
from online.store.database.tables import table_of
from online.store.leases import LEASES, read_clock
from online.store.publications import PUBLICATIONS, SERVING

ABSENT_AFTER_S = 5.0  # since it was last seen
FORGOTTEN_AFTER_S = 7 * 86_400.0
JOURNAL_COPIED_AT = (
    "journal_copied_at"  # in a report: seconds of the database's clock until which all predictions are in the store
)
SCHEMA = "schema"  # in a report: the newest revision that its release knows, by group of tables


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


REPLICAS = table_of(ReplicaRow)
REPLICA_TABLES = [PUBLICATIONS, SERVING, REPLICAS, LEASES, *BASE_TABLES]


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


def list_uncopied(connection: Connection, since: float) -> list[str]:
    """Return the replicas that are present and whose journals may still have predictions from before an instant.

    since: seconds of the database's clock. A replica of a release that does not report its journal is left out.
    """
    reports = {each.id: each.report.get(JOURNAL_COPIED_AT) for each in list_replicas(connection) if each.is_present}
    return [id for id, copied_at in reports.items() if copied_at is not None and copied_at <= since]
