"""What Vowpal Wabbit reads: labelled rows and logged decisions, as text or as dsjson.

    labels      `label [weight] ['tag] | features`                              a row a line
    one line    `action:cost:probability [action ...] ['tag] | features`        a decision a line
    many lines  `shared | features`, if anything is shared, and a line for      a decision a block, blank lines between
                each action; the chosen one's has `action:cost:probability`
    dsjson      {"_label_cost", "_label_probability", "_labelIndex", "a", "p", "c"}    a decision a line

A feature is `name` or `name:value`; within `|space` it is called "space^name" here. A decision without a cost was never
judged: it is counted, and is no bad line. A whole file is looked at first (`surveyed`): what costs range over and how
actions of many lines can be told apart, no single line knows.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any

import orjson

from online.errors import BadInput
from online.evaluation.formats import Bad, Row, finite, labelled, probability
from online.evaluation.log import json_of
from online.files import reading

LABELS, ONE_LINE, MANY_LINES, DSJSON = "labels", "one line", "many lines", "dsjson"
LOOKED_AT = 10_000  # lines, to see what a text holds
NAMES = ("tag", "features", "position")  # what an action of many lines may be known by; the first that will do
MOST_NAMES = 1_000  # beyond, tags or features tell one showing of an action from another, and not the actions
NO_COST = "decisions without a cost"
SKIPPED = "lines with _skipLearn"
STAND_INS = "lines that stand for others, which were dropped at random (pdrop)"


# labelled rows

LABEL = re.compile(r"\s*(-?[\d.eE+-]+)(?:\s+[\d.eE+-]+)?\s*(?:'?\S*)?$")


def label_rows(file: IO[str], name: str, bad: Bad) -> Iterator[Row]:
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        where = f"{name}, line {number}"
        before, bar, after = text.partition("|")
        found = LABEL.match(before)
        if found is None or not bar:
            bad.add(f"{where}: expected `label |features` of Vowpal Wabbit")
            continue
        try:
            instance = features(after)
        except ValueError as error:
            bad.add(f"{where}: {error}")
            continue
        yield from labelled(number, instance, found[1], {}, where, bad)


def features(after: str) -> dict[str, float]:
    """Of all that follows the first bar. Raises ValueError for a value that is no number."""
    return dict(feature for space in after.split("|") for feature in features_of(space))


def features_of(space: str) -> Iterator[tuple[str, float]]:
    """A feature without a name, `:2`, is named by its place."""
    name, *words = space.split() if space[:1].strip() else ["", *space.split()]
    name, _, scale = name.partition(":")
    for place, feature in enumerate(words):
        word, _, value = feature.partition(":")
        word = word or str(place)
        yield f"{name}^{word}" if name else word, float(value or 1) * float(scale or 1)


# decisions


@dataclass(frozen=True, slots=True)
class Logged:
    """A decision, as it came. number: of its first line. value: a reward or a cost. context: what was known before.

    candidates and chances: where they are told.
    """

    number: int
    action: str
    value: float
    propensity: float
    context: Mapping[str, Any]
    slot: str = ""
    candidates: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A line of text. words: what stands before the bar, but for the tag. after: what stands behind it."""

    number: int
    words: list[str]
    tag: str
    after: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What the labels of a decision tell. names: of one line. actions: of many, the place-th of which was chosen."""

    number: int
    place: int
    cost: float
    chance: float
    context: str
    names: tuple[str, ...] = ()
    actions: tuple[Part, ...] = ()


def part(number: int, text: str) -> Part:
    before, bar, after = text.partition("|")
    words = before.split()
    touching = bool(words) and not before[-1].isspace() and ":" not in words[-1] and words[-1] != "shared"
    tag = words.pop().removeprefix("'") if words and (touching or words[-1].startswith("'")) else ""
    if not bar:
        raise ValueError(f"line {number}: expected `action:cost:probability | features`")
    return Part(number, words, tag, after)


def observed(each: Part) -> tuple[int, float, float] | None:
    """Which of its words has a cost and its probability, and these; None where none has."""
    found = [place for place, word in enumerate(each.words) if word.count(":") > 1]
    if not found:
        if costly := [word for word in each.words if ":" in word]:
            raise ValueError(f"line {each.number}: {costly[0]} is a cost without its probability")
        return None
    _, cost, chance, *more = each.words[found[0]].split(":")
    if len(found) > 1 or more:
        raise ValueError(f"line {each.number}: expected `action:cost:probability | features`, one action in a line")
    try:
        return found[0], finite(cost), probability(chance)
    except ValueError as error:
        raise ValueError(f"line {each.number}: {error}") from None


def of_one_line(parts: Sequence[Part]) -> Choice | None:
    """Raises ValueError that names the line."""
    (only,) = parts
    if only.words[:1] == ["shared"]:
        raise ValueError(f"line {only.number}: expected `action:cost:probability | features`, one action in a line")
    found = observed(only)
    if found is None:
        return None
    place, cost, chance = found
    names = tuple(word.partition(":")[0] for word in only.words)
    return Choice(only.number, place, cost, chance, only.after, names)


def of_many_lines(parts: Sequence[Part]) -> Choice | None:
    """Raises ValueError that names the line."""
    shared = parts[0] if parts[0].words == ["shared"] else None
    actions = tuple(parts[1:] if shared else parts)
    if not actions:
        raise ValueError(f"line {parts[0].number}: `shared` without a line for any action")
    if late := [each for each in actions if each.words[:1] == ["shared"]]:
        raise ValueError(f"line {late[0].number}: `shared` stands first, behind an empty line")
    found = [(place, told) for place, each in enumerate(actions) if (told := observed(each)) is not None]
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"line {actions[found[1][0]].number}: a second action with a cost; one was chosen")
    place, (_, cost, chance) = found[0]
    return Choice(parts[0].number, place, cost, chance, shared.after if shared else "", (), actions)


def blocks(file: Iterable[str], shape: str) -> Iterator[list[tuple[int, str]]]:
    """The lines of each decision, with their numbers."""
    for blank, block in groupby(enumerate(file, 1), lambda line: not line[1].strip()):
        if not blank:
            yield from [list(block)] if shape == MANY_LINES else ([line] for line in block)


def choice(block: Sequence[tuple[int, str]], shape: str) -> Choice | None:
    """None where nothing has a cost. Raises ValueError that names the line."""
    parts = [part(number, text) for number, text in block]
    return of_many_lines(parts) if shape == MANY_LINES else of_one_line(parts)


def named(actions: Sequence[Part], by: str) -> list[str]:
    """ "": has no such name."""
    match by:
        case "tag":
            return [each.tag for each in actions]
        case "features":
            return [" ".join(each.after.split()) for each in actions]
        case _:
            return [str(place) for place in range(1, len(actions) + 1)]


def told_apart(names: Sequence[str]) -> bool:
    return "" not in names and len(set(names)) == len(names)


# a whole file


@dataclass(frozen=True, slots=True)
class Survey:
    """shape: LABELS, or how decisions are written. named_by: what actions of many lines are known by.

    costs: what they range over.
    """

    shape: str
    named_by: str = "position"
    costs: tuple[float, float] = (0.0, 1.0)

    def reward(self, cost: float) -> float:
        """In [0, 1]; a cost outside of the range is clipped."""
        least, most = self.costs
        return min(max((most - cost) / (most - least), 0.0), 1.0)

    def outside(self, cost: float) -> bool:
        return not self.costs[0] <= cost <= self.costs[1]


def costs_from(text: str) -> tuple[float, float] | None:
    """ "0:5" -> (0, 5); nothing said is None. Raises BadInput."""
    if not text:
        return None
    low, _, high = text.partition(":")
    try:
        costs = finite(low), finite(high)
    except ValueError:
        costs = (0.0, 0.0)
    if not costs[0] < costs[1]:
        raise BadInput(f"--costs takes LOW:HIGH, like 0:5, not {text!r}")
    return costs


def surveyed(path: Path, format: str, costs: tuple[float, float] | None = None, named_by: str = "") -> Survey:
    """costs, named_by: where somebody knows. Raises BadInput for decisions whose costs must be told the range of."""
    if named_by and named_by not in NAMES:
        raise BadInput(f"actions are known by {', '.join(NAMES)}, not by {named_by!r}")
    with reading(path) as (file, _):
        shape = DSJSON if format == "dsjson" else shape_of(islice(file, LOOKED_AT), path.name)
    if shape == LABELS:
        return Survey(LABELS)
    seen = Seen()
    with reading(path) as (file, _):
        for each in json_costs(file) if shape == DSJSON else choices(file, shape):
            seen.add(each)
    return Survey(shape, named_by or seen.named_by(), costs or seen.range_of_costs(path.name))


def shape_of(lines: Iterable[str], name: str) -> str:
    """A block that begins with `shared`, or one of whose lines has a cost, is a decision; two costs are two decisions."""
    decisions = False
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
        decisions = decisions or costs > 0
    return ONE_LINE if decisions else LABELS


def choices(file: Iterable[str], shape: str) -> Iterator[Choice]:
    """All that can be understood."""
    for block in blocks(file, shape):
        try:
            if (found := choice(block, shape)) is not None:
                yield found
        except ValueError:
            continue  # told when it is read


def json_costs(file: Iterable[str]) -> Iterator[Choice]:
    for number, text in enumerate(file, 1):
        try:
            yield Choice(number, 0, finite(orjson.loads(text)["_label_cost"]), 1.0, "")
        except (ValueError, KeyError, TypeError):
            continue  # told when it is read


@dataclass(slots=True)
class Seen:
    """names: different ones so far, of what still tells actions apart."""

    low: float = math.inf
    high: float = -math.inf
    names: dict[str, set[str]] = field(default_factory=lambda: {"tag": set(), "features": set()})

    def add(self, each: Choice) -> None:
        self.low, self.high = min(self.low, each.cost), max(self.high, each.cost)
        if each.actions:
            for by, known in [*self.names.items()]:
                names = named(each.actions, by)
                known.update(names)
                if not told_apart(names) or len(known) > MOST_NAMES:
                    del self.names[by]

    def named_by(self) -> str:
        return next((by for by, known in self.names.items() if known), "position")

    def range_of_costs(self, name: str) -> tuple[float, float]:
        """[0, 1] or, of dsjson, [-1, 0]. Raises BadInput for costs that lie in neither."""
        low, high = self.low, self.high
        if low <= high and not (0 <= low <= high <= 1 or -1 <= low <= high <= 0):
            raise BadInput(f"{name} has costs from {low:g} to {high:g}: say what they range over with --costs LOW:HIGH")
        return (-1.0, 0.0) if low < 0 else (0.0, 1.0)


# reading


def decisions(file: IO[str], name: str, survey: Survey, bad: Bad, left_out: Counter[str]) -> Iterator[Logged]:
    """left_out: told how many lines of which sort say nothing."""
    if survey.shape == DSJSON:
        yield from json_decisions(file, name, bad, left_out)
        return
    for block in blocks(file, survey.shape):
        try:
            found = choice(block, survey.shape)
            each = None if found is None else logged(found, survey.named_by)
        except ValueError as error:
            bad.add(f"{name}, {error}")
            continue
        if each is None:
            left_out[NO_COST] += 1
        else:
            yield each


def logged(each: Choice, named_by: str) -> Logged:
    """Raises ValueError that names the line."""
    names = tuple(named(each.actions, named_by)) if each.actions else each.names
    if not told_apart(names):
        how = f"cannot be told apart by their {named_by}" if each.actions else "are not each listed once"
        raise ValueError(f"line {each.number}: its actions {how}")
    try:
        context = features(each.context)
    except ValueError as error:
        raise ValueError(f"line {each.number}: {error}") from None
    candidates = names if each.actions or len(names) > 1 else ()
    return Logged(each.number, names[each.place], each.cost, each.chance, context, candidates=candidates)


def rows(file: IO[str], name: str, survey: Survey, bad: Bad) -> Iterator[Row]:
    """Decisions as rows: of each the action, and what it was worth."""
    for each in decisions(file, name, survey, bad, Counter()):
        yield Row(each.number, dict(each.context), each.action, {}, survey.reward(each.value), each.propensity)


def json_decisions(file: IO[str], name: str, bad: Bad, left_out: Counter[str]) -> Iterator[Logged]:
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            line = json_of(text, name, number)
            if "_label_cost" not in line:
                continue  # it tells of an outcome that came without its decision
            each = of_json(number, line)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            bad.add(what if isinstance(error, BadInput) else f"{name}, line {number}: {what}")
            continue
        left_out[STAND_INS] += bool(line.get("pdrop"))
        if line.get("_skipLearn"):
            left_out[SKIPPED] += 1
        else:
            yield each


def of_json(number: int, line: dict[str, Any]) -> Logged:
    actions = tuple(str(action) for action in line["a"])
    chances = tuple(finite(chance) for chance in line["p"])
    if len(actions) != len(chances) or abs(sum(chances) - 1) > 1e-3:
        raise ValueError(f"{len(chances)} chances p that sum to {sum(chances):g} for {len(actions)} actions a")
    action = str(line["_label_Action"]) if "_label_Action" in line else str(int(line["_labelIndex"]) + 1)
    context = {key: value for key, value in line.get("c", {}).items() if not key.startswith("_")}
    cost, chance = finite(line["_label_cost"]), probability(line["_label_probability"])
    return Logged(number, action, cost, chance, dict(flat(context)), candidates=actions, chances=chances)


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
