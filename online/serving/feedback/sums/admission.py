"""Admits sums of a caller: all of them are learned at once, or none.

it is a visitor, or lacks the scope teach  --> Forbidden: a visitor with a new cookie would have a new limit
the review refuses its feedback            --> Forbidden: a curator could not decide about sums
its examples that stand are too many       --> QuotaExceeded
"""

from sqlalchemy import Connection

from online.errors import Forbidden, QuotaExceeded
from online.schemas.access.callers import Caller
from online.settings import Settings
from online.store.feedback import count_summed_examples

DAY_S = 86_400


def check_may_send_sums(caller: Caller) -> None:
    """Raise Forbidden."""
    if caller.is_visitor:
        raise Forbidden("sums are taken of callers with a key and of users who are signed in, not of visitors")
    if not caller.may("teach"):
        raise Forbidden(f"sums teach, which needs the scope 'teach', and the caller {caller.id!r} lacks it")


def check_room_for_sums(
    connection: Connection, settings: Settings, model: str, holder: str, example_count: int
) -> None:
    """Raise QuotaExceeded for sums of too many examples of one holder."""
    most = settings.max_merge_examples_per_user
    stands = count_summed_examples(connection, model, holder)
    if stands + example_count > most:
        raise QuotaExceeded(
            f"{holder!r} has already contributed {stands:,} examples; {example_count:,} more would exceed "
            f"max_merge_examples_per_user ({most:,}). Retract earlier sums first.",
            DAY_S,
        )
