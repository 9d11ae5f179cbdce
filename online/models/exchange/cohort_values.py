"""The integer sums of examples as the values of a member of a cohort: counts, sums and the upper triangle of the Gram matrix.

    counts [2, C], sums [2, C, D], gram [D, D]  --flatten_sums-->  int64 [L]  --the sum of all clients'-->  unflatten_sums

Each part has the bits that its largest sum over all members needs, so that none wraps around: with N examples in all, counts
of N, sums of 127 N, products of 127^2 N.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models.contributions import LARGEST
from online.models.exchange.sums_file import unpack_upper
from online.secure_aggregation.layout import Layout, fit_segment

Tensors = Mapping[str, NDArray[Any]]


def choose_layout(class_count: int, width: int, example_count: int) -> Layout:
    """The layout for sums of C classes and D features. example_count: the most examples of all members together."""
    return Layout(
        (
            fit_segment(2 * class_count, example_count),
            fit_segment(2 * class_count * width, LARGEST * example_count),
            fit_segment(width * (width + 1) // 2, LARGEST**2 * example_count),
        )
    )


def flatten_sums(sums: Tensors) -> NDArray[np.int64]:
    """sums: counts [2, C], sums [2, C, D] and gram [D, D], of all classes of the cohort in their order."""
    upper = sums["gram"][np.triu_indices(len(sums["gram"]))]
    return np.concatenate([sums["counts"].reshape(-1), sums["sums"].reshape(-1), upper]).astype(np.int64)


def unflatten_sums(values_L: NDArray[np.int64], class_count: int, width: int) -> dict[str, NDArray[np.int64]]:
    """The inverse of `flatten_sums`."""
    counts, sums, upper = np.split(values_L, np.cumsum([2 * class_count, 2 * class_count * width]))
    return {
        "counts": counts.reshape(2, class_count),
        "sums": sums.reshape(2, class_count, width),
        "gram": unpack_upper(upper, width),
    }
