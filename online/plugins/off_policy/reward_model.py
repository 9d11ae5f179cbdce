"""Predicts the reward of each candidate: a ridge regression for each action, on exact sums.

    features -> int8 x -> moments M = sum z z^T over z = (1, reward, x), per action -> solve (plugins/regression)

The log is cut into consecutive stretches. No decision is predicted by a model that has seen its own
stretch:

    forward    by a model of the earlier stretches, for the doubly robust estimate: each decision's
               term is then unbiased given all decisions before it, so the interval is valid even if
               the logging policy was learning. (Folds that predict each other make correlated
               errors: measured in benchmarks/README.md.)
    others     by a model of all other stretches, for the direct method, which needs all the data.

The ridge penalty is the one that maximizes the evidence (MacKay 1992).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.io.progress import Progress
from online.models.encoders.columns import Columns
from online.models.encoders.text import TEXT_WIDTH
from online.models.encoders.values import Row, parse_row
from online.plugins.off_policy.decisions import Decisions, Floats, Indices
from online.plugins.regression.evidence import Ridge, solve

REWARD_QUANTA = 2**12  # for a reward of 1; its square times 2^4 is exact in float64 up to a total weight of 2^25
WEIGHT_QUANTA = 16
MIN_SEEN = 10  # rows: a rarer category is not a feature
MAX_COLUMNS = 1_024
FIRST_STRETCH, GROWTH = 25, 0.25  # decisions before the first model; each next model after a quarter more
MAX_BENT_NUMBERS = 16  # number columns: with more, each gets a linear term only

Features = NDArray[np.int8]


def encode_context(decisions: Decisions) -> Features:
    """Return features int8 [N, D], scaled by the whole log; rewards are not used."""
    match decisions.input:
        case "text":
            return np.frombuffer(b"".join(each[:TEXT_WIDTH] for each in decisions.features), np.int8).reshape(
                -1, TEXT_WIDTH
            )
        case "vector":
            values_ND = np.frombuffer(b"".join(decisions.features), np.float64).reshape(len(decisions), -1)
            columns = Columns(values_ND.shape[1] <= MAX_BENT_NUMBERS, MAX_COLUMNS)
            columns.admit_vectors(values_ND, None)
            return columns.vectors(values_ND)
        case "table":
            return encode_table([parse_row(data) for data in decisions.features])
        case _:
            return np.zeros((len(decisions), 0), np.int8)


def encode_table(rows: Sequence[Row]) -> Features:
    """Return the features [N, D] of rows; rare categories share a column."""
    counts = Counter((name, value) for row in rows for name, value in row.items() if isinstance(value, str))
    kept = [
        {name: value for name, value in row.items() if isinstance(value, float) or counts[name, value] >= MIN_SEEN}
        for row in rows
    ]
    numbers = {name for row in kept for name, value in row.items() if isinstance(value, float)}
    columns = Columns(len(numbers) <= MAX_BENT_NUMBERS, MAX_COLUMNS)
    columns.admit(kept, None)
    return columns.features(kept)


class RewardRows:
    """The rows z [N, 2 + D] of a log, and models of any part of them."""

    def __init__(self, decisions: Decisions) -> None:
        x_ND = encode_context(decisions).astype(np.float64)
        quanta_N = np.rint(decisions.rewards_N * REWARD_QUANTA)
        self.z_NE = np.column_stack([np.ones(len(decisions)), quanta_N, x_ND])
        self.action_N = decisions.action_M[decisions.chosen_N]

    def moments(self, rows: Indices, times_N: Floats) -> NDArray[np.int64]:
        """Return the exact integer moments of some rows. times: how often each row counts."""
        z = self.z_NE[rows]
        moments: NDArray[np.int64] = ((z * times_N[rows, None]).T @ z).astype(np.int64)
        return moments

    def predicted(self, ridge: Ridge, rows: Indices) -> Floats:
        """Predict rewards, in [0, 1]."""
        away = self.z_NE[rows, 2:] - ridge.mean
        reward: Floats = np.clip((ridge.scalars[1] + away @ ridge.weights) / REWARD_QUANTA, 0.0, 1.0)
        return reward

    def believed(self, ridge: Ridge, rows: Indices) -> tuple[Floats, Floats]:
        """Predict mean rewards, and the standard deviation of each mean."""
        count, _, noise, _ = ridge.scalars
        away = self.z_NE[rows, 2:] - ridge.mean
        leverage = ((away @ ridge.spread) ** 2).sum(1)
        return self.predicted(ridge, rows), np.sqrt(noise * (1 / count + leverage)) / REWARD_QUANTA


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """Candidates [M'] predicted by one model, or by the mean reward of its data if there is no model."""

    places: Indices
    ridge: Ridge | None
    mean: float


def group_candidates(
    decisions: Decisions,
    rewards: RewardRows,
    times_N: Floats,
    needed_M: NDArray[np.bool_],
    stretch_N: Indices,
    forward: bool,
    tick: Progress,
) -> Iterator[CandidateGroup]:
    """Group the candidates by the model that predicts them.

    times: how often each decision counts, an integer. needed: the candidates to predict.
    """
    of_M, count = decisions.owners, int(stretch_N[-1]) + 1

    def accumulate(parts: Any) -> Any:
        return parts.cumsum(0) - parts if forward else parts.sum(0) - parts

    def sums(values: Floats, rows: Indices) -> Floats:
        totals: Floats = accumulate(np.bincount(stretch_N[rows], values[rows], count))
        return totals

    all_rows = np.arange(len(decisions))
    total_S, reward_S = sums(times_N, all_rows), sums(times_N * rewards.z_NE[:, 1], all_rows)
    mean_S = np.where(total_S > 0, reward_S / np.maximum(total_S, 1) / REWARD_QUANTA, 0.5)
    by_action = list(group_indices(decisions.action_M))
    for done, (action, candidates) in enumerate(by_action):
        tick("rewards of each action", done, len(by_action))
        needed = candidates[needed_M[candidates]]
        if not len(needed):
            continue
        rows = np.flatnonzero((rewards.action_N == action) & (times_N > 0))
        own_S, squares_S = sums(times_N, rows), sums(times_N**2, rows)
        moments = accumulate(np.stack([rewards.moments(rows[stretch_N[rows] == s], times_N) for s in range(count)]))
        for stretch, places in group_indices(stretch_N[of_M[needed]]):
            has_data = own_S[stretch] > 0
            scale = own_S[stretch] / squares_S[stretch] if has_data else 0.0
            ridge = solve(moments[stretch] * scale) if has_data else None
            yield CandidateGroup(needed[places], ridge, float(mean_S[stretch]))


def predict_rewards(
    decisions: Decisions, chances_M: Floats, weights_N: Floats, stretch_N: Indices, forward: bool, tick: Progress
) -> Floats:
    """Predict the reward of each candidate [M] that a target may choose.

    A decision counts by its importance weight, so that the models fit what the target would choose.
    Weights are rounded to multiples of 1 / WEIGHT_QUANTA, at most sqrt(N), so that the sums are exact.
    The sums are then scaled to the effective number of rows, (sum w)^2 / sum w^2.
    """
    rewards, of_M, predicted_M = RewardRows(decisions), decisions.owners, np.zeros(len(decisions.action_M))
    times_N = np.rint(WEIGHT_QUANTA * np.minimum(weights_N, len(decisions) ** 0.5))
    needed_M = chances_M > 0
    needed_M[decisions.chosen_N[weights_N > 0]] = True
    for group in group_candidates(decisions, rewards, times_N, needed_M, stretch_N, forward, tick):
        predicted_M[group.places] = (
            group.mean if group.ridge is None else rewards.predicted(group.ridge, of_M[group.places])
        )
    return predicted_M


def predict_prequentially(decisions: Decisions, tick: Progress) -> tuple[Floats, Floats]:
    """Predict the reward of each candidate [M] from earlier decisions, and its standard deviation [M].

    An action that was never chosen before gets those of a uniform distribution: 1/2 and 12**-0.5.
    """
    rewards, of_M = RewardRows(decisions), decisions.owners
    mean_M, doubt_M = np.full(len(of_M), 0.5), np.full(len(of_M), 12**-0.5)
    ones_N, all_M = np.ones(len(decisions)), np.ones(len(of_M), np.bool_)
    for group in group_candidates(
        decisions, rewards, ones_N, all_M, assign_growing_stretches(len(decisions)), True, tick
    ):
        if group.ridge is not None:
            mean_M[group.places], doubt_M[group.places] = rewards.believed(group.ridge, of_M[group.places])
    return mean_M, doubt_M


def assign_growing_stretches(count: int) -> Indices:
    """Return the stretch of each decision [N]: FIRST_STRETCH decisions, then GROWTH times those before."""
    cuts = [0]
    while cuts[-1] < count:
        cuts.append(cuts[-1] + max(FIRST_STRETCH, int(cuts[-1] * GROWTH)))
    return np.searchsorted(np.array(cuts), np.arange(count), side="right") - 1


def assign_folds(count: int, parts: int) -> Indices:
    """Return the stretch of each decision [N], in equal stretches."""
    return np.arange(count) * min(parts, count) // count


def group_indices(actions: Indices) -> Iterator[tuple[int, Indices]]:
    """Yield each action and its places."""
    order = np.argsort(actions, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(actions[order])) + 1):
        if len(places):
            yield int(actions[places[0]]), places
