"""Bayesian ridge regression from integer moments, solved from scratch or kept up to date.

    moments M = sum z z^T, z = (1, q, x)  --solve-->  Ridge           eigendecomposition, O(D^3)
    one more (x, q)                       --add---->  UpdatedRidge    recursive least squares, O(R D K)

Maximum evidence chooses the ridge (MacKay 1992) among R candidates. With the eigenvalues s of the scatter
matrix S and c = sum (x - mean) (q - mean q), for every candidate r the prior N(0, noise / r) gives

    left(r) = sum (q - mean q)^2 - c^T (S + r I)^-1 c       -2 log evidence = (n - 1) log left + sum log(1 + s / r)

and noise = left / (n - 1). One more example changes S by one term (Welford 1962), so that for each candidate
with A = S + r I, in the basis of the eigenvectors,

    w = A^-1 v    pivot = 1 + a v.w    weights + a e w / pivot    left + a e^2 / pivot    log det + log pivot

with v = x - mean, a = n / (n + 1) and e the error of the weights. A^-1 is the diagonal of the decomposition
and the terms since; after TERMS of them, everything is solved from the moments again. The candidates
are multiples of the mean eigenvalue, rounded to three significant bits so that they rarely change.

Shapes: B examples, D features, E = D + 1, R candidate ridges, K terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.models.statistics.discriminant import Integers, round_bits, square_means
from online.models.statistics.inverse import Floats

if TYPE_CHECKING:
    import torch
else:
    from online.models.lazy_torch import torch

RIDGES = np.logspace(4, -8, 97)  # shares of the mean eigenvalue, tried from the strongest down
ROUNDING = 1 / 12  # variance that quantisation adds to a target, in quanta^2: no model explains it
TERMS = 16  # examples after which everything is solved again
AT_ONCE = 8  # examples between two answers that cost less than that

Moments = Integers | Floats  # floats: weighted examples
Row = tuple[Floats, float]


@dataclass(frozen=True, slots=True)
class Ridge:
    """A solved regression, in quanta: number = intercept + (x - mean) @ weights.

    Its variance is noise * (1 + 1 / count + |(x - mean) @ spread|^2), with count - 1 degrees of freedom.
    """

    mean: NDArray[np.float64]  # [D]
    weights: NDArray[np.float64]  # [D]
    spread: NDArray[np.float32]  # [D, D]: spread @ spread.T = (S + ridge I)^-1
    scalars: NDArray[np.float64]  # count, intercept, noise, ridge

    @property
    def count(self) -> int:
        """The number of examples."""
        return int(self.scalars[0])

    def predict(self, x_BD: NDArray[np.int8]) -> tuple[Floats, Floats]:
        """Return means and standard deviations, [B]. Features newer than the weights are left out."""
        count, intercept, noise, _ = self.scalars
        away_BD = x_BD[:, : len(self.mean)] - self.mean
        leverage_B = ((away_BD @ self.spread) ** 2).sum(1)
        return intercept + away_BD @ self.weights, np.sqrt(noise * (1 + 1 / max(count, 1.0) + leverage_B))


class UpdatedRidge:
    """A regression that further examples can be added to. Valid until the next of them."""

    def __init__(self, moments: Moments, device: str = "cpu") -> None:
        self._moments = moments
        self._read_moments()
        m = moments.astype(np.float64)
        scatter_EE = m[1:, 1:] - self._total * np.outer(self._per_example[1:], self._per_example[1:])
        self._s_D, self._turn_DD = decompose(scatter_EE[1:, 1:], device)
        self._scale = compute_scale(moments)
        self._ridges_R = RIDGES * self._scale
        self._diagonal_RD = 1 / (self._s_D + self._ridges_R[:, None])
        c_D = self._turn_DD.T @ scatter_EE[1:, 0]
        self._weights_RD = self._diagonal_RD * c_D
        self._left_R = scatter_EE[0, 0] - self._weights_RD @ c_D
        self._log_det_R = np.log1p(self._s_D / self._ridges_R[:, None]).sum(1)
        self._terms_RKD = np.empty((len(RIDGES), TERMS, len(c_D)))
        self._gains_RK = np.empty((len(RIDGES), TERMS))
        self._terms = 0
        self._choose()

    def _read_moments(self) -> None:
        self._total = float(self._moments[0, 0])
        self._per_example = self._moments[0] / max(self._total, 1.0)

    @property
    def count(self) -> int:
        """The number of examples."""
        return int(self._total)

    def _choose(self) -> None:
        left_R = np.maximum(self._left_R, max(self._total, 1.0) * ROUNDING)
        cost_R = (self._total - 1) * np.log(left_R) + self._log_det_R
        self.best = int(cost_R.argmin())
        self.noise = float(left_R[self.best]) / max(self._total - 1, 1.0)

    def add(self, moments: Moments, rows: Sequence[Row]) -> bool:
        """Add rows (x float64 [D], q) that `moments` contain. False if the solution must be computed again."""
        if self._terms + len(rows) > TERMS or len(moments) != len(self._per_example):
            return False
        if not self.count or compute_scale(moments) != self._scale:
            return False
        per_example, count = self._per_example, self._total
        for x_D, q in rows:
            self._add(x_D - per_example[2:], q - per_example[1], count / (count + 1))
            count += 1
            per_example = per_example + (np.concatenate([[1.0, q], x_D]) - per_example) / count
        self._moments = moments
        self._read_moments()
        self._choose()
        return True

    def _add(self, away_D: Floats, error: float, scale: float) -> None:
        v_D, at = away_D @ self._turn_DD, self._terms
        w_RD = self._diagonal_RD * v_D
        if at:
            terms_RKD = self._terms_RKD[:, :at]
            along_RK = (terms_RKD @ v_D) * self._gains_RK[:, :at]
            w_RD -= (along_RK[:, None] @ terms_RKD)[:, 0]
        pivot_R = 1 + scale * (w_RD @ v_D)
        error_R = error - self._weights_RD @ v_D
        gain_R = scale / pivot_R
        self._weights_RD += (gain_R * error_R)[:, None] * w_RD
        self._left_R += gain_R * error_R * error_R
        self._log_det_R += np.log(pivot_R)
        self._terms_RKD[:, at], self._gains_RK[:, at] = w_RD, gain_R
        self._terms += 1

    def predict(self, x_BD: NDArray[np.int8]) -> tuple[Floats, Floats]:
        """Return means and standard deviations, [B]. Features newer than the weights are left out."""
        mean_D = self._per_example[2:]
        away_BD = (x_BD[:, : len(mean_D)] - mean_D) @ self._turn_DD
        leverage_B = (away_BD * away_BD) @ self._diagonal_RD[self.best]
        if self._terms:
            along_BK = away_BD @ self._terms_RKD[self.best, : self._terms].T
            leverage_B -= (along_BK * along_BK) @ self._gains_RK[self.best, : self._terms]
        deviation_B = np.sqrt(self.noise * (1 + 1 / max(self._total, 1.0) + leverage_B))
        return self._per_example[1] + away_BD @ self._weights_RD[self.best], deviation_B

    @property
    def weights(self) -> Floats:
        """[D], in the order of the features."""
        weights_D: Floats = self._turn_DD @ self._weights_RD[self.best]
        return weights_D

    def publish(self) -> Ridge:
        """Return the same as arrays. Only for a regression to which nothing was added since it was solved."""
        assert not self._terms, "a solution that is published is a function of the moments alone"
        ridge = self._ridges_R[self.best]
        return Ridge(
            self._per_example[2:],
            self.weights,
            (self._turn_DD / np.sqrt(self._s_D + ridge)).astype(np.float32),
            np.array([self._total, self._per_example[1], self.noise, ridge]),
        )


def compute_scale(moments: Moments) -> float:
    """Return the mean eigenvalue of the scatter matrix, rounded to three significant bits."""
    squares_D = moments.diagonal()[2:]
    used = np.count_nonzero(squares_D)  # columns whose examples were all retracted must not count
    trace = float((squares_D - square_means(moments[0, 0], moments[0, 2:], rounded=True)).sum())
    return float(round_bits(np.array([max(trace / max(int(used), 1), 1.0)]))[0])


def decompose(scatter_DD: Floats, device: str) -> tuple[Floats, Floats]:
    """Return eigenvalues [D], 0 or more, and eigenvectors [D, D]."""
    if device == "cpu":
        s_D, turn_DD = np.linalg.eigh(scatter_DD)
    else:
        s_D, turn_DD = (each.cpu().numpy() for each in torch.linalg.eigh(torch.from_numpy(scatter_DD).to(device)))
    return np.maximum(s_D, 0.0), turn_DD


def solve(moments: Moments, device: str = "cpu") -> Ridge:
    """Solve the regression from the moments alone."""
    return UpdatedRidge(moments, device).publish()
