"""The repertoire of a ranker: replies, their example questions, files of them, unanswered questions."""

from typing import Literal

from pydantic import ConfigDict, Field

from online.schemas.fields import Id, NativeRequest, Text, Wire
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


class ReplyLine(NativeRequest):
    """A reply in a file."""

    id: Id | None = None
    text: Text
    examples: list[Text] = Field(default_factory=list, max_length=1_000)
    active: bool = True


class ReplyState(ReplyRef):
    active: bool
    offset: int


class ReplySummary(ReplyState):
    examples: int = Field(description="The number of its example questions.")
    rated: int = Field(
        description="How many ratings in force judge it where it was given: one for each answer and person, without what was "
        "replaced or taken back."
    )
    right: int


class ReplyExample(Wire):
    text: str
    offset: int


class ReplyFeedback(Wire):
    """A feedback about a reply: that it is right for a question, or (`right` false) that it is wrong."""

    question: str
    feedback_id: str
    offset: int
    right: bool


class ReplyDetails(ReplyState):
    examples: list[ReplyExample]
    taught: list[ReplyFeedback] = Field(description="The newest feedback about it, newest first.")


class ImportedLine(Wire):
    """The effect of one line. does: its changes; empty for none. was: the text that it replaces."""

    line: int
    id: str
    text: str
    does: list[Literal["new", "reworded", "examples", "restored", "retired"]]
    examples: int = Field(description="The number of example questions that it adds.")
    was: str | None
    error: str | None


class ImportAnswer(Wire):
    lines: list[ImportedLine]
    bad: int = Field(description="The number of invalid lines.")
    offset: int | None = Field(
        description="A version that has learned this offset has all changes; null: nothing was changed."
    )


class UnansweredQuestion(Wire):
    text: str
    predictions: list[str] = Field(description="The ids of the predictions, newest first.")
    asked_at: str


class UnansweredCluster(Wire):
    """Questions of similar meaning."""

    asked: int
    questions: list[UnansweredQuestion]


class UnansweredAnswer(Wire):
    clusters: list[UnansweredCluster]


class RepliesAnswer(Wire):
    replies: list[ReplySummary]
