"""Predictions of a router, solved from its sums: what each route's answer would be worth, cost and take.

    reward of route a = z . (base + contrast_a)      one ridge regression for all routes together

A shared base learns from every rating which questions are hard; a contrast per route only what is different about that route. With
A_a and b_a the sums of route a, and ridges P (base) and Q (contrasts), the contrasts are eliminated:

    L_a = (A_a + Q)^-1      M = P + sum (Q - Q L_a Q)      base = M^-1 sum Q L_a b_a      contrast_a = L_a (b_a - A_a base)

What happened lately may differ from all that happened: a model behind a route is replaced in silence. Where the newest ratings of a
route lie further from their predictions than chance explains, its predictions are shifted towards them (James & Stein 1961).

Shapes: K routes, D features, T targets (cost, time).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.plugins.router.sums import (
    LOG_STEPS,
    NANO_DOLLAR,
    SCALES_D,
    STEPS,
    TARGETS,
    WEIGHT_STEPS,
    WIDTH,
    Integers,
    RouteSums,
)

Floats = NDArray[np.float64]

BASE_RIDGE, CONTRAST_RIDGE = 3.0, 30.0  # of features of unit length
EXPECTED_REWARD = 0.6  # of any answer, before anything is rated
REWARD_CONSTANT_RIDGE = 2.0  # of the constant of the base: ratings that EXPECTED_REWARD counts as
LOG_CONSTANT_RIDGE = 1e-3
CONTRAST_CONSTANT_RIDGE = 1.0
RECENT = 40  # newest ratings of a route that are compared with their predictions
RECENT_COSTS = 40
SURPRISE = 2.5  # standard errors below which a difference is chance
NOISE = 0.1  # least standard deviation of a reward around its prediction


@dataclass(frozen=True, slots=True)
class RouteWeights:
    """Solved predictions of K routes. reward_KD: and cost_KTD: rewards, and logarithms to base 2, per unit of z.

    noise_K: standard deviation of rewards. spread_KT: of the logarithms. rated_K, finished_K: ratings and outcomes.
    shift_K: by how much the newest rewards differ; it is in reward_KD already. has_units_K: whether costs are per unit of price. dollars_K: what all
    answers have cost. base_D, base_TD: of a route without ratings, or without outcomes.
    """

    reward_KD: Floats
    cost_KTD: Floats
    noise_K: Floats
    spread_KT: Floats
    rated_K: Floats
    finished_K: Floats
    shift_K: Floats
    has_units_K: Floats
    dollars_K: Floats
    base_D: Floats
    base_TD: Floats

    def predict_rewards(self, z_BD: Integers) -> Floats:
        """Return expected rewards [B, K], not clipped."""
        rewards_BK: Floats = z_BD @ self.reward_KD.T
        return rewards_BK

    def predict_logs(self, z_BD: Integers) -> Floats:
        """Return expected logarithms of nano-dollars and milliseconds [B, K, T]."""
        logs_BKT: Floats = np.einsum("bd,ktd->bkt", z_BD, self.cost_KTD)
        return logs_BKT


def solve(sums: Sequence[RouteSums], label_gram_DD: Integers, label_weight: int) -> RouteWeights:
    """Solve the predictions of all routes. label_gram_DD: sum of w z z^T over labels, which rate every route."""
    count = len(sums)
    start_D = np.zeros(WIDTH)
    start_D[0] = EXPECTED_REWARD * SCALES_D[0]
    if not count:
        return RouteWeights(
            np.zeros((0, WIDTH)),
            np.zeros((0, TARGETS, WIDTH)),
            np.zeros(0),
            np.zeros((0, TARGETS)),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0),
            start_D,
            np.zeros((TARGETS, WIDTH)),
        )
    outer_DD = np.outer(SCALES_D, SCALES_D) / WEIGHT_STEPS
    grams = [(each.gram_DD + label_gram_DD) * outer_DD for each in sums]
    moments = [(each.moment_D + STEPS * each.right_D) * SCALES_D / (STEPS * WEIGHT_STEPS) for each in sums]
    for each, gram_DD in zip(sums, grams, strict=True):
        if each.reward_inverse_DD is None:
            each.reward_inverse_DD = invert(gram_DD)
    inverses = [each.reward_inverse_DD for each in sums if each.reward_inverse_DD is not None]
    centred = [
        (moment_D - EXPECTED_REWARD * gram_DD[0])[:, None] for gram_DD, moment_D in zip(grams, moments, strict=True)
    ]
    base_DT, rewards_KDT = solve_contrasts(grams, centred, inverses, REWARD_CONSTANT_RIDGE)
    reward_KD = rewards_KDT[:, :, 0]
    reward_KD[:, 0] += EXPECTED_REWARD
    noise_K = np.array(
        [
            measure_noise(each, gram_DD, moment_D, weights_D, label_weight)
            for each, gram_DD, moment_D, weights_D in zip(sums, grams, moments, reward_KD, strict=True)
        ]
    ).reshape(count)
    shift_K = np.array([find_shift(*each) for each in zip(sums, reward_KD, noise_K, strict=True)]).reshape(count)
    reward_KD[:, 0] += shift_K
    base_TD, cost_KTD, spread_KT = solve_costs(sums)
    return RouteWeights(
        reward_KD * SCALES_D,
        cost_KTD * SCALES_D,
        noise_K,
        spread_KT,
        np.array([(each.weight + label_weight) / WEIGHT_STEPS for each in sums]),
        np.array([each.outcomes for each in sums], np.float64),
        shift_K,
        np.array([2 * each.units > each.outcomes for each in sums], np.float64),
        np.array([each.nano_dollars * NANO_DOLLAR for each in sums], np.float64),
        base_DT[:, 0] * SCALES_D + start_D,
        base_TD * SCALES_D,
    )


def build_ridge(strength: float, of_constant: float) -> Floats:
    """Return the ridge of each scaled feature [D]."""
    ridge_D = np.full(WIDTH, strength)
    ridge_D[0] = of_constant
    return ridge_D


def invert(gram_DD: Floats) -> Floats:
    """Return L = (A + Q)^-1 of one route. It is kept until the sums of the route change: a thumb changes those of one route only."""
    regular_DD = gram_DD + np.diag(build_ridge(CONTRAST_RIDGE, CONTRAST_CONSTANT_RIDGE))
    return np.asarray(np.linalg.inv(regular_DD), np.float64)


def solve_contrasts(
    grams: Sequence[Floats], moments: Sequence[Floats], inverses: Sequence[Floats], of_constant: float
) -> tuple[Floats, Floats]:
    """Return the base [D, T], and base + contrast of each route [K, D, T], of scaled features. moments: [D, T] of each route.

    inverses: from `invert`. of_constant: the ridge of the base's constant.
    """
    base_D, contrast_D = build_ridge(BASE_RIDGE, of_constant), build_ridge(CONTRAST_RIDGE, CONTRAST_CONSTANT_RIDGE)
    joint_DD, joint_DT = np.diag(base_D), np.zeros((WIDTH, moments[0].shape[1]))
    for inverse_DD, moment_DT in zip(inverses, moments, strict=True):
        joint_DD -= contrast_D[:, None] * inverse_DD * contrast_D
        joint_DD[np.diag_indices(WIDTH)] += contrast_D
        joint_DT += contrast_D[:, None] * (inverse_DD @ moment_DT)
    shared_DT: Floats = np.asarray(np.linalg.solve(joint_DD, joint_DT), np.float64)
    rows = zip(inverses, grams, moments, strict=True)
    return shared_DT, np.array([shared_DT + inverse @ (moment - gram @ shared_DT) for inverse, gram, moment in rows])


def measure_noise(sums: RouteSums, gram_DD: Floats, moment_D: Floats, weights_D: Floats, label_weight: int) -> float:
    """Return the standard deviation of rewards around their predictions."""
    weight = (sums.weight + label_weight) / WEIGHT_STEPS
    squares = (sums.squares / STEPS**2 + sums.right) / WEIGHT_STEPS
    left = float(squares - 2 * weights_D @ moment_D + weights_D @ gram_DD @ weights_D)
    return max(math.sqrt(max(left, 0.0) / max(weight, 1.0)), NOISE)


def find_shift(sums: RouteSums, weights_D: Floats, noise: float) -> float:
    """Return by how much the newest ratings of a route lie above their predictions, as far as chance does not explain it."""
    weight, targets, z_D = sums.recent.sum_newest(RECENT * WEIGHT_STEPS)
    if weight <= 0 or weight >= sums.weight:
        return 0.0
    count = weight / WEIGHT_STEPS
    gap = targets[0] / STEPS / weight - weights_D @ (z_D * SCALES_D) / weight
    return float(gap * max(0.0, 1 - (SURPRISE * noise / math.sqrt(count) / max(abs(gap), 1e-12)) ** 2))


def solve_costs(sums: Sequence[RouteSums]) -> tuple[Floats, Floats, Floats]:
    """Return weights of scaled features for the logarithms of cost and time: the base [T, D], and each route's [K, T, D].

    And their spread [K, T].
    """
    outer_DD = np.outer(SCALES_D, SCALES_D)
    grams = [each.cost_gram_DD.astype(np.float64) * outer_DD for each in sums]
    moments: list[Floats] = [each.cost_moment_DT * SCALES_D[:, None] / LOG_STEPS for each in sums]
    for each, gram_DD in zip(sums, grams, strict=True):
        if each.cost_inverse_DD is None:
            each.cost_inverse_DD = invert(gram_DD)
    inverses = [each.cost_inverse_DD for each in sums if each.cost_inverse_DD is not None]
    base_DT, weights_KDT = solve_contrasts(grams, moments, inverses, LOG_CONSTANT_RIDGE)
    spread_KT = np.zeros((len(sums), TARGETS))
    for k, each in enumerate(sums):
        if each.outcomes:
            weights_DT = weights_KDT[k]
            left_T = each.cost_squares_T / LOG_STEPS**2 - 2 * np.einsum("dt,dt->t", weights_DT, moments[k])
            left_T += np.einsum("dt,de,et->t", weights_DT, grams[k], weights_DT, optimize=True)
            spread_KT[k] = np.sqrt(np.maximum(left_T, 0.0) / each.outcomes)
            count, targets_T, z_D = each.recent_costs.sum_newest(RECENT_COSTS)
            if 0 < count < each.outcomes:
                weights_DT[0] += targets_T / LOG_STEPS / count - weights_DT.T @ (z_D * SCALES_D) / count
    return base_DT.T, weights_KDT.transpose(0, 2, 1), spread_KT
