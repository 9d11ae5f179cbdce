"""Conversations of a user with a ranker."""

from pydantic import Field

from online.schemas.feedback import CorrectionScope, FeedbackStatus
from online.schemas.fields import Wire
from online.schemas.predict import RankedReply, ReplyRef


class ConversationSummary(Wire):
    id: str
    title: str = Field(description="The first question.")
    created_at: str
    updated_at: str
    turns: int


class ConversationsAnswer(Wire):
    conversations: list[ConversationSummary] = Field(description="The newest first.")


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


class Turn(Wire):
    prediction_id: str
    question: str | None = Field(description="Null where it was erased.")
    reply: ReplyRef | None
    candidates: list[RankedReply]
    besides: list[str] = Field(description="The replies that the request excluded.")
    model_version: str
    created_at: str
    feedback: list[TurnFeedback]


class ConversationAnswer(ConversationSummary):
    said: list[Turn] = Field(description="The turns, in order.")


class DeletedConversation(Wire):
    id: str
    turns: int
