"""Admits feedback of a caller, and decides whether it is learned at once.

    about what somebody else was answered  --> NotFound, as if there were no such prediction
    it teaches (see `is_teaching`)         --> needs the scope teach; a reviewed caller's is held
    it contradicts an example question     --> a reviewed caller's is held (see example_questions.py)
    its holder has said enough already     --> it is held until others agree (see influence.py)
    over a quota of the hour               --> QuotaExceeded
    otherwise                              --> it replaces what the same holder said about the same prediction

A holder is who has an opinion: the user on whose behalf the feedback is given, or else the caller. All of this is decided
in the transaction that stores the feedback.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from online.errors import Forbidden, QuotaExceeded
from online.models import spec_of
from online.schemas.access.callers import Caller
from online.serving.feedback.events import find_subject
from online.serving.feedback.example_questions import contradicts_examples
from online.serving.feedback.influence import Influence
from online.serving.feedback.sums.admission import admit_sums
from online.serving.processes.store_messages import NewFeedback
from online.settings import ModelSettings, Settings
from online.store.callers.held_feedback import HeldFeedbackRow, HoldReason, count_undecided
from online.store.callers.quotas import QuotaKind, use_quota
from online.store.classes import is_taught_class
from online.store.feedback import FeedbackRow
from online.store.predictions import PredictionRow
from online.store.repertoire.replies import find_reply_by_text

MAX_HELD = 100  # items of one holder that wait for a curator, or for others to agree
MAX_HELD_IN_ALL = 10_000


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision about one item.

    hold: why it is not learned yet; None if it is. holder: the number of its holder, as in `Event`.
    """

    is_teaching: bool
    hold: HoldReason | None = None
    holder: int = 0


def holder_of(caller: Caller, user: str | None) -> str:
    """Return the holder of a statement: the user on whose behalf it is made, else the caller."""
    return user if user is not None else caller.id


def owns_feedback(caller: Caller, row: FeedbackRow | HeldFeedbackRow) -> bool:
    """Return whether a caller may ask about a feedback, held or not, and retract it: its own; a curator may do so with any."""
    if caller.may("curate") or caller.may("impersonate"):
        return True
    return row.user == caller.user if row.user is not None else row.caller == caller.id


def is_teaching(connection: Connection, model: ModelSettings, item: NewFeedback) -> bool:
    """Return whether an item adds something that was not there: a new reply or class, or an example of its own.

    A correction that supersedes a reply for other questions counts as well: it may change much at once.
    """
    if item.input is not None or item.scope == "reply":
        return True
    if item.correction is not None:
        reply = find_reply_by_text(connection, model.name, item.correction)
        return reply is None or not reply.active
    kind = spec_of(model.kind)
    if item.label is None or kind.has_repertoire or kind.predicts_numbers:
        return False
    return not is_taught_class(connection, model.name, item.label)


def admit(
    connection: Connection,
    settings: Settings,
    influence: Influence,
    caller: Caller,
    place: int,
    item: NewFeedback,
    prediction: PredictionRow | None,
) -> Admission:
    """Decide about one item. Raises Forbidden for teaching by a caller that may not teach, and QuotaExceeded for too much that waits."""
    if caller.is_trusted:
        return Admission(False)
    if item.example_count:
        holder = holder_of(caller, item.user)
        number = admit_sums(connection, settings, influence, caller, holder, item.example_count)
        return Admission(True, holder=number)
    model, at = influence.model, datetime.now(UTC)
    teaches = is_teaching(connection, model, item)
    if teaches and not caller.may("teach") and not caller.is_reviewed:
        raise Forbidden(
            f"feedback {place} teaches something new, which needs the scope 'teach'; the caller {caller.id!r} may "
            "only rate its own answers and pick existing replies or classes"
        )
    subject = find_subject(connection, model, place, item, prediction)
    standing = influence.load_or_create_standing(connection, caller, holder_of(caller, item.user), at)
    hold = influence.find_hold(connection, standing, item, subject)
    if hold != "quarantine" and needs_review(connection, model.name, caller, item, prediction, teaches, subject):
        hold = "review"
    if hold is None:
        influence.note_learned(connection, standing, at)
    else:
        check_room_for_held(connection, model.name, place, standing.holder)
    return Admission(teaches, hold, standing.number)


def needs_review(
    connection: Connection,
    model: str,
    caller: Caller,
    item: NewFeedback,
    prediction: PredictionRow | None,
    teaches: bool,
    subject: str | None,
) -> bool:
    """Return whether a curator decides about an item first: it adds something, or contradicts what curators have put down."""
    if caller.may("teach"):
        return False
    return teaches or (caller.is_reviewed and contradicts_examples(connection, model, item, prediction, subject))


def check_room_for_held(connection: Connection, model: str, place: int, holder: str) -> None:
    """Raise QuotaExceeded."""
    if count_undecided(connection, model, holder) >= MAX_HELD or count_undecided(connection, model) >= MAX_HELD_IN_ALL:
        raise QuotaExceeded(f"feedback {place}: too much waits for review; try again later", 3_600)


def charge(
    connection: Connection, settings: Settings, caller: Caller, new: Sequence[tuple[NewFeedback, Admission]]
) -> None:
    """Count the new items of a request against the quotas of their holders. Raises QuotaExceeded."""
    if caller.is_trusted or not new:
        return
    at = datetime.now(UTC)
    counts, teaching = Counter[str](), Counter[str]()
    for item, admission in new:
        counts[holder_of(caller, item.user)] += 1
        teaching[holder_of(caller, item.user)] += admission.is_teaching
    for holder in sorted(counts):
        use(connection, holder, "feedback", counts[holder], settings.feedback_per_hour, at)
        if teaching[holder]:
            use(connection, holder, "teaching", teaching[holder], settings.teaching_per_hour, at)


def charge_teaching(connection: Connection, settings: Settings, caller: Caller, count: int) -> None:
    """Count what a caller adds to a repertoire against its quota. Raises QuotaExceeded."""
    if count:
        use(
            connection, holder_of(caller, caller.user), "teaching", count, settings.teaching_per_hour, datetime.now(UTC)
        )


def use(connection: Connection, holder: str, kind: QuotaKind, count: int, most: int, at: datetime) -> None:
    """Count a use against a quota. Raises QuotaExceeded."""
    if use_quota(connection, holder, kind, count, at) > most:
        next_hour = at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        raise QuotaExceeded(
            f"more than {most} items of {kind} in an hour ({kind}_per_hour); try again later",
            int((next_hour - at).total_seconds()) + 1,
        )
