"""Ridge regression on exact sums, with its solution kept up to date between factorisations.

    A = gram + r I        Q = sums^T         W = A^-1 Q            a factorisation: M^3 / 3
    one row x more:  A + x x^T, and one column of Q                one term: M^2

The strength r is a share of the mean diagonal of the Gram matrix, rounded to three significant bits: a function
of the sums alone that rarely changes. Everything is in float64: with fewer rows than features, what a row adds
to 1 / r exceeds the digits of float32. After ROWS rows the matrix is factorised again from the integer
sums, so that rounding errors do not accumulate.

Shapes: B rows, M features, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.models.statistics.discriminant import round_bits
from online.models.statistics.exact import NEGATIVE_PULL, ExactStatistics, LinearWeights
from online.models.statistics.inverse import Floats, UpdatedSolution, add_diagonal, invert

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazy_torch import torch

ROWS = 512  # rows per factorisation
AT_ONCE = 64  # rows in one solve that cost less than a factorisation of a wide matrix


class RidgeSolver:
    """Solves W [M, C] for statistics whose every change it receives by `add` or `forget`."""

    def __init__(self) -> None:
        self._solution: UpdatedSolution | None = None
        self._squares = 0  # the sum of the diagonal of the Gram matrix
        self._strength = 0.0
        self._rows: list[tuple[NDArray[np.int8], int, bool, int]] = []  # that wait: row, class, negative, sign

    def add(self, features: NDArray[np.int8], classes: Sequence[int], negative: bool, times: int) -> None:
        """Note B rows int8 [B, M] that were added to the statistics (times=-1: subtracted)."""
        if self._solution is None:
            return
        if len(self._rows) + len(classes) > AT_ONCE or features.shape[1] != self._solution.x_CD.shape[1]:
            self.forget()
            return
        self._rows += [(row, place, negative, times) for row, place in zip(features, classes, strict=True)]

    def forget(self) -> None:
        """Factorise at the next solve, because the statistics changed in another way."""
        self._solution, self._rows = None, []

    def solve(self, statistics: ExactStatistics, ridge_ratio: float) -> LinearWeights:
        """Solve the weights. ridge_ratio: r as a share of the mean diagonal of the Gram matrix."""
        if self._solution is None or not self._update(self._solution, statistics, ridge_ratio):
            self._solution = self._solve_again(statistics, ridge_ratio)
        known_C = statistics.counts[0] > 0
        matrix_MC = self._solution.x_CD.T.astype(np.float32)
        return LinearWeights(matrix_MC, np.zeros(len(known_C), np.float32), known_C)

    def _solve_again(self, statistics: ExactStatistics, ridge_ratio: float) -> UpdatedSolution:
        gram = statistics.device_gram()
        self._rows, self._squares = [], sum(gram.diagonal().tolist())
        self._strength = compute_strength(self._squares, statistics.width, ridge_ratio)
        return UpdatedSolution(invert(regularise(gram, self._strength)), compute_targets(statistics))

    def _update(self, solution: UpdatedSolution, statistics: ExactStatistics, ridge_ratio: float) -> bool:
        """Bring the solution up to date. False if it must be solved again."""
        solution.grow(len(statistics.classes))
        rows, self._rows = self._rows, []
        for row, place, negative, sign in rows:
            if not self._add_row(solution, row.astype(np.float64), place, negative, sign):
                return False
        return (
            solution.count <= ROWS and compute_strength(self._squares, statistics.width, ridge_ratio) == self._strength
        )

    def _add_row(self, solution: UpdatedSolution, row_M: Floats, place: int, negative: bool, sign: int) -> bool:
        if negative:
            solution.x_CD[place] -= NEGATIVE_PULL * sign * solution.inverse.multiply(row_M)
            return True
        self._squares += sign * int(row_M @ row_M)
        moved_M = solution.add(row_M, float(sign))
        if moved_M is not None:
            solution.x_CD[place] += sign * moved_M
        return moved_M is not None


def compute_strength(squares: int, width: int, ridge_ratio: float) -> float:
    """Return the strength of the ridge. squares: the sum of the diagonal of the Gram matrix."""
    mean = round_bits(np.array([max(squares, 1) / max(width, 1)]))
    return ridge_ratio * float(mean[0]) + 1.0  # 1.0: keeps an empty matrix positive definite


def compute_targets(statistics: ExactStatistics) -> Floats:
    """Q^T [C, M], targets of 1 for each class's examples and -NEGATIVE_PULL for its negatives."""
    positive_CM, negative_CM = statistics.sums
    targets_CM: Floats = positive_CM - NEGATIVE_PULL * negative_CM
    return targets_CM


def regularise(gram: NDArray[np.int64] | Tensor, strength: float) -> Floats | Tensor:
    """Return the Gram matrix plus strength * I, in float64."""
    a_MM = gram.astype(np.float64).T if isinstance(gram, np.ndarray) else gram.to(torch.float64)
    return add_diagonal(a_MM, np.full(len(a_MM), strength))


def solve_ridge(statistics: ExactStatistics, ridge_ratio: float) -> NDArray[np.float32]:
    """Solve W [M, C] from the sums alone."""
    return RidgeSolver().solve(statistics, ridge_ratio).matrix
