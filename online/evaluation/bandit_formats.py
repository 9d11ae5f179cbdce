"""Decisions that others logged.

    CSV     a row a decision; --action, --reward and --propensity name its columns, --slot where it was shown
    VW      Vowpal Wabbit's contextual bandits: `action:cost:probability | feature:value ...`
    dsjson  a JSON object a line: _label_cost, _label_probability, _labelIndex, a (actions), p (their chances), c (context)

A cost c of [0, 1] is the reward 1 - c. Where costs are at most 0, as dsjson has them, they lie in [-1, 0], and the reward
is -c. Anything else asks for the range, `--costs LOW:HIGH`; what lies outside of it is clipped, and counted.
"""

import csv
import fnmatch
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from online.errors import BadInput
from online.evaluation.decisions import Decisions, Gathering, of_log, with_actions_seen
from online.evaluation.formats import Bad, is_json, number_or_text, reading, vw_features
from online.evaluation.log import json_of
from online.evaluation.sources import Source, first_line, open_source, spooled
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
class Logged:
    """A line, as it came. value: a reward or a cost. candidates and chances: where the line tells them."""

    number: int
    action: str
    value: float
    propensity: float
    features: bytes
    slot: str = ""
    candidates: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()


Lines = Iterator[tuple[int, str]]


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
    """A log's decisions, and the log itself where it is ours. Raises BadInput where nothing can be made of it."""
    path = spooled() if name == "-" else Path(name)
    if not path.exists():
        raise BadInput(f"there is no file {name}; give a log of ours, a CSV, Vowpal Wabbit's text, dsjson, or -")
    if how.format and how.format not in FORMATS:
        raise BadInput(f"there is no format {how.format!r}; one of {', '.join(FORMATS)}")
    format, bad = how.format or format_of(path), Bad(how.max_bad_ratio)
    source = open_source(str(path)) if format == "online" else None
    if source is None:
        return of_others(path, format, how.columns, how.costs, bad, at), None
    if not source.header:
        raise BadInput(f"{name} holds labelled rows: nobody decided anything in them; replay them instead")
    return of_log(source, bad, at), source


def format_of(path: Path) -> str:
    """What a file seems to be by its name and its first line."""
    if Path(path.name.removesuffix(".gz").removesuffix(".zst")).suffix == ".csv":
        return "csv"
    first = first_line(path)
    if is_json(first):
        return "online" if '"format"' in first or '"input"' in first else "dsjson"
    return "vw" if "|" in first else "csv"


def of_others(
    path: Path,
    format: str,
    columns: Columns,
    costs: tuple[float, float] | None,
    bad: Bad,
    at: Callable[[float], None] = lambda share: None,
) -> Decisions:
    """Raises BadInput for a file that is not of this format."""
    if format == "csv":
        check_columns(columns, path.name)
    size = max(path.stat().st_size, 1)
    with reading(path) as (file, position):
        readers: dict[str, Callable[[], Iterator[Logged]]] = {
            "csv": lambda: csv_lines(file, path.name, columns, bad),
            "vw": lambda: vw_lines(file, path.name, bad),
            "dsjson": lambda: dsjson_lines(file, path.name, bad),
        }
        rows = list[Logged]()
        for row in readers[format]():
            rows.append(row)
            if len(rows) % NOTICED == 0:
                at(position() / size)
    gathering = Gathering(input="table")
    rewards = [row.value for row in rows] if format == "csv" else rewarded(rows, costs, path.name, gathering.notes)
    listed = with_actions_seen((row for row in rows if not row.candidates), lambda row: row.slot)
    if listed:
        gathering.notes.append("candidates: every action seen in the log" + (" in that slot" if columns.slot else ""))
    for row, reward in zip(rows, rewards, strict=True):
        candidates = [(name, math.nan) for name in row.candidates or listed[row.slot]]
        try:
            gathering.add(
                str(row.number), candidates, row.action, row.propensity, reward, row.features, row.slot, row.chances
            )
        except ValueError as error:
            bad.add(f"{path.name}, line {row.number}: {error}")
    return gathering.made(path.name, bad)


def check_columns(columns: Columns, name: str) -> None:
    if not (columns.action and columns.reward and columns.propensity):
        raise BadInput(
            f"{name} is a CSV: say which columns are which with --action COLUMN --reward COLUMN --propensity COLUMN"
        )


def rewarded(rows: Sequence[Logged], costs: tuple[float, float] | None, name: str, notes: list[str]) -> list[float]:
    """Costs as rewards in [0, 1]. Raises BadInput for costs whose range must be told."""
    low = min((row.value for row in rows), default=0.0)
    high = max((row.value for row in rows), default=0.0)
    if costs is None:
        if not (0 <= low <= high <= 1 or -1 <= low <= high <= 0):
            raise BadInput(f"{name} has costs from {low:g} to {high:g}: say what they range over with --costs LOW:HIGH")
        costs = (-1.0, 0.0) if low < 0 else (0.0, 1.0)
    least, most = costs
    outside = sum(not least <= row.value <= most for row in rows)
    notes.append(f"a cost c of [{least:g}, {most:g}] is the reward ({most:g} - c) / {most - least:g}")
    if outside:
        notes.append(f"{outside:,} costs outside of that range were clipped")
    return [min(max((most - row.value) / (most - least), 0.0), 1.0) for row in rows]


# one format each


def csv_lines(file: IO[str], name: str, columns: Columns, bad: Bad) -> Iterator[Logged]:
    rows = csv.DictReader(file)
    names = list(rows.fieldnames or ())
    for needed in (columns.action, columns.reward, columns.propensity, columns.slot):
        if needed and needed not in names:
            raise BadInput(f"{name} has no column {needed!r}; it has {', '.join(each for each in names if each)}")
    context, table = columns.context(names), TableEncoder()
    for row in rows:
        try:
            slot = row[columns.slot] if columns.slot else ""
            told = {each: number_or_text(row[each]) for each in context if row[each] not in (None, "")}
            if columns.slot in told:
                told[columns.slot] = slot  # a place, not a quantity
            reward, propensity = finite(row[columns.reward]), finite(row[columns.propensity])
            features = table.encode([told])[0]
        except ValueError as error:
            bad.add(f"{name}, line {rows.line_num}: {str(error).removeprefix('instance 0 ')}")
            continue
        yield Logged(rows.line_num, row[columns.action], reward, propensity, features, slot)


VW_DECISION = re.compile(r"(?:^|\s)([^\s:|]+):([^\s:|]+):([^\s:|]+)(?=\s|$)")


def vw_lines(file: IO[str], name: str, bad: Bad) -> Iterator[Logged]:
    table = TableEncoder()
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        before, *spaces = text.rstrip("\n").split("|")
        try:
            labels = VW_DECISION.findall(before)
            if len(labels) != 1 or not spaces or before.split()[0] == "shared":
                raise ValueError("expected `action:cost:probability | features`, one action in a line")
            action, cost, chance = labels[0]
            told = dict(feature for space in spaces for feature in vw_features(space))
            line = Logged(number, action, finite(cost), finite(chance), table.encode([told])[0])
        except ValueError as error:
            bad.add(f"{name}, line {number}: {str(error).removeprefix('instance 0 ')}")
            continue
        yield line


def dsjson_lines(file: IO[str], name: str, bad: Bad) -> Iterator[Logged]:
    table = TableEncoder()
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            line = json_of(text, name, number)
            if "_label_cost" in line:  # the others tell of outcomes that came without their decision
                yield decided(number, line, table)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            bad.add(what if isinstance(error, BadInput) else f"{name}, line {number}: {what}")


def decided(number: int, line: dict[str, Any], table: TableEncoder) -> Logged:
    actions = tuple(str(action) for action in line["a"])
    chances = tuple(finite(chance) for chance in line["p"])
    if len(actions) != len(chances) or abs(sum(chances) - 1) > 1e-3:
        raise ValueError(f"{len(chances)} chances p that sum to {sum(chances):g} for {len(actions)} actions a")
    action = str(line["_label_Action"]) if "_label_Action" in line else str(int(line["_labelIndex"]) + 1)
    context = {key: value for key, value in line.get("c", {}).items() if not key.startswith("_")}
    told = dict(flat(context))
    cost, chance = finite(line["_label_cost"]), finite(line["_label_probability"])
    return Logged(number, action, cost, chance, table.encode([told])[0], candidates=actions, chances=chances)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Nested objects and lists as features named by their path; no value is a value of its own."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from flat(inner, f"{path}.{place}")
    else:
        yield path, value


def finite(value: Any) -> float:
    """Raises ValueError for what is no finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number
