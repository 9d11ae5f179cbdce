"""Where a replay's lines come from: our own log, or labelled rows of anybody's, which are asked and then told.

    our log      as it is (log.py)
    rows         Asked(row) ... Told(its label)      at once, or --delay later: so many rows, seconds, or as a column says

Every source gives its lines as often as it is asked to, always the same.
"""

import heapq
import shutil
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from online.errors import BadInput
from online.evaluation.formats import (
    Bad,
    Row,
    csv_rows,
    dataset,
    dataset_rows,
    is_json,
    json_rows,
    parquet_rows,
    river_dataset,
)
from online.evaluation.log import LOG_FORMAT, Asked, Line, Told, json_of, parsed
from online.evaluation.tasks import HELD_OUT
from online.evaluation.vw import LABELS, Survey, label_rows, surveyed
from online.evaluation.vw import rows as decision_rows
from online.files import reading, suffix_of
from online.schemas import Entry, Event

FORMATS = ("online", "jsonl", "csv", "parquet", "vw", "dsjson")
ENDINGS = {".csv": "csv", ".parquet": "parquet", ".vw": "vw", ".dsjson": "dsjson"}
DATASETS = ("river:", "sklearn:")


@dataclass(frozen=True, slots=True)
class Delay:
    """When a label arrives: after so many rows; or at a time, in the unit of the column `at`, that comes `by` later.

    column: holds the time of arrival itself.
    """

    rows: int = 0
    by: float = 0.0
    at: str = ""
    column: str = ""

    @classmethod
    def parse(cls, text: str, at: str) -> "Delay":
        """`48`, `3600s` (of the times in the column `at`), or a column's name. Raises BadInput."""
        if text.isdigit():
            return cls(rows=int(text))
        if text.endswith("s") and text[:-1].replace(".", "", 1).isdigit():
            if not at:
                raise BadInput(f"--delay {text} needs the column of the times, --at COLUMN")
            return cls(by=float(text[:-1]), at=at)
        if not at:
            raise BadInput(f"--delay {text} names a column of arrival times; --at COLUMN names that of the questions")
        return cls(at=at, column=text)


@dataclass(frozen=True, slots=True)
class Reads:
    """How a source is to be read. Defaults are what a file says about itself. task: the column that tells tasks apart.

    costs, named_by: what the costs of Vowpal Wabbit's decisions range over, and what their actions are known by.
    """

    format: str = ""
    label: str = ""
    delay: Delay = field(default_factory=Delay)
    max_bad_ratio: float = 0.0
    task: str = ""
    costs: tuple[float, float] | None = None
    named_by: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """header: of our own log (model kind, options, drift, feature epoch); empty for others. input: text, vector or table.

    numbers: whether its labels are known to be numbers to predict. count: of examples, where that is known. survey: of
    decisions of Vowpal Wabbit's, whose rows are rewards of what was chosen.
    """

    name: str
    path: Path | None
    format: str
    input: str
    size: int
    count: int | None
    reads: Reads
    header: Mapping[str, Any] = field(default_factory=dict)
    numbers: bool = False
    survey: Survey | None = None

    def lines(self, bad: Bad | None = None, at: Callable[[float], None] = lambda share: None) -> Iterator[Line]:
        """Everything in order. bad: told of what cannot be used. at: told now and then how far it is, 0 to 1."""
        bad = bad or Bad(most=1.0)
        if self.header:
            return self._own_lines(bad, at)
        rows = self._rows(bad, at)
        if not self.reads.task:
            return arranged(rows, self.reads.delay, bad, self.name)
        return of_tasks(rows, self.reads, bad, self.name)

    def _own_lines(self, bad: Bad, at: Callable[[float], None]) -> Iterator[Line]:
        assert self.path is not None
        size = max(self.path.stat().st_size, 1)
        with reading(self.path) as (file, position):
            next(file)
            for number, text in enumerate(file, 2):
                if number % 512 == 0:
                    at(position() / size)
                if text.strip():
                    try:
                        yield parsed(text, self.path.name, number)
                    except BadInput as error:
                        bad.add(str(error))

    def _rows(self, bad: Bad, at: Callable[[float], None]) -> Iterator[Row]:
        if self.path is None:
            yield from self._noted(dataset_rows(self.name, bad), lambda: 0, 0, at)
        elif self.format == "parquet":
            yield from self._noted(parquet_rows(self.path, self.reads.label, bad), lambda: 0, 0, at)
        else:
            with reading(self.path) as (file, position):
                yield from self._noted(self._read(file, bad), position, self.path.stat().st_size, at)

    def _read(self, file: IO[str], bad: Bad) -> Iterator[Row]:
        if self.survey is not None:
            return decision_rows(file, self.name, self.survey, bad)
        match self.format:
            case "csv":
                return csv_rows(file, self.name, self.reads.label, bad)
            case "vw":
                return label_rows(file, self.name, bad)
            case _:
                return json_rows(file, self.name, bad)

    def _noted(
        self, rows: Iterator[Row], position: Callable[[], int], size: int, at: Callable[[float], None]
    ) -> Iterator[Row]:
        for number, row in enumerate(rows, 1):
            if number % 512 == 0:
                at(position() / size if size else number / self.count if self.count else 0.0)
            yield row


def arranged(rows: Iterator[Row], delay: Delay, bad: Bad, name: str) -> Iterator[Line]:
    """Each row asked, and told when its label arrives. Labels that arrive together are told in the rows' order."""
    offset = 0

    def told(row: Row) -> Told:
        nonlocal offset
        offset += 1
        return Told(Entry(offset, said_of(row)), asked=str(row.number))

    if not delay.at:
        waiting = deque[Row]()
        for row in rows:
            yield asked_of(row)
            waiting.append(row)
            if len(waiting) > delay.rows:
                yield told(waiting.popleft())
        yield from map(told, waiting)
        return
    due: list[tuple[float, int, Row]] = []
    for row in rows:
        try:
            asked_at, told_at = times(row, delay)
        except ValueError as error:
            bad.add(f"{name}, line {row.number}: {error}")
            continue
        while due and due[0][0] <= asked_at:
            yield told(heapq.heappop(due)[2])
        yield Asked(str(row.number), leaving_out(row.instance, delay.column), at=str(row.rest[delay.at]))
        heapq.heappush(due, (told_at, row.number, row))
    while due:
        yield told(heapq.heappop(due)[2])


def asked_of(row: Row) -> Asked:
    if row.reward is None:
        return Asked(str(row.number), row.instance)
    return Asked(str(row.number), row.instance, choice=row.label, propensity=row.propensity)


def said_of(row: Row) -> Event:
    if row.reward is None:
        return Event(str(row.number), "label", label=row.label)
    return Event(str(row.number), "reward", label=row.label, reward=row.reward, choice=row.label)


def of_tasks(rows: Iterator[Row], reads: Reads, bad: Bad, name: str) -> Iterator[Line]:
    """The rows arranged, with their tasks; of each task every so-manyth is held out. No model sees the task itself."""
    tasks, counts = dict[str, str](), Counter[str]()
    held = list[Asked]()

    def learned() -> Iterator[Row]:
        for row in rows:
            task = row.rest.get(reads.task)
            if task in (None, ""):
                bad.add(f"{name}, line {row.number} has no task {reads.task!r}")
                continue
            blind = replace(row, instance=leaving_out(row.instance, reads.task))
            counts[str(task)] += 1
            if counts[str(task)] % HELD_OUT == 0:
                held.append(Asked(str(row.number), blind.instance, told=0, task=str(task), held=row.label))
            else:
                tasks[str(row.number)] = str(task)
                yield blind

    for line in arranged(learned(), reads.delay, bad, name):
        if isinstance(line, Asked):
            yield from held
            held.clear()
            line.task = tasks.pop(line.id)
        yield line
    yield from held


def leaving_out(instance: Any, column: str) -> Any:
    return {key: value for key, value in instance.items() if key != column} if isinstance(instance, dict) else instance


def times(row: Row, delay: Delay) -> tuple[float, float]:
    """When it was asked and when it is told, in seconds. Raises ValueError."""
    asked_at = seconds(row.rest, delay.at)
    told_at = seconds(row.rest, delay.column) if delay.column else asked_at + delay.by
    if told_at < asked_at:
        raise ValueError(f"its label arrives at {row.rest[delay.column]}, before it was asked at {row.rest[delay.at]}")
    return asked_at, told_at


def seconds(row: Mapping[str, Any], column: str) -> float:
    """A number as it is, or a date and time of ISO 8601 since 1970."""
    value = row.get(column)
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        raise ValueError(f"its column {column!r} holds {value!r}, which is neither a number nor a time") from None


# opening


def open_sources(names: Sequence[str], reads: Reads) -> list[Source]:
    """Raises BadInput for one that cannot be replayed, or is given twice."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise BadInput(f"{twice[0]} is given twice; give every log once")
    return [open_source(name, reads) for name in names]


def open_source(name: str, reads: Reads | None = None) -> Source:
    """Look at what `name` is. Raises BadInput when it is nothing we can replay."""
    reads = reads or Reads()
    if name.startswith(DATASETS):
        return _dataset(name, reads)
    path = spooled() if name == "-" else Path(name)
    if not path.exists():
        raise BadInput(
            f"there is no file {name}; give a log, JSONL, a CSV with --label COLUMN, Parquet, "
            "Vowpal Wabbit's text, river:Phishing, sklearn:digits, or - for standard input"
        )
    first = "" if _format_named(path, reads) == "parquet" else first_line(path)
    format = _format_named(path, reads) or _format_seen(first)
    if format == "online":
        if reads.task or reads.delay != Delay():
            raise BadInput(
                f"{name} is a log: it has no tasks, and its own delays; --task and --delay are for labelled rows"
            )
        return Source(name, path, format, "", 0, None, reads, _header(first, name))
    if format in ("csv", "parquet") and not reads.label:
        raise BadInput(f"{name} is a {format.upper()}: say which column is the label with --label COLUMN")
    made = Source(name, path, format, "table", 0, None, reads)
    if format in ("vw", "dsjson"):
        survey = surveyed(path, format, reads.costs, reads.named_by)
        if survey.shape != LABELS:
            return replace(made, survey=survey)
    if format != "jsonl":
        if next(made._rows(Bad(most=1.0), lambda share: None), None) is None:
            raise BadInput(f"{name} holds no rows")
        return made
    kind, size = kind_of(json_of(first, name, 1).get("input"), name)
    return Source(name, path, format, kind, size, None, reads)


def _dataset(name: str, reads: Reads) -> Source:
    if name.startswith("river:"):
        found = river_dataset(name.removeprefix("river:"))
        return Source(name, None, "", "table", 0, found.n_samples, reads, numbers=found.task == "Regression")
    first, _ = next(iter(dataset(name)))
    count = sum(1 for _ in dataset(name))
    return Source(name, None, "", "vector", len(first), count, reads, numbers=name == "sklearn:diabetes")


def _format_named(path: Path, reads: Reads) -> str:
    if reads.format and reads.format not in FORMATS:
        raise BadInput(f"there is no format {reads.format!r}; one of {', '.join(FORMATS)}")
    return reads.format or ENDINGS.get(suffix_of(path), "")


def _format_seen(first: str) -> str:
    """Of what the name does not tell: JSON is JSON, `label |features` is Vowpal Wabbit's."""
    if not is_json(first):
        return "vw" if "|" in first and "," not in first.partition("|")[0] else "jsonl"
    if "_label_cost" in json_of(first, "", 1):
        return "dsjson"
    return "online" if str(json_of(first, "", 1).get("format", "")).startswith("online-log/") else "jsonl"


def _header(first: str, name: str) -> dict[str, Any]:
    head = json_of(first, name, 1)
    if head.get("format") != LOG_FORMAT:
        raise BadInput(f"{name} is an {head.get('format')}; this release reads {LOG_FORMAT}: export it again")
    return head


def first_line(path: Path) -> str:
    with reading(path) as (file, _):
        return next((line for line in file if line.strip()), "")


def spooled() -> Path:
    """Standard input in a file, for what must be read more than once. It is gone with the process."""
    file = tempfile.NamedTemporaryFile(prefix="online-replay-")
    shutil.copyfileobj(sys.stdin.buffer, file)
    file.flush()
    _spools.append(file)
    return Path(file.name)


_spools: list[Any] = []


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
