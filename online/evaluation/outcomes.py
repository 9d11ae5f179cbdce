"""What a candidate would have earned: a ridge regression for each action, on exact sums.

    features -> int8 x -> moments M = sum z z^T over z = (1, reward, x), per action -> solved (models/regressor.py)

The strength of each ridge is the one that makes its own data most likely (MacKay 1992). Sums can be subtracted, so a
model that has not seen a fold is the whole less that fold, exactly (`cross_fitted`), and one that knows only what came
before is the sum of what came before (`prequential`). Folds are stretches of the log, one after another: what is close
in time is alike, and does not stand on both sides.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.evaluation.decisions import Decisions, Floats, Places
from online.models.encoder import TEXT_WIDTH, Columns, parse_row
from online.models.inputs import BUMPS_UP_TO
from online.models.regressor import Ridge, solve

REWARD_QUANTA = 2**12  # a reward of 1; with 127^2 beside it sums of 2^29 rows are exact in float64
SEEN_LEAST = 10  # rows: a category that is rarer is no feature
MOST_COLUMNS = 1_024
FIRST_FIT = 50  # decisions: no prequential model before there are so many; the next when there is a tenth more

Features = NDArray[np.int8]
Tick = Callable[[str, int, int], None]


def context(decisions: Decisions) -> Features:
    """int8 [N, D], scaled by the whole log: rewards have no part in it."""
    match decisions.input:
        case "text":
            return np.frombuffer(b"".join(decisions.features), np.int8).reshape(-1, TEXT_WIDTH)
        case "vector":
            values_ND = np.frombuffer(b"".join(decisions.features), np.float64).reshape(len(decisions), -1)
            columns = Columns(values_ND.shape[1] <= BUMPS_UP_TO, MOST_COLUMNS)
            columns.admit_vectors(values_ND, None)
            return columns.vectors(values_ND)
        case "table":
            return tabled([parse_row(data) for data in decisions.features])
        case _:
            return np.zeros((len(decisions), 0), np.int8)


def tabled(rows: list[dict[str, float | str]]) -> Features:
    seen = Counter((name, value) for row in rows for name, value in row.items() if isinstance(value, str))
    kept = [
        {name: value for name, value in row.items() if isinstance(value, float) or seen[name, value] >= SEEN_LEAST}
        for row in rows
    ]
    columns = Columns(True, MOST_COLUMNS)
    columns.admit(kept, None)
    return columns.features(kept)


class Rewards:
    """The rows z [N, 2 + D] of a log, and the models of any part of them."""

    def __init__(self, decisions: Decisions) -> None:
        x_ND = context(decisions).astype(np.float64)
        quanta_N = np.rint(decisions.rewards_N * REWARD_QUANTA)
        self.z_NE = np.column_stack([np.ones(len(decisions)), quanta_N, x_ND])
        self.action_N = decisions.action_M[decisions.chosen_N]

    def moments(self, rows: Places) -> Tensor:
        z = torch.from_numpy(self.z_NE[rows])
        return (z.T @ z).to(torch.int64)

    def predicted(self, ridge: Ridge, rows: Places) -> Floats:
        """In [0, 1]."""
        away = self.z_NE[rows, 2:] - ridge.mean
        reward: Floats = np.clip((ridge.scalars[1] + away @ ridge.weights) / REWARD_QUANTA, 0.0, 1.0)
        return reward

    def believed(self, ridge: Ridge, rows: Places) -> tuple[Floats, Floats]:
        """Mean rewards and how unsure each is, as a standard deviation of the mean."""
        count, _, noise, _ = ridge.scalars
        away = self.z_NE[rows, 2:] - ridge.mean
        leverage = ((away @ ridge.spread) ** 2).sum(1)
        return self.predicted(ridge, rows), np.sqrt(noise * (1 / count + leverage)) / REWARD_QUANTA


def cross_fitted(decisions: Decisions, folds: int, tick: Tick) -> Floats:
    """[M]: the reward of each candidate, by models that have not seen its decision's fold."""
    rewards, of_M, predicted_M = Rewards(decisions), decisions.of_M, np.zeros(len(decisions.action_M))
    fold_N = np.arange(len(decisions)) * folds // len(decisions)
    by_action = list(grouped(decisions.action_M))
    for done, (action, candidates) in enumerate(by_action):
        tick("rewards of each action", done, len(by_action))
        rows = np.flatnonzero(rewards.action_N == action)
        parts = [rewards.moments(rows[fold_N[rows] == fold]) for fold in range(folds)]
        whole = torch.stack(parts).sum(0)
        for fold, part in enumerate(parts):
            asked = candidates[fold_N[of_M[candidates]] == fold]
            if len(asked):
                predicted_M[asked] = others_or_all(rewards, whole - part, fold_N != fold, of_M[asked])
    return predicted_M


def others_or_all(rewards: Rewards, moments: Tensor, seen_N: NDArray[np.bool_], asked: Places) -> Floats:
    """By the action's own model; where it was never chosen, the mean reward of all."""
    if moments[0, 0] > 0:
        return rewards.predicted(solve(moments), asked)
    mean = rewards.z_NE[seen_N, 1].mean() / REWARD_QUANTA if seen_N.any() else 0.5
    return np.full(len(asked), mean)


def prequential(decisions: Decisions, tick: Tick) -> tuple[Floats, Floats]:
    """[M], [M]: the reward of each candidate and how unsure that is, by what earlier decisions earned.

    Where an action was never chosen before, any reward is as likely: 1/2, with the deviation of a uniform one.
    """
    rewards, of_M = Rewards(decisions), decisions.of_M
    mean_M, doubt_M = np.full(len(of_M), 0.5), np.full(len(of_M), 12**-0.5)
    known = dict[int, Tensor]()
    for before, start, stop in stretches(len(decisions)):
        tick("learning rewards", start, len(decisions))
        learned = np.arange(before, start)
        for action, places in grouped(rewards.action_N[learned]):
            known[action] = known.get(action, 0) + rewards.moments(learned[places])
        first, last = decisions.starts_N1[[start, stop]]
        for action, places in grouped(decisions.action_M[first:last]):
            if action in known:
                asked = first + places
                mean_M[asked], doubt_M[asked] = rewards.believed(solve(known[action]), of_M[asked])
    return mean_M, doubt_M


def stretches(count: int) -> Iterator[tuple[int, int, int]]:
    """(before, start, stop): what lies from start to stop is judged by what came before start."""
    before, start = 0, min(FIRST_FIT, count)
    while start < count:
        stop = min(start + max(FIRST_FIT, start // 10), count)
        yield before, start, stop
        before, start = start, stop


def grouped(actions: Places) -> Iterator[tuple[int, Places]]:
    """Each action and where it stands."""
    order = np.argsort(actions, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(actions[order])) + 1):
        if len(places):
            yield int(actions[places[0]]), places
