"""Federated averaging of a softmax regression: FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020).

    weights --sent to the clients that stay--> local steps --weights of each--> average, by examples --> weights

A client has few examples, so what its steps add to the weights is x^T a: scores follow from the coefficients a and from the
products of its examples, and nothing as large as the weights is computed for each client. Needs NumPy only, because
`flower.py` runs it in Flower's own environment.

Shapes: K clients, S of them that stay, E examples of a client, D features with a constant, C classes, N test rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LOCAL_STEPS = 5

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Problem:
    """weight_KE: 1 / examples of the client, 0 beyond them."""

    x_KED: Floats
    class_K: NDArray[np.int64]
    weight_KE: Floats
    x_ND: Floats
    class_N: NDArray[np.int64]
    class_count: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """drop: the share of the clients that is gone in each round. proximal: FedProx's pull to the weights that were sent."""

    rounds: int
    drop: float
    seed: int
    rate: float
    proximal: float = 0.0


# (weights that were sent [D, C], x [S, E, D], coefficients [S, E, C], examples of each [S]) -> their average [D, C]
Average = Callable[[Floats, Floats, Floats, NDArray[np.int64]], Floats]


def train(problem: Problem, schedule: Schedule, average: Average) -> list[float]:
    """The accuracy in percent after each round."""
    clients, _, width = problem.x_KED.shape
    random, found = np.random.default_rng(schedule.seed), list[float]()
    right_KC = np.eye(problem.class_count, dtype=np.float32)[problem.class_K]
    products_KEE = problem.x_KED @ problem.x_KED.transpose(0, 2, 1)
    examples_K = (problem.weight_KE > 0).sum(1)
    sent_DC = np.zeros((width, problem.class_count), np.float32)
    for _ in range(schedule.rounds):
        stays = random.permutation(clients)[round(schedule.drop * clients) :]
        x_SED = problem.x_KED[stays]
        a_SEC = train_locally(x_SED @ sent_DC, products_KEE[stays], right_KC[stays], problem.weight_KE[stays], schedule)
        sent_DC = average(sent_DC, x_SED, a_SEC, examples_K[stays])
        found.append(round(100 * float(((problem.x_ND @ sent_DC).argmax(1) == problem.class_N).mean()), 2))
    return found


def train_locally(
    sent_SEC: Floats, products_SEE: Floats, right_SC: Floats, weight_SE: Floats, schedule: Schedule
) -> Floats:
    """The coefficients after the local steps. sent_SEC: scores of the weights that were sent."""
    a_SEC = np.zeros_like(sent_SEC)
    for _ in range(LOCAL_STEPS):
        scores_SEC = sent_SEC + products_SEE @ a_SEC
        odds_SEC = np.exp(scores_SEC - scores_SEC.max(2, keepdims=True))
        error_SEC = (odds_SEC / odds_SEC.sum(2, keepdims=True) - right_SC[:, None]) * weight_SE[:, :, None]
        a_SEC *= 1 - schedule.rate * schedule.proximal
        a_SEC -= schedule.rate * error_SEC
    return a_SEC


def average_directly(sent_DC: Floats, x_SED: Floats, a_SEC: Floats, examples_S: NDArray[np.int64]) -> Floats:
    share_S = (examples_S / examples_S.sum()).astype(np.float32)
    added_DC: Floats = np.tensordot(x_SED, a_SEC * share_S[:, None, None], ((0, 1), (0, 1)))
    return sent_DC + added_DC
