"""Decides about feedback in the transaction that stores it, and notes what curators look at.

    its holder is quarantined                  --> it is held; sums are refused
    it teaches, without the scope teach        --> it is held until a curator accepts it
    it contradicts an example question         --> a reviewed caller's is held (see example_questions.py)
    its holder has said enough already         --> it is held until others agree (see callers/influence.py)
    too much waits                             --> QuotaExceeded
    otherwise                                  --> it is learned at once

a thumb down, a correction, another reply  --recorded-->  an open item of the inbox  --retracted--> it is closed
replies, example questions                 --added----->  a decision that curators can undo
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection

from online.errors import Forbidden, QuotaExceeded
from online.models import spec_of
from online.plugins.moderation.callers.influence import Influence
from online.plugins.moderation.example_questions import contradicts_examples
from online.plugins.moderation.held.queries import count_undecided
from online.plugins.moderation.inbox.additions import record_addition
from online.plugins.moderation.inbox.tables import add_open_items, close_items
from online.schemas.access.callers import Caller
from online.schemas.events import is_positive
from online.serving.feedback.admission import holder_of
from online.serving.feedback.feedback_review import Admission, FeedbackReview, SubmittedItem
from online.serving.processes.store_messages import NewFeedback
from online.settings import ModelSettings, Settings
from online.store import now

MAX_HELD = 100  # items of one holder that wait for a curator, or for others to agree
MAX_HELD_IN_ALL = 10_000


class Moderation(FeedbackReview):
    """Holds what others have to agree with first, and lists what curators look at."""

    can_hold = True

    def admit(
        self, connection: Connection, settings: Settings, model: ModelSettings, submitted: SubmittedItem
    ) -> Admission:
        """Decide by the standing of the item's holder. Raises Forbidden for sums of a quarantined one, and QuotaExceeded."""
        caller, item, at = submitted.caller, submitted.item, datetime.now(UTC)
        influence = Influence(settings, model)
        standing = influence.load_or_create_standing(connection, caller, holder_of(caller, item.user), at)
        if item.example_count:
            if standing.is_quarantined:
                raise Forbidden(f"the feedback of {standing.holder!r} is quarantined: its sums are not learned")
            return Admission(True, holder=standing.number)
        hold = influence.find_hold(connection, standing, item, submitted.subject)
        if hold != "quarantine" and needs_review(connection, model.name, submitted):
            hold = "review"
        if hold is None:
            influence.note_learned(connection, standing, at)
        else:
            check_room_for_held(connection, model.name, submitted.place, standing.holder)
        return Admission(submitted.is_teaching, hold, standing.number)

    def note_recorded(
        self, connection: Connection, model: ModelSettings, item: NewFeedback, choice: str | None
    ) -> None:
        """Put an item into the inbox of a ranker that says that a reply was wrong, or what it should have been."""
        if spec_of(model.kind).has_repertoire and is_complaint(item, choice):
            add_open_items(connection, model.name, {item.id: now()})

    def note_added(
        self,
        connection: Connection,
        model: str,
        caller: Caller,
        id: str,
        replies: Sequence[str],
        examples: Sequence[str],
    ) -> None:
        """Let curators see an addition."""
        record_addition(connection, model, caller.id, id, replies, examples)

    def note_retracted(self, connection: Connection, model: str, ids: Sequence[str]) -> None:
        """Take feedback off the list."""
        close_items(connection, model, ids)


def needs_review(connection: Connection, model: str, submitted: SubmittedItem) -> bool:
    """Return whether a curator decides about an item first: it adds something, or contradicts what curators have put down."""
    if submitted.caller.may("teach"):
        return False
    said = (submitted.item, submitted.prediction, submitted.subject)
    return submitted.is_teaching or (submitted.caller.is_reviewed and contradicts_examples(connection, model, *said))


def check_room_for_held(connection: Connection, model: str, place: int, holder: str) -> None:
    """Raise QuotaExceeded."""
    if count_undecided(connection, model, holder) >= MAX_HELD or count_undecided(connection, model) >= MAX_HELD_IN_ALL:
        raise QuotaExceeded(f"feedback {place}: too much waits for review; try again later", 3_600)


def is_complaint(item: NewFeedback, choice: str | None) -> bool:
    """Return whether an item is a thumb down, a correction, or names another reply. choice: the reply that was given."""
    if item.reward is not None:
        return not is_positive(item.reward)
    return item.correction is not None or item.label != choice
