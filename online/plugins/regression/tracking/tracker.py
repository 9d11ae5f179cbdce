"""Follows a moving world beside a regression on all examples: members, their mixture, their intervals.

    moments before the scan --> Members --predictions--> Mixture --errors--> Reach
    the newest rows, in order of their offsets, one by one          --> Correction of the regression

Where the scan starts is a function of the count of examples, and it reads nothing but integers, so the
result is a function of the set of examples: no order or batch changes it, and a retraction leaves no
trace. A row that follows the scanned ones is added by the same operations as in a scan from the
start, which is why both give the same bits.

Shapes: D features, P products, F = D + P, E = 2 + D, K members and the last number, L levels of the mixture.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.plugins.regression.tracking.members import (
    MEMORIES,
    WARM_MEMORIES,
    Members,
    MemberSolutions,
    Places,
    append_products,
)
from online.plugins.regression.tracking.reach import IntervalReach, student_t

Floats = NDArray[np.float64]

SCAN_LEAST, SCAN_STEP = 256, 512  # rows that are scanned at least; rows after which the scan starts later
BEFORE = 256  # rows before the scan that the short memories start from
WARM_LEAST, WARM_STEP = 24, 16  # the same while every answer starts the scan again, because scales are not fixed
ROOM = SCAN_LEAST + 2 * SCAN_STEP + BEFORE  # rows to store, so that as many as a step can be retracted
BLOCK = 16  # rows after which the members are solved again: more of wide inputs, fewer of the first ones
FIRST_SHARE = 3  # of the first rows, every one that adds a third to their count
LEAST = 16  # scanned rows below which nothing is corrected

# constants of `Mixture`
LENGTHS = np.array([1.0, 3.0, 10.0, 30.0])  # of the recent errors whose mean corrects a member; and no correction
LEVELS = 1 + len(LENGTHS)
SHARE = 0.003  # of the weight, spread after each number
PRIOR = 0.5  # weight at the start of the first member without correction, because most worlds stand still
FREEDOM = 4.0  # degrees of freedom of the t distribution
SPREAD_LENGTH = 50.0  # recent errors that decide how wide it is
ROUNDING = 1 / 12  # variance of the rounding of a number, in quanta^2


class Mixture:
    """Weighs predictors by how well they predicted, so that the best of the last while answers.

        predictions of K members, each alone and plus its recent mean error --> K x L experts --> their mean

    An expert's evidence is the density of the numbers so far under a t distribution around its
    predictions, as wide as its recent errors: sound against outliers, and without a rate to tune. A fixed
    share of the weight is spread over all experts after each number (Herbster & Warmuth 1998), so that
    another one can take over within a few numbers.

    corrections_KL: what is added to each member. weights_KL: sum to 1.
    """

    def __init__(self, members: int) -> None:
        self.corrections_KL = np.zeros((members, LEVELS))
        self.weights_KL = np.full((members, LEVELS), (1 - PRIOR) / (members * LEVELS))
        self.weights_KL[0, 0] += PRIOR
        self._spread_KL = np.zeros((members, LEVELS))
        self._count = 0
        self._gain_L = np.concatenate([[0.0], 1 / LENGTHS])

    def predict(self, members_K: Floats) -> float:
        """Return the weighted prediction of the members."""
        return float(np.vdot(self.weights_KL, members_K[:, None] + self.corrections_KL))

    def add(self, members_K: Floats, number: float) -> None:
        """Let the experts be judged by a number that the members predicted."""
        error_K1 = (number - members_K)[:, None]
        squares_KL = (error_K1 - self.corrections_KL) ** 2
        if self._count:
            self._weigh(squares_KL)
        self._count += 1
        self._spread_KL += (squares_KL - self._spread_KL) / min(self._count, SPREAD_LENGTH)
        self.corrections_KL += self._gain_L * (error_K1 - self.corrections_KL)

    def _weigh(self, squares_KL: Floats) -> None:
        spread_KL = self._spread_KL + ROUNDING
        density_KL = np.log(spread_KL) / 2 + (FREEDOM + 1) / 2 * np.log1p(squares_KL / (FREEDOM * spread_KL))
        weights_KL = self.weights_KL * np.exp(density_KL.min() - density_KL)
        total = weights_KL.sum()
        self.weights_KL = (1 - SHARE) / total * weights_KL + SHARE / weights_KL.size


def find_scan_start(count: int, warming: bool) -> int:
    """Return the number of examples, in order of their offsets, before the first one that is scanned."""
    least, step = (WARM_LEAST, WARM_STEP) if warming else (SCAN_LEAST, SCAN_STEP)
    return max(0, (count - least) // step * step)


@dataclass(frozen=True, slots=True)
class Correction:
    """number = share * (answer of the regression on all examples) + intercept + (x, products) @ weights.

    Its half-width is `reach` times that of the regression.
    """

    weights: Floats  # [F]
    products: Places  # [2, P]
    scalars: Floats  # share, intercept, reach

    @property
    def reach(self) -> float:
        """The factor on the half-widths of intervals."""
        return float(self.scalars[2])

    def apply(self, numbers_B: Floats, x_BD: NDArray[np.int8]) -> Floats:
        """Return corrected numbers [B]."""
        share, intercept, _ = self.scalars
        known = len(self.weights) - self.products.shape[1]
        x_BF = append_products(x_BD[:, :known].astype(np.float64), self.products, start=0)
        corrected_B: Floats = share * numbers_B + intercept + x_BF @ self.weights
        return corrected_B


class Tracker:
    """start: the number of examples before the first scanned one. scanned: the number of those since.

    used: the number of features that are not zero in all examples.
    """

    def __init__(
        self,
        moments: NDArray[np.int64],
        before_NE: Floats,
        products_2P: Places,
        start: int,
        used: int,
        level: float,
        warming: bool = False,
    ) -> None:
        """moments: of all examples before the scan. before_NE: the newest rows of these."""
        self.start, self.used, self.scanned = start, used, 0
        self._members = Members(moments, products_2P, WARM_MEMORIES if warming else MEMORIES)
        if len(before_NE):
            self._members.add(append_products(before_NE, products_2P), counted=False)
        self._mixture = Mixture(self._members.count + 1)
        self._reach, self._level = IntervalReach(level), level
        self._t = math.inf  # of the promised share, for the half-width of the regression on all examples
        self._block = BLOCK * max(1, used // 32)
        self._rows: list[Floats] = []
        self._last = float(before_NE[-1, 1]) if len(before_NE) else 0.0
        self._solve()

    def add(self, rows_BE: Floats) -> None:
        """Scan rows z = (1, q, x)."""
        for row_1E in append_products(rows_BE, self._members.products_2P)[:, None]:
            if self._solved is not None:
                self._judge(self._solved, float(row_1E[0, 1]), row_1E[0, 2:])
            self._last = float(row_1E[0, 1])
            self._rows.append(row_1E)
            self.scanned += 1
            if len(self._rows) >= min(self._block, max(1, (self.start + self.scanned) // FIRST_SHARE)):
                self._solve()

    def _solve(self) -> None:
        if self._rows:
            self._members.add(np.concatenate(self._rows))
            self._rows = []
        self._solved: MemberSolutions | None = self._members.solve() if self._members.all_EE[0, 0] >= 2 else None
        if self._solved is not None:
            self._t = student_t(self._level, int(self._solved.count) - 1)

    def _judge(self, solved: MemberSolutions, number: float, x_F: Floats) -> None:
        members_K = np.append(solved.weights_KF @ x_F + solved.intercept_K, self._last)
        variance = solved.noise * (1 + 1 / solved.count + solved.leverage(x_F[: self._members.width]))
        self._reach.add(abs(number - self._mixture.predict(members_K)) / (self._t * math.sqrt(variance)))
        self._mixture.add(members_K, number)

    def correction(self) -> Correction | None:
        """Return None while there are too few examples to say anything."""
        if self._solved is None or self.scanned < LEAST:
            return None
        weights_KL, solved = self._mixture.weights_KL, self._solved
        weights_K = weights_KL.sum(1)
        intercept = (weights_KL * self._mixture.corrections_KL).sum() + weights_K[-1] * self._last
        intercept += weights_K[1:-1] @ solved.intercept_K[1:]
        scalars = np.array([weights_K[0], intercept, self._reach.factor])
        return Correction(weights_K[1:-1] @ solved.weights_KF[1:], self._members.products_2P, scalars)
