"""Held feedback that waits for a decision: list it, count it, let it expire, and hold it again."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, select, update

from online.store.callers.held_feedback import HELD, HeldFeedbackRow, HoldReason, held_by
from online.store.database.values import now


def list_undecided(
    connection: Connection, model: str, count: int, holder: str | None = None, reasons: Sequence[HoldReason] = ()
) -> list[HeldFeedbackRow]:
    """Return the items that wait for a decision, oldest first. holder, reasons: only of this holder, only for these reasons."""
    query = select(HELD).where(HELD.c.model == model, HELD.c.decision.is_(None))
    if holder is not None:
        query = query.where(held_by == holder)
    if reasons:
        query = query.where(HELD.c.reason.in_(reasons))
    found = connection.execute(query.order_by(HELD.c.created_at, HELD.c.id).limit(count))
    return [HeldFeedbackRow(**row) for row in found.mappings()]


def count_undecided(connection: Connection, model: str, holder: str | None = None) -> int:
    """Return the number of items that wait for a decision. holder: only of this holder."""
    query = select(func.count()).select_from(HELD).where(HELD.c.model == model, HELD.c.decision.is_(None))
    return connection.scalar(query if holder is None else query.where(held_by == holder)) or 0


def hold_again(connection: Connection, model: str, id: str) -> None:
    """Take back the rejection of an item."""
    values = dict.fromkeys(("decision", "decided_by", "decided_at", "note"))
    connection.execute(update(HELD).where(HELD.c.model == model, HELD.c.id == id).values(**values))


def expire_undecided(
    connection: Connection, model: str, reason: HoldReason, created_before: str
) -> list[HeldFeedbackRow]:
    """Decide that what was held for a reason before an instant is never learned; return these items."""
    waiting = (HELD.c.model == model, HELD.c.decision.is_(None), HELD.c.created_at < created_before)
    values = {"decision": "expired", "decided_by": "service", "decided_at": now()}
    expired = update(HELD).where(*waiting, HELD.c.reason == reason).values(**values).returning(HELD)
    return [HeldFeedbackRow(**row) for row in connection.execute(expired).mappings()]
