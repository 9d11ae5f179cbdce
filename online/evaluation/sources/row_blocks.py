"""Labelled rows as columns: rows that are predicted and learned in order, many at a time.

    file --blocks of bytes--> lines --orjson--> columns --> RowBlock      a block of JSONL without a fault
                                    \\-> read_jsonl --> rows --> RowBlock  a block with one, line by line

A row's label arrives before the next row. Rows whose labels arrive later, or that have tasks, are
read as lines (arrival.py).
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from io import StringIO
from typing import IO, TypeVar

import orjson

from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.labelled_rows import LabelledRow, read_jsonl
from online.io.json_names import are_names_single
from online.schemas.json_values import JSONArray
from online.schemas.labels import name_label

T = TypeVar("T")

BLOCK_ROWS = 128
READ_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class RowBlock:
    """Rows in order, as columns: the number of the line, the offset of the event, the instance and its label.

    features: the encoded instances, once they are.
    """

    numbers: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    instances: JSONArray = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    features: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, start: int, stop: int | None) -> "RowBlock":
        """Return the rows from one place to another, or to the end."""
        at = slice(start, stop)
        features = None if self.features is None else self.features[at]
        return RowBlock(self.numbers[at], self.offsets[at], self.instances[at], self.labels[at], features)

    def drop(self, places: Collection[int]) -> "RowBlock":
        """Return the rows without those at these places."""

        def rest(column: list[T]) -> list[T]:
            return [value for place, value in enumerate(column) if place not in places]

        features = None if self.features is None else rest(self.features)
        return RowBlock(rest(self.numbers), rest(self.offsets), rest(self.instances), rest(self.labels), features)

    def join(self, later: "RowBlock") -> "RowBlock":
        """Return this block followed by a later one."""
        features = None if self.features is None or later.features is None else self.features + later.features
        return RowBlock(
            self.numbers + later.numbers,
            self.offsets + later.offsets,
            self.instances + later.instances,
            self.labels + later.labels,
            features,
        )


Columns = tuple[list[int], JSONArray, list[str]]  # numbers of lines, instances, labels


def group_rows(rows: Iterable[LabelledRow]) -> Iterator[Columns]:
    """Yield each row as columns of one value."""
    return (([row.number], [row.instance], [row.label]) for row in rows)


def build_blocks(pieces: Iterable[Columns]) -> Iterator[RowBlock]:
    """Arrange columns of any length in blocks of BLOCK_ROWS. A piece is read when the rows before it are used."""
    rows, offset = RowBlock(), 1
    for numbers, instances, labels in pieces:
        rows.numbers += numbers
        rows.offsets += range(offset, offset + len(numbers))
        rows.instances += instances
        rows.labels += labels
        offset += len(numbers)
        while len(rows) >= BLOCK_ROWS:
            yield rows.part(0, BLOCK_ROWS)
            rows = rows.part(BLOCK_ROWS, None)
    if len(rows):
        yield rows


# JSONL


def read_jsonl_columns(file: IO[bytes], name: str, bad: BadLines, first: int = 1) -> Iterator[Columns]:
    """Yield what `read_jsonl` yields of the file's text, in columns. first: the number of the first line."""
    for data in read_blocks(file):
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        columns = parse_lines(data, lines, first)
        if columns is not None:
            yield columns
            first += len(lines)
        else:
            text = data.decode("utf-8")
            yield from group_rows(read_jsonl(StringIO(text, newline=""), name, bad, first))
            first += sum(1 for _ in StringIO(text, newline=""))


def read_blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines, without a byte order mark."""
    rest = file.read(len(BOM)).removeprefix(BOM)
    while piece := file.read(READ_BYTES):
        data = rest + piece
        end = data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1) + 1  # "\r\n" may be cut in two
        if end:
            yield data[:end]
        rest = data[end:]
    if rest:
        yield rest


def parse_lines(data: bytes, lines: list[bytes], first: int) -> Columns | None:
    """Return the columns of a block; None if a line has a fault, or ends as a text's line may end elsewhere."""
    if data.count(b"\r") != data.count(b"\r\n"):
        return None
    try:
        rows = [*map(orjson.loads, lines)]
        instances, given = [row["input"] for row in rows], [row["label"] for row in rows]
    except (ValueError, TypeError, KeyError):
        return None
    if None in instances or not are_names_single(data, rows):
        return None
    labels = label_texts(given)
    return None if labels is None else ([*range(first, first + len(rows))], instances, labels)


def label_texts(labels: JSONArray) -> list[str] | None:
    """Return labels of one type as texts; None for others, or if one of them is missing."""
    types = {*map(type, labels)}
    if types == {str}:
        return None if "" in labels else labels
    if types == {int} or (types == {float} and all(map(math.isfinite, labels))):
        return [*map(name_label, labels)]
    return None
