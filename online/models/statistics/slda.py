"""Weights of linear discriminant analysis, solved from integer sums and kept up to date.

    one more example of class c    W + n/(n+1) (x - m_c)(x - m_c)^T      one term, and the row of m_c    (Welford 1962)
    the diagonal, as it is         A + diag(d)      X - A^-1 d X + ...    a few products of O(C D^2)
    the diagonal, rounded          A + d e_i e_i^T  for few i             one term each

So an example costs O(D^2), or with an exact diagonal O(C D^2), where solving again costs O(D^3 + C D^2). After TERMS
terms, when the series converges slowly, and as soon as the residual shows that rounding errors have added up,
the weights are solved from the integer sums again.

Shapes: B examples, C classes, D features, M features of the statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.models.statistics.discriminant import (
    PRIOR_WEIGHT,
    Integers,
    allow_for_doubt,
    compute_diagonal,
    compute_means,
    compute_scatter,
    square_means,
)
from online.models.statistics.exact import ExactStatistics, LinearWeights
from online.models.statistics.inverse import Floats, UpdatedSolution, add_diagonal, invert

if TYPE_CHECKING:
    from torch import Tensor

MeanSums = tuple[Integers, Integers]

TERMS = 512  # changes after which the weights are solved from the sums again
CHECKED_EVERY = 64  # changes after which the residual is measured
LARGEST_RESIDUAL = 1e-10
MOST_STEPS = 5  # of the series; if it needs more, solving again is cheaper
LEFT_OUT = 1e-7  # of the largest weight: what the next step of the series would change, by the ratio of the last two


def solve_slda(
    statistics: ExactStatistics,
    shrinkage: float,
    priors: bool,
    described: NDArray[np.int8] | None = None,
    mean_sums: MeanSums | None = None,
    rounded: bool = False,
    start: int = 0,
) -> LinearWeights:
    """Solve the weights from the sums alone. For the arguments see `SldaSolver`."""
    return SldaSolver(shrinkage, priors, start, rounded).solve(statistics, described, mean_sums)


class SldaSolver:
    """Solves the weights for statistics whose every change it receives by `add`, `touch` or `forget`.

    Whatever it received, its weights differ from those solved from the sums alone by 1e-6 of the largest at
    most. shrinkage: in examples per feature. priors: whether frequent classes are preferred. start: the first
    feature of the statistics that is read. rounded: whether the diagonal is rounded (`discriminant`).
    """

    def __init__(self, shrinkage: float, priors: bool, start: int = 0, rounded: bool = False) -> None:
        self.shrinkage, self.priors, self.start, self.rounded = shrinkage, priors, start, rounded
        self._solution: UpdatedSolution | None = None
        self._rows: list[tuple[Integers, int, int]] = []  # changes of W that wait: row, class, sign
        self._touched: set[int] = set()  # classes whose means have changed
        self._checked_at = 0

    # changes

    def add(self, features: NDArray[np.int8], classes: Sequence[int], negative: bool, times: int) -> None:
        """Note B rows int8 [B, M] that were added to the statistics (times=-1: subtracted)."""
        if self._solution is None:
            return
        if len(self._rows) + len(classes) > self._most or features.shape[1] - self.start != self._width:
            self.forget()
            return
        self._touched.update(classes)
        if not negative:
            rows = features[:, self.start :].astype(np.int64)
            self._rows += [(row, place, times) for row, place in zip(rows, classes, strict=True)]

    def touch(self, place: int) -> None:
        """Note that the text that describes a class has changed."""
        self._touched.add(place)

    def forget(self) -> None:
        """Solve from the sums next time, because they changed in another way."""
        self._solution, self._rows, self._touched = None, [], set()

    @property
    def _width(self) -> int:
        return len(self._diagonal_D)

    @property
    def _most(self) -> int:
        """The most terms that cost less than a factorisation."""
        return max(4, self._width // 8)

    # solving

    def solve(
        self,
        statistics: ExactStatistics,
        described: NDArray[np.int8] | None = None,
        mean_sums: MeanSums | None = None,
    ) -> LinearWeights:
        """Return the weights of the present sums.

        described: int8 [C, D], a text per class that counts as one example; the scores then allow for how little
        is known about a class (`allow_for_doubt`). mean_sums: counts [C] and sums [C, D] that the means are
        computed from, instead of all (`windows`); the covariance and the priors always use everything.
        """
        sums = SldaSums(statistics, self.start, described, mean_sums)
        if self._solution is None or not self._update(self._solution, sums):
            self._solution = self._solve_again(sums)
        return self._weights(sums)

    def _solve_again(self, sums: SldaSums) -> UpdatedSolution:
        gram = sums.device_gram()
        squares_D = np.asarray(gram.diagonal() if isinstance(gram, np.ndarray) else gram.diagonal().cpu())
        self._squares = int(squares_D.sum())
        self._within_D = squares_D - square_means(sums.counts[0][:, None], sums.sums[0], self.rounded).sum(0)
        self._diagonal_D = self._compute_diagonal(sums)
        self._weight_C, self._means_CD = sums.means(slice(None))
        within = compute_scatter(gram, sums.counts[0], sums.sums[0])
        solution = UpdatedSolution(invert(add_diagonal(within, self._diagonal_D)), self._means_CD)
        self._refined_CD = solution.x_CD
        self._rows, self._touched, self._checked_at = [], set(), 0
        return solution

    def _compute_diagonal(self, sums: SldaSums) -> Floats:
        return compute_diagonal(self._within_D, self._squares, sums.total, self.shrinkage, self.rounded)

    def _weights(self, sums: SldaSums) -> LinearWeights:
        counts_C = sums.counts[0]
        scale = self.shrinkage * self._width + max(sums.total, 1)
        length_C = np.einsum("cd,cd->c", self._means_CD, self._refined_CD)
        factors: Floats | float = scale
        bias_C, doubt_C = (-0.5 * scale) * length_C, None
        if self.priors:
            bias_C += np.log((counts_C + 1) / (sums.total + len(counts_C)))
        if sums.described is not None:
            weight_C = np.maximum(self._weight_C, PRIOR_WEIGHT)
            known_C, bias_C, doubt_C = allow_for_doubt(self._width, bias_C, weight_C)
            factors = scale * known_C[:, None]
        matrix_CD = np.empty(self._refined_CD.shape, np.float32)
        np.multiply(self._refined_CD, factors, out=matrix_CD, casting="same_kind")
        return LinearWeights(matrix_CD.T, bias_C.astype(np.float32), self._weight_C > 0, doubt_C)

    # updates

    def _update(self, solution: UpdatedSolution, sums: SldaSums) -> bool:
        """Bring the solution up to date. False if it must be solved again."""
        if sums.sums.shape[2] != self._width:
            return False
        self._grow(solution, len(sums.counts[0]))
        terms = self._take_rows(sums)
        diagonal_D = self._compute_diagonal(sums)
        if self.rounded:
            terms += self._move_diagonal(diagonal_D)
        if solution.count + len(terms) > TERMS or len(terms) > self._most:
            return False
        if any(solution.add(u_D, scale) is None for u_D, scale in terms):
            return False
        self._set_means(solution, sums)
        return self._refine(solution, diagonal_D - self._diagonal_D) and not self._is_worn(solution, sums)

    def _refine(self, solution: UpdatedSolution, change_D: Floats) -> bool:
        """Solve for a diagonal that has changed since the factorisation. False if the series converges slowly."""
        self._refined_CD = step_CD = solution.x_CD
        if self.rounded or not step_CD.size:
            return True
        largest = last = float(np.abs(step_CD).max())
        for _ in range(MOST_STEPS):
            step_CD = solution.inverse.solve(step_CD * -change_D)
            self._refined_CD = self._refined_CD + step_CD
            before, last = last, float(np.abs(step_CD).max())
            if last * last <= LEFT_OUT * largest * before:
                return True
        return False

    def _grow(self, solution: UpdatedSolution, classes: int) -> None:
        """Append classes without examples."""
        more = classes - len(self._weight_C)
        if more > 0:
            solution.grow(classes)
            self._weight_C = np.pad(self._weight_C, (0, more))
            self._means_CD = np.pad(self._means_CD, ((0, more), (0, 0)))
            self._touched.update(range(classes - more, classes))

    def _take_rows(self, sums: SldaSums) -> list[tuple[Floats, float]]:
        """Return the terms of W of the rows that wait, from the last to the first, as the sums are those after all of them."""
        before: dict[int, tuple[int, Integers]] = {}
        terms = []
        for row_D, place, sign in reversed(self._rows):
            count, sum_D = before.get(place) or (int(sums.counts[0, place]), sums.sums[0, place])
            before[place] = count - sign, sum_D - sign * row_D
            fewer, fewer_D = before[place] if sign > 0 else (count, sum_D)
            if fewer:
                terms.append((row_D - fewer_D / fewer, sign * fewer / (fewer + 1)))
            self._within_D += sign * row_D * row_D
            self._squares += sign * int(row_D @ row_D)
        for place, (count, sum_D) in before.items():
            self._within_D += square_means(count, sum_D, self.rounded)
            self._within_D -= square_means(int(sums.counts[0, place]), sums.sums[0, place], self.rounded)
        self._rows = []
        return terms

    def _move_diagonal(self, diagonal_D: Floats) -> list[tuple[Floats, float]]:
        """Return the terms of the coordinates whose rounded variances have changed."""
        places = np.flatnonzero(diagonal_D != self._diagonal_D)
        steps = (diagonal_D - self._diagonal_D)[places]
        self._diagonal_D = diagonal_D
        if len(places) > self._most:
            return [(diagonal_D, 0.0)] * len(places)  # more than are ever added
        return [
            (unit_vector(len(diagonal_D), place), step)
            for place, step in zip(places.tolist(), steps.tolist(), strict=True)
        ]

    def _set_means(self, solution: UpdatedSolution, sums: SldaSums) -> None:
        for place in sorted(self._touched):
            rows = slice(place, place + 1)
            self._weight_C[rows], self._means_CD[rows] = sums.means(rows)
            solution.set_row(place, self._means_CD[place])
        self._touched = set()

    def _is_worn(self, solution: UpdatedSolution, sums: SldaSums) -> bool:
        """Return whether rounding errors have added up, by the residual of the solution for one vector."""
        if solution.count - self._checked_at < CHECKED_EVERY:
            return False
        self._checked_at = solution.count
        probe_D = self._diagonal_D
        solved_D = solution.inverse.multiply(probe_D)
        counts_C, sums_CD = sums.counts[0], sums.sums[0]
        between_D = (sums_CD @ solved_D / np.maximum(counts_C, 1)) @ sums_CD
        residual_D = sums.gram() @ solved_D - between_D + self._diagonal_D * solved_D - probe_D
        return not np.abs(residual_D).max(initial=0.0) <= LARGEST_RESIDUAL * np.abs(probe_D).max(initial=1.0)


class SldaSums:
    """The sums that are solved, over D of the features, and what else decides the means."""

    def __init__(
        self,
        statistics: ExactStatistics,
        start: int,
        described: NDArray[np.int8] | None,
        mean_sums: MeanSums | None,
    ) -> None:
        self.statistics, self.start, self.described = statistics, start, described
        self.counts, self.sums = statistics.counts, statistics.sums[:, :, start:]
        self.mean_sums = mean_sums or (self.counts[0], self.sums[0])
        self.total = int(np.add.reduce(self.counts[0]))

    def device_gram(self) -> Integers | Tensor:
        """Return the Gram matrix, on its device."""
        return self.statistics.device_gram()[self.start :, self.start :]

    def gram(self) -> Integers:
        """Return the Gram matrix [D, D] of the features without the constant."""
        return self.statistics.gram[self.start :, self.start :]

    def means(self, places: slice) -> tuple[Floats, Floats]:
        """Return the weights and means of some classes."""
        counts_C, sums_CD = self.mean_sums
        described = None if self.described is None else self.described[places]
        return compute_means(self.counts[:, places], self.sums[:, places], counts_C[places], sums_CD[places], described)


def unit_vector(width: int, place: int) -> Floats:
    """Return the unit vector [D] along one axis."""
    vector_D = np.zeros(width)
    vector_D[place] = 1.0
    return vector_D
