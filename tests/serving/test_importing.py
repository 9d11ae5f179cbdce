"""A file of replies: what its lines mean, which of them are bad, and what they would change."""

import json
from collections.abc import Iterator
from itertools import count

import pytest

from online.errors import BadInput
from online.schemas import ReplyLine
from online.serving.importing import Change, Format, Plan, Planned, parsed, written
from online.store import ReplyRow, folded

HOURS, RENEW = "We open at nine.", "Renew it on your account page."


def row(id: str, text: str, active: bool = True) -> ReplyRow:
    return ReplyRow(model="m", id=id, text=text, folded=folded(text), offset=1, active=active)


def new_ids() -> Iterator[str]:
    return (f"new{number}" for number in count(1))


def planned(*lines: dict[str, object], examples: tuple[tuple[str, str], ...] = ()) -> list[Planned]:
    """Against two replies, one of them retired."""
    data = "\n".join(json.dumps(line) for line in lines).encode()
    return Plan([row("hours", HOURS), row("renew", RENEW, active=False)], examples, new_ids(), 100).of(
        parsed(data, "jsonl")
    )


def only(*lines: dict[str, object]) -> Planned:
    return planned(*lines)[0]


# lines


def test_each_bad_line_of_a_jsonl_is_named_by_its_number_and_the_others_are_read() -> None:
    data = (
        b'{"text": "one"}\n\nnonsense\n{"text": "two", "colour": "red"}\n{"id": "a#b", "text": "three"}\n{"id": "x"}\n'
    )
    lines = parsed(data, "jsonl")
    assert [(line.number, line.said is not None) for line in lines] == [
        (1, True),
        (3, False),
        (4, False),
        (5, False),
        (6, False),
    ]
    assert "colour" in lines[2].error and "id" in lines[3].error and "text" in lines[4].error


def test_a_csv_holds_examples_in_one_cell_a_line_each() -> None:
    data = 'text,id,examples\r\n"Yes, we do.",yes,"Do you?\nReally?"\r\nNo.,,\r\n'.encode("utf-8-sig")
    first, second = (line.said for line in parsed(data, "csv"))
    assert first == ReplyLine(id="yes", text="Yes, we do.", examples=["Do you?", "Really?"])
    assert second == ReplyLine(text="No.")


def test_bad_rows_of_a_csv_are_named_by_the_line_they_begin_in() -> None:
    lines = parsed(b'id,text,active\na,"one\ntwo",true\nb\nc,three,perhaps\n', "csv")
    assert [(line.number, line.error.partition(":")[0]) for line in lines] == [
        (2, ""),
        (4, "it has 1 cells where the header names 3"),
        (5, "active"),
    ]


@pytest.mark.parametrize(
    ("data", "format", "why"),
    [
        (b"\xff\xfe", "jsonl", "not UTF-8: at byte 0"),
        (b"id,words\n", "csv", "names its columns"),
        (b"", "csv", "names its columns"),
    ],
)
def test_what_is_no_such_file_at_all_is_refused(data: bytes, format: Format, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parsed(data, format)


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_what_was_written_is_read_again_and_nothing_in_it_is_a_formula(format: Format) -> None:
    lines = [
        ReplyLine(id="sum", text='=SUM(A1) says "hello"', examples=["+1?", "two, or three?"], active=False),
        ReplyLine(id="apostrophe", text="'tis so"),
    ]
    text = written(lines, format)
    assert [line.said for line in parsed(text.encode(), format)] == lines
    if format == "csv":
        assert "'=SUM" in text and "'+1?" in text


# what they would change


def test_a_text_that_nobody_knows_is_a_new_reply() -> None:
    line = only({"text": " The cafe  is upstairs. ", "examples": ["Coffee?", " coffee? ", ""]})
    assert line.does == ("new",) and line.error == ""
    assert line.change == Change("new1", "The cafe is upstairs.", ("Coffee?",), new=True)


def test_a_known_id_with_another_text_is_reworded() -> None:
    line = only({"id": "hours", "text": "We open at ten."})
    assert line.does == ("reworded",) and line.was == HOURS
    assert line.change == Change("hours", "We open at ten.")


def test_a_known_text_gets_the_examples_it_does_not_have() -> None:
    lines = planned(
        {"text": HOURS.upper(), "examples": ["When?", "At what time?"]}, examples=(("hours", "when?"), ("renew", "At"))
    )
    assert lines[0].does == ("examples",) and lines[0].change == Change("hours", None, ("At what time?",))


def test_a_retired_reply_comes_back_and_one_that_is_given_can_be_retired() -> None:
    back, away = planned({"id": "renew", "text": RENEW}, {"id": "hours", "text": HOURS, "active": False})
    assert back.does == ("restored",) and back.change == Change("renew", active=True)
    assert away.does == ("retired",) and away.change == Change("hours", active=False)


def test_what_is_so_already_changes_nothing() -> None:
    line = only({"id": "renew", "text": RENEW, "active": False})
    assert line.does == () and line.change is None and line.error == ""


def test_lines_are_looked_at_one_after_the_other() -> None:
    lines = planned(
        {"id": "cafe", "text": "The cafe is upstairs."},
        {"text": "the cafe is upstairs.", "examples": ["Coffee?"]},
        {"id": "cafe", "text": "The cafe is closed."},
        {"id": "hours", "text": "We open at ten."},
        {"text": HOURS},
    )
    assert [line.does for line in lines] == [("new",), ("examples",), (), ("reworded",), ("new",)]
    assert lines[1].id == "cafe" and lines[2].error == "line 1 gives the same id another text"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"text": "  "}, "needs a text"),
        ({"text": "x" * 101}, "of 101 characters; at most 100"),
        ({"text": "x", "examples": ["y" * 101]}, "of 101 characters; at most 100"),
        ({"id": "hours", "text": RENEW}, "another reply says that already: renew"),
    ],
)
def test_a_line_that_cannot_be_meant_says_why_and_changes_nothing(line: dict[str, object], why: str) -> None:
    found = only(line)
    assert why in found.error and found.change is None
