"""Parses Vowpal Wabbit's text: labelled rows, and logged decisions on one line or several.

    labels      `label [weight [base]] ['tag] | features`                   a row on each line
    one line    `action:cost:probability [action ...] ['tag] | features`    a decision on each line
    many lines  `shared | features` (optional), then a line for each action; the line of the chosen
                action has `action:cost:probability`; blank lines separate the decisions

A tag begins with ', or touches the bar. A feature is `name` or `name:value`; inside `|space` its name becomes
"space^name". A feature that is given more than once has the sum of its values. A word as a value, `colour:red`, is a
category. No model here takes an importance weight or a base, so a row is refused that has another weight than 1, or
another base than 0.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import IO

from online.evaluation.sources.bad_lines import BadLines, parse_finite, parse_probability
from online.evaluation.sources.labelled_rows import LabelledRow, build_row
from online.schemas.labels import NUMBER, name_cell

ONE_LINE, MANY_LINES = "one line", "many lines"
NO_ROW = "expected `label |features` of Vowpal Wabbit"

Feature = float | str  # a number, or a category


def read_labelled_rows(file: IO[str], name: str, bad: BadLines) -> Iterator[LabelledRow]:
    """Yield the labelled rows of a text file; lines that cannot be used are counted."""
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        where = f"{name}, line {number}"
        try:
            label, instance = parse_labelled_row(text)
        except ValueError as error:
            bad.add(f"{where}: {error}", number, "not_vw")
            continue
        yield from build_row(number, instance, label, {}, where, bad)


def parse_labelled_row(text: str) -> tuple[str, dict[str, Feature]]:
    """Return the label and the features. Raises ValueError for a line that a replay cannot use whole."""
    before, bar, after = text.partition("|")
    if not bar:
        raise ValueError(NO_ROW)
    words, tag = split_tag(before)
    if not words:
        touches = f"; {tag} touches the bar, which makes it a tag: put a blank between" if is_number(tag) else ""
        raise ValueError(f"{NO_ROW}, and there is no label{touches}")
    if not tag and len(words) > 1 and not is_number(words[-1]):
        words.pop()  # a tag in the middle of blanks
    check_label_words(words)
    return name_cell(words[0]), parse_features(after)


def split_tag(before: str) -> tuple[list[str], str]:
    """Return the words before the bar, and the tag among them: the last, if it begins with ' or touches the bar."""
    words = before.split()
    touching = bool(words) and not before[-1].isspace() and ":" not in words[-1] and words[-1] != "shared"
    tag = words.pop() if words and (touching or words[-1].startswith("'")) else ""
    return words, tag.removeprefix("'")


def check_label_words(words: Sequence[str]) -> None:
    """Raise ValueError unless they are a label, and a weight of 1 and a base of 0 if there are any."""
    if ":" in words[0]:
        raise ValueError(f"{NO_ROW}, and {words[0]} is a class with a cost (csoaa): give the right class alone")
    if not all(map(is_number, words)) or len(words) > 3:
        raise ValueError(f"{NO_ROW}, not {' '.join(words)!r}")
    names = ("importance weight", "base")
    for name, word, neutral in zip(names, words[1:], (1.0, 0.0), strict=False):
        if float(word) != neutral:
            raise ValueError(f"has the {name} {word}, which no model here takes; leave it out")


def is_number(word: str) -> bool:
    """Return whether a word is a number."""
    return NUMBER.fullmatch(word) is not None


def name_action(word: str) -> str:
    """Return the name of an action; equal numbers have equal names."""
    return name_cell(word) if is_number(word) else word


def parse_features(after: str) -> dict[str, Feature]:
    """Parse everything after the first bar. Raises ValueError for a value that is neither a number nor a word."""
    found = dict[str, Feature]()
    for space in after.split("|"):
        for name, value in parse_namespace(space):
            found[name] = add_values(name, found[name], value) if name in found else value
    return found


def parse_namespace(space: str) -> Iterator[tuple[str, Feature]]:
    """Parse one namespace. A feature without a name, like `:2`, is named by its position."""
    name, *words = space.split() if space[:1].strip() else ["", *space.split()]
    name, _, scale = name.partition(":")
    factor = parse_scale(name, scale)
    for place, feature in enumerate(words):
        word, _, value = feature.partition(":")
        word = f"{name}^{word or place}" if name else word or str(place)
        yield word, parse_value(word, value, factor)


def parse_scale(name: str, scale: str) -> float:
    """Return the scale of a namespace, 1 by default. Raises ValueError."""
    if scale and not is_number(scale):
        raise ValueError(f"its namespace {name!r} has the scale {scale!r}, which is not a number")
    return float(scale or 1)


def parse_value(name: str, value: str, scale: float) -> Feature:
    """Return a number, or a category for a word. Raises ValueError for anything else."""
    if not value or is_number(value):
        return float(value or 1) * scale
    if (infinite := value.lower().strip("+-")) in ("nan", "inf", "infinity"):
        raise ValueError(f"has {'NaN' if infinite == 'nan' else 'an infinite value'} as its feature {name!r}")
    if not value[0].isalpha() or scale != 1:
        raise ValueError(f"its feature {name!r} has the value {value!r}, which is neither a number nor a word")
    return value


def add_values(name: str, one: Feature, other: Feature) -> Feature:
    """Return the value of a feature that is given more than once: the sum of numbers."""
    if isinstance(one, float) and isinstance(other, float):
        return one + other
    if one == other:
        return one
    raise ValueError(f"its feature {name!r} has the values {one} and {other}; give it one category")


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
    """Parse a line of a decision. Raises ValueError."""
    before, bar, after = text.partition("|")
    words, tag = split_tag(before)
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
    names = tuple(name_action(word.partition(":")[0]) for word in only.words)
    if "" in names:
        raise ValueError(f"line {only.number}: {only.words[names.index('')]} is the cost of no action")
    return TextDecision(only.number, place, cost, chance, only.after, names)


def parse_many_lines(parts: Sequence[TextLine]) -> TextDecision | None:
    """Return None for a decision without a cost. Raises ValueError with the number of the line."""
    shared = parts[0] if parts[0].words == ["shared"] else None
    actions = tuple(parts[1:] if shared else parts)
    if not actions:
        raise ValueError(f"line {parts[0].number}: `shared` without a line for any action")
    if late := [each for each in actions if each.words[:1] == ["shared"]]:
        raise ValueError(f"line {late[0].number}: `shared` stands first, behind an empty line")
    actions = tuple(map(settle_tag, actions))
    found = [(place, word) for place, each in enumerate(actions) if (word := find_cost(each)) is not None]
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"line {actions[found[1][0]].number}: a second action with a cost; one was chosen")
    place, (_, cost, chance) = found[0]
    return TextDecision(parts[0].number, place, cost, chance, shared.after if shared else "", (), actions)


def settle_tag(each: TextLine) -> TextLine:
    """Return an action's line with a word among blanks as its tag. Raises ValueError for words that mean nothing."""
    known = [word for word in each.words if ":" in word or is_number(word)]
    rest = [word for word in each.words if word not in known]
    if len(rest) + bool(each.tag) > 1:
        raise ValueError(f"line {each.number}: expected one tag before the bar, not {' '.join([*rest, each.tag])!r}")
    return replace(each, words=known, tag=each.tag or "".join(rest))


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
    """Return whether the names are neither empty nor repeated."""
    return "" not in names and len(set(names)) == len(names)
