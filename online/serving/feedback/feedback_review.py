"""The review of feedback, within the transaction that stores it. This class notes nothing; a plugin derives from it.

find_review() --> FeedbackReview, asked wherever feedback is recorded: in the store process, or in a server without one
"""

from collections.abc import Sequence
from functools import cache
from typing import cast

from sqlalchemy import Connection

from online.installed import collect
from online.schemas.access.callers import Caller
from online.serving.processes.store_messages import NewFeedback
from online.settings import ModelSettings


class FeedbackReview:
    """Notes what callers teach that are not trusted. Each method is called in the transaction that it is about."""

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
    """Return that of the plugin which has a review; else one that does nothing."""
    return cast(FeedbackReview, next(iter(collect("feedback_review")), FeedbackReview()))
