"""Linear predictors with memories of different lengths, solved from weighted moments once a block.

    member 0            every example counts equally            A w = c, with the ridge of most evidence
    the other members   weights of member 0 + what the newest rows say about its errors

Each memory is a matrix M = sum weight z z^T in information form: a block of rows is added after all
that is older has been multiplied by (1 - 1 / memory) ^ rows. The prior is not part of M, so it never
fades (no wind-up), and its mean is the solution on all examples: a short memory without
evidence answers like member 0. Some members also read products of two numbers.

Shapes: D features, P products, E = 2 + D (+ P), K members.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from online.plugins.regression.evidence import solve

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

MOST_NUMBERS = 12  # columns of numbers up to which their products are read
PRODUCT_QUANTA = 64  # by which a product of two numbers is divided, so that it has their size
GROWTH = 1.25  # of the count, after which the evidence decides about the ridge again


class MemberMemory(NamedTuple):
    """length: in examples. strength: of the prior, as a share of the mean scatter of a feature."""

    length: int
    strength: float
    reads_products: bool

    @property
    def moments(self) -> tuple[int, bool]:
        """Names the moments that it is solved from."""
        return self.length, self.reads_products


MEMORIES = (
    MemberMemory(30, 0.1, False),
    MemberMemory(100, 0.01, False),
    MemberMemory(100, 0.1, False),
    MemberMemory(500, 0.01, False),
    MemberMemory(500, 0.001, True),
    MemberMemory(500, 0.03, True),
)
WARM_MEMORIES = (
    MemberMemory(30, 0.1, False),
    MemberMemory(100, 0.1, False),
)  # for the first examples, which say little


def list_products(numbers: list[int]) -> Places:
    """Return places [2, P] of the features that are multiplied; none if there are too many numbers."""
    if len(numbers) > MOST_NUMBERS:
        return np.zeros((2, 0), np.intp)
    first, second = np.triu_indices(len(numbers), 1)
    places = np.array(numbers, np.intp)
    return np.stack([places[first], places[second]])


def append_products(z_BE: Floats, products_2P: Places, start: int = 2) -> Floats:
    """Return rows with the products appended. start: index of the first feature."""
    if not products_2P.size:
        return z_BE
    first_BP, second_BP = z_BE[:, products_2P[0] + start], z_BE[:, products_2P[1] + start]
    return np.concatenate([z_BE, first_BP * second_BP / PRODUCT_QUANTA], axis=1)


@dataclass(slots=True)
class MemberSolutions:
    """weights_KF, intercept_K: of every member. The rest describes member 0, as in `evidence.Ridge`."""

    weights_KF: Floats
    intercept_K: Floats
    mean_D: Floats
    inverse_DD: Floats
    noise: float
    count: float

    def leverage(self, x_D: Floats) -> float:
        """Return x^T A^-1 x of an input, centred."""
        away_D = x_D - self.mean_D
        return float(away_D @ (self.inverse_DD @ away_D))


class Members:
    """moments: of everything before the first block, E x E."""

    def __init__(
        self, moments: NDArray[np.int64], products_2P: Places, memories: Sequence[MemberMemory] = MEMORIES
    ) -> None:
        self.products_2P = products_2P
        self.width = len(moments) - 2
        self.all_EE = moments.astype(np.float64)
        self.memories = [each for each in memories if products_2P.size or not each.reads_products]
        sizes = {each.moments: each.reads_products * products_2P.shape[1] for each in self.memories}
        self._recent = {key: np.zeros((2 + self.width + more,) * 2) for key, more in sizes.items()}
        self._ridge, self._ridge_due = 0.0, 0.0

    @property
    def count(self) -> int:
        """The number of members."""
        return 1 + len(self.memories)

    def add(self, z_BE: Floats, counted: bool = True) -> None:
        """Add a block of rows that end with their products. counted: not contained in `moments` yet."""
        linear_BE = z_BE[:, : 2 + self.width]
        gram_EE = linear_BE.T @ linear_BE
        if counted:
            self.all_EE += gram_EE
        for (length, with_products), recent_EE in self._recent.items():
            recent_EE *= (1 - 1 / length) ** len(z_BE)
            recent_EE += z_BE.T @ z_BE if with_products else gram_EE

    def solve(self) -> MemberSolutions:
        """Solve every member from the weighted moments."""
        count, mean_E, scatter_EE = centre(self.all_EE)
        if count >= self._ridge_due:
            self._ridge, self._ridge_due = float(solve(self.all_EE).scalars[3]), GROWTH * count
        inverse_DD = np.linalg.inv(scatter_EE[1:, 1:] + self._ridge * np.eye(self.width)).astype(np.float64)
        weights_D = inverse_DD @ scatter_EE[1:, 0]
        left = max(scatter_EE[0, 0] - weights_D @ scatter_EE[1:, 0], count / 12)
        weights_KF = np.zeros((self.count, self.width + self.products_2P.shape[1]))
        weights_KF[:, : self.width] = weights_D
        intercept_K = np.full(self.count, mean_E[0] - weights_D @ mean_E[1:])
        for key, recent_EE in self._recent.items():
            if recent_EE[0, 0]:
                places = [place for place, memory in enumerate(self.memories, 1) if memory.moments == key]
                strengths = [self.memories[place - 1].strength for place in places]
                width = len(recent_EE) - 2
                weights_KF[places, :width], intercept_K[places] = correct(weights_D, recent_EE, strengths)
        return MemberSolutions(weights_KF, intercept_K, mean_E[1:], inverse_DD, left / max(count - 1, 1.0), count)


def centre(moments_EE: Floats) -> tuple[float, Floats, Floats]:
    """Count, means [1 + D] and scatter matrix of (q, x)."""
    count = float(moments_EE[0, 0])
    mean_E = moments_EE[0, 1:] / max(count, 1.0)
    return count, mean_E, moments_EE[1:, 1:] - count * np.outer(mean_E, mean_E)


def correct(weights_D: Floats, recent_EE: Floats, strengths: list[float]) -> tuple[Floats, Floats]:
    """Return weights [S, F] and intercepts [S] for each strength: `weights_D`, and what recent rows say about its errors."""
    _, mean_E, scatter_EE = centre(recent_EE)
    width, all_D = len(mean_E) - 1, len(weights_D)
    errors_F = scatter_EE[1:, 0] - scatter_EE[1:, 1 : 1 + all_D] @ weights_D
    used = np.count_nonzero(recent_EE.diagonal()[2:])  # features whose examples were all retracted must not count
    scale = max(float(scatter_EE[1:, 1:].trace()) / max(int(used), 1), 1.0)
    systems_SFF = np.stack([scatter_EE[1:, 1:]] * len(strengths))
    systems_SFF[:, range(width), range(width)] += scale * np.array(strengths)[:, None]
    weights_SF = np.linalg.solve(systems_SFF, errors_F[:, None])[:, :, 0].astype(np.float64)
    weights_SF[:, :all_D] += weights_D
    return weights_SF, mean_E[0] - weights_SF @ mean_E[1:]
