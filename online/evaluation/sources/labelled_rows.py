"""Reads labelled rows from JSONL, CSV, Parquet and datasets. (Vowpal Wabbit's text: vw_text.py.)

    file --rows--> Row (instance, label, the other columns)

A row that cannot be used is given to `BadLines`, which counts it and raises BadInput if there are
too many.
"""

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.datasets import open_dataset
from online.evaluation.sources.log_format import parse_json
from online.io.csv_tables import CsvFault, CsvTable, create_cell_reader, read_label, read_rows
from online.io.json_names import find_name_given_twice
from online.io.parquet_tables import open_parquet, plain_value, read_parquet_rows
from online.io.records import ReadLimits
from online.models.encoders.values import format_value
from online.schemas.json_values import JSON
from online.schemas.labels import name_label

MOST_KNOWN = 1_000  # labels whose class is kept, so that it is named once


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """An instance with its label.

    number: of its line. rest: the other columns, for delays and tasks. reward, propensity: for a
    logged decision, whose right choice is unknown: the reward of the chosen class, and the
    probability with which it was chosen.
    """

    number: int
    instance: JSON
    label: str
    rest: Mapping[str, JSON] = field(default_factory=dict)
    reward: float | None = None
    propensity: float = 1.0


# files


def read_csv(
    table: CsvTable, label: str, bad: BadLines, at: Callable[[int], None] = lambda position: None
) -> Iterator[LabelledRow]:
    """at: is called at intervals with the bytes read."""
    name, style = table.path.name, table.style_of(label)
    known = dict[str, str]()  # the name of each class so far
    readers = {each: create_cell_reader(table.style_of(each)) for each in table.names}
    for row in read_rows(table, at):
        if isinstance(row, CsvFault):
            bad.add(f"{name}, line {row.line} {row.cause}", row.line, row.problem, row.count)
            continue
        values = {each: readers[each](cell) for each, cell in row.cells.items() if cell and each != label}
        cell = row.cells[label]
        named = known.get(cell) or read_label(cell, style)
        if not named:
            yield from build_row(row.line, values, named, values, f"{name}, line {row.line}", bad)
            continue
        if len(known) < MOST_KNOWN:
            known[cell] = named
        yield LabelledRow(row.line, values, named, values)


def refuse_label(name: str, label: str, columns: Sequence[str]) -> BadInput:
    """Return the error for a label column that does not exist."""
    listed = ", ".join(columns)
    refused = BadInput(f"{name} has no column {label!r}; it has {listed}")
    return refused.because("log_column_missing", column=label, columns=listed)


def read_jsonl(file: IO[str], name: str, bad: BadLines, first: int = 1) -> Iterator[LabelledRow]:
    """first: the number of the first line."""
    for number, text in enumerate(file, first):
        if not text.strip():
            continue
        try:
            line = parse_json(text, name, number)
        except BadInput as error:
            bad.add(str(error), number, "not_json")
            continue
        where = f"{name}, line {number}"
        if twice := find_name_given_twice(text.encode(), line):
            bad.add(f"{where} has the name {twice!r} twice; leave out one of them", number, "not_json")
            continue
        if "input" not in line or "label" not in line:
            bad.add(f'{where}: expected {{"input": ..., "label": ...}}', number, "no_example")
            continue
        yield from build_row(number, line["input"], line["label"], line, where, bad)


def read_parquet(
    path: Path, label: str, bad: BadLines, limits: ReadLimits, without: Collection[str] = ()
) -> Iterator[LabelledRow]:
    """without: columns that are not read."""
    for number, row in enumerate(read_parquet_rows(path, open_parquet(path, limits), limits, without), 1):
        values = {key: plain_value(value) for key, value in row.items() if key != label and value is not None}
        yield from build_row(number, values, row[label], values, f"{path.name}, row {number}", bad)


def read_dataset(name: str, bad: BadLines) -> Iterator[LabelledRow]:
    """Yield the labelled rows of a dataset inside a library."""
    for number, (instance, label) in enumerate(open_dataset(name), 1):
        yield from build_row(number, instance, label, {}, f"{name}, example {number}", bad)


def build_row(
    number: int, instance: object, label: object, rest: Mapping[str, object], where: str, bad: BadLines
) -> Iterator[LabelledRow]:
    """Yield one row, or none if its input is missing, or its label: None, an empty text or NaN."""
    if instance is None:
        bad.add(f"{where} has no input", number, "no_example")
    elif isinstance(label, (dict, list)):
        bad.add(f"{where} has {format_value(label)} as its label; it must be a text or a number", number, "no_label")
    elif label in (None, "") or (isinstance(label, float) and not math.isfinite(label)):
        bad.add(f"{where} has no label, but {label!r}", number, "no_label")
    else:
        yield LabelledRow(number, instance, name_label(label), rest)


# datasets


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
