"""Labelled rows out of files: JSONL, CSV, Parquet, and datasets inside river and scikit-learn. (Vowpal Wabbit's: vw.py.)

    file --rows--> Row (instance, label, whatever else stands in the line)

A row that cannot be used is handed to `Bad`, which counts, keeps the first few, and ends it where there are too many.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from online.errors import BadInput
from online.evaluation.log import json_of
from online.files import number_or_text, parquet_file, parquet_records, plain

SHOWN = 5  # bad lines named in an error


@dataclass(frozen=True, slots=True)
class Row:
    """number: of the line it stands in. rest: the other columns, for delays and tasks.

    reward, propensity: where somebody decided, of whom nobody knows what was right: what the label, which they chose, was
    worth, and its chance to be chosen.
    """

    number: int
    instance: Any
    label: str
    rest: Mapping[str, Any] = field(default_factory=dict)
    reward: float | None = None
    propensity: float = 1.0


@dataclass(slots=True)
class Bad:
    """Lines that could not be used. `most`: the share of them that is bearable."""

    most: float = 0.0
    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, cause: str) -> None:
        """Raises BadInput at once where none is bearable and enough are known to show."""
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(cause)
        if not self.most and self.count == SHOWN:
            raise BadInput(self.told("at least "))

    def check(self, lines: int) -> None:
        """Raises BadInput if too many of `lines` were bad."""
        if self.count > self.most * lines:
            of = f" of {lines:,}" if self.most else ""
            raise BadInput(self.told("", of))

    def told(self, least: str, of: str = "") -> str:
        if self.count == 1:
            return self.first[0]
        more = f"; {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return f"{least}{self.count:,} lines{of} cannot be used: {'; '.join(self.first)}{more}"


# files


def csv_rows(file: IO[str], name: str, label: str, bad: Bad) -> Iterator[Row]:
    rows = csv.DictReader(file)
    if label not in (rows.fieldnames or ()):
        raise BadInput(f"{name} has no column {label!r}; it has {', '.join(rows.fieldnames or ())}")
    for row in rows:
        where = f"{name}, line {rows.line_num}"
        if None in row:
            bad.add(f"{where} has more cells than the header names")
            continue
        told = {key: number_or_text(value) for key, value in row.items() if key != label and value not in (None, "")}
        yield from labelled(rows.line_num, told, row[label], told, where, bad)


def json_rows(file: IO[str], name: str, bad: Bad) -> Iterator[Row]:
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            line = json_of(text, name, number)
        except BadInput as error:
            bad.add(str(error))
            continue
        where = f"{name}, line {number}"
        if "input" not in line or "label" not in line:
            bad.add(f'{where}: expected {{"input": ..., "label": ...}}')
            continue
        yield from labelled(number, line["input"], line["label"], line, where, bad)


def parquet_rows(path: Path, label: str, bad: Bad) -> Iterator[Row]:
    file = parquet_file(path)
    if label not in file.schema_arrow.names:
        raise BadInput(f"{path.name} has no column {label!r}; it has {', '.join(file.schema_arrow.names)}")
    for number, row in enumerate(parquet_records(path, file), 1):
        told = {key: plain(value) for key, value in row.items() if key != label and value is not None}
        yield from labelled(number, told, row[label], told, f"{path.name}, row {number}", bad)


def dataset_rows(name: str, bad: Bad) -> Iterator[Row]:
    for number, (instance, label) in enumerate(dataset(name), 1):
        yield from labelled(number, instance, label, {}, f"{name}, example {number}", bad)


def labelled(number: int, instance: Any, label: Any, rest: Mapping[str, Any], where: str, bad: Bad) -> Iterator[Row]:
    """One row, or none where the label is missing: nothing, an empty text or NaN."""
    if label in (None, "") or (isinstance(label, float) and not math.isfinite(label)):
        bad.add(f"{where} has no label, but {label!r}")
    else:
        yield Row(number, instance, str(label), rest)


def finite(value: Any) -> float:
    """Raises ValueError for what is no finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number


def probability(value: Any) -> float:
    """Of something that happened. Raises ValueError."""
    number = finite(value)
    if not 0 < number <= 1 + 1e-6:
        raise ValueError(f"its propensity is {number:g}, which is not above 0 and at most 1")
    return number


# datasets


def dataset(name: str) -> Iterator[tuple[Any, Any]]:
    """(instance, label) of river:NAME or sklearn:NAME."""
    where, _, which = name.partition(":")
    if where == "river":
        return (({key: plain(value) for key, value in row.items()}, label) for row, label in river_dataset(which))
    return sklearn_rows(which)


def river_dataset(which: str) -> Any:
    """Raises BadInput for one that is not there or is no classification or regression."""
    from river import datasets
    from river.datasets import base

    made = getattr(datasets, which, None)
    if made is None:
        known = sorted(each for each in datasets.__all__ if isinstance(getattr(datasets, each), type))
        raise BadInput(f"river has no dataset {which!r}; it has {', '.join(known)}")
    found = made()
    if found.task not in (base.BINARY_CLF, base.MULTI_CLF, base.REG):
        raise BadInput(f"river's {which} is neither a classification nor a regression dataset")
    return found


SKLEARN = ("digits", "wine", "breast_cancer", "iris", "diabetes")


def sklearn_rows(which: str) -> Iterator[tuple[Any, Any]]:
    if which not in SKLEARN:
        raise BadInput(f"of scikit-learn's datasets there are {', '.join(SKLEARN)}; not {which!r}")
    try:
        from sklearn import datasets
    except ImportError:
        raise BadInput("scikit-learn is not installed; pip install scikit-learn") from None
    rows, labels = getattr(datasets, f"load_{which}")(return_X_y=True)
    return ((row.tolist(), label.item()) for row, label in zip(rows, labels, strict=True))


def is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
