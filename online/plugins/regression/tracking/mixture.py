"""Weighs predictors by how well they predicted, so that the best of the last while answers.

    predictions of K members, each alone and plus its recent mean error --> K x L experts --> their mean

An expert's evidence is the density of the numbers so far under a t distribution around its
predictions, as wide as its recent errors: sound against outliers, and without a rate to tune. A fixed
share of the weight is spread over all experts after each number (Herbster & Warmuth 1998), so that
another one can take over within a few numbers.

Shapes: K members, L levels.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LENGTHS = np.array([1.0, 3.0, 10.0, 30.0])  # of the recent errors whose mean corrects a member; and no correction
LEVELS = 1 + len(LENGTHS)
SHARE = 0.003  # of the weight, spread after each number
PRIOR = 0.5  # weight at the start of the first member without correction, because most worlds stand still
FREEDOM = 4.0  # degrees of freedom of the t distribution
SPREAD_LENGTH = 50.0  # recent errors that decide how wide it is
ROUNDING = 1 / 12  # variance of the rounding of a number, in quanta^2


class Mixture:
    """corrections_KL: what is added to each member. weights_KL: sum to 1."""

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
