"""The pause before something that failed is tried again: it doubles with each failure in a row."""

import math


class Backoff:
    """Counts failures in a row. healthy_s: what lasted as long before it failed begins a new row."""

    def __init__(self, first_s: float, longest_s: float, healthy_s: float = math.inf) -> None:
        self.first_s, self.longest_s, self.healthy_s = first_s, longest_s, healthy_s
        self._next_s = first_s

    def fail(self, lasted_s: float = 0.0) -> float:
        """Count a failure, and return the seconds to wait. lasted_s: how long all was well before it."""
        pause_s = self.first_s if lasted_s > self.healthy_s else self._next_s
        self._next_s = min(2 * pause_s, self.longest_s)
        return pause_s
