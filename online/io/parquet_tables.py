"""Reads Parquet files: the type of each column says what its values are.

    numbers of any width, decimals     -> int, float          NaN is a missing value
    texts, and bytes that are a text   -> str                 a dictionary: as its values
    dates, times, durations            -> "2026-01-31", "2026-01-31T12:00:00+00:00", seconds
    lists of numbers                   -> [float]             a struct: a column for each field, `user.age`

Any other column is refused by its name, unless it is left out.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from online.errors import BadInput
from online.io.csv_tables import check_names
from online.io.records import DEFAULT_LIMITS, ReadLimits

if TYPE_CHECKING:
    import pyarrow.parquet

PAGE = 4_096  # rows read at once
CELL_BYTES = 8  # of a file, which may hold any number of equal cells as one run
TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}  # in a second
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Convert = Callable[["pyarrow.Array"], list[object]]  # an Arrow array -> its values


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet does, whatever its name. Not so for a folder."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def open_parquet(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> "pyarrow.parquet.ParquetFile":
    """Open a Parquet file. Raises BadInput if it cannot be read, TooLarge if it holds more cells than the limits allow."""
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = name_columns(file)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}").because("log_unreadable") from None
    check_names(path.name, names)
    cells = file.metadata.num_rows * file.metadata.num_columns
    limits.check_unpacked(path, CELL_BYTES * cells, path.stat().st_size)
    return file


def name_columns(file: "pyarrow.parquet.ParquetFile") -> list[str]:
    """Return the names of a file's columns; each field of a struct is one, `user.age`."""
    return [*flatten(file.schema_arrow.empty_table()).schema.names]


def flatten(table: "pyarrow.Table") -> "pyarrow.Table":
    """Return a table with the fields of its structs as columns."""
    import pyarrow

    while any(pyarrow.types.is_struct(column.type) for column in table.schema):
        table = table.flatten()
    return table


def read_parquet_rows(
    path: Path, file: "pyarrow.parquet.ParquetFile", limits: ReadLimits = DEFAULT_LIMITS, without: Collection[str] = ()
) -> Iterator[Mapping[str, object]]:
    """Yield each row as a mapping of its columns. without: columns that are not read, whatever they hold.

    Raises BadInput for a column that cannot be used, and if reading fails; TooLarge beyond a limit.
    A page of rows is unpacked before it is counted: only a limit on the memory of the process bounds that.
    """
    import pyarrow

    unpacked_bytes, packed_bytes = 0, path.stat().st_size
    wanted = [name for name in file.schema_arrow.names if name not in without]
    try:
        for batch in file.iter_batches(PAGE, columns=wanted):
            unpacked_bytes += batch.nbytes
            limits.check_unpacked(path, unpacked_bytes, packed_bytes)
            limits.check_line(path, batch.nbytes // max(batch.num_rows, 1))
            yield from read_batch(path, batch, without)
    except pyarrow.ArrowMemoryError:
        raise MemoryError from None
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} cannot be read: {error}").because("log_unreadable") from None


def read_batch(path: Path, batch: "pyarrow.RecordBatch", without: Collection[str]) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a batch of Parquet without these columns."""
    import pyarrow

    table = flatten(pyarrow.Table.from_batches([batch]))
    names = [name for name in table.schema.names if name not in without]
    if not names:
        return iter([{} for _ in range(batch.num_rows)])
    columns = [read_column(path, name, table.column(name).combine_chunks()) for name in names]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def read_column(path: Path, name: str, array: "pyarrow.Array") -> list[object]:
    """Return the values of a column. Raises BadInput if its type, or one of its values, is none that can be read."""
    convert = find_conversion(array.type)
    try:
        if convert is not None:
            return convert(array)
    except (UnicodeDecodeError, ValueError, OverflowError):
        pass
    raise BadInput(
        f"{path.name} has the column {name!r} of the type {str(array.type)[:60]}, whose values are no numbers, texts, "
        f"dates or lists of numbers: leave it out with --drop {name}"
    ).because("log_column_unusable", column=name)


def find_conversion(of: "pyarrow.DataType") -> Convert | None:
    """Return what turns an array of a type into values; None for a type that cannot be read."""
    from pyarrow import BaseExtensionType, types

    if isinstance(of, BaseExtensionType):
        return lambda array: (find_conversion(of.storage_type) or fail)(array.storage)
    if types.is_dictionary(of):
        return lambda array: (find_conversion(of.value_type) or fail)(array.dictionary_decode())
    if types.is_floating(of):
        return lambda array: [drop_nan(value) for value in array.to_pylist()]
    if types.is_null(of) or types.is_boolean(of) or types.is_integer(of):
        return to_values
    if types.is_decimal(of):
        return lambda array: [None if value is None else read_decimal(value) for value in array.to_pylist()]
    if types.is_string(of) or types.is_large_string(of) or types.is_string_view(of):
        return to_values
    if types.is_binary(of) or types.is_large_binary(of) or types.is_fixed_size_binary(of) or types.is_binary_view(of):
        return lambda array: [None if value is None else value.decode() for value in array.to_pylist()]
    return find_time_conversion(of) or (read_lists if is_list_of_numbers(of) else None)


def fail(array: object) -> list[object]:
    """Refuse a column. Raises ValueError."""
    raise ValueError


def to_values(array: "pyarrow.Array") -> list[object]:
    """Return the values of a column as Python objects."""
    values: list[object] = array.to_pylist()
    return values


def find_time_conversion(of: "pyarrow.DataType") -> Convert | None:
    """Return a conversion that needs no pandas and no range of `datetime`: it counts in ticks since 1970."""
    from pyarrow import types

    if types.is_date(of):
        day = 86_400_000 if types.is_date64(of) else 1
        return lambda array: [None if ticks is None else render_day(ticks / day) for ticks in read_ticks(array)]
    if types.is_timestamp(of):
        return lambda array: [None if ticks is None else render_time(ticks, of.unit) for ticks in read_ticks(array)]
    if types.is_duration(of) or types.is_time(of):
        return lambda array: [None if ticks is None else ticks / TICKS[of.unit] for ticks in read_ticks(array)]
    return None


def read_ticks(array: "pyarrow.Array") -> list[int | None]:
    """Return the integers behind a column of times."""
    import pyarrow

    whole = pyarrow.int32() if array.type.bit_width == 32 else pyarrow.int64()
    values: list[int | None] = array.view(whole).to_pylist()
    return values


def render_day(days: float) -> str | float:
    """Return a date as 2026-01-31; one that no calendar here has as the number of its days."""
    try:
        return (date(1970, 1, 1) + timedelta(days=math.floor(days))).isoformat()
    except OverflowError:
        return days


def render_time(ticks: int, unit: str) -> str | float:
    """Return a time in UTC, which one without a zone means; one that no calendar here has as seconds since 1970."""
    try:
        return (EPOCH + timedelta(microseconds=ticks * 1_000_000 // TICKS[unit])).isoformat()
    except OverflowError:
        return ticks / TICKS[unit]


def drop_nan(value: float | None) -> float | None:
    """Return a number, with NaN as None."""
    return None if value is None or math.isnan(value) else float(value)


def read_decimal(value: Decimal) -> int | float:
    """Return a decimal as an int if it is whole, else as a float."""
    return int(value) if value == value.to_integral_value() else float(value)


def is_list_of_numbers(of: "pyarrow.DataType") -> bool:
    """Return whether a column holds lists of numbers."""
    from pyarrow import types

    is_list = types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of)
    if not (is_list or types.is_list_view(of) or types.is_large_list_view(of)):
        return False
    inner = of.value_type
    return bool(types.is_floating(inner) or types.is_integer(inner) or types.is_null(inner))


def read_lists(array: "pyarrow.Array") -> list[object]:
    """Return the lists of numbers of a column."""
    return [None if values is None else [*map(to_number, values)] for values in array.to_pylist()]


def to_number(value: float | None) -> float | None:
    """Return a number as a float."""
    return None if value is None else float(value)


# values as features


def plain_value(value: Any) -> object:
    """Return a value as a table takes it: number types of numpy, river and Arrow become Python floats."""
    if isinstance(value, (str, bool, list)) or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)


def check_columns(path: Path, file: "pyarrow.parquet.ParquetFile", without: Collection[str] = ()) -> None:
    """Raise BadInput for a column of a type that cannot be read."""
    for column in flatten(file.schema_arrow.empty_table()).schema:
        if column.name not in without and find_conversion(column.type) is None:
            read_column(path, column.name, _empty(column.type))


def _empty(of: "pyarrow.DataType") -> "pyarrow.Array":
    import pyarrow

    return pyarrow.array([], of)
