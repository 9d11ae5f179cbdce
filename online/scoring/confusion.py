"""The confusion of classes: a table of the most frequent classes, and the pairs that are confused most often."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

MAX_CLASSES = 20  # of the table; the others are one row and one column
MAX_PAIRS = 10


@dataclass(frozen=True, slots=True)
class ConfusedPair:
    """right, answered: the right class, and the wrong answer. answered is None where no answer was given.

    count: how often. of: how often the class was the right one.
    """

    right: str
    answered: str | None
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class Confusion:
    """The confusion matrix: right classes (rows) by answered classes (columns).

    classes: those with a row and a column, the most frequent first. class_count: of all classes. rows: one for each of
    `classes`, and a last one for all others together; the columns are those of `classes`, all others together, and no
    answer. pairs: the most frequent confusions among all classes.
    """

    classes: list[str]
    class_count: int
    rows: list[list[int]]
    pairs: list[ConfusedPair]


def build_confusion(counts: Mapping[tuple[str, str | None], int]) -> Confusion | None:
    """counts: by right class and answer. None if nothing was counted."""
    right, known = Counter[str](), dict[str, None]()
    for (truth, choice), count in counts.items():
        right[truth] += count
        known |= {truth: None} if choice is None else {truth: None, choice: None}
    if not right:
        return None
    classes = sorted(known, key=lambda label: -right[label])[:MAX_CLASSES]
    places = {label: place for place, label in enumerate(classes)}
    others, nothing = len(classes), len(classes) + 1
    rows = [[0] * (len(classes) + 2) for _ in range(len(classes) + 1)]
    for (truth, choice), count in counts.items():
        column = nothing if choice is None else places.get(choice, others)
        rows[places.get(truth, others)][column] += count
    wrong = sorted(
        (pair for pair in counts.items() if pair[0][0] != pair[0][1]),
        key=lambda pair: (-pair[1], pair[0][0], pair[0][1] or ""),
    )
    pairs = [ConfusedPair(truth, choice, count, right[truth]) for (truth, choice), count in wrong[:MAX_PAIRS]]
    return Confusion(classes, len(known), rows, pairs)
