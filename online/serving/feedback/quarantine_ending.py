"""The end of a quarantine: its feedback is kept, or all of it is retracted.

Feedback is retracted in several transactions, so that others can write in between. A process that
is killed in between leaves the quarantine open; the next call continues where it stopped.
"""

from typing import NamedTuple

from sqlalchemy import Connection

from online.errors import NotFound
from online.schemas.control import ControlChange
from online.serving.feedback.retraction import find_closed_until, record_retraction
from online.serving.transactions import Transactions
from online.snapshots.agreed import ServingState
from online.store import now, quarantine
from online.store.events import head_of
from online.store.feedback import list_unretracted_between

MAX_RETRACTIONS = 200  # in one transaction


class EndedQuarantine(NamedTuple):
    """A quarantine that is ended, and the change that thaws the model, which is recorded and not carried out yet."""

    row: quarantine.QuarantineRow
    change: ControlChange
    recorded: tuple[int, ServingState]


async def end_quarantine(transactions: Transactions, outcome: quarantine.Outcome) -> EndedQuarantine:
    """End the open quarantine of a model; the caller carries out the change. Raises NotFound if there is none."""
    ended: EndedQuarantine | None = None
    while ended is None:
        ended = await transactions.commit(lambda connection: record_end(connection, transactions, outcome))
    return ended


def record_end(
    connection: Connection, transactions: Transactions, outcome: quarantine.Outcome
) -> EndedQuarantine | None:
    """Return one transaction of it; None while there is more feedback to retract."""
    model = transactions.name
    row = quarantine.load_open(connection, model)
    if row is None:
        raise NotFound(f"no feedback of {model} is in quarantine")
    until = head_of(connection, model)
    since = max(row.since, 1 + find_closed_until(connection, model))  # what has expired was learned before
    unretracted = list_unretracted_between(connection, model, since, until) if outcome == "dropped" else []
    for id in unretracted[:MAX_RETRACTIONS]:
        record_retraction(connection, transactions.spec, id)
    if len(unretracted) > MAX_RETRACTIONS:
        return None
    row.until, row.outcome, row.ended_at = until, outcome, now()
    quarantine.end(connection, row, until, outcome, row.ended_at)
    change = ControlChange("end_quarantine", is_held=outcome == "dropped", since=row.since, outcome=outcome)
    return EndedQuarantine(row, change, transactions.versions.record(connection, change))
