"""Records in the audit log what a request has done, and who sent it. A handler calls it before it answers."""

import asyncio
from collections.abc import Sequence

from fastapi import Request

from online.api.auth.authentication import CALLER
from online.schemas.access.callers import Caller
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.runtime import Runtime
from online.store.callers.audit import AuditEntry


async def record_action(
    request: Request, action: str, model: str | None = None, target: object = None, **details: object
) -> None:
    """Append an entry, durably. target: a version, a label of a version, or an offset. Raises Unavailable."""
    await record(request.app.state.runtime, request.scope[CALLER], action, model, target, **details)


async def record(
    runtime: Runtime, caller: Caller, action: str, model: str | None = None, target: object = None, **details: object
) -> None:
    """Append an entry for a caller, for requests that do not come over HTTP."""
    named = None if target is None else str(target)
    entry = AuditEntry(caller.id, action, caller.address, model, named, details)
    await asyncio.shield(asyncio.to_thread(runtime.workspace.audit.record, entry))


async def record_corrections(
    runtime: Runtime, caller: Caller, model: str, items: Sequence[FeedbackItem], receipts: Sequence[Receipt]
) -> None:
    """Append one entry for the corrections among the feedback of a request. Ratings and labels are too many for the log."""
    offsets = [receipt.offset for item, receipt in zip(items, receipts, strict=True) if item.correction is not None]
    if offsets:
        await record(runtime, caller, "teach", model, name_offset(offsets[0]), corrections=len(offsets))


def name_offset(offset: int | None) -> str | None:
    return None if offset is None else f"offset {offset}"
