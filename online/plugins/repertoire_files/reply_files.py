"""A repertoire as a file: JSONL, CSV or a workbook to lines, lines to planned changes, and replies to a file.

    file --parse_file--> lines, some with errors --Plan--> changes to the present replies
    replies --write_file--> the same format

JSONL: {"id", "text", "examples": [...], "active"}, of which only "text" is required. CSV: a header
with these names; the examples share one cell, one on each line. XLSX: the same in a sheet. A line with a known id gives that reply
its text; a line with a known text adds its examples to that reply.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from online.errors import BadInput
from online.io.csv_tables import DELIMITERS
from online.plugins.repertoire_files.schemas import LineErrorCode, ReplyLine, SharedExample
from online.plugins.repertoire_files.xlsx_tables import OLE, ZIP, Cell, CellFault, read_workbook
from online.serving.repertoire.repertoire import ReplyChange
from online.settings import describe
from online.settings.messages import plain_message
from online.store.database.values import fold_text
from online.store.repertoire.replies import ReplyRow, normalize_text

Format = Literal["jsonl", "csv"]  # that are written
FileFormat = Literal["jsonl", "csv", "xlsx"]  # that are read
Owner = tuple[str, int | None]  # the id of a reply, and the line that gave it an example
Does = Literal["new", "reworded", "examples", "restored", "retired"]
COLUMNS = ("id", "text", "examples", "active")
HEADER = f"its columns: text, and any of the others of {', '.join(COLUMNS)}, each once"
CODES: dict[str, LineErrorCode] = {  # by the types of the validator; every other one is `not_valid`
    "json_invalid": "not_json",
    "model_type": "not_object",
    "missing": "missing",
    "extra_forbidden": "unknown_field",
    "string_type": "not_text",
    "list_type": "not_list",
    "bool_type": "not_boolean",
    "bool_parsing": "not_boolean",
}
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs such a cell; an apostrophe makes it text


@dataclass(frozen=True, slots=True)
class ImportLineError:
    """The error of a line. message: in English. entry: of the field, from 1. about: see `LineProblem`."""

    code: LineErrorCode
    message: str
    field: str | None = None
    entry: int | None = None
    about: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A line of a file: the reply in it, or the error."""

    number: int
    reply: ReplyLine | None
    error: ImportLineError | None = None


@dataclass(frozen=True, slots=True)
class PlannedLine:
    """The effect of a line; nothing if it has neither a change nor an error. was: the text it replaces."""

    number: int
    id: str
    text: str
    does: tuple[Does, ...] = ()
    change: ReplyChange | None = None
    was: str | None = None
    error: ImportLineError | None = None
    shared: tuple[SharedExample, ...] = ()


# file -> lines


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The lines of a file. sheet: of a workbook, the one that was read. others: its other sheets."""

    lines: list[ParsedLine]
    sheet: str | None = None
    others: tuple[str, ...] = ()


def parse_file(data: bytes, format: FileFormat) -> ParsedFile:
    """Parse a file of replies. Raises BadInput if the file is not in this format at all."""
    if format == "xlsx":
        return parse_xlsx(data)
    if data.startswith((ZIP, OLE)):
        raise BadInput("the file is a workbook or an archive, no text: send a workbook (.xlsx) with format=xlsx")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"the file is not UTF-8: at byte {error.start} it has 0x{data[error.start]:02x}") from None
    return ParsedFile(list(parse_csv(text) if format == "csv" else parse_jsonl(text)))


def parse_jsonl(text: str) -> Iterator[ParsedLine]:
    """Yield the lines of JSONL."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield parse_reply(number, line)


def parse_reply(number: int, line: str) -> ParsedLine:
    """Parse a line of JSONL, or say what is wrong with it."""
    try:
        return ParsedLine(number, ReplyLine.model_validate_json(line))
    except ValidationError as error:
        finding, *others = error.errors()
        return ParsedLine(number, None, build_error(finding, describe(error) if others else describe_finding(finding)))


def build_error(finding: ErrorDetails, message: str) -> ImportLineError:
    """Return the error of a line from the first finding of the validator."""
    field, place = (*finding["loc"], None, None)[:2]
    code = CODES.get(finding["type"], "not_id" if field == "id" else "not_valid")
    entry = place + 1 if isinstance(place, int) else None
    return ImportLineError(code, message, None if field is None else str(field), entry)


def describe_finding(finding: ErrorDetails) -> str:
    """Return what is wrong with a line, for people who write such files and not programs."""
    field = name_place(finding["loc"])
    match CODES.get(finding["type"]):
        case "not_json":
            return 'it is not JSON: a line looks like {"text": "We open at nine.", "examples": ["When do you open?"]}'
        case "not_object":
            return 'it is not an object: a line looks like {"text": "We open at nine."}'
        case "missing":
            return f'"{field}" is missing'
        case "unknown_field":
            return f'"{field}" is not a known field; known are {", ".join(COLUMNS)}'
        case "not_text":
            return f'"{field}" must be text in quotation marks'
        case "not_list":
            return f'"{field}" must be a list in square brackets'
        case "not_boolean":
            return f'"{field}" must be true or false'
        case _:
            return f"{field}: {plain_message(finding['msg'])}"


def name_place(location: tuple[int | str, ...]) -> str:
    """("examples", 1) -> "examples, entry 2"."""
    return ", ".join(f"entry {part + 1}" if isinstance(part, int) else part for part in location)


def parse_csv(text: str) -> Iterator[ParsedLine]:
    """Yield the lines of a CSV."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=find_delimiter(text), strict=True)
    try:
        names = fold_names(next(rows, []))
        if not is_header(names):
            raise BadInput(f"the first line of a CSV must name {HEADER}")
        number = rows.line_num + 1
        for row in rows:
            if any(row):
                yield parse_row(number, names, row)
            number = rows.line_num + 1
    except csv.Error as error:
        yield ParsedLine(rows.line_num, None, ImportLineError("not_csv", f"this is not CSV: {error}"))


def find_delimiter(text: str) -> str:
    """Return what separates the names of the header: a spreadsheet writes semicolons where the decimal point is a comma."""
    header = text.lstrip("\r\n").partition("\n")[0]
    return next((mark for mark in DELIMITERS if is_header(fold_names(next(csv.reader([header], delimiter=mark))))), ",")


def fold_names(names: Iterable[str]) -> list[str]:
    """Return names in lower case, without blanks around them."""
    return [name.strip().lower() for name in names]


def is_header(names: Sequence[str]) -> bool:
    """Return whether names are the header of a repertoire."""
    return "text" in names and set(names) <= {*COLUMNS} and len({*names}) == len(names)


def parse_xlsx(data: bytes) -> ParsedFile:
    """Parse a workbook: its first sheet with a header. Raises BadInput."""

    def is_wanted(names: Sequence[str]) -> bool:
        return is_header([name for name in fold_names(names) if name])

    table = read_workbook(data, is_wanted, HEADER)
    lines = [parse_cells(number, fold_names(table.names), cells) for number, cells in table.rows]
    return ParsedFile(lines, table.sheet, table.others)


def parse_cells(number: int, names: Sequence[str], cells: Sequence[Cell | None]) -> ParsedLine:
    """Return the line of a row of a sheet."""
    fault = next((cell for cell in cells if isinstance(cell, CellFault)), None)
    if fault is not None:
        return ParsedLine(number, None, ImportLineError(fault.code, fault.message, about=fault.cell))
    return parse_row(number, names, [cell if isinstance(cell, str) else "" for cell in cells])


def parse_row(number: int, names: Sequence[str], row: Sequence[str]) -> ParsedLine:
    """Parse a row of cells, or say what is wrong with it."""
    if len(row) != len(names):
        message = f"it has {len(row)} cells where the header names {len(names)}"
        return ParsedLine(number, None, ImportLineError("cell_count", message, about=str(len(names))))
    cells = {name: remove_apostrophe(cell) for name, cell in zip(names, row, strict=True) if name and cell.strip()}
    line: dict[str, object] = dict(cells)
    if "examples" in cells:
        line["examples"] = [remove_apostrophe(example) for example in cells["examples"].splitlines() if example.strip()]
    if "active" in cells:
        line["active"] = {"true": True, "false": False}.get(cells["active"].strip().lower(), cells["active"])
    return parse_reply(number, json.dumps(line))


def remove_apostrophe(cell: str) -> str:
    """Remove the apostrophe that keeps a spreadsheet from reading a text as a formula."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


# lines -> changes


class ImportPlan:
    """Plans lines in order, each as if the lines before it had been carried out."""

    def __init__(
        self, replies: Iterable[ReplyRow], examples: Iterable[tuple[str, str]], new_id: Iterator[str], max_chars: int
    ) -> None:
        """examples: (id of the reply, text) of every present one."""
        self.texts = {row.id: row.text for row in replies}
        self.active = {row.id: row.active for row in replies}
        self.by_text = {fold_text(text): id for id, text in self.texts.items()}
        present = [(id, fold_text(text)) for id, text in examples]
        self.known = set(present)
        self.owners: dict[str, Owner] = {words: (id, None) for id, words in present if self.active.get(id)}
        self.new_id, self.max_chars = new_id, max_chars
        self.reworded: dict[str, int] = {}

    def plan(self, lines: Iterable[ParsedLine]) -> list[PlannedLine]:
        """Return what each line does."""
        return [self._plan_line(line) for line in lines]

    def _plan_line(self, line: ParsedLine) -> PlannedLine:
        planned = self._plan_change(line)
        if planned.change is None or not self.active[planned.id]:
            return planned
        return replace(planned, shared=tuple(self._find_shared(planned)))

    def _find_shared(self, planned: PlannedLine) -> Iterator[SharedExample]:
        """Yield the new examples that another reply in use has; from now on they are this one's."""
        assert planned.change is not None
        for example in planned.change.examples:
            id, line = self.owners.get(fold_text(example), (planned.id, None))
            if id != planned.id and self.active.get(id):
                yield SharedExample(example=example, reply=id, line=line)
            self.owners[fold_text(example)] = planned.id, planned.number

    def _plan_change(self, line: ParsedLine) -> PlannedLine:
        reply = line.reply
        if reply is None:
            return PlannedLine(line.number, "", "", error=line.error)
        text = normalize_text(reply.text)
        error = self._find_error(reply, text)
        if error:
            return PlannedLine(line.number, reply.id or "", text, error=error)
        if reply.id in self.texts:
            return self._change_known(line.number, reply, text, reply.id)
        known = self.by_text.get(fold_text(text))
        if known is not None:
            return self._change_known(line.number, reply, text, known)
        return self._add_new(line.number, reply, text, reply.id or next(self.new_id))

    def _find_error(self, reply: ReplyLine, text: str) -> ImportLineError | None:
        if not text:
            return ImportLineError("no_text", "a reply needs a text", "text")
        lengths = [len(text), *map(len, reply.examples)]
        longest = max(lengths)
        if longest > self.max_chars:
            message = f"it has a text of {longest} characters; at most {self.max_chars} (max_text_chars)"
            entry = lengths.index(longest)  # 0: of the reply itself
            field = "examples" if entry else "text"
            return ImportLineError("too_long", message, field, entry or None, about=str(self.max_chars))
        other = self.by_text.get(fold_text(text))
        if reply.id in self.texts and other is not None and other != reply.id:
            return ImportLineError("text_taken", f"another reply has this text already: {other}", "text", about=other)
        if reply.id in self.reworded and fold_text(self.texts[reply.id]) != fold_text(text):
            first = self.reworded[reply.id]
            return ImportLineError(
                "second_text", f"line {first} gives the same id another text", "text", about=str(first)
            )
        return None

    def _change_known(self, number: int, reply: ReplyLine, text: str, id: str) -> PlannedLine:
        was = self.texts[id]
        reworded = reply.id == id and was != text
        examples = self._new_examples(id, reply.examples)
        changed = None if reply.active == self.active[id] else reply.active
        does: list[Does] = []
        if reworded:
            does.append("reworded")
        if examples:
            does.append("examples")
        if changed is not None:
            does.append("restored" if changed else "retired")
        if reworded:
            self.by_text.pop(fold_text(was), None)
        if reply.id == id:
            self.reworded[id] = number
            self._note(id, text)
        self.active[id] = reply.active
        change = ReplyChange(id, text if reworded else None, examples, changed) if does else None
        return PlannedLine(number, id, text, tuple(does), change, was if reworded else None)

    def _add_new(self, number: int, reply: ReplyLine, text: str, id: str) -> PlannedLine:
        self._note(id, text)
        self.reworded[id] = number
        self.active[id] = reply.active
        change = ReplyChange(
            id, text, self._new_examples(id, reply.examples), None if reply.active else False, new=True
        )
        return PlannedLine(number, id, text, ("new",) if reply.active else ("new", "retired"), change)

    def _note(self, id: str, text: str) -> None:
        self.texts[id] = text
        self.by_text[fold_text(text)] = id

    def _new_examples(self, id: str, examples: Sequence[str]) -> tuple[str, ...]:
        """Return the examples that the reply does not have yet."""
        found = []
        for example in examples:
            key = (id, fold_text(example))
            if example.strip() and key not in self.known:
                self.known.add(key)
                found.append(" ".join(example.split()))
        return tuple(found)


# replies -> file


def write_file(lines: Iterable[ReplyLine], format: Format) -> str:
    """Write a repertoire as text."""
    if format == "jsonl":
        return "".join(json.dumps(line.model_dump(), ensure_ascii=False) + "\n" for line in lines)
    out = io.StringIO(newline="")
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    for line in lines:
        examples = "\n".join(map(escape_formula, line.examples))
        rows.writerow([line.id, escape_formula(line.text), examples, str(line.active).lower()])
    return out.getvalue()


def escape_formula(cell: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would read as a formula."""
    return f"'{cell}" if cell.startswith(FORMULA) else cell
