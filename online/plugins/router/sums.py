"""The memory of a router: integer sums over ratings and outcomes, in any order the same.

    a rating of a route   w, q, z  --> gram sum w z z^T, moment sum w q z          what answers are worth
    a label               z        --> the same for every route: 1 for the right one, 0 for the others
    an outcome            z, c, t  --> gram sum z z^T, moment sum z (c, t)         what answers cost, and how long they take
    both                  offset   --> sums of a block of the log: what is newer than a change of the world, and what was spent

z: the constant, the plain numbers and those of the text. q: a reward in steps of 1 / STEPS.
w: the weight of its signal in steps of 1 / WEIGHT_STEPS. c, t: logarithms of nano-dollars and milliseconds in steps of 1 / LOG_STEPS.

Addition of integers commutes: order, batches and crashes change nothing, and un-learning subtracts.

Shapes: B examples, D = 401 features, T = 2 targets of an outcome (c, t).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray
from online.models.encoders.text import TEXT_WIDTH
from online.plugins.router.inputs import PLAIN, PLAIN_SCALE, RoutedInput

Integers = NDArray[np.int64]

CONSTANT = 64  # the value of the constant feature
PLAIN_WIDTH = 1 + len(PLAIN)
WIDTH = PLAIN_WIDTH + TEXT_WIDTH
STEPS = 100
WEIGHT_STEPS = 16
LOG_STEPS = 64
BLOCK = 64  # events of the log that one block covers
BLOCKS = 512  # that are kept of a route, 3 kB each; those that answer are the few newest of them
TARGETS = 2  # of an outcome: cost and time


class RatedAnswer(NamedTuple):
    """One rating, ready to be summed. weight: in steps, signed to subtract."""

    route: str
    offset: int
    features: RoutedInput
    reward: float
    weight: int


class FinishedAnswer(NamedTuple):
    """The price and time of one answer. cost: US dollars. seconds: until it was complete. unit: level of the prices then; 0 if it is not known."""

    route: str
    offset: int
    features: RoutedInput
    cost: float
    seconds: float
    unit: float = 0.0


def stack(inputs: Sequence[RoutedInput]) -> Integers:
    """Return the features of inputs, int64 [B, D]."""
    z_BD = np.empty((len(inputs), WIDTH), np.int64)
    z_BD[:, 0] = CONSTANT
    for row_D, each in zip(z_BD, inputs, strict=True):
        row_D[1:PLAIN_WIDTH], row_D[PLAIN_WIDTH:] = each.plain_P, each.text_D
    return z_BD


SCALES_D = np.concatenate([[1 / CONSTANT], np.full(len(PLAIN), 1 / PLAIN_SCALE), np.full(TEXT_WIDTH, 1 / 512)])


def to_steps(value: float, unit: float) -> int:
    """Return the logarithm of a cost or a time in steps; value and unit: in the same unit, below which all count as equal."""
    return round(LOG_STEPS * math.log2(max(value / unit, 1.0)))


NANO_DOLLAR, MILLISECOND = 1e-9, 1e-3


@dataclass(slots=True)
class BlockSums:
    """Sums of the newest examples of one route, by block of the log. weight, q: numbers. z: [width]."""

    width: int
    blocks: dict[int, tuple[int, AnyArray, Integers]] = field(default_factory=dict)

    def add(self, offset: int, weight: int, targets: AnyArray, z_D: Integers) -> None:
        """Add an example (targets and z times its weight); of a negative weight, subtract it."""
        place = offset // BLOCK
        if weight < 0 and place not in self.blocks:
            return  # its block was dropped
        count, before, sum_D = self.blocks.get(place, (0, np.zeros_like(targets), np.zeros(self.width, np.int64)))
        count, after, sum_D = count + weight, before + weight * targets, sum_D + weight * z_D
        if count or after.any() or sum_D.any():
            self.blocks[place] = count, after, sum_D
            if len(self.blocks) > BLOCKS:
                del self.blocks[min(self.blocks)]
        else:
            self.blocks.pop(place, None)

    def sum_newest(self, least: int) -> tuple[int, AnyArray, Integers]:
        """Return the sums of the newest blocks that together have this weight, or of all."""
        count, targets, sum_D = 0, np.zeros(TARGETS, np.int64), np.zeros(self.width, np.int64)
        for place in sorted(self.blocks, reverse=True):
            more, of_block, z_D = self.blocks[place]
            count, targets, sum_D = count + more, targets + of_block, sum_D + z_D
            if count >= least:
                break
        return count, targets, sum_D

    def pack(self) -> dict[str, AnyArray]:
        """Return the sums as tensors, the oldest block first."""
        places = sorted(self.blocks)
        return {
            "places": np.array(places, np.int64),
            "counts": np.array([self.blocks[each][0] for each in places], np.int64),
            "targets": np.array([self.blocks[each][1] for each in places], np.int64).reshape(len(places), TARGETS),
            "sums": np.array([self.blocks[each][2] for each in places], np.int64).reshape(len(places), self.width),
        }

    def unpack(self, tensors: Mapping[str, AnyArray]) -> None:
        """Adopt the sums that `pack` returned."""
        rows = zip(tensors["counts"].tolist(), tensors["targets"], tensors["sums"], strict=True)
        self.blocks = {
            place: (count, targets.copy(), sum_D.copy())
            for place, (count, targets, sum_D) in zip(tensors["places"].tolist(), rows, strict=True)
        }


class RouteSums:
    """The sums of one route."""

    def __init__(self) -> None:
        self.gram_DD = np.zeros((WIDTH, WIDTH), np.int64)
        self.moment_D = np.zeros(WIDTH, np.int64)
        self.weight = self.squares = 0  # of the ratings: sum w, sum w q^2
        self.right_D = np.zeros(WIDTH, np.int64)  # sum of z over the labels that name this route
        self.right = 0
        self.cost_gram_DD = np.zeros((WIDTH, WIDTH), np.int64)
        self.cost_moment_DT = np.zeros((WIDTH, TARGETS), np.int64)
        self.cost_squares_T = np.zeros(TARGETS, np.int64)
        self.outcomes = self.nano_dollars = self.units = 0
        self.reward_inverse_DD: NDArray[np.float64] | None = None  # see `solving.invert`; None after a change
        self.cost_inverse_DD: NDArray[np.float64] | None = None
        self.recent = BlockSums(WIDTH)
        self.recent_costs = BlockSums(WIDTH)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of the route."""
        return not (self.weight or self.right or self.outcomes)

    def add_ratings(self, ratings: Sequence[RatedAnswer]) -> None:
        """Add ratings of this route; those of negative weight are subtracted."""
        self.reward_inverse_DD = None
        z_BD = stack([each.features for each in ratings])
        w_B = np.array([each.weight for each in ratings], np.int64)
        q_B = np.array([round(STEPS * each.reward) for each in ratings], np.int64)
        weighted_BD = (w_B[:, None] * z_BD).astype(np.float64)  # float64 products of these integers are exact
        self.gram_DD += (weighted_BD.T @ z_BD.astype(np.float64)).astype(np.int64)
        self.moment_D += (w_B * q_B) @ z_BD
        self.weight += int(w_B.sum())
        self.squares += int((w_B * q_B * q_B).sum())
        for each, z_D, q in zip(ratings, z_BD, q_B, strict=True):
            self.recent.add(each.offset, each.weight, np.array([q, q * q], np.int64), z_D)

    def add_outcomes(self, outcomes: Sequence[FinishedAnswer], times: int = 1) -> None:
        """Add outcomes of this route. times: -1 subtracts them."""
        self.cost_inverse_DD = None
        z_BD = stack([each.features for each in outcomes])
        t_BT = np.array(
            [
                [to_steps(each.cost / (each.unit or 1.0), NANO_DOLLAR), to_steps(each.seconds, MILLISECOND)]
                for each in outcomes
            ],
            np.int64,
        )
        floats_BD = z_BD.astype(np.float64)
        self.cost_gram_DD += times * (floats_BD.T @ floats_BD).astype(np.int64)
        self.cost_moment_DT += times * (z_BD.T @ t_BT)
        self.cost_squares_T += times * (t_BT * t_BT).sum(0)
        self.outcomes += times * len(outcomes)
        self.units += times * sum(each.unit > 0 for each in outcomes)
        self.nano_dollars += times * sum(round(each.cost / NANO_DOLLAR) for each in outcomes)
        for each, t_T, z_D in zip(outcomes, t_BT, z_BD, strict=True):
            self.recent_costs.add(each.offset, times, t_T, z_D)
