"""Admits sums of a caller: all of them are learned at once, or none.

it is a visitor, or lacks the scope teach  --> Forbidden: a visitor with a new cookie would have a new limit
its feedback is quarantined                --> Forbidden: a curator could not decide about sums
its examples that stand are too many       --> QuotaExceeded
"""

from datetime import UTC, datetime

from sqlalchemy import Connection

from online.errors import Forbidden, QuotaExceeded
from online.schemas.access.callers import Caller
from online.serving.feedback.influence import Influence
from online.settings import Settings
from online.store.feedback import count_summed_examples

DAY_S = 86_400


def admit_sums(
    connection: Connection, settings: Settings, influence: Influence, caller: Caller, holder: str, example_count: int
) -> int:
    """Return the number of the holder, as in `Event`. Raises Forbidden and QuotaExceeded."""
    check_may_send_sums(caller)
    standing = influence.load_or_create_standing(connection, caller, holder, datetime.now(UTC))
    if standing.is_quarantined:
        raise Forbidden(f"the feedback of {holder!r} is quarantined: its sums are not learned")
    most = settings.max_merge_examples_per_user
    stands = count_summed_examples(connection, influence.model.name, holder)
    if stands + example_count > most:
        raise QuotaExceeded(
            f"{holder!r} has already contributed {stands:,} examples; {example_count:,} more would exceed "
            f"max_merge_examples_per_user ({most:,}). Retract earlier sums first.",
            DAY_S,
        )
    return standing.number


def check_may_send_sums(caller: Caller) -> None:
    """Raise Forbidden."""
    if caller.is_visitor:
        raise Forbidden("sums are taken of callers with a key and of users who are signed in, not of visitors")
    if not caller.may("teach"):
        raise Forbidden(f"sums teach, which needs the scope 'teach', and the caller {caller.id!r} lacks it")
