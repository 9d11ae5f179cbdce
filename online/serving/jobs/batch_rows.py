"""Rows of a batch prediction job's input: read, converted to instances, encoded.

JSONL, CSV or Parquet --read_records--> (line, record) --to_instance--> Row --encode_row--> Batch
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from online.io.records import (
    number_or_text,
    open_bytes,
    open_parquet,
    open_text,
    plain_value,
    read_parquet_rows,
)
from online.models import Encoder
from online.serving.jobs.batch_files import Check

CHECK_EVERY = 1_024  # rows
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the input. line: its place in the file. cause: why it cannot be answered, if so."""

    line: int
    instance: Any = None
    key: Any = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are answered together. inputs: of the rows without a cause, in their order."""

    rows: Sequence[Row]
    inputs: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    cause: str


def read_records(path: Path, format: str) -> Iterator[tuple[int, Any]]:
    """Yield (line, record) of every row. Raises BadInput if the file cannot be read on."""
    match format:
        case "parquet":
            yield from enumerate(read_parquet_rows(path, open_parquet(path)), 1)
        case "csv":
            yield from read_csv(path)
        case _:
            yield from read_jsonl(path)


def read_csv(path: Path) -> Iterator[tuple[int, Any]]:
    with open_text(path) as (file, _):
        rows = csv.DictReader(file)
        for row in rows:
            has_extra_cells = None in row
            record = UnreadableRecord("it has more cells than the header names") if has_extra_cells else row
            yield rows.line_num, record


def read_jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    with open_bytes(path) as (lines, _):
        for number, line in enumerate(lines, 1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if line.strip():
                yield number, parse_line(line)


def parse_line(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return UnreadableRecord(f"it is not JSON: {error.msg}, at character {error.pos + 1}")


def with_checks(rows: Iterable[T], check: Check) -> Iterator[T]:
    """The rows, with a call of `check` now and then."""
    for number, row in enumerate(rows):
        if number % CHECK_EVERY == 0:
            check()
        yield row


def count_rows(path: Path, format: str, check: Check) -> int:
    """Raises BadInput if the file cannot be read to its end."""
    match format:
        case "parquet":
            return int(open_parquet(path).metadata.num_rows)
        case "csv":
            return sum(1 for _ in with_checks(read_records(path, format), check))
        case _:
            with open_bytes(path) as (lines, _):
                return sum(1 for line in with_checks(lines, check) if line.strip())


def to_instance(record: Any, input: str, format: str) -> Any:
    """The instance that a record stands for, by what the model reads (text, vector or table).

    An object of columns is accepted for a text (the column `text`, or the only one) and for a vector
    (a column that holds a list, or a number in each). Raises ValueError.
    """
    if not isinstance(record, dict):
        return record
    cells = {name: value for name, value in record.items() if value not in (None, "")}
    if input == "text":
        return cells["text"] if "text" in cells else only_value(cells)
    if format == "csv":
        cells = {name: number_or_text(value) for name, value in cells.items()}
    if format == "parquet" and input == "table":
        cells = {name: plain_value(value) for name, value in cells.items()}
    if input == "table":
        return cells
    values = list(cells.values())
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def only_value(cells: Mapping[str, Any]) -> Any:
    if len(cells) != 1:
        raise ValueError(f"none of its {len(cells)} fields is named 'text'; rename the field that holds the text")
    return next(iter(cells.values()))


def encode_row(encoder: Encoder, row: Row) -> tuple[Row, bytes | None]:
    """The row with its features, or with the cause why it has none."""
    if row.cause is not None:
        return row, None
    try:
        return row, encoder.encode([row.instance])[0]
    except ValueError as error:
        return Row(row.line, cause=f"it {str(error).removeprefix('instance 0 ')}"), None
