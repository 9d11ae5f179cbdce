"""Admits feedback of a caller.

    about what somebody else was answered  --> NotFound, as if there were no such prediction
    it teaches (see `is_teaching`)         --> needs the scope teach, or a review that can hold it
    the review holds or refuses it         --> held, or an error (see feedback_review.py)
    over a quota of the hour               --> QuotaExceeded
    otherwise                              --> it replaces what the same holder said about the same prediction

A holder is who has an opinion: the user on whose behalf the feedback is given, or else the caller. All of this is decided
in the transaction that stores the feedback.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from online.errors import Forbidden, QuotaExceeded
from online.models import spec_of
from online.schemas.access.callers import Caller
from online.serving.feedback.events import find_subject
from online.serving.feedback.feedback_review import Admission, FeedbackReview, SubmittedItem
from online.serving.feedback.sums.admission import check_may_send_sums, check_room_for_sums
from online.serving.processes.store_messages import NewFeedback
from online.settings import ModelSettings, Settings
from online.store.callers.held_feedback import HeldFeedbackRow
from online.store.callers.quotas import use_quota
from online.store.classes import is_taught_class
from online.store.feedback import FeedbackRow
from online.store.predictions import PredictionRow
from online.store.repertoire.replies import find_reply_by_text


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
    model: ModelSettings,
    review: FeedbackReview,
    caller: Caller,
    place: int,
    item: NewFeedback,
    prediction: PredictionRow | None,
) -> Admission:
    """Decide about one item. Raises Forbidden for teaching by a caller that may not teach, and QuotaExceeded for too much that waits."""
    if item.outcome is not None and not caller.may("operate"):
        raise Forbidden(f"feedback {place} is an outcome, what an answer cost, which needs the scope 'operate'")
    if caller.is_trusted:
        return Admission(False)
    if item.example_count:
        check_may_send_sums(caller)
        admission = review.admit(connection, settings, model, SubmittedItem(place, item, caller, None, None, True))
        check_room_for_sums(connection, settings, model.name, holder_of(caller, item.user), item.example_count)
        return admission
    teaches = is_teaching(connection, model, item)
    if teaches and not caller.may("teach") and not (caller.is_reviewed and review.can_hold):
        raise Forbidden(
            f"feedback {place} teaches something new, which needs the scope 'teach'; the caller {caller.id!r} may "
            "only rate its own answers and pick existing replies or classes"
        )
    subject = find_subject(connection, model, place, item, prediction)
    return review.admit(connection, settings, model, SubmittedItem(place, item, caller, prediction, subject, teaches))


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


def use(connection: Connection, holder: str, kind: str, count: int, most: int, at: datetime) -> None:
    """Count a use against a quota. Raises QuotaExceeded."""
    if use_quota(connection, holder, kind, count, at) > most:
        next_hour = at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        raise QuotaExceeded(
            f"more than {most} items of {kind} in an hour ({kind}_per_hour); try again later",
            int((next_hour - at).total_seconds()) + 1,
        )
