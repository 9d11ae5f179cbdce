"""The repertoire of a ranker: replies, their example questions, files of them."""

from typing import Literal

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


class ReplyLine(NativeRequest):
    """A reply in a file."""

    id: Id | None = None
    text: Text
    examples: list[Text] = Field(default_factory=list, max_length=1_000)
    active: bool = True


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


LineErrorCode = Literal[
    "not_json",
    "not_object",
    "not_csv",
    "cell_count",
    "formula_without_value",
    "error_value",
    "number_format",
    "no_column",
    "missing",
    "unknown_field",
    "not_text",
    "not_list",
    "not_boolean",
    "not_id",
    "not_valid",
    "no_text",
    "too_long",
    "text_taken",
    "second_text",
]


class LineProblem(Wire):
    """The problem of a line, for programs that word it themselves."""

    code: LineErrorCode
    field: str | None = Field(description="The field that is wrong; null for the whole line.")
    entry: int | None = Field(description="Which entry of that field is wrong, from 1; null for the whole field.")
    about: str | None = Field(
        description="`cell_count`: the cells that the header names. `too_long`: the most characters. `text_taken`: the id "
        "of the other reply. `second_text`: the other line. `formula_without_value`, `error_value`, `number_format`, "
        "`no_column`: the cell of the sheet, such as B3. Null for other codes."
    )


class SharedExample(Wire):
    """An example of a line that another reply in use has, too. Of the two, the one that is learned last counts."""

    example: str
    reply: str = Field(description="The id of the other reply.")
    line: int | None = Field(description="The line that gives it to that reply; null: it had it before.")


class ImportedLine(Wire):
    """The effect of one line. does: its changes; empty for none. was: the text that it replaces."""

    line: int
    id: str
    text: str
    does: list[Literal["new", "reworded", "examples", "restored", "retired"]]
    examples: int = Field(description="The number of example questions that it adds.")
    was: str | None
    shared: list[SharedExample] = Field(description="Its new examples that another reply has, too.")
    error: str | None = Field(description="What is wrong with the line, in English; null for a valid one.")
    problem: LineProblem | None = Field(description="The same as a code; null for a valid line.")


class ImportAnswer(Wire):
    """The result of an import, or of its preview."""

    lines: list[ImportedLine]
    sheet: str | None = Field(description="The sheet of a workbook that was read; null for other files.")
    other_sheets: list[str] = Field(description="The sheets of the workbook that were not read.")
    bad: int = Field(description="The number of invalid lines.")
    shared: int = Field(description="The number of new examples that another reply has, too.")
    offset: int | None = Field(
        description="A version that has learned this offset has all changes; null: nothing was changed."
    )


class RepliesAnswer(Wire):
    """A page of the repertoire."""

    replies: list[ReplySummary]
    next: str | None = Field(
        description="The value of `after` for the replies that follow; null if these are the last."
    )
    found: int = Field(description="How many replies fit `q` and `show`, on all pages.")
    counts: ReplyCounts
