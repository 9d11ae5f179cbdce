"""Reads a table of text from an Excel workbook (.xlsx): the first sheet whose header is the wanted one.

    file --check_package--> zip within limits --openpyxl--> sheets --read_sheet--> SheetTable (names, rows, the other sheets)

A cell becomes the text that a reader of the sheet sees, or a `CellFault` where that is not known: nothing is guessed.
The value of merged cells counts in each of their rows. Dates are 2026-11-27 and times 09:30, whatever their format in the sheet.
"""

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from io import BytesIO
from math import isfinite
from typing import Literal

from openpyxl import load_workbook
from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.reader.excel import ExcelReader
from openpyxl.utils import get_column_letter
from openpyxl.utils.cell import range_boundaries
from openpyxl.worksheet._read_only import ReadOnlyWorksheet
from openpyxl.worksheet._reader import WorkSheetParser  # its public read-only sheet says nothing of merged cells

from online.errors import BadInput, OnlineError, TooLarge

FaultCode = Literal["formula_without_value", "error_value", "number_format", "no_column"]

REMEDY = "save it as .xlsx (Excel Workbook), or as CSV in UTF-8"
OLE, ZIP = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"PK\x03\x04"
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the name of the stream that holds a workbook with a password
OTHER_PARTS = {  # what only a file of another kind holds -> what that file is
    "content.xml": "an OpenDocument file (.ods)",
    "xl/workbook.bin": "a binary workbook (.xlsb)",
    "word/document.xml": "a document of Word (.docx)",
    "Index/Document.iwa": "a file of Apple's Numbers (.numbers)",
}
LAST_ROW, LAST_COLUMN = 1_048_576, 16_384  # of Excel
ESCAPED_CONTROL = re.compile("_x000([9AaDd])_")  # how Office writes a tab or the end of a line that XML would change
FIXED = re.compile(r"(?P<grouped>#,##)?(?P<zeros>0+)(?:\.(?P<decimals>0+))?(?P<percent>%)?")
GENERAL = ("General", "@", "")


@dataclass(frozen=True, slots=True)
class WorkbookLimits:
    """The limits of a workbook. unpacked_bytes: of all its parts together; a cell without anything in it takes 4 of them,
    and 300 bytes of memory. unpacked_ratio: that of real workbooks is about 10. cells: of one sheet, up to the last of each row.
    """

    unpacked_bytes: int = 8_388_608
    unpacked_ratio: int = 100
    cells: int = 500_000
    sheets: int = 100


DEFAULT_LIMITS = WorkbookLimits()


@dataclass(frozen=True, slots=True)
class CellFault:
    """The reason why a cell has no text. cell: its name, such as B3."""

    code: FaultCode
    cell: str
    message: str


Cell = str | CellFault


@dataclass(frozen=True, slots=True)
class SheetTable:
    """names: of the columns, as the header writes them. rows: with their numbers; None is an empty cell."""

    sheet: str
    others: tuple[str, ...]
    names: tuple[str, ...]
    rows: list[tuple[int, list[Cell | None]]]


@dataclass(frozen=True, slots=True)
class SheetLayout:
    """The properties of a sheet beside its values. merged: (first column, first row, last column, last row) of each range."""

    formulas: frozenset[tuple[int, int]]
    merged: list[tuple[int, int, int, int]]


def read_workbook(
    data: bytes, is_header: Callable[[Sequence[str]], bool], wanted: str, limits: WorkbookLimits = DEFAULT_LIMITS
) -> SheetTable:
    """Return the table of the first sheet whose first row with values is such a header.

    wanted: what the header has to be, in words. Raises BadInput, or TooLarge beyond a limit.
    """
    check_kind(data)
    with refuse_damage():
        sheets = open_sheets(data, limits)
        found = []
        for sheet in sheets:
            layout = read_layout(sheet, limits)
            rows = fill_merged([*read_rows(sheet, layout)], layout, limits)
            names = read_header(rows)
            if is_header(names):
                others = tuple(each.title for each in sheets if each is not sheet)
                return SheetTable(sheet.title, others, names, [align(row, names) for row in rows[1:]])
            found.append(f"{sheet.title!r} begins with {describe_header(names)}")
        raise BadInput(
            f"no sheet of the workbook has {wanted} in its first row: {'; '.join(found) or 'it has no sheet'}"
        )


# the package


def check_kind(data: bytes) -> None:
    """Raise BadInput for a file that is no .xlsx, with what it is."""
    if data.startswith(OLE):
        kind = "a workbook with a password" if ENCRYPTED in data else "of an older Office (.xls)"
        raise BadInput(f"the file is {kind}, which is not read: {REMEDY}{', without a password' * (ENCRYPTED in data)}")
    if not data.startswith(ZIP):
        raise BadInput(f"the file is no Excel workbook (.xlsx): it does not begin as one; {REMEDY}")


@contextmanager
def refuse_damage() -> Iterator[None]:
    """Turn whatever a damaged workbook raises inside the block into BadInput."""
    try:
        yield
    except OnlineError:
        raise
    except (
        Exception
    ) as error:  # openpyxl has no error of its own: a part that is missing or wrong raises any of a dozen
        found = error.__cause__ or error
        cause = " ".join(str(found).split())[:120] or type(found).__name__
        raise BadInput(f"the file cannot be read as an Excel workbook ({cause}): {REMEDY}") from None


def open_sheets(data: bytes, limits: WorkbookLimits) -> list[ReadOnlyWorksheet]:
    """Open the sheets of a workbook within its limits."""
    check_package(data, limits)
    workbook = load_workbook(BytesIO(data), read_only=True, data_only=True, keep_links=False)
    return list(workbook.worksheets)


def check_package(data: bytes, limits: WorkbookLimits) -> None:
    """Raise BadInput or TooLarge, before any sheet is read. A part never unpacks to more than the directory says."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        parts = archive.infolist()
    for name, kind in OTHER_PARTS.items():
        if any(part.filename == name for part in parts):
            raise BadInput(f"the file is {kind}, which is not read: {REMEDY}")
    unpacked = sum(part.file_size for part in parts)
    if unpacked > limits.unpacked_bytes:
        most = f"{limits.unpacked_bytes:,} bytes"
        raise TooLarge(f"the workbook unpacks to more than {most}: split it, or save the sheet as CSV")
    if unpacked > limits.unpacked_ratio * len(data):
        raise TooLarge(
            f"the workbook unpacks to more than {limits.unpacked_ratio} times its size: save the sheet as CSV"
        )
    check_sheets(data, limits)


def check_sheets(data: bytes, limits: WorkbookLimits) -> None:
    """Refuse more sheets than allowed, and two that are one part: reading would take longer than the size suggests."""
    reader = ExcelReader(BytesIO(data), read_only=True, data_only=True, keep_links=False)
    reader.read_manifest()
    reader.read_workbook()
    if len(reader.parser.sheets) > limits.sheets:
        raise TooLarge(f"the workbook has {len(reader.parser.sheets):,} sheets; at most {limits.sheets:,} are read")
    parts = [relation.target for _, relation in reader.parser.find_sheets()]
    if len({*parts}) < len(parts):
        raise BadInput(f"two sheets of the workbook are the same part of the file: {REMEDY}")


# a sheet


def read_layout(sheet: ReadOnlyWorksheet, limits: WorkbookLimits) -> SheetLayout:
    """Read the formulas and merged ranges of a sheet. Raises TooLarge, before a value is read; BadInput for rows out of order, of which openpyxl would drop some."""
    formulas, cells, last = set(), 0, 0
    with sheet._get_source() as source:
        parser = WorkSheetParser(source, sheet._shared_strings, data_only=False)
        for number, row in parser.parse():
            if number <= last:
                raise BadInput(f"row {number} of the sheet {sheet.title!r} follows row {last}: {REMEDY}")
            width = max((cell["column"] for cell in row), default=0)
            cells, last = cells + max(width, 1), number
            check_size(sheet.title, number, width, cells, limits)
            formulas |= {(number, cell["column"]) for cell in row if cell["data_type"] == "f"}
        ranges = [] if parser.merged_cells is None else [each.ref for each in parser.merged_cells.mergeCell]
    return SheetLayout(frozenset(formulas), [range_boundaries(ref) for ref in ranges])


def check_size(title: str, row: int, column: int, cells: int, limits: WorkbookLimits) -> None:
    """Raise BadInput for a sheet beyond the limits."""
    if row > LAST_ROW or column > LAST_COLUMN:
        raise BadInput(f"the sheet {title!r} has a row {row:,} or a column {column:,}, which Excel does not have")
    if cells > limits.cells:
        raise TooLarge(f"the sheet {title!r} has more than {limits.cells:,} cells: split it, or save it as CSV")


def read_rows(sheet: ReadOnlyWorksheet, layout: SheetLayout) -> Iterator[tuple[int, dict[int, Cell]]]:
    """Yield the rows that have values."""
    sheet.reset_dimensions()  # what a file says of its size may be wrong, and cells beyond it would be left out
    is_uncomputed = bool(sheet.parent.calculation and sheet.parent.calculation.fullCalcOnLoad)
    for number, row in enumerate(sheet.iter_rows(), 1):
        values = {
            column: read_formula(cell, is_uncomputed) if (number, column) in layout.formulas else read_cell(cell)
            for column, cell in enumerate(row, 1)
        }
        if cells := {column: value for column, value in values.items() if value is not None}:
            yield number, cells


def fill_merged(
    rows: list[tuple[int, dict[int, Cell]]], layout: SheetLayout, limits: WorkbookLimits
) -> list[tuple[int, dict[int, Cell]]]:
    """Give the value of merged cells to each of their rows: a reply beside three questions belongs to all three."""
    by_number = dict(rows)
    if sum(min(last, LAST_ROW) - first for _, first, _, last in layout.merged) > limits.cells:
        raise TooLarge(f"the workbook has more than {limits.cells:,} merged rows: split it, or save it as CSV")
    for column, first, _, last in layout.merged:
        value = by_number.get(first, {}).get(column)
        for number in range(first + 1, last + 1):
            if value is not None and number in by_number:
                by_number[number].setdefault(column, value)
    return [*by_number.items()]


def read_header(rows: Sequence[tuple[int, dict[int, Cell]]]) -> tuple[str, ...]:
    """Return the names in the first row; "" for a column without one."""
    if not rows:
        return ()
    cells = rows[0][1]
    values = [cells.get(column, "") for column in range(1, max(cells) + 1)]
    return tuple(value.strip() if isinstance(value, str) else "?" for value in values)


def describe_header(names: Sequence[str]) -> str:
    """Return the names of a header for an error, shortened."""
    return repr(", ".join(names)[:80]) if names else "nothing"


def align(row: tuple[int, dict[int, Cell]], names: Sequence[str]) -> tuple[int, list[Cell | None]]:
    """Return a row with a cell for each name. A value whose column has no name is a fault: it would be left out."""
    number, cells = row
    nameless = [column for column in cells if column > len(names) or not names[column - 1]]
    if nameless:
        place = f"{get_column_letter(nameless[0])}{number}"
        fault = CellFault("no_column", place, f"the cell {place} has a value, but its column has no name in the header")
        return number, [fault, *[None] * (len(names) - 1)]
    return number, [cells.get(column) for column in range(1, len(names) + 1)]


# cells


def read_formula(cell: ReadOnlyCell, is_uncomputed: bool) -> Cell | None:
    """Return the value that a spreadsheet has computed. is_uncomputed: the program that wrote the file cannot compute."""
    if is_uncomputed or (cell.value is None and cell.data_type == "n"):
        cause = "has a formula whose value is not in the file: open it in a spreadsheet, and save it"
        return CellFault("formula_without_value", cell.coordinate, f"the cell {cell.coordinate} {cause}")
    return read_cell(cell)


def read_cell(cell: ReadOnlyCell) -> Cell | None:
    """Return what a reader of the sheet sees in a cell; None for an empty one."""
    value = cell.value
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).upper()
    if cell.data_type == "e":
        return CellFault("error_value", cell.coordinate, f"the cell {cell.coordinate} shows the error {value}")
    if isinstance(value, str):
        return ESCAPED_CONTROL.sub(lambda found: chr(int(found[1], 16)), value)
    if isinstance(value, (datetime, date, time, timedelta)):
        return show_instant(value)
    shown = show_number(value, cell.number_format)
    if shown is None:
        cause = f"shows a number as {cell.number_format!r}, which is not read: make it text"
        return CellFault("number_format", cell.coordinate, f"the cell {cell.coordinate} {cause}")
    return shown


def show_instant(value: datetime | date | time | timedelta) -> str:
    """Return a date or time as ISO 8601, without a midnight that the sheet only implies."""
    if isinstance(value, datetime):
        value = value.date() if value.time() == time() else value
    if isinstance(value, datetime):
        return f"{value.date()} {show_instant(value.time())}"
    if isinstance(value, time):
        return value.isoformat("minutes" if value.replace(hour=0, minute=0) == time() else "seconds")
    if isinstance(value, date):
        return value.isoformat()
    minutes, seconds = divmod(round(value.total_seconds()), 60)
    return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


def show_number(value: float, format: str) -> str | None:
    """Return a number as a sheet shows it: 9.5, 007, 1,234.50, 50%. None for formats that are not known."""
    if not isfinite(value):
        return None
    if format in GENERAL:
        return f"{value:.15g}" if not float(value).is_integer() or abs(value) >= 1e15 else str(int(value))
    match = FIXED.fullmatch(format)
    if match is None:
        return None
    places = len(match["decimals"] or "")
    exact = Decimal(repr(value)) * (100 if match["percent"] else 1)
    rounded = exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    digits = f"{abs(rounded):{',' if match['grouped'] else ''}.{places}f}"
    width = 0 if match["grouped"] else len(match["zeros"]) + (places + 1 if places else 0)
    return f"{'-' * (rounded < 0)}{digits.zfill(width)}{match['percent'] or ''}"
