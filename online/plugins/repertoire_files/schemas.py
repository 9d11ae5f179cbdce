"""Files of replies: a line, what it does, and the result of an import."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Id, NativeRequest, Text, Wire


class ReplyLine(NativeRequest):
    """A reply in a file."""

    id: Id | None = None
    text: Text
    examples: list[Text] = Field(default_factory=list, max_length=1_000)
    active: bool = True


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
