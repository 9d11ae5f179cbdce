"""The part of each replica in an erasure: what only its own state folder has must be forgotten there.

    erasure_replica   journal --> files --> done     of one replica in one erasure

A replica that was present when the erasure began has a row. One that has none for an erasure that has ended was absent, or stopped:
it forgets before it answers again.
"""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update
from sqlmodel import Field, SQLModel

from online.schemas.json_values import JSONObject
from online.store.database.tables import table_of
from online.store.erasure.jobs import ERASURE_ITEMS, ERASURE_MODELS, ERASURES, ErasureRow
from online.store.leases import read_clock
from online.store.replica_messages import send_message
from online.store.replicas import FORGOTTEN_AFTER_S, REPLICAS, list_replicas

JOURNAL, FILES, DONE = "journal", "files", "done"  # what a replica does next
ORDER = (JOURNAL, FILES, DONE)
MESSAGE = "erasure"  # kind of the message by which replicas hear that there is something to do


class ErasureReplicaRow(SQLModel, table=True):
    """The part of one replica. findings: JSON, what it has removed. at: seconds of the database's clock, of the last step."""

    __tablename__ = "erasure_replica"

    erasure: str = Field(primary_key=True)
    replica: str = Field(primary_key=True)
    step: str
    findings: str = "{}"
    at: float


ERASURE_REPLICAS = table_of(ErasureReplicaRow)
ERASURE_TABLES = [ERASURES, ERASURE_MODELS, ERASURE_ITEMS, ERASURE_REPLICAS]


def ask_replicas(connection: Connection, erasure: str, own: str) -> None:
    """Ask every other replica that is present to do its part."""
    others = [each.id for each in list_replicas(connection) if each.is_present and each.id != own]
    at = read_clock(connection)
    rows = [{"erasure": erasure, "replica": id, "step": JOURNAL, "findings": "{}", "at": at} for id in others]
    if rows:
        connection.execute(insert(ERASURE_REPLICAS), rows)
        send_message(connection, MESSAGE, {"erasure": erasure})


def list_parts(connection: Connection, replica: str) -> list[ErasureReplicaRow]:
    """Return the parts that a replica has not done."""
    own = (ERASURE_REPLICAS.c.replica == replica, ERASURE_REPLICAS.c.step != DONE)
    rows = connection.execute(select(ERASURE_REPLICAS).where(*own).order_by(ERASURE_REPLICAS.c.at)).mappings()
    return [ErasureReplicaRow(**row) for row in rows]


def save_part(
    connection: Connection, erasure: str, replica: str, step: str, findings: Mapping[str, object] | None = None
) -> None:
    """Save what a replica does next, and what it has found."""
    values: dict[str, object] = {"step": step, "at": read_clock(connection)}
    if findings is not None:
        values["findings"] = json.dumps(findings)
    same = (ERASURE_REPLICAS.c.erasure == erasure, ERASURE_REPLICAS.c.replica == replica)
    if not connection.execute(update(ERASURE_REPLICAS).where(*same).values(**values)).rowcount:
        row = {"erasure": erasure, "replica": replica, "findings": "{}", **values}
        connection.execute(insert(ERASURE_REPLICAS), [row])


def list_behind(connection: Connection, erasure: str, step: str) -> list[str]:
    """Return the replicas that are present and have not done their part before a step."""
    present = {each.id for each in list_replicas(connection) if each.is_present}
    early = ERASURE_REPLICAS.c.step.in_(ORDER[: ORDER.index(step)])
    of_erasure: tuple[ColumnElement[bool], ...] = (ERASURE_REPLICAS.c.erasure == erasure, early)
    found = connection.scalars(
        select(ERASURE_REPLICAS.c.replica).where(*of_erasure).order_by(ERASURE_REPLICAS.c.replica)
    )
    return [id for id in found if id in present]


def describe_parts(connection: Connection, erasure: str, own: str) -> JSONObject:
    """Return, for the statement, what the other replicas have removed, and those that were absent, which do it later."""
    rows = connection.execute(select(ERASURE_REPLICAS).where(ERASURE_REPLICAS.c.erasure == erasure)).mappings()
    done = {
        row["replica"]: json.loads(row["findings"]) for row in rows if row["step"] == DONE and row["replica"] != own
    }
    absent = [each.id for each in list_replicas(connection) if each.id not in done and each.id != own]
    return {"replicas": done, "absent_replicas": absent} if done or absent else {}


def list_missed(connection: Connection, replica: str) -> list[ErasureRow]:
    """Return the erasures that have ended without the part of a replica."""
    part = select(ERASURE_REPLICAS.c.erasure).where(
        ERASURE_REPLICAS.c.erasure == ERASURES.c.id,
        ERASURE_REPLICAS.c.replica == replica,
        ERASURE_REPLICAS.c.step == DONE,
    )
    ended = select(ERASURES).where(ERASURES.c.ended_at.is_not(None), ~part.exists())
    return [ErasureRow(**row) for row in connection.execute(ended).mappings()]


def join_erasures(connection: Connection, replica: str, unfinished: Sequence[str]) -> None:
    """Let a replica that starts take part in erasures that have begun while it was away. Parts of forgotten replicas are deleted."""
    known = set(connection.scalars(select(ERASURE_REPLICAS.c.erasure).where(ERASURE_REPLICAS.c.replica == replica)))
    for erasure in unfinished:
        if erasure not in known:
            save_part(connection, erasure, replica, FILES)
    old = ERASURE_REPLICAS.c.at < read_clock(connection) - FORGOTTEN_AFTER_S
    present = select(REPLICAS.c.id)
    gone = (old, ERASURE_REPLICAS.c.replica.not_in(present), ERASURE_REPLICAS.c.replica != replica)
    connection.execute(delete(ERASURE_REPLICAS).where(*gone))
