"""The integer sums of examples as the values of a member of a cohort.

    counts [2, C], sums [2, C, D], gram [D, D]  --flatten_sums-->  int64 [L]  --the sum of all clients'-->  unflatten_sums

    values   counts [2, C], sums [2, C, D], squares [D] and other products [D (D - 1) / 2] of the Gram matrix, row by row

Each part has the bits that its largest sum over all members needs, so that none wraps around. With N examples in all these
are N, 127 N and 127^2 N. A cohort that declares limits of its total needs fewer. Whether the total keeps to them is known
exactly from what has all bits: a sum over n examples of a class is at most 127 n, and by Cauchy and Schwarz no product is
larger than the largest square.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray
from online.models.contributions import LARGEST
from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.layout import SumLayout, fit_segment

Tensors = Mapping[str, AnyArray]


@dataclass(frozen=True, slots=True)
class SumLimits:
    """Of the total of all members. Any other total fails the cohort, because parts of it may have wrapped around.

    examples: N. class_examples: of one class, positive or negative. negative_examples: of all classes. mean_square: of one
    feature, as if there were N examples.
    """

    examples: int
    class_examples: int | None = None
    negative_examples: int | None = None
    mean_square: int | None = None

    @property
    def of_class(self) -> int:
        """The limit of examples for a class."""
        return self.examples if self.class_examples is None else min(self.class_examples, self.examples)

    @property
    def negatives(self) -> int:
        """The limit of rejected examples."""
        return self.examples if self.negative_examples is None else min(self.negative_examples, self.examples)

    @property
    def squares(self) -> int:
        """The largest sum of the squares of one feature, and so of every product."""
        return (LARGEST**2 if self.mean_square is None else self.mean_square) * self.examples


def choose_layout(class_count: int, width: int, limits: SumLimits) -> SumLayout:
    """Return the layout for sums of C classes and D features."""
    return SumLayout(
        (
            fit_segment(2 * class_count, limits.examples),
            fit_segment(class_count * width, LARGEST * limits.of_class),
            fit_segment(class_count * width, LARGEST * min(limits.of_class, limits.negatives)),
            fit_segment(width, LARGEST**2 * limits.examples),
            fit_segment(width * (width - 1) // 2, limits.squares),
        )
    )


def count_file_bytes(layout: SumLayout) -> int:
    """Return the most bytes of the tensors of the total in a file of sums, which have whole bytes."""
    counts, positives, negatives, squares, products = layout.segments
    tensors = ((counts,), (positives, negatives), (squares, products))
    return sum(sum(part.length for part in parts) * whole_bytes(max(part.bits for part in parts)) for parts in tensors)


def whole_bytes(bits: int) -> int:
    """Return the bytes of the narrowest integers that have so many bits."""
    return next(size for size in (1, 2, 4, 8) if bits <= 8 * size)


def check_limits(sums: Tensors, limits: SumLimits) -> None:
    """Raise AggregationFailed for a total beyond its limits. It names the limit, and nothing of the total."""
    counts, squares = sums["counts"], sums["gram"].diagonal()
    for found, most, name in (
        (counts.max(initial=0), limits.of_class, "max_class_examples"),
        (counts[1].sum(), limits.negatives, "max_negative_examples"),
        (squares.max(initial=0), limits.squares, "max_mean_square"),
    ):
        if found > most:
            raise AggregationFailed(f"the total is beyond {name}; begin a cohort with a larger one")


def flatten_sums(sums: Tensors) -> NDArray[np.int64]:
    """sums: counts [2, C], sums [2, C, D] and gram [D, D], of all classes of the cohort in their order."""
    gram = sums["gram"]
    parts = (sums["counts"].reshape(-1), sums["sums"].reshape(-1), gram.diagonal(), gram[np.triu_indices(len(gram), 1)])
    return np.concatenate(parts).astype(np.int64)


def unflatten_sums(values_L: NDArray[np.int64], class_count: int, width: int) -> dict[str, NDArray[np.int64]]:
    """Return the inverse of `flatten_sums`."""
    lengths = [2 * class_count, 2 * class_count * width, width]
    counts, sums, squares, products = np.split(values_L, np.cumsum(lengths))
    gram = np.diag(squares)
    places = np.triu_indices(width, 1)
    gram[places] = gram.T[places] = products
    return {"counts": counts.reshape(2, class_count), "sums": sums.reshape(2, class_count, width), "gram": gram}
