"""Linear discriminant analysis on integer sums: the matrix to factorise, the means and the scores.

    W = gram - sum n_c m_c m_c^T                     scatter within classes
    A = W + a diag(v) + r I                          a = shrinkage * D, v: variances, r: a ridge
    scores = (a + n) (x - m_c / 2) A^-1 m_c          plus the logarithm of the prior

A / (a + n) is the covariance, shrunk toward its own diagonal by a / (a + n) (Hayes & Kanan 2020): with
few examples this is the nearest mean, later it is full LDA.

The diagonal changes with every example. Where there are many classes it is rounded to three significant bits, by
steps that no order of additions can change: still a function of the integer sums alone, it stays equal from one
example to the next in nearly all coordinates, so that `slda` can keep the solution up to date at any size.

Shapes: C classes, D features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.models.statistics.exact import NEGATIVE_PULL
from online.models.statistics.inverse import Floats, blas

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazy_torch import torch

Integers = NDArray[np.int64]

PRIOR_WEIGHT = 1.0  # a text that describes a class counts as one example of it
FLOOR_RATIO = 0.6  # of the mean second moment: the smallest variance that the covariance is shrunk toward
RIDGE_RATIO = 1e-4  # of the mean variance
DROPPED_BITS = 50  # of the 52 of a float64's mantissa: what is left differs by 11 % at most


def compute_scatter(gram: Integers | Tensor, counts_C: Integers, sums_CD: Integers) -> Floats | Tensor:
    """W [D, D], on the device of the Gram matrix; an array is valid in its lower triangle alone."""
    weighted_CD = sums_CD / np.sqrt(np.maximum(counts_C, 1))[:, None]
    if not isinstance(gram, np.ndarray):
        weighted = torch.from_numpy(weighted_CD).to(gram.device)
        return gram.to(torch.float64).addmm_(weighted.T, weighted, alpha=-1)
    within_DD: Floats = gram.astype(np.float64).T
    if weighted_CD.size:
        blas.dsyrk(-1.0, weighted_CD.T, beta=1.0, c=within_DD, lower=1, overwrite_c=1)
    return within_DD


def square_means(counts: Integers | int, sums_CD: Integers | Floats, rounded: bool) -> Floats:
    """n m^2: [C, D] for counts [C, 1], or [D] for one class. rounded: to integers, whose sums have one value."""
    squares_CD: Floats = sums_CD / np.maximum(counts, 1) * sums_CD
    return np.rint(squares_CD) if rounded else squares_CD


def compute_diagonal(within_D: Floats, squares: int, count: int, shrinkage: float, rounded: bool) -> Floats:
    """Return what is added to the diagonal of W. within_D: the latter; squares: the sum of the Gram matrix's diagonal."""
    width, total = max(len(within_D), 1), max(count, 1)
    floor = FLOOR_RATIO * squares / width + total  # one quantum each: nothing divides by zero
    target_D = np.maximum(within_D, np.floor(floor) if rounded else floor)
    strength = shrinkage * width
    values = np.empty(len(target_D) + 1)
    np.divide(target_D, total, out=values[:-1])
    values[-1] = RIDGE_RATIO * (strength + total) * (float(np.add.reduce(target_D)) / (width * total))
    if rounded:
        values = round_bits(values)
    diagonal_D: Floats = strength * values[:-1] + values[-1]
    return diagonal_D


def round_bits(values: Floats) -> Floats:
    """Return positive numbers, rounded to three significant bits."""
    bits = values.view(np.int64) + (1 << (DROPPED_BITS - 1))
    return (bits >> DROPPED_BITS << DROPPED_BITS).view(np.float64)


def compute_means(
    counts: Integers,
    sums: Integers,
    mean_counts_C: Integers,
    mean_sums_CD: Integers,
    described: NDArray[np.int8] | None,
) -> tuple[Floats, Floats]:
    """Return the weights [C] and means [C, D] of some classes, with their texts and away from their negatives.

    counts [2, C], sums [2, C, D]: positive and negative. mean_counts_C, mean_sums_CD: the positives that count.
    """
    weight_C, means_CD = mean_counts_C.astype(np.float64), mean_sums_CD.astype(np.float64)
    if described is not None:
        weight_C += described.any(1) * PRIOR_WEIGHT
        means_CD += PRIOR_WEIGHT * described
    means_CD /= np.maximum(weight_C, PRIOR_WEIGHT)[:, None]
    negative_C = counts[1]
    if negative_C.any():
        pull_C = NEGATIVE_PULL * negative_C / np.maximum(negative_C + weight_C, 1)
        away_CD = sums[1] / np.maximum(negative_C, 1)[:, None] - means_CD
        means_CD -= pull_C[:, None] * away_CD
    return weight_C, means_CD


def allow_for_doubt(width: int, bias_C: Floats, weight_C: Floats) -> tuple[Floats, Floats, NDArray[np.float32]]:
    """Correct scores for means known from few examples: a factor of the weights, the bias, each score's deviation.

    The mean of n examples has covariance S / n around the true one, so the next example of the
    class has S (1 + 1/n): its distance is scaled by l = n / (n + 1), and its log density gains
    D/2 log l (Geisser 1964). Without this, a class that only its text describes is hardly ever
    chosen, so it is never confirmed. The input's own length x S^-1 x, which no longer cancels, is
    replaced by its expectation D + mean of m S^-1 m, so that the scores stay linear.
    """
    length = width - 2 * (weight_C * bias_C).sum() / max(weight_C.sum(), PRIOR_WEIGHT)
    known_C = weight_C / (weight_C + 1)
    bias_C = known_C * bias_C + (1 - known_C) * length / 2 + width / 2 * np.log(known_C)
    return known_C, bias_C, np.sqrt(length / weight_C).astype(np.float32)
