"""Decisions that others logged.

    CSV            a row a decision; --action, --reward and --propensity name its columns, --slot where it was shown
    VW, dsjson     as vw.py tells

A cost c of [0, 1] is the reward 1 - c. Where costs are at most 0, as dsjson has them, they lie in [-1, 0], and the reward
is -c. Anything else asks for the range, `--costs LOW:HIGH`; what lies outside of it is clipped, and counted.
"""

import csv
import fnmatch
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from online.errors import BadInput
from online.evaluation.decisions import Decisions, Gathering, of_log, with_actions_seen
from online.evaluation.formats import Bad, finite, is_json
from online.evaluation.log import json_of
from online.evaluation.sources import Reads, Source, first_line, open_source, spooled
from online.evaluation.vw import MANY_LINES, STAND_INS, Logged, Survey, decisions
from online.files import number_or_text, reading
from online.models.encoder import TableEncoder

FORMATS = ("online", "csv", "vw", "dsjson")
NOTICED = 512  # lines between two moves of the progress bar


@dataclass(frozen=True, slots=True)
class Columns:
    """Of a CSV. features: shell patterns of the columns that are the context; none: all others that have a name."""

    action: str = ""
    reward: str = ""
    propensity: str = ""
    slot: str = ""
    features: tuple[str, ...] = ()

    def context(self, names: Sequence[str]) -> list[str]:
        taken = {self.action, self.reward, self.propensity}
        left = [name for name in names if name and name not in taken]
        return [name for name in left if not self.features or name == self.slot or self._wanted(name)]

    def _wanted(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.features)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a log of decisions is to be read. Defaults are what a file says about itself."""

    format: str = ""
    columns: Columns = field(default_factory=Columns)
    costs: tuple[float, float] | None = None
    max_bad_ratio: float = 0.0


def read_decisions(
    name: str, how: Reading, at: Callable[[float], None] = lambda share: None
) -> tuple[Decisions, Source | None]:
    """A log's decisions, and the log itself where it can be replayed. Raises BadInput where nothing can be made of it."""
    path = spooled() if name == "-" else Path(name)
    if not path.exists():
        raise BadInput(f"there is no file {name}; give a log of ours, a CSV, Vowpal Wabbit's text, dsjson, or -")
    if how.format and how.format not in FORMATS:
        raise BadInput(f"there is no format {how.format!r}; one of {', '.join(FORMATS)}")
    format, bad = how.format or format_of(path), Bad(how.max_bad_ratio)
    if format == "csv":
        return of_csv(path, how.columns, bad, at), None
    named_by = how.columns.action if format == "vw" else ""
    source = open_source(str(path), Reads("" if format == "online" else format, costs=how.costs, named_by=named_by))
    if source.survey is not None:
        return of_vw(path, source.survey, bad, at), source
    if not source.header:
        raise BadInput(f"{name} holds labelled rows: nobody decided anything in them; replay them instead")
    return of_log(source, bad, at), source


def format_of(path: Path) -> str:
    """What a file seems to be by its name and its first line."""
    if Path(path.name.removesuffix(".gz").removesuffix(".zst")).suffix == ".csv":
        return "csv"
    first = first_line(path)
    if is_json(first):
        line = json_of(first, path.name, 1)
        return "online" if "_label_cost" not in line and ("format" in line or "input" in line) else "dsjson"
    return "vw" if "|" in first else "csv"


def of_csv(path: Path, columns: Columns, bad: Bad, at: Callable[[float], None]) -> Decisions:
    check_columns(columns, path.name)
    with reading(path) as (file, position):
        logged = csv_decisions(file, path.name, columns, bad)
        rows = [*encoded(noticed(logged, position, path, at), path.name, bad)]
    return gathered(path.name, rows, bad, Gathering(input="table"))


def of_vw(path: Path, survey: Survey, bad: Bad, at: Callable[[float], None]) -> Decisions:
    gathering = Gathering(input="table")
    with reading(path) as (file, position):
        logged = decisions(file, path.name, survey, bad, gathering.left_out)
        rows = [*encoded(noticed(logged, position, path, at), path.name, bad)]
    least, most = survey.costs
    gathering.notes.append(f"a cost c of [{least:g}, {most:g}] is the reward ({most:g} - c) / {most - least:g}")
    if outside := sum(survey.outside(row.value) for row, _ in rows):
        gathering.notes.append(f"{outside:,} costs outside of that range were clipped")
    if survey.shape == MANY_LINES:
        gathering.notes.append(f"actions are known by their {survey.named_by}")
    if stand_ins := gathering.left_out.pop(STAND_INS, 0):
        gathering.notes.append(f"{stand_ins:,} {STAND_INS}: nothing is weighed for that")
    return gathered(path.name, rows, bad, gathering, survey.reward)


Encoded = tuple[Logged, bytes]


def gathered(
    name: str,
    rows: list[Encoded],
    bad: Bad,
    gathering: Gathering,
    reward: Callable[[float], float] = lambda value: value,
) -> Decisions:
    """What could have been chosen, where no row tells: all that was, wherever it was shown. reward: of a row's value."""
    listed = with_actions_seen((row for row, _ in rows if not row.candidates), lambda row: row.slot)
    if listed:
        seen = " in that slot" if any(listed) else ""
        gathering.notes.append(f"candidates: every action seen in the log{seen}")
    for row, features in rows:
        candidates = [(action, math.nan) for action in row.candidates or listed[row.slot]]
        try:
            worth = reward(row.value)
            gathering.add(
                str(row.number), candidates, row.action, row.propensity, worth, features, row.slot, row.chances
            )
        except ValueError as error:
            bad.add(f"{name}, line {row.number}: {error}")
    return gathering.made(name, bad)


def noticed(
    rows: Iterator[Logged], position: Callable[[], int], path: Path, at: Callable[[float], None]
) -> Iterator[Logged]:
    size = max(path.stat().st_size, 1)
    for number, row in enumerate(rows, 1):
        if number % NOTICED == 0:
            at(position() / size)
        yield row


def encoded(rows: Iterator[Logged], name: str, bad: Bad) -> Iterator[Encoded]:
    """With the context as features, which are smaller."""
    table = TableEncoder()
    for row in rows:
        try:
            yield replace(row, context={}), table.encode([row.context])[0]
        except ValueError as error:
            bad.add(f"{name}, line {row.number}: {str(error).removeprefix('instance 0 ')}")


def check_columns(columns: Columns, name: str) -> None:
    if not (columns.action and columns.reward and columns.propensity):
        raise BadInput(
            f"{name} is a CSV: say which columns are which with --action COLUMN --reward COLUMN --propensity COLUMN"
        )


def csv_decisions(file: IO[str], name: str, columns: Columns, bad: Bad) -> Iterator[Logged]:
    rows = csv.DictReader(file)
    names = list(rows.fieldnames or ())
    for needed in (columns.action, columns.reward, columns.propensity, columns.slot):
        if needed and needed not in names:
            raise BadInput(f"{name} has no column {needed!r}; it has {', '.join(each for each in names if each)}")
    context = columns.context(names)
    for row in rows:
        slot = row[columns.slot] if columns.slot else ""
        told = {each: number_or_text(row[each]) for each in context if row[each] not in (None, "")}
        if columns.slot in told:
            told[columns.slot] = slot  # a place, not a quantity
        try:
            reward, propensity = finite(row[columns.reward]), finite(row[columns.propensity])
        except ValueError as error:
            bad.add(f"{name}, line {rows.line_num}: {error}")
            continue
        yield Logged(rows.line_num, row[columns.action], reward, propensity, told, slot)
