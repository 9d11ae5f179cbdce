"""Labelled rows out of files: JSONL, CSV, Parquet, Vowpal Wabbit's text, and datasets inside river and scikit-learn.

    file --rows--> Row (instance, label, whatever else stands in the line)

A row that cannot be used is handed to `Bad`, which counts, keeps the first few, and ends it where there are too many.
"""

import csv
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import zstandard

from online.errors import BadInput
from online.evaluation.log import json_of

SHOWN = 5  # bad lines named in an error
PAGE = 4_096  # rows of a Parquet file read at once


@dataclass(frozen=True, slots=True)
class Row:
    """number: of the line it stands in. rest: the other columns, for delays and tasks."""

    number: int
    instance: Any
    label: str
    rest: Mapping[str, Any] = field(default_factory=dict)


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


@contextmanager
def reading(path: Path) -> Iterator[tuple[IO[str], Callable[[], int]]]:
    """A text file, unpacked as its name says, and how many of its bytes were read.

    Raises BadInput when it cannot be opened, unpacked or read as text, then or later.
    """
    try:
        with open(path, "rb") as raw, io.TextIOWrapper(unpacked(raw, path.suffix), "utf-8-sig", newline="") as file:
            yield file, raw.tell
    except EOFError:
        raise BadInput(f"{path} is cut off: its compressed data ends in the middle") from None
    except (OSError, zlib.error, zstandard.ZstdError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def unpacked(raw: IO[bytes], suffix: str) -> Any:
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if suffix == ".zst":
        return io.BufferedReader(Unzstd(raw))
    return raw


class Unzstd(io.RawIOBase):
    """The frames of a zstandard file, one after another. Raises EOFError where the last one is cut off."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw, self.ready = raw, b""
        self.frame: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            data = self.raw.read(1 << 16)
            if not data:
                if self.frame is not None and not self.frame.eof:
                    raise EOFError
                return 0
            self.ready = self._unpacked(data)
        given = min(len(buffer), len(self.ready))
        buffer[:given], self.ready = self.ready[:given], self.ready[given:]
        return given

    def _unpacked(self, data: bytes) -> bytes:
        made = b""
        while data:
            if self.frame is None or self.frame.eof:
                self.frame = zstandard.ZstdDecompressor().decompressobj()
            made += self.frame.decompress(data)
            data = self.frame.unused_data if self.frame.eof else b""
        return made


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
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
        if label not in file.schema_arrow.names:
            raise BadInput(f"{path.name} has no column {label!r}; it has {', '.join(file.schema_arrow.names)}")
        number = 0
        for batch in file.iter_batches(PAGE):
            for row in batch.to_pylist():
                number += 1
                told = {key: plain(value) for key, value in row.items() if key != label and value is not None}
                yield from labelled(number, told, row[label], told, f"{path.name}, row {number}", bad)
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


VW_LABEL = re.compile(r"\s*(-?[\d.eE+-]+)(?:\s+[\d.eE+-]+)?\s*(?:'?\S*)?$")


def vw_rows(file: IO[str], name: str, bad: Bad) -> Iterator[Row]:
    """Vowpal Wabbit's text of one label: `label |space feature:value feature ...`; "space^feature" names a feature."""
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        before, *spaces = text.rstrip("\n").split("|")
        found = VW_LABEL.match(before)
        if found is None or not spaces:
            bad.add(f"{name}, line {number}: expected `label |features` of Vowpal Wabbit")
            continue
        try:
            instance = dict(feature for space in spaces for feature in vw_features(space))
        except ValueError as error:
            bad.add(f"{name}, line {number}: {error}")
            continue
        yield from labelled(number, instance, found[1], {}, f"{name}, line {number}", bad)


def vw_features(space: str) -> Iterator[tuple[str, float]]:
    """Raises ValueError for a value that is no number."""
    name, *features = space.split() if space[:1].strip() else ["", *space.split()]
    name, _, scale = name.partition(":")
    for feature in features:
        word, _, value = feature.partition(":")
        yield f"{name}^{word}" if name else word, float(value or 1) * float(scale or 1)


def dataset_rows(name: str, bad: Bad) -> Iterator[Row]:
    for number, (instance, label) in enumerate(dataset(name), 1):
        yield from labelled(number, instance, label, {}, f"{name}, example {number}", bad)


def labelled(number: int, instance: Any, label: Any, rest: Mapping[str, Any], where: str, bad: Bad) -> Iterator[Row]:
    """One row, or none where the label is missing: nothing, an empty text or NaN."""
    if label in (None, "") or (isinstance(label, float) and not math.isfinite(label)):
        bad.add(f"{where} has no label, but {label!r}")
    else:
        yield Row(number, instance, str(label), rest)


def number_or_text(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def plain(value: Any) -> Any:
    """What a table takes: the number types of numpy, river and Arrow as Python's."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


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
