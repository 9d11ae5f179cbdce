"""Reads labelled rows from JSONL, CSV, Parquet and datasets. (Vowpal Wabbit's text: vw_text.py.)

    file --rows--> Row (instance, label, the other columns)

A row that cannot be used is given to `BadLines`, which counts it and raises BadInput if there are
too many.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.datasets import open_dataset
from online.evaluation.sources.log_format import parse_json
from online.io.records import ReadLimits, number_or_text, open_parquet, plain_value, read_parquet_rows


@dataclass(frozen=True, slots=True)
class Row:
    """An instance with its label.

    number: of its line. rest: the other columns, for delays and tasks. reward, propensity: for a
    logged decision, whose right choice is unknown: the reward of the chosen class, and the
    probability with which it was chosen.
    """

    number: int
    instance: Any
    label: str
    rest: Mapping[str, Any] = field(default_factory=dict)
    reward: float | None = None
    propensity: float = 1.0


# files


def read_csv(file: IO[str], name: str, label: str, bad: BadLines) -> Iterator[Row]:
    rows = csv.DictReader(file)
    if label not in (rows.fieldnames or ()):
        raise refuse_label(name, label, rows.fieldnames or ())
    for row in rows:
        where = f"{name}, line {rows.line_num}"
        if None in row:
            bad.add(f"{where} has more cells than the header names", rows.line_num, "too_many_cells")
            continue
        values = {key: number_or_text(value) for key, value in row.items() if key != label and value not in (None, "")}
        yield from build_row(rows.line_num, values, row[label], values, where, bad)


def refuse_label(name: str, label: str, columns: Sequence[str]) -> BadInput:
    listed = ", ".join(columns)
    refused = BadInput(f"{name} has no column {label!r}; it has {listed}")
    return refused.because("log_column_missing", column=label, columns=listed)


def read_jsonl(file: IO[str], name: str, bad: BadLines, first: int = 1) -> Iterator[Row]:
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
        if "input" not in line or "label" not in line:
            bad.add(f'{where}: expected {{"input": ..., "label": ...}}', number, "no_example")
            continue
        yield from build_row(number, line["input"], line["label"], line, where, bad)


def read_parquet(path: Path, label: str, bad: BadLines, limits: ReadLimits) -> Iterator[Row]:
    file = open_parquet(path, limits)
    if label not in file.schema_arrow.names:
        raise refuse_label(path.name, label, file.schema_arrow.names)
    for number, row in enumerate(read_parquet_rows(path, file, limits), 1):
        values = {key: plain_value(value) for key, value in row.items() if key != label and value is not None}
        yield from build_row(number, values, row[label], values, f"{path.name}, row {number}", bad)


def read_dataset(name: str, bad: BadLines) -> Iterator[Row]:
    for number, (instance, label) in enumerate(open_dataset(name), 1):
        yield from build_row(number, instance, label, {}, f"{name}, example {number}", bad)


def build_row(
    number: int, instance: Any, label: Any, rest: Mapping[str, Any], where: str, bad: BadLines
) -> Iterator[Row]:
    """Yield one row, or none if the label is missing: None, an empty text or NaN."""
    if label in (None, "") or (isinstance(label, float) and not math.isfinite(label)):
        bad.add(f"{where} has no label, but {label!r}", number, "no_label")
    else:
        yield Row(number, instance, str(label), rest)


# datasets


def is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
