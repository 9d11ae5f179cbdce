"""Where a replay's entries come from: our own log, plain JSONL, CSV, a dataset inside river.

Every source gives the same thing, a `Source`: what it holds, how many (if that is known), and its lines in order.
"""

import base64
import csv
import gzip
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from online.errors import BadInput
from online.schemas import Entry, Event, Target
from online.settings import ModelSettings

LOG_FORMAT = "online-log/1"


@dataclass(frozen=True, slots=True)
class Line:
    """One entry to replay. instance: the raw input, for models that encode otherwise. rated: whether it is scored."""

    entry: Entry
    instance: Any
    rated: bool
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """header: of our own log (model kind, options, drift, feature epoch); empty for others. input: text, vector or table.

    numbers: whether its labels are known to be numbers to predict.
    """

    name: str
    path: Path | None
    input: str
    size: int
    count: int | None
    header: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    numbers: bool = False

    def lines(self) -> Iterator[Line]:
        if self.path is None:
            return _river_lines(self.name)
        if self.header:
            return _log_lines(self.path)
        return _csv_lines(self.path, self.label or "") if is_csv(self.path) else _plain_lines(self.path)


def open_source(name: str, label: str | None) -> Source:
    """Look at what `name` is. Raises BadInput when it is nothing we can replay."""
    if name.startswith("river:"):
        dataset = _river_dataset(name)
        return Source(name, None, "table", 0, dataset.n_samples, numbers=dataset.task == "Regression")
    path = Path(name)
    if not path.exists():
        raise BadInput(f"there is no file {name}; give a JSONL log, a CSV with --label COLUMN, or river:Phishing")
    if is_csv(path):
        if label is None:
            raise BadInput(f"{name} is a CSV: say which column is the label with --label COLUMN")
        first = next(_csv_lines(path, label), None)
        return (
            Source(name, path, "table", 0, sum(1 for _ in _csv_lines(path, label)), label=label)
            if first
            else _empty(name)
        )
    with reading(path) as file:
        first_line = file.readline()
        count = sum(1 for line in file if line.strip())
    head = parse(first_line, name, 1)
    if head.get("format") == LOG_FORMAT:
        return Source(name, path, "", 0, count, head)
    kind, size = kind_of(head.get("input"), name)
    return Source(name, path, kind, size, count + 1)


def _empty(name: str) -> Source:
    raise BadInput(f"{name} holds no rows")


def kind_of(instance: Any, name: str) -> tuple[str, int]:
    if isinstance(instance, str):
        return "text", 0
    if isinstance(instance, list):
        return "vector", len(instance)
    if isinstance(instance, dict):
        return "table", 0
    raise BadInput(
        f'{name}, line 1: expected {{"input": ..., "label": ...}} with a text, a list of numbers or an object as input'
    )


def is_csv(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".csv")


@contextmanager
def reading(path: Path) -> Iterator[Any]:
    """Raises BadInput when it cannot be opened, unpacked or read as text, then or later."""
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else open(path, newline="") as file:
            yield file
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def parse(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{name}, line {number} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadInput(f"{name}, line {number} is not a JSON object")
    return value


def labelled(offset: int, instance: Any, label: Any, where: str) -> Line:
    """Raises BadInput, naming where it stands, for a label that is missing: nothing, an empty text or NaN."""
    if label in (None, "") or (isinstance(label, float) and not math.isfinite(label)):
        raise BadInput(f"{where} has no label, but {label!r}")
    return Line(Entry(offset, Event(str(offset), "label", label=str(label))), instance, rated=True)


def _plain_lines(path: Path) -> Iterator[Line]:
    with reading(path) as file:
        offset = 0
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            line = parse(text, path.name, number)
            if "input" not in line or "label" not in line:
                raise BadInput(f'{path.name}, line {number}: expected {{"input": ..., "label": ...}}')
            offset += 1
            yield labelled(offset, line["input"], line["label"], f"{path.name}, line {number}")


def _csv_lines(path: Path, label: str) -> Iterator[Line]:
    with reading(path) as file:
        rows = csv.DictReader(file)
        if label not in (rows.fieldnames or ()):
            raise BadInput(f"{path.name} has no column {label!r}; it has {', '.join(rows.fieldnames or ())}")
        for offset, row in enumerate(rows, 1):
            where = f"{path.name}, line {rows.line_num}"
            if None in row:
                raise BadInput(f"{where} has more cells than the header names")
            told = {name: value for name, value in row.items() if name != label and value not in (None, "")}
            instance = {name: number_or_text(value) for name, value in told.items()}
            yield labelled(offset, instance, row[label], where)


def number_or_text(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _river_dataset(name: str) -> Any:
    from river import datasets
    from river.datasets import base

    wanted = name.removeprefix("river:")
    made = getattr(datasets, wanted, None)
    if made is None:
        known = sorted(each for each in datasets.__all__ if isinstance(getattr(datasets, each), type))
        raise BadInput(f"river has no dataset {wanted!r}; it has {', '.join(known)}")
    dataset = made()
    if dataset.task not in (base.BINARY_CLF, base.MULTI_CLF, base.REG):
        raise BadInput(f"river's {wanted} is neither a classification nor a regression dataset")
    return dataset


def _river_lines(name: str) -> Iterator[Line]:
    for offset, (row, label) in enumerate(_river_dataset(name), 1):
        yield labelled(offset, {key: plain(value) for key, value in row.items()}, label, f"{name}, example {offset}")


def plain(value: Any) -> Any:
    """What a table takes: numpy's and river's own number types as Python's."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


# our own log


def header(model: ModelSettings, options: Mapping[str, Any], feature_epoch: str) -> dict[str, Any]:
    told = {name: value for name, value in options.items() if name != "key"}
    named = {"model": model.name, "kind": model.kind, "options": told, "drift": model.drift}
    return {"format": LOG_FORMAT, **named, "feature_epoch": feature_epoch}


def log_line(row: Mapping[str, Any], refused: Mapping[int, str]) -> dict[str, Any]:
    """One row of `store.log_rows` as a line of the log."""
    event = json.loads(row["body"])
    asked = row["input"] if row["input"] is not None else row["own_input"]
    line = {"offset": row["offset"], **event, "features": base64.b64encode(row["features"]).decode()}
    line |= {"input": None if asked is None else json.loads(asked), "user": row["user"], "at": row["created_at"]}
    if row["prediction_id"] is not None:
        candidates = json.loads(row["candidates"])
        answered = {"version": row["version"], "propensity": row["propensity"], "candidates": candidates}
        line["prediction"] = {"id": row["prediction_id"], **answered}
    if row["offset"] in refused:
        line["refused"] = refused[row["offset"]]
    return line


def _log_lines(path: Path) -> Iterator[Line]:
    with reading(path) as file:
        next(file)
        for number, text in enumerate(file, 2):
            if text.strip():
                yield _log_entry(parse(text, path.name, number), path.name, number)


EVENT_FIELDS: Sequence[str] = ("id", "kind", "label", "text", "reward", "choice")


def _log_entry(line: dict[str, Any], name: str, number: int) -> Line:
    try:
        features = base64.b64decode(line["features"])
        target = None
        if line["target"] is not None:
            target = Target(line["target"]["offset"], Event.parse(line["target"]["event"], features))
        event = Event(features=features, target=target, **{field: line[field] for field in EVENT_FIELDS})
        return Line(
            Entry(line["offset"], event), line["input"], rated=line["at"] is not None, refused=line.get("refused")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{name}, line {number} is not a line of {LOG_FORMAT}: {error}") from None
