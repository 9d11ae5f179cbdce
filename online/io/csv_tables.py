"""Reads tables of text: CSV, and what is written with semicolons, tabs or bars instead of commas.

    file --open_csv--> CsvTable (delimiter, names, how numbers are written) --read_rows--> CsvRow, or CsvFault

The whole file is read once before its first row is: a column with a leading zero anywhere ("007") is text in every row,
and a column with decimal commas has them everywhere. An empty cell is missing; no other spelling is.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Literal

from online.errors import BadInput
from online.io.records import DEFAULT_LIMITS, ReadLimits, open_text
from online.schemas.labels import BOOLEANS, name_cell, parse_number_text

Style = Literal["number", "text", "comma", "comma_grouped", "grouped"]  # 1.5; 007; 1,5; 1.234,5 and 1.234; 1,234.5

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
DETECTED_ROWS = 20  # that show the delimiter
LEADING_ZERO = re.compile(r"[+-]?0\d", re.ASCII)
SUSPECT = re.compile(r"\x1f\s*[+-]?0\d|,", re.ASCII)  # of cells, each behind \x1f: all that a survey looks at
DECIMAL_COMMA = re.compile(r"\A[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+", re.ASCII)
GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
GROUPED_BY_POINTS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+", re.ASCII)
NUMBER_STARTS = frozenset("+-.0123456789")
PROGRESS_ROWS = 128  # from one report of progress to the next


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A table of text. names: of its columns. header_line: where they stand. styles: of columns whose numbers are not 1.5."""

    path: Path
    limits: ReadLimits
    delimiter: str
    names: tuple[str, ...]
    header_line: int = 1
    styles: Mapping[str, Style] = field(default_factory=dict)

    def style_of(self, name: str) -> Style:
        """Return how the cells of a column are written."""
        return self.styles.get(name, "number")

    def names_of(self, style: Style) -> list[str]:
        """Return the columns that are written in this style."""
        return [name for name in self.names if self.style_of(name) == style]

    def with_texts(self, names: Sequence[str]) -> "CsvTable":
        """Return the table with these columns as texts, where it has them."""
        return replace(self, styles={**self.styles, **dict.fromkeys(names, "text")}) if names else self


@dataclass(frozen=True, slots=True)
class CsvRow:
    """A row. line: where it ends. cells: as they are written, without spaces around them; "" where one is missing."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CsvFault:
    """Lines that are no row. count: of lines. problem: a word for it, as `BadLines` counts them."""

    line: int
    cause: str
    problem: str
    count: int = 1


# opening


def open_csv(path: Path, limits: ReadLimits = DEFAULT_LIMITS, delimiter: str = "", label: str = "") -> CsvTable:
    """Return what a table's header and its cells show. delimiter: "" to find it. label: a column that there should be.

    Raises BadInput for a header that names two columns alike.
    """
    skipped, found = find_delimiter(path, limits, label)
    table = CsvTable(path, limits, delimiter or found, (), 1 + skipped)
    table = replace(table, names=name_columns(path, read_header(table)))
    return replace(table, styles=survey_styles(table))


def find_delimiter(path: Path, limits: ReadLimits, label: str) -> tuple[int, str]:
    """Return how many lines stand before the header, and the delimiter: the one that cuts the first rows alike.

    A first line `sep=;`, which Excel writes and reads, names it.
    """
    with open_text(path, limits) as (file, _):
        lines = list(islice((line for line in file if line.strip()), DETECTED_ROWS))
    if lines and (named := re.fullmatch(r'"?sep=(.)"?\s*', lines[0])):
        return 1, named[1]
    return 0, max(DELIMITERS, key=lambda each: rate_delimiter(lines, each, label, limits))


def rate_delimiter(lines: Sequence[str], delimiter: str, label: str, limits: ReadLimits) -> tuple[bool, float, int]:
    """Return how well a delimiter fits: whether its header has the label, the share of rows of its width, the width."""
    set_cell_limit(limits)
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
        header = next(csv.reader(lines, delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return False, 0.0, 0
    has_label = bool(label) and label.strip() in [name.strip() for name in header]
    if not widths or widths[0] < 2:
        return has_label and delimiter == ",", 0.0, 1
    return has_label, sum(width == widths[0] for width in widths) / len(widths), widths[0]


def read_header(table: CsvTable) -> list[str]:
    """Return the names in the header of a table."""
    with open_text(table.path, table.limits) as (file, _):
        for _ in range(table.header_line - 1):
            next(file, "")
        try:
            return next((row for row in create_reader(table, file) if row), [])
        except csv.Error as error:
            raise BadInput(f"{table.path.name}, line {table.header_line}: the names of the columns {error}") from None


def name_columns(path: Path, header: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns, without spaces around them. One without a name is called by its place, `column 3`.

    Raises BadInput for two of the same name.
    """
    names = [name.strip() or f"column {place}" for place, name in enumerate(header, 1)]
    check_names(path.name, names)
    return tuple(names)


def check_names(name: str, columns: Sequence[str]) -> None:
    """Raise BadInput where two columns have the same name, but for spaces around it."""
    counts = Counter(each.strip() for each in columns)
    if twice := [each for each, count in counts.items() if count > 1]:
        places = [str(place) for place, each in enumerate(columns, 1) if each.strip() == twice[0]]
        refused = BadInput(
            f"{name} has the column {twice[0]!r} {len(places)} times (columns {', '.join(places)}): rename all but one"
        )
        raise refused.because("log_column_twice", column=twice[0])


def set_cell_limit(limits: ReadLimits) -> None:
    """Let a cell be as long as a line may be: the parser's own limit is 131,072 characters, for the whole process."""
    csv.field_size_limit(max(limits.max_line_bytes, csv.field_size_limit()))


def create_reader(table: CsvTable, file: IO[str]) -> "csv._reader":  # type: ignore[name-defined]
    """Return a csv reader for the cells of a table."""
    set_cell_limit(table.limits)
    return csv.reader(file, delimiter=table.delimiter, skipinitialspace=True, strict=True)


# how the numbers of each column are written


@dataclass(slots=True)
class StyleSurvey:
    """The style of the suspicious cells of one column: see `SUSPECT`."""

    has_leading_zero: bool = False
    commas: int = 0
    decimal_commas: int = 0
    grouped: int = 0
    has_both: bool = False  # 1.234,5

    def add(self, cell: str) -> None:
        """Count what one suspicious cell shows about the style of its column."""
        if "," not in cell:
            self.has_leading_zero |= LEADING_ZERO.match(cell) is not None and parse_number_text(cell) is not None
            return
        is_decimal, is_grouped = DECIMAL_COMMA.fullmatch(cell) is not None, GROUPED.fullmatch(cell) is not None
        self.commas += 1
        self.decimal_commas += is_decimal
        self.grouped += is_grouped
        self.has_both |= is_decimal and "." in cell

    def style(self, delimiter: str) -> Style:
        """Return the style that the cells of the column show."""
        if self.has_leading_zero:
            return "text"
        if not self.commas:
            return "number"
        if self.decimal_commas == self.commas and (delimiter != "," or self.grouped < self.commas):
            return "comma_grouped" if self.has_both else "comma"
        return "grouped" if self.grouped == self.commas else "number"


def survey_styles(table: CsvTable) -> dict[str, Style]:
    """Read the whole table once, and return the styles of the columns whose numbers are not written 1.5."""
    surveys, width = [StyleSurvey() for _ in table.names], len(table.names)
    with open_text(table.path, table.limits) as (file, _):
        for row in islice(parse_rows(table, file), 1, None):
            if not isinstance(row, tuple) or len(row[0]) != width:
                continue
            joined = "\x1f".join(("", *row[0]))
            if SUSPECT.search(joined) and "\0" not in joined:
                for survey, cell in zip(surveys, row[0], strict=True):
                    survey.add(cell.strip())
    styles = {name: survey.style(table.delimiter) for name, survey in zip(table.names, surveys, strict=True)}
    return {name: style for name, style in styles.items() if style != "number"}


# rows


def read_rows(table: CsvTable, at: Callable[[int], None] = lambda position: None) -> Iterator[CsvRow | CsvFault]:
    """Yield every row, or why lines are none.

    at: is called at intervals with the bytes read. Raises BadInput as `open_text` does.
    """
    with open_text(table.path, table.limits) as (file, position):
        rows = parse_rows(table, file)
        next(rows, None)  # the header, which `open_csv` has read
        for number, row in enumerate(rows, 1):
            if number % PROGRESS_ROWS == 0:
                at(position())
            yield build_row(table, *row) if isinstance(row, tuple) else row


def parse_rows(table: CsvTable, file: IO[str]) -> Iterator[tuple[list[str], int] | CsvFault]:
    """Yield the cells of each row with the line where it ends, the header first. Lines without a character are no rows."""
    for _ in range(table.header_line - 1):
        next(file, "")
    reader, line = create_reader(table, file), 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            begins, ends = table.header_line + line, table.header_line - 1 + reader.line_num
            line = reader.line_num
            yield describe_fault(str(error), begins, ends - begins + 1)
            continue
        line = reader.line_num
        if row:
            yield row, table.header_line - 1 + line


def build_row(table: CsvTable, row: Sequence[str], line: int) -> CsvRow | CsvFault:
    """Return the row as a mapping, or why it cannot be used."""
    if len(row) != len(table.names):
        more = len(row) > len(table.names)
        cause = f"has {'more' if more else 'fewer'} cells than the header names ({len(row)}, not {len(table.names)})"
        return CsvFault(line, cause, "too_many_cells" if more else "too_few_cells")
    if "\0" in "".join(row):
        return CsvFault(line, "holds a NUL character, which no text may have", "other")
    return CsvRow(line, dict(zip(table.names, map(str.strip, row), strict=True)))


def describe_fault(error: str, line: int, count: int) -> CsvFault:
    """Return what an error of the parser means. line: where the row begins."""
    if "unexpected end" in error:
        lines = f", {count:,} lines later" if count > 1 else ""
        return CsvFault(
            line, f"opens a quote that is not closed before the end of the file{lines}", "open_quote", count
        )
    if "field larger" in error:
        return CsvFault(line, "has a cell that is longer than a line may be (max_line_bytes)", "other", count)
    return CsvFault(line, f"has a quote in the middle of a cell: {error}", "open_quote", count)


# cells


def create_cell_reader(style: Style) -> Callable[[str], float | str | None]:
    """Return `read_cell` for a column; faster than that where its numbers are written as 1.5."""
    return read_plain if style == "number" else partial(read_cell, style=style)


def read_plain(cell: str) -> float | str | None:
    """`read_cell` of the style "number": a pattern is compared only where Python reads more numbers than there are."""
    if cell[:1] in NUMBER_STARTS:
        try:
            number = float(cell)
        except ValueError:
            return cell
        if math.isfinite(number) and cell.isascii() and "_" not in cell:
            return number
    return read_cell(cell)


def read_cell(cell: str, style: Style = "number") -> float | str | None:
    """Return the number, the truth value ("True") or the text of a cell; None if it is missing."""
    if not cell:
        return None
    if style == "text":
        return cell
    number = parse_number_text(normalise_number(cell, style))
    return BOOLEANS.get(cell, cell) if number is None else number


def read_label(cell: str, style: Style = "number") -> str:
    """Return the name of the class that a cell stands for (see schemas/labels.py)."""
    return cell if style == "text" else name_cell(normalise_number(cell, style))


def normalise_number(cell: str, style: Style) -> str:
    """Return a number as 1234.5, of any style; any other text as it is."""
    if style in ("comma", "comma_grouped") and DECIMAL_COMMA.fullmatch(cell):
        return cell.replace(".", "").replace(",", ".")
    if style == "comma_grouped" and GROUPED_BY_POINTS.fullmatch(cell):
        return cell.replace(".", "")
    return cell.replace(",", "") if style == "grouped" and GROUPED.fullmatch(cell) else cell
