"""Replies as a file: JSONL or CSV to lines, lines to what they would change, and back.

    file --parsed--> lines, some bad, each with its number --planned--> changes, against the replies there are
    replies --written--> the same file again

JSONL: {"id", "text", "examples": [...], "active"}; only "text" must be there. CSV: a header with these names; examples
stand in one cell, a line each. A line whose id is known gives that reply its text; one whose text is known adds its examples.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from online.errors import BadInput
from online.schemas import ReplyLine
from online.settings import describe
from online.store import ReplyRow, folded, laid_out

Format = Literal["jsonl", "csv"]
Does = Literal["new", "reworded", "examples", "restored", "retired"]
COLUMNS = ("id", "text", "examples", "active")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run what begins so; an apostrophe keeps it text


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one reply. text: its wording, None: as it is. examples: questions to add. active: whether it is
    given, None: as it is.
    """

    id: str
    text: str | None = None
    examples: tuple[str, ...] = ()
    active: bool | None = None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """A line of a file: what it says, or what is wrong with it."""

    number: int
    said: ReplyLine | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a line would do: nothing, where neither a change nor an error is there. was: the wording it replaces."""

    number: int
    id: str
    text: str
    does: tuple[Does, ...] = ()
    change: Change | None = None
    was: str | None = None
    error: str = ""


# file -> lines


def parsed(data: bytes, format: Format) -> list[Read]:
    """Raises BadInput where it is no such file at all."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"the file is not UTF-8: at byte {error.start} it has 0x{data[error.start]:02x}") from None
    return list(parsed_csv(text) if format == "csv" else parsed_jsonl(text))


def parsed_jsonl(text: str) -> Iterator[Read]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield checked(number, line)


def checked(number: int, line: str) -> Read:
    try:
        return Read(number, ReplyLine.model_validate_json(line))
    except ValidationError as error:
        return Read(number, None, describe(error))


def parsed_csv(text: str) -> Iterator[Read]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        if "text" not in names or not set(names) <= set(COLUMNS):
            raise BadInput(f"the first line of a CSV names its columns: of {', '.join(COLUMNS)} at least text")
        number = rows.line_num + 1
        for row in rows:
            if any(row):
                yield read_row(number, names, row)
            number = rows.line_num + 1
    except csv.Error as error:
        yield Read(rows.line_num, None, f"this is no CSV: {error}")


def read_row(number: int, names: Sequence[str], row: Sequence[str]) -> Read:
    if len(row) != len(names):
        return Read(number, None, f"it has {len(row)} cells where the header names {len(names)}")
    cells = {name: plain(cell) for name, cell in zip(names, row, strict=True) if cell.strip()}
    line: dict[str, object] = dict(cells)
    if "examples" in cells:
        line["examples"] = [plain(example) for example in cells["examples"].splitlines() if example.strip()]
    if "active" in cells:
        line["active"] = {"true": True, "false": False}.get(cells["active"].strip().lower(), cells["active"])
    return checked(number, json.dumps(line))


def plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


# lines -> changes


class Plan:
    """Goes through lines as if each were carried out before the next one is looked at."""

    def __init__(
        self, replies: Iterable[ReplyRow], examples: Iterable[tuple[str, str]], new_id: Iterator[str], most_chars: int
    ) -> None:
        """examples: (reply's id, text) of every one there is."""
        self.texts = {row.id: row.text for row in replies}
        self.active = {row.id: row.active for row in replies}
        self.by_text = {folded(text): id for id, text in self.texts.items()}
        self.known = {(id, folded(text)) for id, text in examples}
        self.new_id, self.most_chars = new_id, most_chars
        self.reworded: dict[str, int] = {}

    def of(self, lines: Iterable[Read]) -> list[Planned]:
        return [self._of(line) for line in lines]

    def _of(self, line: Read) -> Planned:
        said = line.said
        if said is None:
            return Planned(line.number, "", "", error=line.error)
        text = laid_out(said.text)
        error = self._wrong(said, text)
        if error:
            return Planned(line.number, said.id or "", text, error=error)
        if said.id in self.texts:
            return self._known(line.number, said, text, said.id)
        known = self.by_text.get(folded(text))
        if known is not None:
            return self._known(line.number, said, text, known)
        return self._new(line.number, said, text, said.id or next(self.new_id))

    def _wrong(self, said: ReplyLine, text: str) -> str:
        if not text:
            return "a reply needs a text"
        longest = max(map(len, (text, *said.examples)))
        if longest > self.most_chars:
            return f"it has a text of {longest} characters; at most {self.most_chars} (max_text_chars)"
        other = self.by_text.get(folded(text))
        if said.id in self.texts and other is not None and other != said.id:
            return f"another reply says that already: {other}"
        if said.id in self.reworded and folded(self.texts[said.id]) != folded(text):
            return f"line {self.reworded[said.id]} gives the same id another text"
        return ""

    def _known(self, number: int, said: ReplyLine, text: str, id: str) -> Planned:
        was = self.texts[id]
        reworded = said.id == id and was != text
        examples = self._fresh(id, said.examples)
        changed = None if said.active == self.active[id] else said.active
        does: list[Does] = []
        if reworded:
            does.append("reworded")
        if examples:
            does.append("examples")
        if changed is not None:
            does.append("restored" if changed else "retired")
        if reworded:
            self.by_text.pop(folded(was), None)
        if said.id == id:
            self.reworded[id] = number
            self._note(id, text)
        self.active[id] = said.active
        change = Change(id, text if reworded else None, examples, changed) if does else None
        return Planned(number, id, text, tuple(does), change, was if reworded else None)

    def _new(self, number: int, said: ReplyLine, text: str, id: str) -> Planned:
        self._note(id, text)
        self.reworded[id] = number
        self.active[id] = said.active
        change = Change(id, text, self._fresh(id, said.examples), None if said.active else False, new=True)
        return Planned(number, id, text, ("new",) if said.active else ("new", "retired"), change)

    def _note(self, id: str, text: str) -> None:
        self.texts[id] = text
        self.by_text[folded(text)] = id

    def _fresh(self, id: str, examples: Sequence[str]) -> tuple[str, ...]:
        """Those that the reply does not have yet."""
        found = []
        for example in examples:
            key = (id, folded(example))
            if example.strip() and key not in self.known:
                self.known.add(key)
                found.append(" ".join(example.split()))
        return tuple(found)


# replies -> file


def written(lines: Iterable[ReplyLine], format: Format) -> str:
    if format == "jsonl":
        return "".join(json.dumps(line.model_dump(), ensure_ascii=False) + "\n" for line in lines)
    out = io.StringIO(newline="")
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    for line in lines:
        examples = "\n".join(map(harmless, line.examples))
        rows.writerow([line.id, harmless(line.text), examples, str(line.active).lower()])
    return out.getvalue()


def harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(FORMULA) else cell
