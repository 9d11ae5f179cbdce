"""The review of feedback, within the transaction that stores it. This class admits all; a plugin derives from it.

    item, within its caller's scopes --admit--> learned at once, as that of a holder with a number --note_recorded
                                          +---> held: stored, and learned only once it is accepted
                                          +---> refused: an error

find_review() --> FeedbackReview, asked wherever feedback is recorded: in the store process, or in a server without one
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection

from online.installed import collect_one
from online.schemas.access.callers import Caller
from online.serving.processes.store_messages import NewFeedback
from online.settings import ModelSettings, Settings
from online.store.callers.held_feedback import HoldReason
from online.store.predictions import PredictionRow


@dataclass(frozen=True, slots=True)
class SubmittedItem:
    """An item that its caller's scopes permit, and that is about an answer of the caller.

    place: in its request, for errors. subject: the reply or class that it is about; None for one that it would bring along,
    and for sums. is_teaching: whether it adds something that was not there.
    """

    place: int
    item: NewFeedback
    caller: Caller
    prediction: PredictionRow | None
    subject: str | None
    is_teaching: bool


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision about one item.

    hold: why it is not learned yet; None if it is. holder: the number of its holder, as in `Event`.
    """

    is_teaching: bool
    hold: HoldReason | None = None
    holder: int = 0


class FeedbackReview:
    """Decides about feedback of callers that are not trusted. Each method is called in the transaction that it is about.

    can_hold: whether feedback may be held, so that callers whose teaching is reviewed may teach.
    """

    can_hold = False

    def admit(
        self, connection: Connection, settings: Settings, model: ModelSettings, submitted: SubmittedItem
    ) -> Admission:
        """Decide about an item. Raises Forbidden, and QuotaExceeded for too much that waits. Sums cannot be held."""
        return Admission(submitted.is_teaching)

    def note_recorded(
        self, connection: Connection, model: ModelSettings, item: NewFeedback, choice: str | None
    ) -> None:
        """Note an item of such a caller that was recorded. choice: what was answered to it; None without a prediction."""

    def note_added(
        self,
        connection: Connection,
        model: str,
        caller: Caller,
        id: str,
        replies: Sequence[str],
        examples: Sequence[str],
    ) -> None:
        """Note what such a caller has added to a repertoire at once.

        id: a new one. replies: ids of new replies. examples: ids of the events of example questions.
        """

    def note_retracted(self, connection: Connection, model: str, ids: Sequence[str]) -> None:
        """Note that feedback was retracted."""


@cache
def find_review() -> FeedbackReview:
    """Return that of the plugin which has a review; else one that admits everything."""
    return collect_one("feedback_review", FeedbackReview())
