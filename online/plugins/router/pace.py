"""The pace of spending: a price on cost that keeps the mean cost of a request at a budget.

    blocks of the log: requests, dollars --> price lambda --> score = reward - lambda * cost / budget

Primal-dual pacing (Balseiro & Gur 2019) over blocks instead of requests, so that the price is a function of sums: the order within
a block does not matter, and a request that is taken back leaves the price that never having seen it would have left.

A block that cost more than its target raises the price, in proportion. The target of a block is the budget, less what was overspent
before, spread over the next HORIZON requests: what was spent too much is saved again, and the mean of all stays at the budget.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray
from online.plugins.router.sums import BLOCK, NANO_DOLLAR

RATE = 1e-3  # of the price, per request that costs twice the budget
LARGEST_STEP = 3.0  # budgets above the target that count at once
HORIZON = 60.0  # requests over which what was overspent is saved again
AIM = 0.995  # of the budget: what is aimed at, so that the mean stays below it
LEAST_TARGET = 0.25  # of the budget
MOST_TARGET = 2.0
MOST_CREDIT = 60.0  # requests at the budget: what was saved long ago is not spent at once
FIRST_PRICE = 0.05  # before anything was spent
BLOCKS = 1_024  # newest ones from which the price is computed


class PacedSpending:
    """Requests and nano-dollars by block of the log."""

    def __init__(self) -> None:
        self.blocks: dict[int, tuple[int, int]] = {}

    def add(self, offset: int, nano_dollars: int, times: int = 1) -> None:
        """Add a request. times: -1 subtracts it."""
        count, spent = self.blocks.get(offset // BLOCK, (0, 0))
        self.blocks[offset // BLOCK] = count + times, spent + times * nano_dollars
        if self.blocks[offset // BLOCK] == (0, 0):
            del self.blocks[offset // BLOCK]

    def pack(self) -> NDArray[np.int64]:
        """Return block, requests and nano-dollars [N, 3], the oldest block first."""
        return np.array([(place, *self.blocks[place]) for place in sorted(self.blocks)], np.int64).reshape(-1, 3)

    def unpack(self, rows: AnyArray) -> None:
        """Adopt what `pack` returned."""
        self.blocks = {place: (count, spent) for place, count, spent in rows.tolist()}

    def list_newest(self, since: int) -> list[tuple[int, int]]:
        """Return the blocks that begin at or after an offset, the oldest first, at most BLOCKS."""
        first = -(-since // BLOCK)
        return [self.blocks[place] for place in sorted(self.blocks) if place >= first][-BLOCKS:]


@dataclass(frozen=True, slots=True)
class Pace:
    """The state of the budget. price: of a cost of one budget, in units of reward. requests, dollars: that it is computed from."""

    price: float
    requests: int
    dollars: float


def compute_pace(blocks: Iterable[tuple[int, int]], budget: float, price: float = FIRST_PRICE) -> Pace:
    """Return the pace after blocks. budget: dollars per request; 0 for none. price: before the first block."""
    requests, spent, ahead = 0, 0.0, 0.0  # ahead: dollars above the budget, within limits
    for count, nano_dollars in blocks:
        dollars = nano_dollars * NANO_DOLLAR
        requests, spent = requests + count, spent + dollars
        if not budget:
            continue
        target = min(max(AIM - ahead / budget / HORIZON, LEAST_TARGET), MOST_TARGET)
        excess = min(max(dollars / budget / count - target, -1.0), LARGEST_STEP)
        price = max(price + RATE * count * excess, 0.0)
        ahead = max(ahead + dollars - count * AIM * budget, -MOST_CREDIT * budget)
    return Pace(price, requests, spent)
