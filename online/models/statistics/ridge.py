"""Ridge regression on exact sums, with its solution kept up to date between factorisations.

    A = gram + lambda I        Q = sums^T         W = A^-1 Q            a factorisation: M^3 / 3
    a few rows Z more: A + Z^T Z                  Woodbury's identity:  M^2 per row

Everything is in float64: with fewer rows than features, what a row adds to 1 / lambda exceeds the
digits of float32. With 4,096 features a factorisation takes a second and a row some tens of
milliseconds, so single events are served by updates. After ROWS rows the matrix is factorised again
from the integer sums, so that rounding errors do not accumulate.

Shapes: M features, C classes, R rows since the factorisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.models.statistics.exact import NEGATIVE_PULL, ExactStatistics, LinearWeights

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazy_torch import torch

ROWS = 512  # rows per factorisation; with more, an update (M^2 + R^3 / 3) costs more than a factorisation
MUCH_LARGER = 1.25  # growth of the log after which the matrix is factorised again


class RidgeSolver:
    """Solves W [M, C] for statistics whose every change it receives by `add` or `forget`."""

    def __init__(self) -> None:
        self._factor_MM: Tensor | None = None  # float64 Cholesky factor of A
        self._base_MC: Tensor | None = None  # A^-1 Q, with the factor
        self._solved_count = 0
        self._rows: list[tuple[Tensor, int, float, float]] = []  # features [M], class, weight in A, target
        self._columns: list[Tensor] = []  # A^-1 z of the first rows; `_extend_columns` adds the others

    def add(self, features: NDArray[np.int8], classes: Sequence[int], negative: bool, times: int) -> None:
        """Note B rows int8 [B, M] that were added to the statistics (times=-1: subtracted)."""
        if self._factor_MM is None:
            return
        if len(self._rows) + len(classes) > ROWS or features.shape[1] != len(self._factor_MM):
            self.forget()
            return
        weight, target = (0.0, -NEGATIVE_PULL * times) if negative else (float(times), float(times))
        for row, place in zip(torch.from_numpy(features.astype(np.float64)), classes, strict=True):
            self._rows.append((row.to(self._factor_MM.device), place, weight, target))

    def forget(self) -> None:
        """Factorise at the next solve, because the statistics changed in another way."""
        self._factor_MM, self._rows, self._columns = None, [], []

    def solve(self, statistics: ExactStatistics, ridge_ratio: float) -> LinearWeights:
        """Solve the weights. ridge_ratio: lambda as a share of the mean diagonal of A, at any scale."""
        positives = int(statistics.counts[0].sum())
        if self._factor_MM is None or positives > MUCH_LARGER * self._solved_count + ROWS / 4:
            self.forget()
            self._factorise(statistics, ridge_ratio)
            self._solved_count = positives
        matrix_MC = self._updated(len(statistics.classes))
        known_C = (statistics.counts[0] > 0).cpu().numpy()
        return LinearWeights(matrix_MC.to(torch.float32).cpu().numpy(), np.zeros(len(known_C), np.float32), known_C)

    def _factorise(self, statistics: ExactStatistics, ridge_ratio: float) -> None:
        self._factor_MM = factorise(statistics.gram, ridge_ratio)
        self._base_MC = solve_ridge(statistics, self._factor_MM)

    def _updated(self, classes: int) -> Tensor:
        """(A + Z^T D Z)^-1 (Q + Z^T Y) from A^-1 Q, by Woodbury's identity."""
        assert self._base_MC is not None, "solve factorises first"
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
        updated_MC: Tensor = moved_MC - columns_MR[:, weighted] @ torch.linalg.solve(inner_RR, rows_RM @ moved_MC)
        return updated_MC

    def _extend_columns(self) -> None:
        assert self._factor_MM is not None, "rows are kept only behind a factorisation"
        new = [row for row, _, _, _ in self._rows[len(self._columns) :]]
        if new:
            self._columns += torch.cholesky_solve(torch.stack(new, 1), self._factor_MM).unbind(1)


def solve_ridge(statistics: ExactStatistics, factor_MM: Tensor) -> Tensor:
    """W float64 [M, C] for targets of 1 for each class's examples and -NEGATIVE_PULL for its negatives."""
    positive_CM, negative_CM = statistics.sums.to(torch.float64)
    weights_MC: Tensor = torch.cholesky_solve((positive_CM - NEGATIVE_PULL * negative_CM).T, factor_MM)
    return weights_MC


def factorise(gram_MM: Tensor, ridge_ratio: float) -> Tensor:
    """The Cholesky factor, float64, of gram + lambda I with lambda = ridge_ratio * mean(diagonal)."""
    a_MM = gram_MM.to(torch.float64)
    a_MM.diagonal().add_(
        ridge_ratio * float(a_MM.diagonal().mean()) + 1.0
    )  # 1.0: keeps an empty matrix positive definite
    factor_MM: Tensor = torch.linalg.cholesky_ex(a_MM)[0]
    return factor_MM
