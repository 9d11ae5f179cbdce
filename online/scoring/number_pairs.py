"""Keeps a thinned record of predicted and true numbers, for plots: bounded, and the same for the same log."""

from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_PAIRS = 2_048

Pair = tuple[float, float]  # the true number, and the predicted one


@dataclass(slots=True)
class NumberPairs:
    """Every `every`-th pair. `every` doubles, and each second pair is dropped, when there are MAX_PAIRS."""

    every: int = 1
    count: int = 0
    pairs: list[Pair] = field(default_factory=list)

    def add_all(self, pairs: Sequence[Pair]) -> None:
        """Add consecutive pairs; the result does not depend on how they are cut into chunks."""
        start = 0
        while start < len(pairs):
            first = start + -self.count % self.every  # the next one that is kept
            stop = min(len(pairs), first + self.every * (MAX_PAIRS - len(self.pairs)))
            self.pairs += pairs[first : stop : self.every]
            self.count, start = self.count + stop - start, stop
            if len(self.pairs) == MAX_PAIRS:
                self.pairs, self.every = self.pairs[::2], 2 * self.every
