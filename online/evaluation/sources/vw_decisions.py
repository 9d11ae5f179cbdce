"""Reads logged decisions of Vowpal Wabbit: its text formats (vw_text.py) and dsjson.

    dsjson      {"_label_cost", "_label_probability", "_labelIndex", "a", "p", "c"}    on each line

The number of an action in `a` is its position, which changes from decision to decision. An action is known by its
`_tag` in `c._multi`, or by its content there, where those tell all actions apart (vw_survey.py).

A decision without a cost was never rated: it is counted, and is not a bad line.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines, parse_finite, parse_probability, roundings_of
from online.evaluation.sources.labelled_rows import LabelledRow
from online.evaluation.sources.log_format import parse_json
from online.evaluation.sources.vw_survey import DSJSON, Survey, list_json_actions
from online.evaluation.sources.vw_text import (
    TextDecision,
    are_distinct,
    name_actions,
    parse_block,
    parse_features,
    split_blocks,
)
from online.schemas.json_values import JSON, JSONObject

NO_COST = "decisions without a cost"


SKIPPED = "lines with _skipLearn"


OUTCOMES = "outcomes that were logged without their decision"


STAND_INS = "lines that stand for others, which were dropped at random (pdrop)"


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """A decision as it was logged.

    number: of its first line. value: a reward or a cost. context: the features known before the
    choice. candidates, chances: if the format has them.
    """

    number: int
    action: str
    value: float
    propensity: float
    context: Mapping[str, JSON]
    slot: str = ""
    candidates: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()


def read_decisions(
    file: IO[str], name: str, survey: Survey, bad: BadLines, left_out: Counter[str]
) -> Iterator[LoggedDecision]:
    """Yield the rated decisions. left_out: counts the others, by the reason."""
    if survey.shape == DSJSON:
        yield from read_dsjson(file, name, survey.named_by, bad, left_out)
        return
    for block in split_blocks(file, survey.shape):
        try:
            found = parse_block(block, survey.shape)
            each = None if found is None else build_decision(found, survey.named_by)
        except ValueError as error:
            bad.add(f"{name}, {error}")
            continue
        if each is None:
            left_out[NO_COST] += 1
        else:
            yield each


def build_decision(each: TextDecision, named_by: str) -> LoggedDecision:
    """Build a decision from its lines. Raises ValueError with the number of the line."""
    names = tuple(name_actions(each.actions, named_by)) if each.actions else each.names
    if not are_distinct(names):
        how = f"cannot be distinguished by their {named_by}" if each.actions else "are not each listed once"
        raise ValueError(f"line {each.number}: its actions {how}")
    try:
        context = parse_features(each.context)
    except ValueError as error:
        raise ValueError(f"line {each.number}: {error}") from None
    candidates = names if each.actions or len(names) > 1 else ()
    return LoggedDecision(each.number, names[each.place], each.cost, each.chance, context, candidates=candidates)


def read_reward_rows(file: IO[str], name: str, survey: Survey, bad: BadLines) -> Iterator[LabelledRow]:
    """Yield each decision as a row: the chosen action and its reward."""
    for each in read_decisions(file, name, survey, bad, Counter()):
        yield LabelledRow(each.number, dict(each.context), each.action, {}, survey.reward(each.value), each.propensity)


def read_dsjson(
    file: IO[str], name: str, named_by: str, bad: BadLines, left_out: Counter[str]
) -> Iterator[LoggedDecision]:
    """Yield the decisions of a dsjson file; lines that are no decisions are counted."""
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            line = parse_json(text, name, number)
            if "_label_cost" not in line and "_outcomes" not in line:
                left_out[OUTCOMES] += 1
                continue
            each = parse_dsjson(number, line, named_by)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            bad.add(what if isinstance(error, BadInput) else f"{name}, line {number}: {what}", number)
            continue
        left_out[STAND_INS] += bool(line.get("pdrop"))
        if line.get("_skipLearn"):
            left_out[SKIPPED] += 1
        else:
            yield each


def parse_dsjson(number: int, line: JSONObject, named_by: str) -> LoggedDecision:
    """Parse a line of dsjson. Raises ValueError, KeyError or TypeError for a line that is no decision."""
    if "_outcomes" in line:
        raise ValueError("it holds several decisions at once (_outcomes), which are not read")
    names, numbers = name_json_actions(number, line, named_by), [str(action) for action in line["a"]]
    chances = parse_chances(line["p"], len(names))
    chosen = str(line["_label_Action"]) if "_label_Action" in line else str(int(line["_labelIndex"]) + 1)
    if chosen not in numbers:
        raise ValueError(f"its choice {chosen!r} is not one of its actions a")
    action, context = names[numbers.index(chosen)], line.get("c") or {}
    features = {key: value for key, value in context.items() if not key.startswith("_")}
    cost, chance = parse_finite(line["_label_cost"]), parse_probability(line["_label_probability"])
    return LoggedDecision(number, action, cost, chance, dict(flatten(features)), candidates=names, chances=chances)


def name_json_actions(number: int, line: JSONObject, named_by: str) -> tuple[str, ...]:
    """Return the name of each action of `a`. Raises ValueError if its tag or its content does not tell it apart."""
    described = list_json_actions(number, line)
    names = [str(action) for action in line["a"]] if named_by == "position" else name_actions(described, named_by)
    if not are_distinct(names):
        raise ValueError(f"its actions cannot be distinguished by their {named_by}")
    return tuple(names)


def parse_chances(given: Iterable[JSON], count: int) -> tuple[float, ...]:
    """Return the probabilities p of `count` actions. They may be rounded to the digits that they are written with."""
    chances = tuple(map(parse_finite, given))
    roundings = roundings_of(chances)
    slack = max(1e-3, sum(roundings[chance] for chance in chances))
    if len(chances) != count or abs(sum(chances) - 1) > slack or min(chances, default=0.0) < 0:
        raise ValueError(f"{len(chances)} chances p that sum to {sum(chances):g} for {count} actions a")
    return chances


def flatten(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield nested objects and lists as features named by their path. A null is kept as a value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from flatten(inner, f"{path}.{place}")
    else:
        yield path, value
