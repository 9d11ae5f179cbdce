"""A source of a replay: our own log, or labelled rows from a file or a dataset.

    our log      its lines (log_lines.py)
    rows         a prediction for each, and an event when its label arrives (arrival.py)

A source can be read any number of times, and always gives the same lines.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from online.evaluation.sources.arrival import LabelDelay, arrange_rows, arrange_tasks
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.column_choice import ALL_COLUMNS, ColumnChoice
from online.evaluation.sources.column_profile import NO_COLUMNS, TableProfile
from online.evaluation.sources.labelled_rows import LabelledRow, read_csv, read_dataset, read_jsonl, read_parquet
from online.evaluation.sources.log_format import Line
from online.evaluation.sources.log_lines import read_log
from online.evaluation.sources.row_blocks import Columns, RowBlock, build_blocks, group_rows, read_jsonl_columns
from online.evaluation.sources.vw_decisions import read_reward_rows as decision_rows
from online.evaluation.sources.vw_survey import Survey
from online.evaluation.sources.vw_text import read_labelled_rows
from online.io.csv_tables import CsvTable
from online.io.records import DEFAULT_LIMITS, ReadLimits, open_bytes, open_text
from online.schemas.json_values import JSON

PROGRESS_ROWS = 128  # from one report of progress to the next


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options for reading a source; by default, as its format shows.

    task: the column that names the task of a row. costs, named_by: for decisions of Vowpal Wabbit,
    the range of their costs and what identifies their actions. limits: of lines and of what is unpacked.
    keeps_features: whether the features of texts are kept on this machine, for the next replay. columns: which
    columns of a table are features. delimiter: of a CSV; "" to find it.
    """

    format: str = ""
    label: str = ""
    delay: LabelDelay = field(default_factory=LabelDelay)
    max_bad_ratio: float = 0.0
    task: str = ""
    costs: tuple[float, float] | None = None
    named_by: str = ""
    limits: ReadLimits = DEFAULT_LIMITS
    keeps_features: bool = False
    columns: ColumnChoice = ALL_COLUMNS
    delimiter: str = ""

    @property
    def others(self) -> set[str]:
        """The columns that are read beside the features: the label, the task and the times."""
        return {self.label, self.task, self.delay.at, self.delay.column} - {""}


@dataclass(frozen=True, slots=True)
class Source:
    """A source that can be replayed, and the facts that are known before it is read.

    header: of our own log (model kind, options, drift, feature epoch); empty for others. input: text,
    vector or table. size: of a vector. count: of examples, None if unknown. numbers: whether its
    labels are known to be numbers to predict. survey: of a log of Vowpal Wabbit's decisions, whose
    rows are rewards of the chosen actions. left_out: the columns that the choice of `reads` leaves out, as far as the
    first rows show them. is_in_order: False if the times of the labels' delay go back, so that the rows are sorted by them.
    table: of a CSV, how it is written. profile: of a table, what its columns are; a model reads what it makes of a row
    (see `ModelSetup`).
    """

    name: str
    path: Path | None
    format: str
    input: str
    size: int
    count: int | None
    reads: ReadOptions
    header: Mapping[str, JSON] = field(default_factory=dict)
    numbers: bool = False
    survey: Survey | None = None
    left_out: tuple[str, ...] = ()
    is_in_order: bool = True
    table: CsvTable | None = None
    profile: TableProfile = NO_COLUMNS

    @property
    def contents_from(self) -> int:
        """The first offset of our own log whose contents had not expired when it was exported; 0 if none had."""
        value = self.header.get("contents_from", 0)
        return value if isinstance(value, int) and value > 0 else 0

    def lines(self, bad: BadLines | None = None, at: Callable[[float], None] = lambda share: None) -> Iterator[Line]:
        """Return all lines in order.

        bad: counts the lines that cannot be used. at: is called at intervals with the share read.
        """
        bad = bad or BadLines(max_ratio=1.0)
        if self.header:
            return self._read_log(bad, at)
        rows = self._rows(bad, at)
        if not self.reads.task:
            return arrange_rows(rows, self.reads.delay, bad, self.name, self.is_in_order)
        return arrange_tasks(rows, self.reads.task, self.reads.delay, bad, self.name, self.is_in_order)

    def instances(self) -> Iterator[JSON]:
        """Return the instances in order, of lines that have one and can be used."""
        ignored = BadLines(max_ratio=1.0)
        if not self.header:
            return (row.instance for row in self._rows(ignored, lambda share: None))
        return (line.instance for line in self.lines(ignored) if line.instance is not None)

    @property
    def has_plain_rows(self) -> bool:
        """Whether it holds labelled rows without tasks, whose labels arrive before the next row: see `blocks`."""
        return not self.header and not self.reads.task and self.reads.delay == LabelDelay() and self.survey is None

    def blocks(self, bad: BadLines, at: Callable[[float], None] = lambda share: None) -> Iterator[RowBlock]:
        """Return plain rows in order, as columns. The arguments are those of `lines`."""
        is_jsonl = self.path is not None and self.format not in ("csv", "parquet", "vw")
        return build_blocks(self._read_columns(bad, at) if is_jsonl else group_rows(self._rows(bad, at)))

    def _read_columns(self, bad: BadLines, at: Callable[[float], None]) -> Iterator[Columns]:
        assert self.path is not None
        size = max(self.path.stat().st_size, 1)
        with open_bytes(self.path, self.reads.limits, (b"\n", b"\r")) as (file, position):
            for numbers, instances, labels in read_jsonl_columns(file, self.name, bad):
                yield numbers, self.reads.columns.of_instances(instances), labels
                at(position() / size)

    def _read_log(self, bad: BadLines, at: Callable[[float], None]) -> Iterator[Line]:
        assert self.path is not None
        size = max(self.path.stat().st_size, 1)
        with open_text(self.path, self.reads.limits) as (file, position):
            for number, line in read_log(file, self.path.name, self.header, bad):
                if number % PROGRESS_ROWS == 0:
                    at(position() / size)
                try:
                    yield self.reads.columns.of_line(line) if self.reads.columns else line
                except ValueError:
                    bad.add(f"{self.path.name}, line {number} has features that are no table", number)

    def _rows(self, bad: BadLines, at: Callable[[float], None]) -> Iterator[LabelledRow]:
        rows = self._read_rows(bad, at)
        choice = self.reads.columns
        return (replace(row, instance=choice.of_instance(row.instance)) for row in rows) if choice else rows

    def _read_rows(self, bad: BadLines, at: Callable[[float], None]) -> Iterator[LabelledRow]:
        if self.path is None:
            return self._report_progress(read_dataset(self.name, bad), lambda: 0, 0, at)
        if self.format == "parquet":
            unread = {*self.left_out} - self.reads.others
            rows = read_parquet(self.path, self.reads.label, bad, self.reads.limits, unread)
            return self._report_progress(rows, lambda: 0, 0, at)
        size = max(self.path.stat().st_size, 1)
        if self.table is not None:
            return read_csv(self.table, self.reads.label, bad, lambda position: at(position / size))
        return self._read_lines(self.path, size, bad, at)

    def _read_lines(self, path: Path, size: int, bad: BadLines, at: Callable[[float], None]) -> Iterator[LabelledRow]:
        with open_text(path, self.reads.limits) as (file, position):
            yield from self._report_progress(self._read(file, bad), position, size, at)

    def _read(self, file: IO[str], bad: BadLines) -> Iterator[LabelledRow]:
        if self.survey is not None:
            return decision_rows(file, self.name, self.survey, bad)
        read = read_labelled_rows if self.format == "vw" else read_jsonl
        return read(file, self.name, bad)

    def _report_progress(
        self, rows: Iterator[LabelledRow], position: Callable[[], int], size: int, at: Callable[[float], None]
    ) -> Iterator[LabelledRow]:
        for number, row in enumerate(rows, 1):
            if number % PROGRESS_ROWS == 0:
                at(position() / size if size else number / self.count if self.count else 0.0)
            yield row
