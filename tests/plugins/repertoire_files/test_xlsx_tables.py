"""Workbooks: which sheet is read, what its cells say, and what is refused. They are written in memory."""

import re
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from io import BytesIO
from typing import Any

import pytest
from openpyxl import Workbook

from online.errors import BadInput, TooLarge
from online.plugins.repertoire_files.xlsx_tables import (
    Cell,
    CellFault,
    SheetTable,
    WorkbookLimits,
    read_workbook,
    show_number,
)


def save(book: Any) -> bytes:
    file = BytesIO()
    book.save(file)
    return file.getvalue()


def write(*rows: Sequence[object]) -> Any:
    """A workbook of one sheet."""
    book = Workbook()
    for row in rows:
        book.active.append(row)
    return book


def rewrite(data: bytes, part: str, change: Callable[[str], str]) -> bytes:
    """The workbook with another text of one part, as other programs write it."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, change(text.decode()).encode() if name == part else text)
    return out.getvalue()


def compute(data: bytes) -> bytes:
    """The workbook as a spreadsheet saves it: without the request to compute all formulas."""
    return rewrite(data, "xl/workbook.xml", lambda text: re.sub(r"<calcPr[^>]*/>", "", text))


def read(data: bytes, **limits: int) -> SheetTable:
    return read_workbook(data, lambda names: "text" in names, "a column text", WorkbookLimits(**limits))


def read_cell(value: object, format: str = "General") -> Cell | None:
    book = write(["text"], [value])
    book.active["A2"].number_format = format
    ((_, (cell,)),) = read(save(book)).rows
    return cell


SHEET = "xl/worksheets/sheet1.xml"


# which sheet


def test_the_first_sheet_with_the_header_is_read_and_the_others_are_named() -> None:
    book = write(["Written by the front desk"])
    book.active.title = "Notes"
    for title, text in (("Hall", "one"), ("Yard", "two")):
        sheet = book.create_sheet(title)
        sheet.append(["text"])
        sheet.append([text])
    assert read(save(book)) == SheetTable("Hall", ("Notes", "Yard"), ("text",), [(2, ["one"])])


def test_a_workbook_without_the_header_is_refused_with_what_its_sheets_begin_with() -> None:
    book = write(["Question", "Answer"])
    book.create_sheet("Spare")
    with pytest.raises(
        BadInput, match=r"has a column text in its first row: 'Sheet' begins with 'Question, Answer'; 'Spare'"
    ):
        read(save(book))


def test_the_header_is_the_first_row_with_values_and_rows_keep_their_numbers() -> None:
    table = read(save(write([], [], ["id", "text"], [], ["a", "b"])))
    assert (table.names, table.rows) == (("id", "text"), [(5, ["a", "b"])])


def test_cells_beyond_the_size_that_a_file_claims_are_read() -> None:
    data = save(write(["id", "text"], ["a", "b"]))
    claimed = rewrite(data, SHEET, lambda text: re.sub(r'<dimension ref="[^"]*"', '<dimension ref="A1"', text))
    assert read(claimed).rows == [(2, ["a", "b"])]


def test_a_value_in_a_column_without_a_name_is_a_fault_of_its_row() -> None:
    ((_, (fault, _)),) = read(save(write(["id", "text"], ["a", "b", "beside"]))).rows
    assert isinstance(fault, CellFault) and (fault.code, fault.cell) == ("no_column", "C2")


# cells


@pytest.mark.parametrize(
    ("value", "format", "text"),
    [
        ("We open\nat nine.", "General", "We open\nat nine."),
        (7, "General", "7"),
        (7.0, "General", "7"),
        (0.1 + 0.2, "General", "0.3"),
        (12_345_678_901, "General", "12345678901"),
        (7, "000", "007"),
        (0.5, "0%", "50%"),
        (1234.5, "#,##0.00", "1,234.50"),
        (-2.5, "0", "-3"),
        (2.675, "0.00", "2.68"),
        (True, "General", "TRUE"),
        (date(2026, 11, 27), "DD.MM.YYYY", "2026-11-27"),
        (datetime(2026, 11, 27, 9, 30), "DD.MM.YYYY HH:MM", "2026-11-27 09:30"),
        (time(9, 30), "HH:MM", "09:30"),
        (timedelta(hours=30), "[h]:mm", "30:00"),
        (None, "General", None),
    ],
)
def test_a_cell_is_read_as_the_sheet_shows_it(value: object, format: str, text: str | None) -> None:
    book = write(["id", "text"], ["a", value])
    book.active["B2"].number_format = format
    ((_, (_, cell)),) = read(save(book)).rows
    assert cell == text


def test_a_number_in_a_format_that_is_not_known_is_a_fault_and_no_other_number() -> None:
    fault = read_cell(9.5, '0.00 "euro"')
    assert isinstance(fault, CellFault) and fault.code == "number_format"
    assert fault.message == """the cell A2 shows a number as '0.00 "euro"', which is not read: make it text"""
    assert show_number(float("inf"), "General") is None


def test_a_cell_that_shows_an_error_is_a_fault() -> None:
    fault = read_cell("#N/A")
    assert isinstance(fault, CellFault) and fault.message == "the cell A2 shows the error #N/A"


def test_line_ends_that_office_escapes_are_line_ends() -> None:
    assert read_cell("one_x000D_\ntwo") == "one\r\ntwo"


# formulas


def with_formula(cached: str) -> bytes:
    """A sheet whose cell A2 has a formula, computed by a spreadsheet."""
    data = compute(save(write(["text"], ["=UPPER(B2)"])))
    return rewrite(data, SHEET, lambda text: re.sub(r'<c r="A2"[^>]*>.*?</c>', cached, text))


def test_a_formula_has_the_value_that_a_spreadsheet_computed() -> None:
    data = with_formula('<c r="A2" t="str"><f>UPPER(B2)</f><v>NINE</v></c>')
    assert read(data).rows == [(2, ["NINE"])]


def test_a_formula_that_was_never_computed_is_a_fault() -> None:
    ((_, (fault,)),) = read(compute(save(write(["text"], ["=UPPER(B2)"])))).rows
    assert isinstance(fault, CellFault) and (fault.code, fault.cell) == ("formula_without_value", "A2")
    assert fault.message.endswith("open it in a spreadsheet, and save it")


def test_a_placeholder_of_a_program_that_cannot_compute_is_no_value() -> None:
    zero = '<c r="A2"><f>UPPER(B2)</f><v>0</v></c>'
    placed = rewrite(
        with_formula(zero),
        "xl/workbook.xml",
        lambda text: text.replace("</workbook>", '<calcPr fullCalcOnLoad="1"/></workbook>'),
    )
    ((_, (fault,)),) = read(placed).rows
    assert isinstance(fault, CellFault) and fault.code == "formula_without_value"


def test_a_formula_whose_result_is_empty_is_an_empty_cell() -> None:
    assert read(with_formula('<c r="A2" t="str"><f>""</f><v></v></c><c r="B2"/>')).rows == []


# merged cells


def test_the_value_of_merged_cells_counts_in_each_of_their_rows() -> None:
    book = write(["text", "examples"], ["At nine.", "When?"], [None, "How early?"], ["No.", "May I?"])
    book.active.merge_cells("A2:A3")
    assert read(save(book)).rows == [
        (2, ["At nine.", "When?"]),
        (3, ["At nine.", "How early?"]),
        (4, ["No.", "May I?"]),
    ]


# what is refused


def zip_of(name: str) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, "")
    return out.getvalue()


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (OLE, r"of an older Office \(.xls\), which is not read: save it as .xlsx"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "a workbook with a password, .* without a password"),
        (zip_of("content.xml"), r"an OpenDocument file \(.ods\)"),
        (zip_of("xl/workbook.bin"), r"a binary workbook \(.xlsb\)"),
        (zip_of("notes.txt"), "cannot be read as an Excel workbook"),
        (b"id,text\n", "does not begin as one"),
        (b"", "does not begin as one"),
        (save(write(["text"], ["a"]))[:900], "cannot be read as an Excel workbook"),
    ],
)
def test_another_file_is_refused_in_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        read(data)
    assert "\n" not in str(refused.value)


def test_a_workbook_that_unpacks_to_more_than_the_limit_is_refused_before_it_is_read() -> None:
    data = save(write(["text"], ["a" * 30_000]))
    assert len(data) < 20_000
    with pytest.raises(TooLarge, match="unpacks to more than 20,000 bytes: split it, or save the sheet as CSV"):
        read(data, unpacked_bytes=20_000)
    with pytest.raises(TooLarge, match="unpacks to more than 2 times its size"):
        read(data, unpacked_ratio=2)


@pytest.mark.parametrize("rows", [[["a"]] * 11, [[*[None] * 10, "far"]], [[None]] * 10 + [["a"]]])
def test_a_sheet_with_more_cells_than_the_limit_is_refused(rows: list[list[object]]) -> None:
    with pytest.raises(TooLarge, match="more than 10 cells"):
        read(save(write(["text"], *rows)), cells=10)


def test_more_sheets_than_the_limit_are_refused() -> None:
    book = write(["text"])
    book.create_sheet("more")
    with pytest.raises(TooLarge, match="has 2 sheets; at most 1 are read"):
        read(save(book), sheets=1)


def test_a_row_that_excel_does_not_have_is_refused_and_not_counted_up_to() -> None:
    data = rewrite(
        save(write(["text"], ["a"])),
        SHEET,
        lambda text: text.replace('r="A2"', 'r="A99999999"').replace('<row r="2"', '<row r="99999999"'),
    )
    with pytest.raises(BadInput, match="has a row 99,999,999"):
        read(data)


def test_rows_out_of_order_are_refused_because_openpyxl_would_drop_them() -> None:
    data = rewrite(
        save(write(["text"], ["a"], ["b"])),
        SHEET,
        lambda text: text.replace('"A3"', '"A1"').replace('<row r="3"', '<row r="1"'),
    )
    with pytest.raises(BadInput, match="row 1 of the sheet 'Sheet' follows row 2"):
        read(data)


def test_entities_in_a_part_are_refused() -> None:
    entity = '<!DOCTYPE worksheet [<!ENTITY a "aaaaaaaaaa">]>'
    data = rewrite(save(write(["text"], ["a"])), SHEET, lambda text: entity + re.sub(r"^<\?xml[^>]*\?>", "", text))
    with pytest.raises(BadInput, match=r"cannot be read as an Excel workbook .*Entit"):
        read(data)


def test_merged_ranges_of_more_rows_than_cells_may_be_are_refused() -> None:
    merged = '</sheetData><mergeCells><mergeCell ref="A2:A9000"/></mergeCells>'
    data = rewrite(save(write(["text"], ["a"])), SHEET, lambda text: text.replace("</sheetData>", merged))
    with pytest.raises(TooLarge, match="more than 100 merged rows"):
        read(data, cells=100)
