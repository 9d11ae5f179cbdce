"""Reads logged decisions: from our own log, CSV, Vowpal Wabbit's text or dsjson.

    CSV            one decision per row; --action, --reward and --propensity name the columns, --slot the position
    VW, dsjson     see sources/vw_text.py and sources/vw_decisions.py

A cost c in [0, 1] is the reward 1 - c. Costs that are all at most 0, as in dsjson, must lie in
[-1, 0]; the reward is then -c. Other costs need their range, `--costs LOW:HIGH`; costs outside of
it are clipped and counted.
"""

import fnmatch
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from online.errors import BadInput
from online.evaluation.remarks import describe_gaps
from online.evaluation.sources.bad_lines import BadLines, parse_finite
from online.evaluation.sources.labelled_rows import is_json
from online.evaluation.sources.log_format import LoggedPrediction, describe_expired, parse_json
from online.evaluation.sources.log_lines import is_log_line
from online.evaluation.sources.opening import open_source, read_first_line, refuse_empty, spool_stdin
from online.evaluation.sources.replay_source import ReadOptions, Source
from online.evaluation.sources.vw_decisions import STAND_INS, LoggedDecision, read_decisions
from online.evaluation.sources.vw_survey import DSJSON, Survey
from online.evaluation.sources.vw_text import MANY_LINES
from online.evaluation.words import IN_ENGLISH
from online.io.csv_tables import CsvFault, CsvTable, normalise_number, open_csv, read_cell, read_label, read_rows
from online.io.parquet_tables import is_parquet
from online.io.records import DEFAULT_LIMITS, ReadLimits, open_text
from online.models import KINDS, input_options
from online.models.encoders.rows import TableEncoder
from online.plugins.off_policy.decisions import (
    Decisions,
    DecisionsBuilder,
)
from online.schemas.events import Event

FORMATS = ("online", "csv", "vw", "dsjson")
PROGRESS_LINES = 512  # lines between two moves of the progress bar


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """The columns of a CSV. features: shell patterns of the context columns; empty: all other columns."""

    action: str = ""
    reward: str = ""
    propensity: str = ""
    slot: str = ""
    features: tuple[str, ...] = ()

    def context(self, names: Sequence[str]) -> list[str]:
        """Return the columns that describe a decision: those that are named, or all others."""
        taken = {self.action, self.reward, self.propensity}
        left = [name for name in names if name and name not in taken]
        return [name for name in left if not self.features or name == self.slot or self._wanted(name)]

    def _wanted(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.features)


@dataclass(frozen=True, slots=True)
class DecisionReadOptions:
    """The options for reading a log of decisions; by default, as its format shows."""

    format: str = ""
    columns: CsvColumns = field(default_factory=CsvColumns)
    costs: tuple[float, float] | None = None
    max_bad_ratio: float = 0.0
    limits: ReadLimits = DEFAULT_LIMITS
    delimiter: str = ""


def read_decision_log(
    name: str, how: DecisionReadOptions, at: Callable[[float], None] = lambda share: None
) -> tuple[Decisions, Source | None]:
    """Return a log's decisions, and the log as a source if it can be replayed. Raises BadInput."""
    path = spool_stdin() if name == "-" else Path(name)
    if not path.exists():
        raise BadInput(
            f"there is no file {name}; give a log of this service, a CSV, Vowpal Wabbit's text, dsjson, or -"
        )
    if how.format and how.format not in FORMATS:
        raise BadInput(f"there is no format {how.format!r}; one of {', '.join(FORMATS)}")
    format, bad = how.format or guess_format(path, how.limits), BadLines(how.max_bad_ratio)
    if format == "csv":
        return read_csv_log(path, how, bad, at), None
    named_by = how.columns.action if format in ("vw", "dsjson") else ""
    format = "" if format == "online" else format
    source = open_source(str(path), ReadOptions(format, costs=how.costs, named_by=named_by, limits=how.limits))
    if source.survey is not None:
        return read_vw_log(path, how, source.survey, bad, at), source
    if not source.header:
        raise BadInput(f"{name} holds labelled rows, not decisions; replay them instead")
    return read_own_log(source, bad, at), source


def guess_format(path: Path, limits: ReadLimits) -> str:
    """Return the format that a file's name and first line suggest. Raises BadInput for Parquet."""
    if is_parquet(path):
        raise BadInput(
            f"{path.name} is a Parquet file, which this command does not read; write its decisions to a CSV, one per row, "
            "for instance with pandas: pandas.read_parquet(file).to_csv('decisions.csv', index=False)"
        )
    if Path(path.name.removesuffix(".gz").removesuffix(".zst")).suffix == ".csv":
        return "csv"
    first = read_first_line(path, limits)
    if not first:
        raise refuse_empty(path.name)
    if is_json(first):
        line = parse_json(first, path.name, 1)
        is_own = "format" in line or "input" in line or is_log_line(line)
        return "online" if "_label_cost" not in line and is_own else "dsjson"
    return "vw" if "|" in first else "csv"


def read_csv_log(path: Path, how: DecisionReadOptions, bad: BadLines, at: Callable[[float], None]) -> Decisions:
    """Read decisions from a CSV. Raises BadInput."""
    check_columns(how.columns, path.name)
    size = max(path.stat().st_size, 1)
    table = open_csv(path, how.limits, how.delimiter, how.columns.action)
    logged = read_csv_rows(table, how.columns, bad, lambda position: at(position / size))
    rows = [*encode_context(logged, path.name, bad)]
    return build_decisions(path.name, rows, bad, DecisionsBuilder(input="table"))


def read_vw_log(
    path: Path, how: DecisionReadOptions, survey: Survey, bad: BadLines, at: Callable[[float], None]
) -> Decisions:
    """Read decisions of Vowpal Wabbit. Raises BadInput."""
    builder = DecisionsBuilder(input="table")
    with open_text(path, how.limits) as (file, position):
        logged = read_decisions(file, path.name, survey, bad, builder.left_out)
        rows = [*encode_context(report_progress(logged, position, path, at), path.name, bad)]
    least, most = survey.costs
    builder.notes.append(f"a cost c of [{least:g}, {most:g}] is the reward ({most:g} - c) / {most - least:g}")
    if outside := sum(survey.outside(row.value) for row, _ in rows):
        builder.notes.append(f"{outside:,} costs outside of that range were clipped")
    if survey.shape in (MANY_LINES, DSJSON):
        builder.notes.append(f"actions are known by their {survey.named_by}")
    if stand_ins := builder.left_out.pop(STAND_INS, 0):
        builder.notes.append(f"{stand_ins:,} {STAND_INS}: nothing is weighed for that")
    return build_decisions(path.name, rows, bad, builder, survey.reward)


EncodedDecision = tuple[LoggedDecision, bytes]


def build_decisions(
    name: str,
    rows: list[EncodedDecision],
    bad: BadLines,
    builder: DecisionsBuilder,
    reward: Callable[[float], float] = lambda value: value,
) -> Decisions:
    """Build decisions from rows. reward: turns a row's value into a reward.

    A row without candidates gets every action that was ever seen in its slot.
    """
    listed = list_seen_actions((row for row, _ in rows if not row.candidates), lambda row: row.slot)
    if listed:
        seen = " in that slot" if any(listed) else ""
        builder.notes.append(f"candidates: every action seen in the log{seen}")
    for row, features in rows:
        candidates = [(action, math.nan) for action in row.candidates or listed[row.slot]]
        try:
            earned = reward(row.value)
            builder.add(
                str(row.number), candidates, row.action, row.propensity, earned, features, row.slot, row.chances
            )
        except ValueError as error:
            bad.add(f"{name}, line {row.number}: {error}")
    return builder.build(name, bad)


def report_progress(
    rows: Iterator[LoggedDecision], position: Callable[[], int], path: Path, at: Callable[[float], None]
) -> Iterator[LoggedDecision]:
    """Yield the rows, and report the share of the file now and then."""
    size = max(path.stat().st_size, 1)
    for number, row in enumerate(rows, 1):
        if number % PROGRESS_LINES == 0:
            at(position() / size)
        yield row


def encode_context(rows: Iterator[LoggedDecision], name: str, bad: BadLines) -> Iterator[EncodedDecision]:
    """Yield rows with the context encoded as features, which take less memory."""
    table = TableEncoder()
    for row in rows:
        try:
            yield replace(row, context={}), table.encode([row.context])[0]
        except ValueError as error:
            bad.add(f"{name}, line {row.number}: {str(error).removeprefix('instance 0 ')}")


def check_columns(columns: CsvColumns, name: str) -> None:
    """Raise BadInput unless the columns of the choice, the reward and the propensity are named."""
    if not (columns.action and columns.reward and columns.propensity):
        raise BadInput(f"{name} is a CSV: name its columns with --action COLUMN --reward COLUMN --propensity COLUMN")


def read_csv_rows(
    table: CsvTable, columns: CsvColumns, bad: BadLines, at: Callable[[int], None] = lambda position: None
) -> Iterator[LoggedDecision]:
    """at: is called at intervals with the bytes read."""
    name, names = table.path.name, table.names
    for needed in (columns.action, columns.reward, columns.propensity, columns.slot):
        if needed and needed not in names:
            raise BadInput(f"{name} has no column {needed!r}; it has {', '.join(names)}")
    context = columns.context(names)
    for row in read_rows(table, at):
        if isinstance(row, CsvFault):
            bad.add(f"{name}, line {row.line} {row.cause}", row.line, row.problem, row.count)
            continue
        cells = {each: normalise_number(cell, table.style_of(each)) for each, cell in row.cells.items()}
        slot = cells[columns.slot] if columns.slot else ""
        values = {each: read_cell(cells[each], table.style_of(each)) for each in context if cells[each]}
        if columns.slot in values:
            values[columns.slot] = slot  # a name, not a quantity
        action = read_label(cells[columns.action], table.style_of(columns.action))
        if not action:
            bad.add(f"{name}, line {row.line} has no action in the column {columns.action!r}", row.line)
            continue
        try:
            reward, propensity = parse_finite(cells[columns.reward]), parse_finite(cells[columns.propensity])
        except ValueError as error:
            bad.add(f"{name}, line {row.line}: {error}", row.line)
            continue
        yield LoggedDecision(row.line, action, reward, propensity, values, slot)


NO_FEEDBACK = "predictions without feedback that stands"
NO_CHOICE = "predictions without a choice"
ORPHANS = "events about predictions that do not stand before them in the log"


def read_own_log(source: Source, bad: BadLines, at: Callable[[float], None] = lambda share: None) -> Decisions:
    """Read our own log. The reward is that of the last feedback that was not retracted.

    Raises BadInput for a model that predicts numbers, or if nothing was rated.
    """
    kind = source.header["kind"]
    if kind in KINDS and KINDS[kind].predicts_numbers:
        raise BadInput(f"{source.name} is the log of a {kind}, which makes no choices: its answers are numbers")
    builder = DecisionsBuilder(input=str(input_options(kind, source.header["options"])["input"]))
    if source.contents_from:
        builder.notes.append(describe_expired(source.contents_from))
    predictions = dict[str, LoggedPrediction]()
    feedback = dict[str, dict[int, Event]]()  # prediction -> offset -> its feedback that is not retracted
    prediction_by_offset = dict[int, str]()
    costs = dict[str, float]()  # of a router's answers
    seen = set[str]()
    for line in source.lines(bad, at):
        if isinstance(line, LoggedPrediction):
            seen.add(line.id)
            keep_prediction(line, predictions, builder.left_out)
        elif line.prediction_id is not None and line.prediction_id not in seen:
            builder.left_out[ORPHANS] += 1
        elif line.event.kind == "retraction" and line.event.target is not None:
            retracted = line.event.target.offset
            feedback.get(prediction_by_offset.get(retracted, ""), {}).pop(retracted, None)
        elif line.prediction_id in predictions and line.event.kind in ("reward", "label", "correction"):
            feedback.setdefault(line.prediction_id, {})[line.event.offset] = line.event
            prediction_by_offset[line.event.offset] = line.prediction_id
        elif line.prediction_id in predictions and line.event.kind == "outcome":
            costs[line.prediction_id] = float(json.loads(line.event.text)["cost"])
    for line in predictions.values():
        events = feedback.get(line.id)
        if not events:
            builder.left_out[NO_FEEDBACK] += 1
            continue
        try:
            add_decision(builder, line, max(events), events[max(events)], costs.get(line.id, math.nan))
        except ValueError as error:
            bad.add(f"{source.name}, prediction {line.id}: {error}")
    builder.notes += describe_gaps(bad.gaps, IN_ENGLISH)
    return builder.build(source.name, bad)


def keep_prediction(line: LoggedPrediction, predictions: dict[str, LoggedPrediction], left_out: Counter[str]) -> None:
    """Keep a prediction for its feedback; count one that cannot be a decision."""
    if line.choice is None or not line.choice.strip():
        left_out[NO_CHOICE] += 1
    elif not line.feedback_count:
        left_out[NO_FEEDBACK] += 1
    else:
        predictions[line.id] = line


def add_decision(builder: DecisionsBuilder, line: LoggedPrediction, offset: int, event: Event, cost: float) -> None:
    """Add the decision of a prediction and its feedback. cost: of its answer, in US dollars; NaN where it is not known."""
    assert line.choice is not None, "a prediction without a choice was not kept"
    reward = event.reward if event.kind == "reward" else float(event.label == line.choice)
    features = line.features or b""
    builder.add(
        line.id, line.candidates, line.choice, line.propensity, reward, features, feedback_offset=offset, cost=cost
    )


def list_seen_actions(rows: Iterable[Any], slot_of: Callable[[Any], str]) -> dict[str, list[str]]:
    """Return every action seen in each slot, ordered by name."""
    seen: dict[str, set[str]] = {}
    for row in rows:
        seen.setdefault(slot_of(row), set()).add(row.action)
    return {slot: sorted(actions, key=sort_key) for slot, actions in seen.items()}


def sort_key(name: str) -> tuple[float, str]:
    """Sort numbers by value: 2 before 10."""
    try:
        return float(name), name
    except ValueError:
        return math.inf, name
