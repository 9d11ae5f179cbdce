"""Contributions: the sums of examples that a device has learned by itself, and that a model adds to its own.

    examples on a device --write_sums--> file --read_contribution--> checked sums --> added, or subtracted again

A file may come from anybody, so it is checked for conditions that the sums of so many int8 examples always fulfil. They
are necessary, not sufficient: some sums that pass are those of no examples, and none show whether examples were honest.

Shapes: C classes, D features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.models.contract import BadExample, Options
from online.models.exchange.sums_file import read_sums
from online.models.kinds import find_kind
from online.models.statistics.exact import ExactStatistics
from online.models.wrappers import find_wrapper
from online.schemas.json_values import JSON

LARGEST = 127  # of a feature
MAX_COUNT = 2**39  # examples: 127^2 times as much is below 2^53, so that every program reads the sums exactly
TOLERANCE = 1e-9  # relative, of comparisons in float64
DECIDING_OPTIONS = ("window", "drift_window", "max_age")  # they decide for each example whether it still counts


@dataclass(frozen=True, slots=True)
class Contribution:
    """Checked sums. statistics: of the classes that have examples. meta: how inputs became features."""

    statistics: ExactStatistics
    meta: Mapping[str, JSON]

    @property
    def count(self) -> int:
        """The number of its examples, positive and negative."""
        return int(self.statistics.counts.sum())


def find_merging_obstacle(kind: str, options: Options) -> str | None:
    """Return why a model cannot take contributions; None if it can."""
    spec = find_kind(kind)
    if spec is None or not spec.merges_sums:
        return f"a model of the kind {kind!r} keeps no sums that those of a device could be added to"
    if wrapper := find_wrapper(options):
        return f"its {wrapper.option.name} learns example by example"
    if options.get("input", "text") == "table":
        return "the columns of a table depend on the rows that came before"
    if options.get("input", "text") == "vector" and not options.get("scale"):
        return "its scale is fitted to the first examples; declare the option 'scale'"
    for name in DECIDING_OPTIONS:
        if options.get(name):
            return f"the option {name!r} decides for each example whether it still counts"
    return None


def read_contribution(data: bytes, width: int | None = None, meta: Mapping[str, object] | None = None) -> Contribution:
    """Read a file of sums and check necessary conditions of those of int8 examples. Raises BadExample.

    width: number of features that they must be of; None: any. meta: values that their metadata must have. Both are checked
    first, because the other checks take time with the square of the width and more.
    """
    try:
        file = read_sums(data)
    except ValueError as error:
        raise BadExample(str(error)) from None
    if width is not None and file.statistics.width != width:
        raise BadExample(f"the sums are of {file.statistics.width} features, where the model has {width}")
    for name, value in (meta or {}).items():
        if file.meta.get(name) != value:
            raise BadExample(f"the sums are of other features: {name!r} differs from that of the model")
    check_names(file.statistics.classes)
    check_counts(file.statistics.counts)
    check_sums(file.statistics)
    return Contribution(select_used_classes(file.statistics), file.meta)


def check_names(classes: Sequence[str]) -> None:
    """Raise BadExample for a name that a label of single feedback cannot be, or that digests could not write."""
    for name in classes:
        if not name.strip() or "\0" in name or not is_encodable(name):
            raise BadExample(f"a class cannot have the name {name[:80]!r}: it must be UTF-8, not blank and without NUL")


def is_encodable(text: str) -> bool:
    """Return whether a text is UTF-8. Half of a surrogate pair, which JSON can escape, is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_counts(counts: NDArray[np.int64]) -> None:
    """Raise BadExample."""
    if counts.size and int(counts.min()) < 0:
        raise BadExample("a class has a negative number of examples")
    if counts.size and int(counts.max()) > MAX_COUNT // counts.size:
        raise BadExample(f"a class has more than {MAX_COUNT // counts.size:,} examples")
    if not counts.any():
        raise BadExample("the sums are of no example")


def check_sums(statistics: ExactStatistics) -> None:
    """Raise BadExample for sums that miss a necessary condition of those of int8 examples. The counts were checked before."""
    counts, sums, gram = statistics.counts, statistics.sums, statistics.gram
    if exceeds(sums, LARGEST * counts[:, :, None]):
        raise BadExample("a class has larger sums than its examples can have: at most 127 each")
    count = int(counts[0].sum())
    if exceeds(gram, np.int64(LARGEST * LARGEST * count)):
        raise BadExample("the Gram matrix has larger sums than the positive examples can have: at most 127^2 each")
    squares_D = np.diagonal(gram)
    if ((squares_D - sums[0].sum(0)) % 2).any():
        raise BadExample("a sum of squares is odd where the sum is even, or the other way round")
    if (squares_D < np.abs(sums[0]).sum(0)).any():
        raise BadExample("a feature has a smaller sum of squares than its sums need (G_ii < sum of |S_i|)")
    if counts[0].max() <= 1 and (gram != sums[0].T.astype(np.float64) @ sums[0]).any():  # below 2^53: exact
        raise BadExample("no class has more than one example, and the Gram matrix is not that of these examples")
    check_scatter(counts[0], sums[0], gram)


def exceeds(values: NDArray[np.int64], most: NDArray[np.int64] | np.int64) -> bool:
    """Return whether any absolute value is larger than `most`; -2^63, which has none, counts."""
    return bool(((values > most) | (values < -most)).any())


def check_scatter(counts_C: NDArray[np.int64], sums_CD: NDArray[np.int64], gram_DD: NDArray[np.int64]) -> None:
    """Raise BadExample unless the scatter within the classes, G - sum of S S^T / n, has no negative eigenvalue.

    This includes G_ii >= sum of S_i^2 / n and the inequality of Cauchy and Schwarz.
    """
    means_CD = sums_CD / np.maximum(counts_C, 1)[:, None]
    scatter_DD = gram_DD - means_CD.T @ sums_CD
    total = float(np.trace(gram_DD))
    slack = TOLERANCE * total + TOLERANCE
    if (np.diagonal(scatter_DD) < -slack).any():
        raise BadExample("a feature has a smaller sum of squares than its sums need (G_ii < sum of S_i^2 / n)")
    try:
        np.linalg.cholesky((scatter_DD + scatter_DD.T) / 2 + 2 * slack * np.eye(len(gram_DD)))
    except np.linalg.LinAlgError:
        raise BadExample("no examples have this Gram matrix: it has a negative eigenvalue") from None


def check_constant(statistics: ExactStatistics, one: int) -> None:
    """Raise BadExample unless the first feature is the constant `one` in every example."""
    if (statistics.sums[:, :, 0] != one * statistics.counts).any():
        raise BadExample(f"the first feature is the constant {one} of an intercept, and its sums are others")
    if (statistics.gram[0] != one * statistics.sums[0].sum(0)).any():
        raise BadExample("the first row of the Gram matrix is not the sum of the examples, times the constant")


def select_used_classes(statistics: ExactStatistics) -> ExactStatistics:
    """Return the same sums without the classes that have no example."""
    used = np.flatnonzero(statistics.counts.any(0))
    tensors = {"counts": statistics.counts[:, used], "sums": statistics.sums[:, used], "gram": statistics.gram}
    return ExactStatistics.from_tensors([statistics.classes[place] for place in used], tensors)
