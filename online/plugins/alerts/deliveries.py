"""Alerts, and their deliveries to endpoints.

    alert --one for each endpoint--> delivery: waiting --claimed, sent--> delivered
                                                  ^----- failed, later ---|----> given up

All servers of a store share the tables, so each delivery is sent by one of them at a time. One that stops while it sends loses
its claim, and the delivery is sent again: at least once, with the same id.
"""

from collections.abc import Collection, Sequence
from typing import Literal

from sqlalchemy import ColumnElement, Connection, Index, delete, func, insert, select, update
from sqlmodel import Field, SQLModel

from online.schemas.json_values import JSONObject
from online.store.database.tables import table_of
from online.store.database.values import index_only_where

DeliveryStatus = Literal["waiting", "delivered", "given_up"]
KEPT = 500  # newest alerts


class AlertRow(SQLModel, table=True):
    """body: what is sent, as JSON."""

    __tablename__ = "alert"
    __table_args__ = (Index("alert_by_model", "model", "created_at"),)

    id: str = Field(primary_key=True)
    model: str
    event: str
    created_at: str
    body: str


class AlertDeliveryRow(SQLModel, table=True):
    """endpoint: a digest of the URL. due_at: when it is sent next; after a claim, when another process may send it.

    attempts: that have begun. error: of the last one. ended_at: of the last attempt that has ended.
    """

    __tablename__ = "alert_delivery"
    __table_args__ = (Index("alert_delivery_due", "endpoint", "due_at", **index_only_where("status = 'waiting'")),)

    alert_id: str = Field(primary_key=True)
    endpoint: str = Field(primary_key=True)
    status: str
    attempts: int
    due_at: str
    error: str | None = None
    ended_at: str | None = None


ALERTS = table_of(AlertRow)
DELIVERIES = table_of(AlertDeliveryRow)


def add_alert(connection: Connection, row: AlertRow, endpoints: Sequence[str]) -> None:
    """Add an alert with a delivery to each endpoint, and delete the alerts beyond the newest ones."""
    connection.execute(insert(ALERTS).values(**row.model_dump()))
    deliveries = [
        {"alert_id": row.id, "endpoint": each, "status": "waiting", "attempts": 0, "due_at": row.created_at}
        for each in endpoints
    ]
    if deliveries:
        connection.execute(insert(DELIVERIES), deliveries)
    old = select(ALERTS.c.id).order_by(ALERTS.c.created_at.desc(), ALERTS.c.id).offset(KEPT).limit(KEPT)
    delete_alerts(connection, connection.scalars(old).all())


def delete_alerts(connection: Connection, ids: Sequence[str]) -> None:
    """Delete alerts with their deliveries."""
    connection.execute(delete(DELIVERIES).where(DELIVERIES.c.alert_id.in_(ids)))
    connection.execute(delete(ALERTS).where(ALERTS.c.id.in_(ids)))


def claim_delivery(
    connection: Connection, endpoint: str, at: str, claimed_until: str
) -> tuple[AlertDeliveryRow, str] | None:
    """Claim the delivery to an endpoint that is due for longest; return it with the body of its alert, or None."""
    due = (DELIVERIES.c.endpoint == endpoint, DELIVERIES.c.status == "waiting", DELIVERIES.c.due_at <= at)
    query = select(DELIVERIES, ALERTS.c.body).join(ALERTS, ALERTS.c.id == DELIVERIES.c.alert_id).where(*due)
    found = connection.execute(query.order_by(DELIVERIES.c.due_at, DELIVERIES.c.alert_id).limit(1)).mappings().first()
    if found is None:
        return None
    values = {**found}
    body = values.pop("body")
    row = AlertDeliveryRow(**values)
    claimed = {"attempts": row.attempts + 1, "due_at": claimed_until}
    unclaimed = (*of_row(row), DELIVERIES.c.attempts == row.attempts, DELIVERIES.c.status == "waiting")
    if not connection.execute(update(DELIVERIES).where(*unclaimed).values(**claimed)).rowcount:
        return None
    return row.model_copy(update=claimed), body


def of_row(row: AlertDeliveryRow) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that select a delivery."""
    return (DELIVERIES.c.alert_id == row.alert_id, DELIVERIES.c.endpoint == row.endpoint)


def end_attempt(
    connection: Connection, row: AlertDeliveryRow, status: DeliveryStatus, due_at: str, error: str | None, at: str
) -> None:
    """Record how an attempt ended, unless another server has claimed the delivery meanwhile."""
    values = {"status": status, "due_at": due_at, "error": error, "ended_at": at}
    claimed = (*of_row(row), DELIVERIES.c.attempts == row.attempts)
    connection.execute(update(DELIVERIES).where(*claimed).values(**values))


def load_next_due(connection: Connection, endpoint: str) -> str | None:
    """Return when the next delivery to an endpoint is due."""
    waiting = (DELIVERIES.c.endpoint == endpoint, DELIVERIES.c.status == "waiting")
    found: str | None = connection.scalar(select(func.min(DELIVERIES.c.due_at)).where(*waiting))
    return found


def load_alerts(connection: Connection, model: str, count: int) -> list[AlertRow]:
    """Return the newest alerts about a model and about the service, newest first."""
    about = ALERTS.c.model.in_([model, ""])
    rows = connection.execute(select(ALERTS).where(about).order_by(ALERTS.c.created_at.desc()).limit(count)).mappings()
    return [AlertRow(**row) for row in rows]


def load_deliveries(connection: Connection, endpoint: str) -> JSONObject:
    """Return how the deliveries to an endpoint go: how many wait, when the last one arrived, and the last error."""
    mine = DELIVERIES.c.endpoint == endpoint
    waiting = select(func.count()).where(mine, DELIVERIES.c.status == "waiting")
    delivered = select(func.max(DELIVERIES.c.ended_at)).where(mine, DELIVERIES.c.status == "delivered")
    failed = select(DELIVERIES.c.error, DELIVERIES.c.ended_at).where(mine, DELIVERIES.c.error.is_not(None))
    last = connection.execute(failed.order_by(DELIVERIES.c.ended_at.desc()).limit(1)).first()
    return {
        "waiting": connection.scalar(waiting) or 0,
        "delivered_at": connection.scalar(delivered),
        "error": None if last is None else last.error,
        "failed_at": None if last is None else last.ended_at,
    }


def forget_alerts(connection: Connection, model: str, words: Collection[str]) -> None:
    """Delete the alerts about a model that name one of these words."""
    rows = connection.execute(select(ALERTS.c.id, ALERTS.c.body).where(ALERTS.c.model == model)).all()
    delete_alerts(connection, [id for id, body in rows if any(word in body for word in words)])
