"""The repertoire of a ranker: replies and their example questions."""

from pydantic import ConfigDict, Field

from online.schemas.fields import RATED, Id, NativeRequest, Text, Wire
from online.schemas.predict import ReplyRef


class NewReply(Wire):
    """A reply to add, with example questions."""

    text: Text
    examples: list[Text] = Field(default_factory=list, max_length=100)
    id: Id | None = None


class NewReplyRequest(NewReply):
    """A request to add a reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class EditReply(NativeRequest):
    """The fields of a reply to change; fields that are left out stay."""

    text: Text | None = Field(
        None, description="The new text. The id and everything that was learned about the reply stay."
    )
    examples: list[Text] = Field(default_factory=list, max_length=100, description="Example questions to add.")
    active: bool | None = Field(None, description="False retires the reply, true restores it.")


class ReplyState(ReplyRef):
    """A reply of the repertoire."""

    active: bool
    offset: int


class RatedReply(ReplyState):
    """A reply with its ratings."""

    rated: int = Field(description=RATED)
    right: int = Field(description="Of those, the ones that say that the answer was right.")
    created_at: str | None = Field(description="When it was added. Null for replies of releases that did not note it.")


class ReplySummary(RatedReply):
    """A reply with the number of its examples."""

    examples: int = Field(description="The number of its example questions.")


class ReplyExample(Wire):
    """An example question of a reply."""

    text: str
    offset: int
    created_at: str | None = Field(description="Null for questions of releases that did not note it.")


class ReplyFeedback(Wire):
    """A feedback about a reply: that it is right for a question, or (`right` false) that it is wrong."""

    question: str
    feedback_id: str
    offset: int
    created_at: str
    right: bool


class ReplyDetails(RatedReply):
    """A reply with its examples and the feedback about it."""

    examples: list[ReplyExample]
    taught: list[ReplyFeedback] = Field(description="The newest feedback about it, newest first.")


class ReplyCounts(Wire):
    """The number of replies of each kind, whatever the search."""

    all: int
    given: int
    retired: int
    never_right: int = Field(description="Those that were rated, and never right.")


class RepliesAnswer(Wire):
    """A page of the repertoire."""

    replies: list[ReplySummary]
    next: str | None = Field(
        description="The value of `after` for the replies that follow; null if these are the last."
    )
    found: int = Field(description="How many replies fit `q` and `show`, on all pages.")
    counts: ReplyCounts
