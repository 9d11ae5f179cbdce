"""Surveys a file of Vowpal Wabbit's before it is read.

The range of the costs, and what tells the actions of a decision on many lines apart, cannot be seen
from a single line.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path

import orjson

from online.errors import BadInput
from online.evaluation.sources.bad_lines import parse_finite
from online.evaluation.sources.vw_text import (
    MANY_LINES,
    ONE_LINE,
    TextDecision,
    TextLine,
    are_distinct,
    name_actions,
    parse_block,
    split_blocks,
)
from online.io.records import DEFAULT_LIMITS, ReadLimits, open_text
from online.schemas.json_values import JSONObject

LABELS, DSJSON = "labels", "dsjson"


MAX_SURVEYED = 10_000  # lines, to see what a text holds


ACTION_KEYS = ("tag", "features", "position")  # what an action of many lines may be known by; the first that will do


MAX_NAMES = 1_000  # beyond, tags or features tell one showing of an action from another, and not the actions


@dataclass(frozen=True, slots=True)
class Survey:
    """The findings of a survey of a file.

    shape: LABELS, or how decisions are written. named_by: what identifies actions on many lines.

    costs: their range.
    """

    shape: str
    named_by: str = "position"
    costs: tuple[float, float] = (0.0, 1.0)

    def reward(self, cost: float) -> float:
        """Return the reward in [0, 1]; a cost outside of the range is clipped."""
        least, most = self.costs
        return min(max((most - cost) / (most - least), 0.0), 1.0)

    def outside(self, cost: float) -> bool:
        """Return whether a cost is outside the range of the file."""
        return not self.costs[0] <= cost <= self.costs[1]


def parse_cost_range(text: str) -> tuple[float, float] | None:
    """Parse "0:5" as (0, 5), and "" as None. Raises BadInput."""
    if not text:
        return None
    low, _, high = text.partition(":")
    try:
        costs = parse_finite(low), parse_finite(high)
    except ValueError:
        costs = (0.0, 0.0)
    if not costs[0] < costs[1]:
        raise BadInput(f"--costs takes LOW:HIGH, like 0:5, not {text!r}")
    return costs


def survey_file(
    path: Path,
    format: str,
    costs: tuple[float, float] | None = None,
    named_by: str = "",
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Survey:
    """Survey a file. costs, named_by: given by the user, if known.

    Raises BadInput if the range of the costs must be given.
    """
    if named_by and named_by not in ACTION_KEYS:
        raise BadInput(f"actions are known by {', '.join(ACTION_KEYS)}, not by {named_by!r}")
    with open_text(path, limits) as (file, _):
        shape = DSJSON if format == "dsjson" else find_shape(islice(file, MAX_SURVEYED), path.name)
    if shape == LABELS:
        return Survey(LABELS)
    seen = SurveyedChoices()
    with open_text(path, limits) as (file, _):
        for each in read_json_costs(file) if shape == DSJSON else read_choices(file, shape):
            seen.add(each)
    return Survey(shape, named_by or seen.named_by(), costs or seen.range_of_costs(path.name))


def find_shape(lines: Iterable[str], name: str) -> str:
    """Return how the lines are written.

    A block that begins with `shared`, or has a line with a cost, is a decision; a block with two costs
    is two decisions.
    """
    has_costs = False
    for blank, block in groupby(lines, lambda text: not text.strip()):
        count = costs = 0
        for text in () if blank else block:
            words = text.partition("|")[0].split()
            if words[:1] in (["ccb"], ["slates"]):
                raise BadInput(f"{name} holds several decisions at once ({words[0]}), which are not read")
            if words[:1] == ["shared"] and not count:
                return MANY_LINES
            count += 1
            costs += any(word.count(":") == 2 for word in words)
            if costs == 2:
                return ONE_LINE
        if costs and count > 1:
            return MANY_LINES
        has_costs = has_costs or costs > 0
    return ONE_LINE if has_costs else LABELS


def read_choices(file: Iterable[str], shape: str) -> Iterator[TextDecision]:
    """Yield the decisions that can be parsed."""
    for block in split_blocks(file, shape):
        try:
            if (found := parse_block(block, shape)) is not None:
                yield found
        except ValueError:
            continue  # reported when the file is read


def read_json_costs(file: Iterable[str]) -> Iterator[TextDecision]:
    """Yield the decisions of a dsjson file for a survey of their costs; other lines are skipped."""
    for number, text in enumerate(file, 1):
        try:
            line = orjson.loads(text)
            cost, actions = parse_finite(line["_label_cost"]), list_json_actions(number, line)
        except (ValueError, KeyError, TypeError, IndexError):
            continue  # reported when the file is read
        yield TextDecision(number, 0, cost, 1.0, "", actions=actions)


def list_json_actions(number: int, line: JSONObject) -> tuple[TextLine, ...]:
    """Return the actions of a decision in dsjson, in the order in which they were shown: tag and content of each.

    Those are in `_multi` of the context, to which `a` refers by numbers from 1. Raises ValueError for an action that
    is empty, or of which `_multi` says nothing.
    """
    if not isinstance(line["a"], list):
        raise ValueError(f"its actions a are {line['a']!r}, which is no list")
    known = (line.get("c") or {}).get("_multi")
    return tuple(describe_json_action(number, action, known) for action in line["a"])


def describe_json_action(number: int, action: object, known: object) -> TextLine:
    """Return an action of dsjson as a line of text. Raises ValueError."""
    if action is None or not str(action).strip():
        raise ValueError(f"it has an empty action in a, {action!r}")
    if not isinstance(known, list) or not isinstance(action, int):
        return TextLine(number, [], "", "")
    if not 1 <= action <= len(known):
        raise ValueError(f"its action {action} is none of the {len(known)} in _multi")
    content = known[action - 1]
    if not isinstance(content, dict):
        return TextLine(number, [], "", json.dumps(content))
    tag = content.get("_tag")
    features = {name: value for name, value in content.items() if name != "_tag"}
    described = json.dumps(features, sort_keys=True) if features else ""
    return TextLine(number, [], "" if tag is None else str(tag).strip(), described)


@dataclass(slots=True)
class SurveyedChoices:
    """The findings so far. names: the different names by each key that still distinguishes all actions."""

    low: float = math.inf
    high: float = -math.inf
    names: dict[str, set[str]] = field(default_factory=lambda: {"tag": set(), "features": set()})

    def add(self, each: TextDecision) -> None:
        """Widen the range of costs, and drop the ways to name actions that a decision contradicts."""
        self.low, self.high = min(self.low, each.cost), max(self.high, each.cost)
        if each.actions:
            for by, known in [*self.names.items()]:
                names = name_actions(each.actions, by)
                known.update(names)
                if not are_distinct(names) or len(known) > MAX_NAMES:
                    del self.names[by]

    def named_by(self) -> str:
        """Return how actions are named: by the first way that has named all of them, else by position."""
        return next((by for by, known in self.names.items() if known), "position")

    def range_of_costs(self, name: str) -> tuple[float, float]:
        """Return [0, 1] or, for negative costs, [-1, 0]. Raises BadInput for costs outside of both."""
        low, high = self.low, self.high
        if low <= high and not (0 <= low <= high <= 1 or -1 <= low <= high <= 0):
            raise BadInput(f"{name} has costs from {low:g} to {high:g}: say what they range over with --costs LOW:HIGH")
        return (-1.0, 0.0) if low < 0 else (0.0, 1.0)
