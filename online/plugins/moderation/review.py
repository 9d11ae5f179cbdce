"""The notes of moderation about feedback, in the transaction that stores it.

a thumb down, a correction, another reply  --recorded-->  an open item of the inbox  --retracted--> it is closed
replies, example questions                 --added----->  a decision that curators can undo
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from online.models import spec_of
from online.plugins.moderation.inbox.additions import record_addition
from online.plugins.moderation.inbox.tables import add_open_items, close_items
from online.schemas.access.callers import Caller
from online.schemas.events import is_positive
from online.serving.feedback.feedback_review import FeedbackReview
from online.serving.processes.store_messages import NewFeedback
from online.settings import ModelSettings
from online.store import now


class Moderation(FeedbackReview):
    """Lists what curators look at."""

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


def is_complaint(item: NewFeedback, choice: str | None) -> bool:
    """Return whether an item is a thumb down, a correction, or names another reply. choice: the reply that was given."""
    if item.reward is not None:
        return not is_positive(item.reward)
    return item.correction is not None or item.label != choice
