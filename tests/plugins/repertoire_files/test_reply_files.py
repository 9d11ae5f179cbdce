"""A file of replies: parsing, invalid lines, and the changes it would make."""

import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import count

import pytest
from openpyxl import Workbook

from online.errors import BadInput
from online.plugins.repertoire_files.reply_files import (
    Format,
    ImportLineError,
    ImportPlan,
    PlannedLine,
    parse_file,
    write_file,
)
from online.plugins.repertoire_files.schemas import LineErrorCode, ReplyLine, SharedExample
from online.schemas.replies import NewReply
from online.serving.repertoire.repertoire import ReplyChange
from online.serving.repertoire.starter import find_shared_examples
from online.store.database.values import fold_text
from online.store.repertoire.replies import ReplyRow

TOO_LONG = "it has a text of 101 characters; at most 100 (max_text_chars)"
HOURS, RENEW = "We open at nine.", "Renew it on your account page."


def row(id: str, text: str, active: bool = True) -> ReplyRow:
    return ReplyRow(model="m", id=id, text=text, folded=fold_text(text), offset=1, active=active)


def new_ids() -> Iterator[str]:
    return (f"new{number}" for number in count(1))


def plan_lines(*lines: dict[str, object], examples: tuple[tuple[str, str], ...] = ()) -> list[PlannedLine]:
    """Plan the lines for a repertoire of two replies, one of them retired."""
    data = "\n".join(json.dumps(line) for line in lines).encode()
    return ImportPlan([row("hours", HOURS), row("renew", RENEW, active=False)], examples, new_ids(), 100).plan(
        parse_file(data, "jsonl").lines
    )


def plan_line(*lines: dict[str, object]) -> PlannedLine:
    return plan_lines(*lines)[0]


# lines


def test_invalid_lines_of_a_jsonl_are_reported_by_number_and_the_others_are_read() -> None:
    data = (
        b'{"text": "one"}\n\nnonsense\n{"text": "two", "colour": "red"}\n{"id": "a#b", "text": "three"}\n{"id": "x"}\n'
    )
    lines = parse_file(data, "jsonl").lines
    assert [(line.number, line.reply is not None) for line in lines] == [
        (1, True),
        (3, False),
        (4, False),
        (5, False),
        (6, False),
    ]
    assert [(line.error.code, line.error.field) for line in lines if line.error is not None] == [
        ("not_json", None),
        ("unknown_field", "colour"),
        ("not_id", "id"),
        ("missing", "text"),
    ]


def test_the_error_of_a_line_has_no_prefix_of_the_validator() -> None:
    (line,) = parse_file(b'{"id": "..", "text": "two"}', "jsonl").lines
    assert line.error == ImportLineError("not_id", "id: '.' and '..' are not valid ids", "id")


def test_usual_mistakes_in_a_line_are_told_without_the_words_of_a_parser() -> None:
    data = b'{"text": 3}\n{"text": "Hi", "examples": ["When?", 4]}\nWe open at nine.\n'
    number, entry, prose = parse_file(data, "jsonl").lines
    assert number.error == ImportLineError("not_text", '"text" must be text in quotation marks', "text")
    assert entry.error == ImportLineError(
        "not_text", '"examples, entry 2" must be text in quotation marks', "examples", 2
    )
    assert prose.number == 3 and prose.error is not None and prose.error.code == "not_json"
    assert prose.error.message.startswith('it is not JSON: a line looks like {"text": ')


@pytest.mark.parametrize(
    ("line", "code", "field", "message"),
    [
        ("3", "not_object", None, 'it is not an object: a line looks like {"text": "We open at nine."}'),
        ('{"id": "x"}', "missing", "text", '"text" is missing'),
        (
            '{"text": "a", "by": 1}',
            "unknown_field",
            "by",
            '"by" is not a known field; known are id, text, examples, active',
        ),
        ('{"text": "a", "examples": "b"}', "not_list", "examples", '"examples" must be a list in square brackets'),
        ('{"text": "a", "active": "perhaps"}', "not_boolean", "active", '"active" must be true or false'),
    ],
)
def test_an_error_has_a_code_and_the_field_beside_its_sentence(
    line: str, code: LineErrorCode, field: str | None, message: str
) -> None:
    (parsed,) = parse_file(line.encode(), "jsonl").lines
    assert parsed.error == ImportLineError(code, message, field)


def test_a_csv_has_one_example_per_line_of_a_cell() -> None:
    data = 'text,id,examples\r\n"Yes, we do.",yes,"Do you?\nReally?"\r\nNo.,,\r\n'.encode("utf-8-sig")
    first, second = (line.reply for line in parse_file(data, "csv").lines)
    assert first == ReplyLine(id="yes", text="Yes, we do.", examples=["Do you?", "Really?"])
    assert second == ReplyLine(text="No.")


def test_invalid_rows_of_a_csv_are_reported_by_their_first_line() -> None:
    lines = parse_file(b'id,text,active\na,"one\ntwo",true\nb\nc,three,perhaps\n', "csv").lines
    assert [(line.number, line.error) for line in lines] == [
        (2, None),
        (4, ImportLineError("cell_count", "it has 1 cells where the header names 3", about="3")),
        (5, ImportLineError("not_boolean", '"active" must be true or false', "active")),
    ]


@pytest.mark.parametrize(
    ("data", "format", "words"),
    [
        (b"\xff\xfe", "jsonl", "not UTF-8: at byte 0"),
        (b"id,words\n", "csv", "must name its columns"),
        (b"", "csv", "must name its columns"),
    ],
)
def test_a_file_of_another_format_is_refused(data: bytes, format: Format, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_file(data, format)


def write_workbook(*rows: Sequence[object]) -> bytes:
    book, file = Workbook(), BytesIO()
    for row in rows:
        book.active.append(row)
    book.create_sheet("Notes")
    book.save(file)
    return file.getvalue()


def test_a_workbook_has_the_columns_of_a_csv() -> None:
    rows: list[list[object]] = [
        ["Text", "ID", "Examples", "Active"],
        ["At nine.", "hours", "When?\nHow early?", False],
        [None],
        ["No.", 7],
    ]
    parsed = parse_file(write_workbook(*rows), "xlsx")
    assert [line.reply for line in parsed.lines] == [
        ReplyLine(id="hours", text="At nine.", examples=["When?", "How early?"], active=False),
        ReplyLine(id="7", text="No."),
    ]
    assert (parsed.sheet, parsed.others) == ("Sheet", ("Notes",))
    assert [line.number for line in parsed.lines] == [2, 4]


def test_a_cell_of_a_workbook_that_has_no_value_is_the_error_of_its_row() -> None:
    first, second = parse_file(write_workbook(["text"], ["=UPPER(B2)"], ["No."]), "xlsx").lines
    assert first.error is not None and (first.error.code, first.error.about) == ("formula_without_value", "A2")
    assert second.reply == ReplyLine(text="No.")


@pytest.mark.parametrize("names", [["text", "text"], ["id"], ["text", "notes"]])
def test_a_header_without_a_text_or_with_another_or_the_same_name_twice_is_refused(names: list[str]) -> None:
    with pytest.raises(BadInput, match="text, and any of the others of id, text, examples, active, each once"):
        parse_file(write_workbook(names, names), "xlsx")
    with pytest.raises(BadInput, match="text, and any of the others of id, text, examples, active, each once"):
        parse_file(",".join(names).encode(), "csv")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_csv_of_a_spreadsheet_with_another_delimiter_is_read(mark: str) -> None:
    (line,) = parse_file(f"text{mark}id\nYes, we do.{mark}yes\n".encode(), "csv").lines
    assert line.reply == ReplyLine(id="yes", text="Yes, we do.")


def test_a_workbook_that_is_sent_as_text_is_refused_with_the_format_to_name() -> None:
    with pytest.raises(BadInput, match=r"send a workbook .* with format=xlsx"):
        parse_file(write_workbook(["text"]), "csv")


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_written_file_reads_back_equal_and_has_no_formulas(format: Format) -> None:
    lines = [
        ReplyLine(id="sum", text='=SUM(A1) says "hello"', examples=["+1?", "two, or three?"], active=False),
        ReplyLine(id="apostrophe", text="'tis so"),
    ]
    text = write_file(lines, format)
    assert [line.reply for line in parse_file(text.encode(), format).lines] == lines
    if format == "csv":
        assert "'=SUM" in text and "'+1?" in text


# planned changes


def test_an_unknown_text_is_a_new_reply() -> None:
    line = plan_line({"text": " The cafe  is upstairs. ", "examples": ["Coffee?", " coffee? ", ""]})
    assert line.does == ("new",) and line.error is None
    assert line.change == ReplyChange("new1", "The cafe is upstairs.", ("Coffee?",), new=True)


def test_a_known_id_with_another_text_is_reworded() -> None:
    line = plan_line({"id": "hours", "text": "We open at ten."})
    assert line.does == ("reworded",) and line.was == HOURS
    assert line.change == ReplyChange("hours", "We open at ten.")


def test_a_known_text_gets_only_new_examples() -> None:
    lines = plan_lines(
        {"text": HOURS.upper(), "examples": ["When?", "At what time?"]}, examples=(("hours", "when?"), ("renew", "At"))
    )
    assert lines[0].does == ("examples",) and lines[0].change == ReplyChange("hours", None, ("At what time?",))


def test_a_retired_reply_is_restored_and_an_active_one_is_retired() -> None:
    restored, retired = plan_lines({"id": "renew", "text": RENEW}, {"id": "hours", "text": HOURS, "active": False})
    assert restored.does == ("restored",) and restored.change == ReplyChange("renew", active=True)
    assert retired.does == ("retired",) and retired.change == ReplyChange("hours", active=False)


def test_a_line_equal_to_its_reply_changes_nothing() -> None:
    line = plan_line({"id": "renew", "text": RENEW, "active": False})
    assert line.does == () and line.change is None and line.error is None


def test_each_line_sees_the_changes_of_the_lines_before() -> None:
    lines = plan_lines(
        {"id": "cafe", "text": "The cafe is upstairs."},
        {"text": "the cafe is upstairs.", "examples": ["Coffee?"]},
        {"id": "cafe", "text": "The cafe is closed."},
        {"id": "hours", "text": "We open at ten."},
        {"text": HOURS},
    )
    assert [line.does for line in lines] == [("new",), ("examples",), (), ("reworded",), ("new",)]
    clash = ImportLineError("second_text", "line 1 gives the same id another text", "text", about="1")
    assert lines[1].id == "cafe" and lines[2].error == clash


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"text": "  "}, ImportLineError("no_text", "a reply needs a text", "text")),
        ({"text": "x" * 101}, ImportLineError("too_long", TOO_LONG, "text", about="100")),
        ({"text": "x", "examples": ["y", "y" * 101]}, ImportLineError("too_long", TOO_LONG, "examples", 2, "100")),
        (
            {"id": "hours", "text": RENEW},
            ImportLineError("text_taken", "another reply has this text already: renew", "text", about="renew"),
        ),
    ],
)
def test_an_invalid_line_has_an_error_and_changes_nothing(line: dict[str, object], error: ImportLineError) -> None:
    planned = plan_line(line)
    assert planned.error == error and planned.change is None


# one example under two replies


def test_an_example_that_two_replies_have_is_reported_with_the_other_one() -> None:
    present = (("hours", "When do you open?"), ("renew", "Extend my loan"))
    lines = plan_lines(
        {"text": "At ten on Sundays.", "examples": ["when do you  OPEN?", "Extend my loan", "On Sundays?"]},
        {"text": "Never on Mondays.", "examples": ["On sundays?", "On Mondays?"]},
        {"id": "hours", "text": HOURS, "examples": ["When do you open?"]},
        examples=present,
    )
    assert [line.shared for line in lines] == [
        (SharedExample(example="when do you OPEN?", reply="hours", line=None),),  # the other is of a retired reply
        (SharedExample(example="On sundays?", reply="new1", line=1),),
        (),
    ]


def test_a_first_repertoire_with_an_example_under_two_replies_names_both() -> None:
    replies = [NewReply(text="One.", examples=["a", "b"]), NewReply(text="Two.", examples=["B", "c"])]
    assert find_shared_examples(replies) == [("B", "One.", "Two.")]
