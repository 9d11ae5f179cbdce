"""Records in the audit log what a request has done, and who sent it. A handler calls it before it answers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from online.api.auth import is_local
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.runtime import Runtime
from online.store.callers.audit import AuditEntry


@dataclass(frozen=True, slots=True)
class Actor:
    """Who sends a request: an id without words that users chose, such as "key:ab12cd34", and the address."""

    id: str
    address: str


def actor_of(request: Request) -> Actor:
    """The sender: this machine, the holder of the admin key, or just an address."""
    address = request.client.host if request.client else ""
    if is_local(request):
        return Actor("local", address)
    has_key = "x-admin-key" in request.headers or "authorization" in request.headers
    return Actor("admin" if has_key else "address only", address)


async def record_action(
    request: Request, action: str, model: str | None = None, target: object = None, **details: object
) -> None:
    """Append an entry, durably. target: a version, a label of a version, or an offset. Raises Unavailable."""
    await record(request.app.state.runtime, actor_of(request), action, model, target, **details)


async def record(
    runtime: Runtime, actor: Actor, action: str, model: str | None = None, target: object = None, **details: object
) -> None:
    """Append an entry for an actor, for requests that do not come over HTTP."""
    named = None if target is None else str(target)
    entry = AuditEntry(actor.id, action, actor.address, model, named, details)
    await asyncio.shield(asyncio.to_thread(runtime.workspace.audit.record, entry))


async def record_corrections(
    runtime: Runtime, actor: Actor, model: str, items: Sequence[FeedbackItem], receipts: Sequence[Receipt]
) -> None:
    """Append one entry for the corrections among the feedback of a request. Ratings and labels are too many for the log."""
    offsets = [receipt.offset for item, receipt in zip(items, receipts, strict=True) if item.correction is not None]
    if offsets:
        await record(runtime, actor, "teach", model, name_offset(offsets[0]), corrections=len(offsets))


def name_offset(offset: int | None) -> str | None:
    return None if offset is None else f"offset {offset}"
