"""Ridge regression on exact sums, and its solution kept fresh between factorisations.

    A = gram + lambda I        Q = sums^T         W = A^-1 Q            a factorisation: M^3 / 3
    a few rows Z more: A + Z^T Z                  Woodbury's identity:  M^2 per row

All of it is in float64: where rows are fewer than features, what a row adds to 1 / lambda cancels all of float32's
digits.

With 4,096 features a factorisation takes a second, a row some tens of milliseconds: a thumb is served by the second,
and once ROWS rows have gathered the whole is factorised anew from the integer sums, so that nothing drifts. Shapes: M
features, C classes, R rows since the factorisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.models.exact import NEGATIVE_PULL, ExactStatistics, LinearWeights

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazily import torch

ROWS = 512  # an update costs R^3 / 3 beside its M^2: beyond this many a factorisation is the cheaper way
MUCH_LARGER = 1.25  # a log grown by this factor deserves a factorisation of its own


class RidgeSolver:
    """W [M, C] for statistics that it follows: told of every row, or told that there were too many to tell."""

    def __init__(self) -> None:
        self._factor_MM: Tensor | None = None  # float64 Cholesky factor of A
        self._base_MC: Tensor | None = None  # A^-1 Q, with the factor
        self._solved_count = 0
        self._rows: list[tuple[Tensor, int, float, float]] = []  # features [M], class, weight in A, target
        self._columns: list[Tensor] = []  # A^-1 z of the rows so far, as far as it is known

    def add(self, features: NDArray[np.int8], classes: Sequence[int], negative: bool, times: int) -> None:
        """B rows int8 [B, M] were added to the statistics (times=-1: subtracted)."""
        if self._factor_MM is None:
            return
        if len(self._rows) + len(classes) > ROWS or features.shape[1] != len(self._factor_MM):
            self.forget()
            return
        weight, target = (0.0, -NEGATIVE_PULL * times) if negative else (float(times), float(times))
        for row, place in zip(torch.from_numpy(features.astype(np.float64)), classes, strict=True):
            self._rows.append((row.to(self._factor_MM.device), place, weight, target))

    def forget(self) -> None:
        """The statistics moved further than it can follow: factorise at the next solve."""
        self._factor_MM, self._rows, self._columns = None, [], []

    def solve(self, statistics: ExactStatistics, ridge_ratio: float) -> LinearWeights:
        """ridge_ratio: lambda as a share of the mean of A's diagonal, so that it means the same for any scale."""
        positives = int(statistics.counts[0].sum())
        if self._factor_MM is None or positives > MUCH_LARGER * self._solved_count + ROWS / 4:
            self.forget()
            self._factorise(statistics, ridge_ratio)
            self._solved_count = positives
        matrix_MC = self._updated(len(statistics.labels))
        known_C = (statistics.counts[0] > 0).cpu().numpy()
        return LinearWeights(matrix_MC.to(torch.float32).cpu().numpy(), np.zeros(len(known_C), np.float32), known_C)

    def _factorise(self, statistics: ExactStatistics, ridge_ratio: float) -> None:
        self._factor_MM = factorised(statistics.gram, ridge_ratio)
        self._base_MC = solved_ridge(statistics, self._factor_MM)

    def _updated(self, classes: int) -> Tensor:
        """(A + Z^T D Z)^-1 (Q + Z^T Y) from A^-1 Q, by Woodbury's identity."""
        assert self._base_MC is not None, "it was factorised"
        base_MC = torch.nn.functional.pad(self._base_MC, (0, classes - self._base_MC.shape[1]))
        if not self._rows:
            return base_MC
        self._extend_columns()
        columns_MR = torch.stack(self._columns, 1)
        target_RC = base_MC.new_zeros(len(self._rows), classes)
        for row, (_, place, _, target) in enumerate(self._rows):
            target_RC[row, place] = target
        moved_MC = base_MC + columns_MR @ target_RC
        weighted = [row for row, (_, _, weight, _) in enumerate(self._rows) if weight]
        if not weighted:
            return moved_MC
        rows_RM = torch.stack([self._rows[row][0] for row in weighted])
        sign_R = base_MC.new_tensor([self._rows[row][2] for row in weighted])
        inner_RR = torch.diag(sign_R) + rows_RM @ columns_MR[:, weighted]
        freshened: Tensor = moved_MC - columns_MR[:, weighted] @ torch.linalg.solve(inner_RR, rows_RM @ moved_MC)
        return freshened

    def _extend_columns(self) -> None:
        assert self._factor_MM is not None, "rows are kept only behind a factorisation"
        new = [row for row, _, _, _ in self._rows[len(self._columns) :]]
        if new:
            self._columns += torch.cholesky_solve(torch.stack(new, 1), self._factor_MM).unbind(1)


def solved_ridge(statistics: ExactStatistics, factor_MM: Tensor) -> Tensor:
    """W float64 [M, C]. Its targets are what each class's examples sum to, less a share of what it was punished for."""
    positive_CM, negative_CM = statistics.sums.to(torch.float64)
    weights_MC: Tensor = torch.cholesky_solve((positive_CM - NEGATIVE_PULL * negative_CM).T, factor_MM)
    return weights_MC


def factorised(gram_MM: Tensor, ridge_ratio: float) -> Tensor:
    """The Cholesky factor, float64, of gram + lambda I with lambda = ridge_ratio * mean(diagonal)."""
    a_MM = gram_MM.to(torch.float64)
    a_MM.diagonal().add_(ridge_ratio * float(a_MM.diagonal().mean()) + 1.0)  # 1.0: where there is nothing yet
    factor_MM: Tensor = torch.linalg.cholesky_ex(a_MM)[0]
    return factor_MM
