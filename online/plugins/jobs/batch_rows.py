"""Rows of a batch prediction job's input: read, converted to instances, encoded.

CSV, Parquet --read_records--> (line, record) --parse_record--> BatchRow --encode_rows--> RowBatch
JSONL --read_lines--> UnparsedRow --parse_row, in any process--/
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import orjson

from online.evaluation.sources.column_profile import create_treatment, profile_columns
from online.io.csv_tables import CsvFault, open_csv, read_cell, read_rows
from online.io.json_names import find_name_given_twice
from online.io.parquet_tables import check_columns, open_parquet, plain_value, read_parquet_rows
from online.io.records import DEFAULT_LIMITS, ReadLimits, open_bytes
from online.plugins.jobs.batch_files import Check
from online.schemas.json_values import JSON

if TYPE_CHECKING:
    from online.models import Encoder

CHECK_EVERY = 1_024  # rows
PROFILED_ROWS = 1_000  # the first ones, which show what the columns are
TABULAR = ("csv", "parquet")  # formats whose columns decide what a row is
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One row of the input. line: its place in the file. cause: why it cannot be answered, if so."""

    line: int
    instance: JSON = None
    key: JSON = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class UnparsedRow:
    """A line of JSONL, as it stands in the file. line: its place."""

    line: int
    content: bytes


SourceRow = BatchRow | UnparsedRow


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows that are answered together. inputs: of the rows without a cause, in their order."""

    rows: Sequence[BatchRow]
    inputs: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that cannot be read, and why."""

    cause: str


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """The rows to read. key: as in a job's specification. input: the kind of the model's input (text, vector or table)."""

    path: Path
    format: str
    key: str
    input: str


class BatchRowReader(Protocol):
    """Reads rows: in this process, or in a child process with bounded memory (row_process.py).

    check: called now and then, at least every 0.1 s while another process reads; it raises to end the reading.
    """

    def count(self, request: RowsRequest, check: Check) -> int:
        """Return the number of rows. Raises BadInput if the file cannot be read to its end."""

    def read(self, request: RowsRequest, check: Check) -> Generator[BatchRow, None, None]:
        """Yield every row. Raises BadInput if the file cannot be read on."""


@dataclass(frozen=True, slots=True)
class DirectReader:
    """Reads rows in this process."""

    limits: ReadLimits = DEFAULT_LIMITS

    def count(self, request: RowsRequest, check: Check) -> int:
        """Return the number of rows."""
        return count_rows(request, self.limits, check)

    def read(self, request: RowsRequest, check: Check) -> Generator[BatchRow, None, None]:
        """Yield the rows in order."""
        for row in self.read_unparsed(request, check):
            yield parse_row(request, row)

    def read_unparsed(self, request: RowsRequest, check: Check) -> Generator[SourceRow, None, None]:
        """Yield the rows in order, those of JSONL as they stand in the file: another process may parse them."""
        if request.format not in TABULAR:
            for number, line in with_checks(read_lines(request.path, self.limits), check):
                yield UnparsedRow(number, line)
            return
        to_instance = choose_instances(request, self.limits)
        for place, record in with_checks(read_records(request, self.limits), check):
            yield parse_record(request, place, record, to_instance)


ToInstance = Callable[[object], object]  # a record -> the instance that it stands for; raises ValueError


def parse_row(request: RowsRequest, row: SourceRow) -> BatchRow:
    """Return a row as it is answered."""
    if isinstance(row, BatchRow):
        return row
    return parse_record(request, row.line, parse_line(row.content), lambda record: read_object(record, request.input))


def parse_record(request: RowsRequest, line: int, record: object, to_instance: ToInstance) -> BatchRow:
    """Return the row of a record, with the cause if it cannot be used."""
    if isinstance(record, UnreadableRecord):
        return BatchRow(line, cause=record.cause)
    try:
        return BatchRow(line, *split_key(request, record, to_instance))
    except ValueError as error:
        return BatchRow(line, cause=str(error))


def split_key(request: RowsRequest, record: object, to_instance: ToInstance) -> tuple[object, object]:
    """(instance, key). Raises ValueError."""
    key, name = None, request.key
    if name:
        if not isinstance(record, dict) or record.get(name) is None:
            raise ValueError(f"it has no {name!r}, the field of the key")
        key = record[name] if isinstance(record[name], (str, int, float)) else str(record[name])
        record = {other: value for other, value in record.items() if other != name}
    return to_instance(record), key


def read_records(request: RowsRequest, limits: ReadLimits) -> Iterator[tuple[int, object]]:
    """Yield (line, record) of every row of a table. Raises BadInput if the file cannot be read on."""
    if request.format == "csv":
        yield from read_csv(request, limits)
        return
    file = open_parquet(request.path, limits)
    check_columns(request.path, file)
    for number, record in enumerate(read_parquet_rows(request.path, file, limits), 1):
        yield number, {name: plain_value(value) for name, value in record.items()}


def read_csv(request: RowsRequest, limits: ReadLimits) -> Iterator[tuple[int, object]]:
    """Yield the cells of each row as texts, numbers and truth values; those of the key, and for a model of texts, as texts."""
    table = open_csv(request.path, limits)
    table = table.with_texts(table.names if request.input == "text" else [request.key])
    for row in read_rows(table):
        if isinstance(row, CsvFault):
            yield row.line, UnreadableRecord(f"it {row.cause}")
        else:
            yield row.line, {name: read_cell(cell, table.style_of(name)) for name, cell in row.cells.items()}


def read_lines(path: Path, limits: ReadLimits) -> Iterator[tuple[int, bytes]]:
    """Yield (line, content) of a JSONL file, without blank lines."""
    with open_bytes(path, limits) as (lines, _):
        for number, line in enumerate(lines, 1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if line.strip():
                yield number, line


def parse_line(line: bytes) -> object:
    """Return the record of a line, or why it cannot be read."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return UnreadableRecord(f"it is not JSON: {error.msg}, at character {error.pos + 1}")
    twice = find_name_given_twice(line, record)
    return UnreadableRecord(f"it has the name {twice!r} twice; leave out one of them") if twice else record


def with_checks(rows: Iterable[T], check: Check) -> Iterator[T]:
    """Yield the rows, with a call of `check` now and then."""
    for number, row in enumerate(rows):
        if number % CHECK_EVERY == 0:
            check()
        yield row


def count_rows(request: RowsRequest, limits: ReadLimits, check: Check) -> int:
    """Return the number of rows. Raises BadInput if the file cannot be read to its end."""
    match request.format:
        case "parquet":
            return int(open_parquet(request.path, limits).metadata.num_rows)
        case "csv":
            return sum(1 for _ in with_checks(read_records(request, limits), check))
        case _:
            return sum(1 for _ in with_checks(read_lines(request.path, limits), check))


def choose_instances(request: RowsRequest, limits: ReadLimits) -> ToInstance:
    """Return what turns a record of a table into the instance that the model reads (a text, a vector or a table).

    An object of columns is accepted for a text (the column `text`, or the one of sentences, or the only one) and for a
    vector (a column that holds a list, or a number in each). A date becomes numbers as everywhere.
    """
    records = (record for _, record in read_records(request, limits))
    sample = [drop_missing(each, request.key) for each in islice(records, PROFILED_ROWS) if isinstance(each, dict)]
    profile = profile_columns(sample, () if request.input == "text" else {name for row in sample for name in row})
    try:
        treat = create_treatment(profile.fit(request.input))
    except ValueError:
        return lambda record: read_object(record, request.input)
    return lambda record: treat_record(treat, record, request.input)


def treat_record(treat: Callable[[JSON], JSON], record: JSON, input: str) -> object:
    """Return the row of a record as an instance. Raises ValueError for a row without a text."""
    cells = drop_missing(record)
    if input == "text" and "text" in cells:
        return cells["text"]
    instance = treat(cells)
    if instance is None:
        raise ValueError(f"it has no {'text' if input == 'text' else 'number in one of its columns'}")
    return instance


def drop_missing(record: Mapping[str, object], key: str = "") -> dict[str, object]:
    """Return the cells of a row that have a value, without the key."""
    return {name: value for name, value in record.items() if value not in (None, "") and name != key}


def read_object(record: object, input: str) -> object:
    """Return the instance that a line of JSONL stands for. Raises ValueError."""
    if not isinstance(record, dict):
        return record
    cells = drop_missing(record)
    if input == "text":
        return cells["text"] if "text" in cells else only_value(cells)
    if input == "table":
        return cells
    values = list(cells.values())
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def only_value(cells: Mapping[str, object]) -> object:
    """Return the only cell of a row. Raises ValueError if it has several."""
    if len(cells) != 1:
        raise ValueError(f"none of its {len(cells)} fields is named 'text'; rename the field that holds the text")
    return next(iter(cells.values()))


def encode_rows(encoder: "Encoder", rows: Sequence[BatchRow]) -> RowBatch:
    """Return the rows with their features: encoded together, or one by one to find those that cannot be encoded."""
    instances = [row.instance for row in rows if row.cause is None]
    try:
        return RowBatch(rows, encoder.encode(instances) if instances else [])
    except ValueError:
        pass
    encoded = [encode_row(encoder, row) for row in rows]
    return RowBatch([row for row, _ in encoded], [features for _, features in encoded if features is not None])


def encode_row(encoder: "Encoder", row: BatchRow) -> tuple[BatchRow, bytes | None]:
    """Return the row with its features, or with the cause why it has none."""
    if row.cause is not None:
        return row, None
    try:
        return row, encoder.encode([row.instance])[0]
    except ValueError as error:
        return BatchRow(row.line, cause=f"it {str(error).removeprefix('instance 0 ')}"), None
