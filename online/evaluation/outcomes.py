"""What a candidate would have earned: a ridge regression for each action, on exact sums.

    features -> int8 x -> moments M = sum z z^T over z = (1, reward, x), per action -> solved (models/regressor.py)

The log is cut into stretches, one after another. No decision is judged by a model that has seen its own stretch:

    forward    by the stretches before it. For the doubly robust estimate: whatever the model is, each decision's term
               is then right on average given all before it, so that the interval is true, for logs too whose policy
               learned meanwhile. (Between folds that judge each other errors agree: measured in benchmarks/README.md.)
    others     by all other stretches. For the direct method, which wants as much to learn from as there is.

The strength of each ridge is the one that makes its own data most likely (MacKay 1992).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.evaluation.decisions import Decisions, Floats, Places
from online.models.encoder import TEXT_WIDTH, Columns, parse_row
from online.models.regressor import Ridge, solve

REWARD_QUANTA = 2**12  # a reward of 1; its square times 2^4 is exact in float64 for weights that sum to 2^25
WEIGHT_QUANTA = 16
SEEN_LEAST = 10  # rows: a category that is rarer is no feature
MOST_COLUMNS = 1_024
FIRST, GROWTH = 25, 0.25  # decisions before the first model; the next when there are a quarter more
BENDS_UP_TO = 16  # numbers: beyond, a line for each is as much as so few rewards can tell

Features = NDArray[np.int8]
Tick = Callable[[str, int, int], None]


def context(decisions: Decisions) -> Features:
    """int8 [N, D], scaled by the whole log: rewards have no part in it."""
    match decisions.input:
        case "text":
            return np.frombuffer(b"".join(decisions.features), np.int8).reshape(-1, TEXT_WIDTH)
        case "vector":
            values_ND = np.frombuffer(b"".join(decisions.features), np.float64).reshape(len(decisions), -1)
            columns = Columns(values_ND.shape[1] <= BENDS_UP_TO, MOST_COLUMNS)
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
    numbers = {name for row in kept for name, value in row.items() if isinstance(value, float)}
    columns = Columns(len(numbers) <= BENDS_UP_TO, MOST_COLUMNS)
    columns.admit(kept, None)
    return columns.features(kept)


class Rewards:
    """The rows z [N, 2 + D] of a log, and the models of any part of them."""

    def __init__(self, decisions: Decisions) -> None:
        x_ND = context(decisions).astype(np.float64)
        quanta_N = np.rint(decisions.rewards_N * REWARD_QUANTA)
        self.z_NE = np.column_stack([np.ones(len(decisions)), quanta_N, x_ND])
        self.action_N = decisions.action_M[decisions.chosen_N]

    def moments(self, rows: Places, times_N: Floats) -> Tensor:
        """Exact, in integers; times: how often each row counts."""
        z = torch.from_numpy(self.z_NE[rows])
        return ((z * torch.from_numpy(times_N[rows])[:, None]).T @ z).to(torch.int64)

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


@dataclass(frozen=True, slots=True)
class Question:
    """Candidates [M'] that are to be judged by one model, or where there is none, by the mean of what it would know."""

    asked: Places
    ridge: Ridge | None
    mean: float


def questions(
    decisions: Decisions,
    rewards: Rewards,
    times_N: Floats,
    asked_M: NDArray[np.bool_],
    stretch_N: Places,
    forward: bool,
    tick: Tick,
) -> Iterator[Question]:
    """times: how often each decision counts, in whole numbers. asked: of which candidates anything is to be said."""
    of_M, count = decisions.whose, int(stretch_N[-1]) + 1

    def seen(parts: Any) -> Any:
        return parts.cumsum(0) - parts if forward else parts.sum(0) - parts

    def sums(values: Floats, rows: Places) -> Floats:
        found: Floats = seen(np.bincount(stretch_N[rows], values[rows], count))
        return found

    every = np.arange(len(decisions))
    total_S, reward_S = sums(times_N, every), sums(times_N * rewards.z_NE[:, 1], every)
    mean_S = np.where(total_S > 0, reward_S / np.maximum(total_S, 1) / REWARD_QUANTA, 0.5)
    by_action = list(grouped(decisions.action_M))
    for done, (action, candidates) in enumerate(by_action):
        tick("rewards of each action", done, len(by_action))
        asked = candidates[asked_M[candidates]]
        if not len(asked):
            continue
        rows = np.flatnonzero((rewards.action_N == action) & (times_N > 0))
        own_S, squares_S = sums(times_N, rows), sums(times_N**2, rows)
        moments = seen(torch.stack([rewards.moments(rows[stretch_N[rows] == s], times_N) for s in range(count)]))
        for stretch, places in grouped(stretch_N[of_M[asked]]):
            known = own_S[stretch] > 0
            worth = own_S[stretch] / squares_S[stretch] if known else 0.0
            ridge = solve(moments[stretch].to(torch.float64) * worth) if known else None
            yield Question(asked[places], ridge, float(mean_S[stretch]))


def fitted(
    decisions: Decisions, chances_M: Floats, weights_N: Floats, stretch_N: Places, forward: bool, tick: Tick
) -> Floats:
    """[M]: the reward of each candidate that a target may choose.

    A decision counts as its weight says, since what the target would do is what the models must know about; it counts
    in whole parts of 1 / WEIGHT_QUANTA, at most sqrt(N), so that the sums are exact. They are then scaled to the number
    of rows they are worth, (sum w)^2 / sum w^2: evidence must not be counted twice.
    """
    rewards, of_M, predicted_M = Rewards(decisions), decisions.whose, np.zeros(len(decisions.action_M))
    times_N = np.rint(WEIGHT_QUANTA * np.minimum(weights_N, len(decisions) ** 0.5))
    asked_M = chances_M > 0
    asked_M[decisions.chosen_N[weights_N > 0]] = True
    for each in questions(decisions, rewards, times_N, asked_M, stretch_N, forward, tick):
        predicted_M[each.asked] = each.mean if each.ridge is None else rewards.predicted(each.ridge, of_M[each.asked])
    return predicted_M


def prequential(decisions: Decisions, tick: Tick) -> tuple[Floats, Floats]:
    """[M], [M]: the reward of each candidate and how unsure that is, by what earlier decisions earned.

    Where an action was never chosen before, any reward is as likely: 1/2, with the deviation of a uniform one.
    """
    rewards, of_M = Rewards(decisions), decisions.whose
    mean_M, doubt_M = np.full(len(of_M), 0.5), np.full(len(of_M), 12**-0.5)
    ones_N, all_M = np.ones(len(decisions)), np.ones(len(of_M), np.bool_)
    for each in questions(decisions, rewards, ones_N, all_M, growing(len(decisions)), True, tick):
        if each.ridge is not None:
            mean_M[each.asked], doubt_M[each.asked] = rewards.believed(each.ridge, of_M[each.asked])
    return mean_M, doubt_M


def growing(count: int) -> Places:
    """[N]: which stretch each belongs to: FIRST decisions, then each time a share more than there were."""
    cuts = [0]
    while cuts[-1] < count:
        cuts.append(cuts[-1] + max(FIRST, int(cuts[-1] * GROWTH)))
    return np.searchsorted(np.array(cuts), np.arange(count), side="right") - 1


def folds(count: int, parts: int) -> Places:
    """[N]: which of so many equal stretches each belongs to."""
    return np.arange(count) * min(parts, count) // count


def grouped(actions: Places) -> Iterator[tuple[int, Places]]:
    """Each action and where it stands."""
    order = np.argsort(actions, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(actions[order])) + 1):
        if len(places):
            yield int(actions[places[0]]), places
