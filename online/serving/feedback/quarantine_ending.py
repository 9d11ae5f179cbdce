"""The end of a quarantine: its feedback is kept, or all of it is retracted.

Feedback is retracted in several transactions, so that others can write in between. A process that
is killed in between leaves the quarantine open; the next call continues where it stopped.
"""

from sqlalchemy import Connection

from online.errors import NotFound
from online.serving.feedback.retraction import find_closed_until, record_retraction
from online.serving.transactions import Transactions
from online.store import now, quarantine
from online.store.events import head_of
from online.store.feedback import list_unretracted_between

MAX_RETRACTIONS = 200  # in one transaction


async def end_quarantine(transactions: Transactions, outcome: quarantine.Outcome) -> quarantine.QuarantineRow:
    """End the open quarantine of a model. Raises NotFound if there is none."""
    ended: quarantine.QuarantineRow | None = None
    while ended is None:
        ended = await transactions.commit(lambda connection: record_end(connection, transactions, outcome))
    return ended


def record_end(
    connection: Connection, transactions: Transactions, outcome: quarantine.Outcome
) -> quarantine.QuarantineRow | None:
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
    return row
