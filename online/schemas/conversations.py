"""Conversations of a user with a ranker."""

import unicodedata
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from online.schemas.feedback import CorrectionScope, FeedbackStatus
from online.schemas.fields import Name, NativeRequest, Wire
from online.schemas.predict import RankedReply, ReplyRef

MAX_TITLE_CHARS = 80
INVISIBLE = ("Cc", "Cs", "Zl", "Zp")  # categories of characters that no title has: controls and line breaks
BIDI_CONTROLS = frozenset(
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # they turn what follows


def check_line(text: str) -> str:
    """Return the text, if it is one visible line. Raises ValueError for a text that is not one visible line."""
    kinds = [unicodedata.category(mark) for mark in text]
    if any(kind in INVISIBLE for kind in kinds) or not BIDI_CONTROLS.isdisjoint(text):
        raise ValueError("it must be one line, without control characters")
    if all(kind[0] == "Z" or kind == "Cf" for kind in kinds):
        raise ValueError("it must have a visible character")
    return text


Title = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TITLE_CHARS),
    AfterValidator(check_line),
]


class ConversationSummary(Wire):
    """A conversation, without its turns."""

    id: str
    title: str = Field(description="The first question, until it is renamed.")
    created_at: str
    updated_at: str = Field(description="When the last question was asked.")
    turns: int
    pinned: bool = Field(description="Whether it stands at the top of the list.")
    share_id: str | None = Field(description="Who knows it can read the conversation; null unless it is shared.")
    shared_at: str | None = Field(description="When it was shared, for the last time; later turns are not shared.")


class ConversationsAnswer(Wire):
    """A page of conversations."""

    conversations: list[ConversationSummary] = Field(description="Pinned ones first, then the newest first.")
    next: str | None = Field(
        description="What `before` takes for the conversations that follow; null after the last one."
    )


class ConversationChange(NativeRequest):
    """A change of a conversation; a field that is left out keeps its value."""

    title: Title | None = Field(None, description="One line of at most 80 characters.")
    pinned: bool | None = Field(None, description="Whether it stands at the top of the list.")

    @model_validator(mode="after")
    def check_change(self) -> Self:
        """Raise ValueError for a change that changes nothing."""
        if self.title is None and self.pinned is None:
            raise ValueError("give a title, or say whether it is pinned")
        return self


class ShareRequest(NativeRequest):
    """The part of a conversation that is shared."""

    until: Name | None = Field(
        None,
        description="The prediction_id of the last turn that is shared, with those that it follows. Default: the newest turn.",
    )


class ShareAnswer(Wire):
    """The id under which a conversation is shared."""

    share_id: str
    shared_at: str


class SharedTurn(Wire):
    """A turn as it is shared."""

    question: str | None = Field(description="Null where it was erased.")
    reply: str | None = Field(description="The text of the reply; null where there was none, or it exists no more.")


class SharedConversation(Wire):
    """The contents of a shared conversation: no user, no feedback, no id."""

    model: str
    title: str
    created_at: str
    shared_at: str
    turns: list[SharedTurn]


class TurnFeedback(Wire):
    """One feedback about a turn that is not retracted."""

    id: str
    status: FeedbackStatus
    version: str | None = None
    reward: float | None = None
    label: str | None = None
    correction: str | None = None
    scope: CorrectionScope | None = None
    reason: str | None = None
    comment: str | None = None
    note: str | None = Field(default=None, description="What the curator who rejected it wrote to its author.")


class Turn(Wire):
    """A question and its reply, at its place in the conversation."""

    prediction_id: str
    after: str = Field(
        description="The prediction_id of the turn that it follows; empty for the start of the conversation."
    )
    question: str | None = Field(description="Null where it was erased.")
    reply: ReplyRef | None
    candidates: list[RankedReply]
    besides: list[str] = Field(description="The replies that the request excluded.")
    model_version: str
    created_at: str
    feedback: list[TurnFeedback]


class ConversationAnswer(ConversationSummary):
    """A conversation with all its turns."""

    said: list[Turn] = Field(description="The turns of all branches, in order of time.")


class DeletedConversation(Wire):
    """A conversation that was deleted."""

    id: str
    turns: int
