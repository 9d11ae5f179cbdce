"""Records in the audit log what a request has done, and who sent it. A handler calls it before it answers.

What is done is acknowledged, whatever follows it: an entry that cannot be appended now is appended later.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from fastapi import Request

from online.api.auth.authentication import CALLER
from online.errors import OnlineError
from online.schemas.access.callers import Caller
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.runtime import Runtime
from online.store.callers.audit import AuditEntry
from online.telemetry import log_event

log = logging.getLogger("online.api")


async def record_action(
    request: Request, action: str, model: str | None = None, target: object = None, **details: object
) -> None:
    """Append an entry, durably. target: a version, a label of a version, or an offset."""
    await record(request.app.state.runtime, request.scope[CALLER], action, model, target, **details)


async def record(
    runtime: Runtime, caller: Caller, action: str, model: str | None = None, target: object = None, **details: object
) -> None:
    """Append an entry for a caller, for requests that do not come over HTTP."""
    named = None if target is None else str(target)
    entry = AuditEntry(caller.id, action, caller.address, model, named, details, caller.is_person)
    await asyncio.shield(asyncio.to_thread(runtime.workspace.audit.record_or_postpone, entry))


async def record_corrections(
    runtime: Runtime, caller: Caller, model: str, items: Sequence[FeedbackItem], receipts: Sequence[Receipt]
) -> None:
    """Append one entry for the corrections among the feedback of a request. Ratings and labels are too many for the log."""
    offsets = [receipt.offset for item, receipt in zip(items, receipts, strict=True) if item.correction is not None]
    if offsets:
        await record(runtime, caller, "teach", model, name_offset(offsets[0]), corrections=len(offsets))


async def follow(work: Awaitable[object], what: str) -> None:
    """Wait for what follows something that is done already. Its failure is logged, and makes nothing undone.

    what: it is, in a log line. Something in the background does it later.
    """
    try:
        await work
    except (OnlineError, OSError) as error:
        log_event(log, f"{what} later", logging.WARNING, reason=str(error))


def name_offset(offset: int | None) -> str | None:
    """Return the audit log's name of an offset, or None."""
    return None if offset is None else f"offset {offset}"
