"""The solution of A X^T = R^T, kept while A changes by rank-one terms and R by rows.

    A + a u u^T:   w = A^-1 u,  g = a / (1 + a u.w),   A^-1 - g w w^T,   X - g (X u) w^T      Sherman & Morrison 1950

A term costs O(D^2), where a factorisation costs D^3 / 3. Rounding errors add up slowly, so that the owner of a
solution measures its residual from time to time and solves again from the sums.

    ExplicitInverse    A^-1 as a matrix, by BLAS on the CPU: two passes over half of it for a term
    FactoredInverse    the Cholesky factor of A and the terms since, by torch: for wide matrices and other devices

Everything is in float64. Shapes: D features, C rows of R, T terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from online.models.lazy_torch import LazyModule

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazy_torch import torch

blas: Any = LazyModule("scipy.linalg.blas")
lapack: Any = LazyModule("scipy.linalg.lapack")

Floats = NDArray[np.float64]

EXPLICIT_WIDTH = 1_024  # features up to which forming the inverse pays
LEAST_PIVOT = 1e-3  # a term that makes A much smaller in its direction loses digits: it needs a factorisation


class SymmetricInverse(Protocol):
    """A^-1 of a symmetric positive definite matrix."""

    def solve(self, rows_CD: Floats) -> Floats:
        """R A^-1, [C, D]."""

    def multiply(self, u_D: Floats) -> Floats:
        """Return a^-1 u, [D]."""

    def add(self, w_D: Floats, gain: float) -> None:
        """Subtract gain * w w^T from A^-1."""


class ExplicitInverse:
    """A^-1 in the lower triangle of a matrix in Fortran's order. It is formed when it is first needed."""

    def __init__(self, a_DD: Floats) -> None:
        self._factor_DD: Floats | None = factorise(a_DD)
        self._inverse_DD: Floats | None = None

    def solve(self, rows_CD: Floats) -> Floats:
        """Return A^-1 of each row."""
        if not rows_CD.size:
            return rows_CD.copy()
        if self._factor_DD is not None:
            return solve_factored(self._factor_DD, rows_CD)
        solved_DC: Floats = blas.dsymm(1.0, self._inverse_DD, rows_CD.T, lower=1)
        return solved_DC.T

    def multiply(self, u_D: Floats) -> Floats:
        """Return A^-1 u, [D]."""
        if not len(u_D):
            return u_D
        if self._factor_DD is not None:
            self._inverse_DD, self._factor_DD = lapack.dpotri(self._factor_DD, lower=1, overwrite_c=1)[0], None
        product_D: Floats = blas.dsymv(1.0, self._inverse_DD, u_D, lower=1)
        return product_D

    def add(self, w_D: Floats, gain: float) -> None:
        """Update the inverse for a term that was added to A."""
        if len(w_D):
            blas.dsyr(-gain, w_D, lower=1, a=self._inverse_DD, overwrite_a=1)


class FactoredInverse:
    """The factor of the first A, and the vectors w of the T terms that were added to it since."""

    def __init__(self, a_DD: Tensor) -> None:
        self._factor_DD: Tensor = torch.linalg.cholesky_ex(a_DD)[0]
        self._terms_TD = np.zeros((0, len(a_DD)))
        self._gains_T = np.zeros(0)

    def solve(self, rows_CD: Floats) -> Floats:
        """Return A^-1 of each row."""
        rows = torch.from_numpy(np.ascontiguousarray(rows_CD)).to(self._factor_DD.device)
        solved_CD: Floats = torch.cholesky_solve(rows.T, self._factor_DD).T.cpu().numpy()
        low_rank_CD: Floats = ((rows_CD @ self._terms_TD.T) * self._gains_T) @ self._terms_TD
        return solved_CD - low_rank_CD

    def multiply(self, u_D: Floats) -> Floats:
        """Return A^-1 u, [D]."""
        solved_D: Floats = self.solve(u_D[None])[0]
        return solved_D

    def add(self, w_D: Floats, gain: float) -> None:
        """Remember a term that was added to A."""
        self._terms_TD = np.concatenate([self._terms_TD, w_D[None]])
        self._gains_T = np.append(self._gains_T, gain)


class UpdatedSolution:
    """X = R A^-1. count: terms since it was solved."""

    def __init__(self, inverse: SymmetricInverse, rows_CD: Floats) -> None:
        self.inverse, self.count = inverse, 0
        self.x_CD: Floats = np.ascontiguousarray(inverse.solve(rows_CD))

    def grow(self, classes: int) -> None:
        """Append rows of zeros to R."""
        more = classes - len(self.x_CD)
        if more > 0:
            self.x_CD = np.concatenate([self.x_CD, np.zeros((more, self.x_CD.shape[1]))])

    def add(self, u_D: Floats, scale: float) -> Floats | None:
        """Add scale * u u^T to A and return A^-1 u after it; None if the solution has to be computed again."""
        w_D = self.inverse.multiply(u_D)
        pivot = 1 + scale * float(u_D @ w_D)
        if not LEAST_PIVOT < pivot < 1 / LEAST_PIVOT**4:
            return None
        gain = scale / pivot
        along_C: Floats = self.x_CD @ u_D
        if self.x_CD.size:
            blas.dger(-gain, w_D, along_C, a=self.x_CD.T, overwrite_a=1)
        self.inverse.add(w_D, gain)
        self.count += 1
        return w_D / pivot

    def set_row(self, place: int, row_D: Floats) -> None:
        """Replace a row of R."""
        self.x_CD[place] = self.inverse.multiply(row_D)


def add_diagonal(a_DD: Floats | Tensor, diagonal_D: Floats) -> Floats | Tensor:
    """Add to the diagonal, in place."""
    if isinstance(a_DD, np.ndarray):
        np.einsum("dd->d", a_DD)[:] += diagonal_D
    else:
        a_DD.diagonal().add_(torch.from_numpy(diagonal_D).to(a_DD.device))
    return a_DD


def invert(a_DD: Floats | Tensor) -> SymmetricInverse:
    """Return the inverse of a symmetric positive definite matrix: a tensor, or an array in Fortran's order.

    Only the lower triangle is read. It may be overwritten.
    """
    if not isinstance(a_DD, np.ndarray):
        return FactoredInverse(a_DD)
    return ExplicitInverse(a_DD) if len(a_DD) <= EXPLICIT_WIDTH else FactoredInverse(torch.from_numpy(a_DD))


def factorise(a_DD: Floats) -> Floats:
    """Return the lower Cholesky factor. `a_DD`, in Fortran's order, is overwritten."""
    factor_DD: Floats = lapack.dpotrf(a_DD, lower=1, overwrite_a=1)[0] if a_DD.size else a_DD
    return factor_DD


def solve_factored(factor_DD: Floats, rows_CD: Floats) -> Floats:
    """R A^-1 for the factor of A."""
    solved_DC: Floats = lapack.dpotrs(factor_DD, rows_CD.T, lower=1)[0]
    return solved_DC.T
