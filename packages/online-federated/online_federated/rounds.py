"""The rounds of a cohort as a machine of states, in the store, so that any process may answer any request.

    joining --full, or time is up--> sharing --> masking --> unmasking --> adding --> done
       \\__ too few members _________\\____________\\__________\\____________\\________> failed

A round ends when every remaining member has answered, or at its deadline. There is no timer: the last message of
a round moves the cohort on, and so does the first request after a deadline. All other requests only read.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import get_args

from sqlalchemy import Connection

from online_federated.schemas import CohortParameters
from online_federated.secure_aggregation.messages import choose_threshold
from online_federated.tables import CohortRow, CohortState, change_cohort, count_messages, load_cohort

ROUNDS: tuple[CohortState, ...] = ("joining", "sharing", "masking", "unmasking")
STATES: tuple[CohortState, ...] = get_args(CohortState)
WHAT = {"joining": "members joined", "sharing": "members sent shares", "masking": "members sent values"}


def is_due(row: CohortRow, now: datetime) -> bool:
    """Return whether the time of the present round is up."""
    return row.state in ROUNDS and now >= datetime.fromisoformat(row.deadline)


def advance(connection: Connection, row: CohortRow, now: datetime, least: int) -> CohortRow:
    """Move a cohort on as far as it has come; its row is locked. least: members below which it fails."""
    while (changes := end_round(connection, row, now, least)) is not None:
        changed = change_cohort(connection, row, changes)
        if changed is None:  # another process has moved it on
            return load_cohort(connection, row.model, row.id) or row
        row = changed
    return row


def end_round(connection: Connection, row: CohortRow, now: datetime, least: int) -> Mapping[str, object] | None:
    """Return what changes because the present round is over; None while it is not."""
    if row.state not in ROUNDS:
        return None
    parameters = CohortParameters.model_validate_json(row.parameters)
    place = ROUNDS.index(row.state)
    came = count_messages(connection, row.model, row.id, row.state)
    before = parameters.size if place == 0 else count_messages(connection, row.model, row.id, ROUNDS[place - 1])
    if came < before and not is_due(row, now):
        return None
    needed = count_needed(row, least)
    if came < needed:
        what = WHAT.get(row.state, "members revealed shares")
        return {"state": "failed", "reason": f"{came} {what}, and {needed} are needed"}
    state = STATES[place + 1]
    deadline = now if state == "adding" else now + timedelta(seconds=parameters.round_s)
    members = {"member_count": came} if place == 0 else {}
    return {"state": state, "deadline": deadline.isoformat(), **members}


def count_needed(row: CohortRow, least: int) -> int:
    """Return the members that the present round needs. Until values came, it decides whose sums are in the total."""
    threshold = choose_threshold(row.member_count) if row.member_count else 2
    return threshold if row.state == "unmasking" else max(least, threshold)
