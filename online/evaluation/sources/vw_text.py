"""Parses Vowpal Wabbit's text: labelled rows, and logged decisions on one line or several.

    labels      `label [weight] ['tag] | features`                          a row on each line
    one line    `action:cost:probability [action ...] ['tag] | features`    a decision on each line
    many lines  `shared | features` (optional), then a line for each action; the line of the chosen
                action has `action:cost:probability`; blank lines separate the decisions

A feature is `name` or `name:value`; inside `|space` its name becomes "space^name".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import IO

from online.evaluation.sources.bad_lines import BadLines, parse_finite, parse_probability
from online.evaluation.sources.labelled_rows import Row, build_row

ONE_LINE, MANY_LINES = "one line", "many lines"
LABEL = re.compile(r"\A\s*+(-?[\d.eE+-]++)(?:\s++[\d.eE+-]++)?\s*+(?:'?\S*+)?$")  # possessive: no backtracking


def read_labelled_rows(file: IO[str], name: str, bad: BadLines) -> Iterator[Row]:
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        where = f"{name}, line {number}"
        before, bar, after = text.partition("|")
        found = LABEL.match(before)
        if found is None or not bar:
            bad.add(f"{where}: expected `label |features` of Vowpal Wabbit", number, "not_vw")
            continue
        try:
            instance = parse_features(after)
        except ValueError as error:
            bad.add(f"{where}: {error}", number)
            continue
        yield from build_row(number, instance, found[1], {}, where, bad)


def parse_features(after: str) -> dict[str, float]:
    """Parse everything after the first bar. Raises ValueError for a value that is not a number."""
    return dict(feature for space in after.split("|") for feature in parse_namespace(space))


def parse_namespace(space: str) -> Iterator[tuple[str, float]]:
    """Parse one namespace. A feature without a name, like `:2`, is named by its position."""
    name, *words = space.split() if space[:1].strip() else ["", *space.split()]
    name, _, scale = name.partition(":")
    for place, feature in enumerate(words):
        word, _, value = feature.partition(":")
        word = word or str(place)
        yield f"{name}^{word}" if name else word, float(value or 1) * float(scale or 1)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text. words: those before the bar, without the tag. after: the text after the bar."""

    number: int
    words: list[str]
    tag: str
    after: str


@dataclass(frozen=True, slots=True)
class TextDecision:
    """A decision with its chosen action.

    names: the candidates of a decision on one line. actions: the lines of a decision on many lines.
    place: the index of the chosen one among them.
    """

    number: int
    place: int
    cost: float
    chance: float
    context: str
    names: tuple[str, ...] = ()
    actions: tuple[TextLine, ...] = ()


def parse_text_line(number: int, text: str) -> TextLine:
    before, bar, after = text.partition("|")
    words = before.split()
    touching = bool(words) and not before[-1].isspace() and ":" not in words[-1] and words[-1] != "shared"
    tag = words.pop().removeprefix("'") if words and (touching or words[-1].startswith("'")) else ""
    if not bar:
        raise ValueError(f"line {number}: expected `action:cost:probability | features`")
    return TextLine(number, words, tag, after)


def find_cost(each: TextLine) -> tuple[int, float, float] | None:
    """Return (index of the word, cost, probability) of the word that has a cost; None without one."""
    found = [place for place, word in enumerate(each.words) if word.count(":") > 1]
    if not found:
        if costly := [word for word in each.words if ":" in word]:
            raise ValueError(f"line {each.number}: {costly[0]} is a cost without its probability")
        return None
    _, cost, chance, *more = each.words[found[0]].split(":")
    if len(found) > 1 or more:
        raise ValueError(f"line {each.number}: expected `action:cost:probability | features`, one action in a line")
    try:
        return found[0], parse_finite(cost), parse_probability(chance)
    except ValueError as error:
        raise ValueError(f"line {each.number}: {error}") from None


def parse_one_line(parts: Sequence[TextLine]) -> TextDecision | None:
    """Return None for a decision without a cost. Raises ValueError with the number of the line."""
    (only,) = parts
    if only.words[:1] == ["shared"]:
        raise ValueError(f"line {only.number}: expected `action:cost:probability | features`, one action in a line")
    found = find_cost(only)
    if found is None:
        return None
    place, cost, chance = found
    names = tuple(word.partition(":")[0] for word in only.words)
    return TextDecision(only.number, place, cost, chance, only.after, names)


def parse_many_lines(parts: Sequence[TextLine]) -> TextDecision | None:
    """Return None for a decision without a cost. Raises ValueError with the number of the line."""
    shared = parts[0] if parts[0].words == ["shared"] else None
    actions = tuple(parts[1:] if shared else parts)
    if not actions:
        raise ValueError(f"line {parts[0].number}: `shared` without a line for any action")
    if late := [each for each in actions if each.words[:1] == ["shared"]]:
        raise ValueError(f"line {late[0].number}: `shared` stands first, behind an empty line")
    found = [(place, word) for place, each in enumerate(actions) if (word := find_cost(each)) is not None]
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"line {actions[found[1][0]].number}: a second action with a cost; one was chosen")
    place, (_, cost, chance) = found[0]
    return TextDecision(parts[0].number, place, cost, chance, shared.after if shared else "", (), actions)


def split_blocks(file: Iterable[str], shape: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each decision."""
    for blank, block in groupby(enumerate(file, 1), lambda line: not line[1].strip()):
        if not blank:
            yield from [list(block)] if shape == MANY_LINES else ([line] for line in block)


def parse_block(block: Sequence[tuple[int, str]], shape: str) -> TextDecision | None:
    """Return None for a decision without a cost. Raises ValueError with the number of the line."""
    parts = [parse_text_line(number, text) for number, text in block]
    return parse_many_lines(parts) if shape == MANY_LINES else parse_one_line(parts)


def name_actions(actions: Sequence[TextLine], by: str) -> list[str]:
    """Return what identifies each action: its tag, its features or its position; "" if it has none."""
    match by:
        case "tag":
            return [each.tag for each in actions]
        case "features":
            return [" ".join(each.after.split()) for each in actions]
        case _:
            return [str(place) for place in range(1, len(actions) + 1)]


def are_distinct(names: Sequence[str]) -> bool:
    return "" not in names and len(set(names)) == len(names)
