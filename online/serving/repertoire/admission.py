"""Admits changes of a repertoire: callers that teach may add, within their quotas; curators may change everything."""

from collections.abc import Sequence

from sqlalchemy import Connection

from online.errors import Forbidden
from online.schemas.access.callers import Caller
from online.serving.feedback.admission import charge_teaching
from online.serving.repertoire.repertoire import ReplyChange
from online.settings import Settings
from online.store.repertoire.replies import find_reply


def admit_changes(
    connection: Connection, changes: Sequence[ReplyChange], model: str, caller: Caller, settings: Settings
) -> None:
    """Raise Forbidden for a change to a reply that is there, and QuotaExceeded. A curator may do everything."""
    if caller.is_trusted:
        return
    if caller.is_visitor:
        raise Forbidden("a visitor teaches by correcting an answer; adding replies needs a key with the scope 'teach'")
    for change in changes:
        known = None if change.new else find_reply(connection, model, change.id)
        is_changed = known is not None and (
            change.text not in (None, known.text) or change.active not in (None, known.active)
        )
        if is_changed:
            raise Forbidden(
                f"the reply {change.id!r} is there; to change, retire or restore it needs the scope 'curate', "
                f"which the caller {caller.id!r} lacks"
            )
    charge_teaching(connection, settings, caller, sum(1 + len(change.examples) for change in changes))
