"""The rounds of a cohort as a machine of states, in the store, so that any process may answer any request.

    joining --full, or time is up--> sharing --> masking --> unmasking --> adding --> done
       \\__ too few members _________\\____________\\__________\\____________\\________> failed

A round ends when everybody that the round before has left has answered, or at its deadline. There is no timer: whoever asks
about a cohort moves it on first.
"""

from datetime import datetime, timedelta
from typing import get_args

from sqlalchemy import Connection

from online.schemas.exchange.cohorts import CohortParameters
from online.secure_aggregation.messages import choose_threshold
from online.store.cohorts import CohortRow, CohortState, list_numbers, set_cohort

ROUNDS: tuple[CohortState, ...] = ("joining", "sharing", "masking", "unmasking")
STATES: tuple[CohortState, ...] = get_args(CohortState)
WHAT = {"joining": "members joined", "sharing": "members sent shares", "masking": "members sent values"}


def advance(connection: Connection, row: CohortRow, now: datetime, least: int) -> CohortRow:
    """Move a cohort on as far as it has come; its row is locked. least: members below which it fails."""
    while row.state in ROUNDS and (changed := end_round(connection, row, now, least)):
        set_cohort(connection, row)
        if changed == "failed":
            break
    return row


def end_round(connection: Connection, row: CohortRow, now: datetime, least: int) -> CohortState | None:
    """Change the row if its round is over; return the new state."""
    parameters = CohortParameters.model_validate_json(row.parameters)
    place = ROUNDS.index(row.state)
    came = len(list_numbers(connection, row.model, row.id, row.state))
    before = parameters.size if place == 0 else len(list_numbers(connection, row.model, row.id, ROUNDS[place - 1]))
    if came < before and now < datetime.fromisoformat(row.deadline):
        return None
    needed = count_needed(row, least)
    if came < needed:
        what = WHAT.get(row.state, "members revealed shares")
        row.state, row.reason = "failed", f"{came} {what}, and {needed} are needed"
        return "failed"
    row.member_count = came if place == 0 else row.member_count
    row.state = STATES[place + 1]
    row.deadline = (now + timedelta(seconds=parameters.round_s)).isoformat()
    return STATES[place + 1]


def count_needed(row: CohortRow, least: int) -> int:
    """The members that the present round needs. Until values came, it decides whose sums are in the total."""
    threshold = choose_threshold(row.member_count) if row.member_count else 2
    return threshold if row.state == "unmasking" else max(least, threshold)
