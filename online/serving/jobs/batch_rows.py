"""Rows of a batch prediction job's input: read, converted to instances, encoded.

JSONL, CSV or Parquet --read_records--> (line, record) --parse_record--> Row --encode_row--> Batch
"""

import csv
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from online.io.records import (
    DEFAULT_LIMITS,
    ReadLimits,
    number_or_text,
    open_bytes,
    open_parquet,
    open_text,
    plain_value,
    read_parquet_rows,
)
from online.serving.jobs.batch_files import Check

if TYPE_CHECKING:
    from online.models import Encoder

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


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """Which rows to read. key: as in a job's specification. input: what the model reads (text, vector or table)."""

    path: Path
    format: str
    key: str
    input: str


class RowReader(Protocol):
    """Reads rows: in this process, or in a child process with bounded memory (row_process.py).

    check: called now and then, at least every 0.1 s while another process reads; it raises to end the reading.
    """

    def count(self, request: RowsRequest, check: Check) -> int:
        """The number of rows. Raises BadInput if the file cannot be read to its end."""

    def read(self, request: RowsRequest, check: Check) -> Generator[Row, None, None]:
        """Yield every row. Raises BadInput if the file cannot be read on."""


@dataclass(frozen=True, slots=True)
class DirectReader:
    """Reads rows in this process."""

    limits: ReadLimits = DEFAULT_LIMITS

    def count(self, request: RowsRequest, check: Check) -> int:
        return count_rows(request.path, request.format, self.limits, check)

    def read(self, request: RowsRequest, check: Check) -> Generator[Row, None, None]:
        for line, record in with_checks(read_records(request.path, request.format, self.limits), check):
            yield parse_record(request, line, record)


def parse_record(request: RowsRequest, line: int, record: Any) -> Row:
    if isinstance(record, UnreadableRecord):
        return Row(line, cause=record.cause)
    try:
        return Row(line, *split_key(request, record))
    except ValueError as error:
        return Row(line, cause=str(error))


def split_key(request: RowsRequest, record: Any) -> tuple[Any, Any]:
    """(instance, key). Raises ValueError."""
    key, name = None, request.key
    if name:
        if not isinstance(record, dict) or record.get(name) is None:
            raise ValueError(f"it has no {name!r}, the field of the key")
        key = record[name] if isinstance(record[name], (str, int, float)) else str(record[name])
        record = {other: value for other, value in record.items() if other != name}
    return to_instance(record, request.input, request.format), key


def read_records(path: Path, format: str, limits: ReadLimits) -> Iterator[tuple[int, Any]]:
    """Yield (line, record) of every row. Raises BadInput if the file cannot be read on."""
    match format:
        case "parquet":
            yield from enumerate(read_parquet_rows(path, open_parquet(path, limits), limits), 1)
        case "csv":
            yield from read_csv(path, limits)
        case _:
            yield from read_jsonl(path, limits)


def read_csv(path: Path, limits: ReadLimits) -> Iterator[tuple[int, Any]]:
    with open_text(path, limits) as (file, _):
        rows = csv.DictReader(file)
        for row in rows:
            has_extra_cells = None in row
            record = UnreadableRecord("it has more cells than the header names") if has_extra_cells else row
            yield rows.line_num, record


def read_jsonl(path: Path, limits: ReadLimits) -> Iterator[tuple[int, Any]]:
    with open_bytes(path, limits) as (lines, _):
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


def count_rows(path: Path, format: str, limits: ReadLimits, check: Check) -> int:
    """Raises BadInput if the file cannot be read to its end."""
    match format:
        case "parquet":
            return int(open_parquet(path, limits).metadata.num_rows)
        case "csv":
            return sum(1 for _ in with_checks(read_records(path, format, limits), check))
        case _:
            with open_bytes(path, limits) as (lines, _):
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


def encode_row(encoder: "Encoder", row: Row) -> tuple[Row, bytes | None]:
    """The row with its features, or with the cause why it has none."""
    if row.cause is not None:
        return row, None
    try:
        return row, encoder.encode([row.instance])[0]
    except ValueError as error:
        return Row(row.line, cause=f"it {str(error).removeprefix('instance 0 ')}"), None
