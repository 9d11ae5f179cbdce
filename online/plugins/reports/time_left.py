"""Estimates how long a job still takes, steadily: a burst or a pause moves the estimate a little, not at once.

(moment, share done) --speeds, each weighted by how recent it is--> speed --> seconds left, which count down between reports
"""

import math
from dataclasses import dataclass

MEMORY_S = 15.0  # a speed counts 1/e as much as one that is so much newer
MIN_S, MIN_SHARE = 1.0, 0.005  # before which nothing is reported


@dataclass(slots=True)
class TimeLeft:
    """share: done so far, 0 to 1. speed: of it, per second. Moments are those of any steady clock."""

    began_at: float | None = None
    began_share: float = 0.0
    seen_at: float = 0.0
    share: float = 0.0
    speed: float = 0.0
    weight: float = 0.0  # of the speeds so far, below 1: what a plain mean would give less at the beginning

    def see(self, share: float, at: float) -> None:
        """Take a report that `share` was done at this moment. One that goes back begins again."""
        if self.began_at is None or share < self.share:
            self.began_at, self.began_share, self.speed, self.weight = at, share, 0.0, 0.0
        elif at > self.seen_at and share > self.share:
            seconds = at - self.seen_at
            keep = math.exp(-seconds / MEMORY_S)
            self.speed = keep * self.speed + (1 - keep) * (share - self.share) / seconds
            self.weight = keep * self.weight + 1 - keep
        else:
            return  # nothing was done since: the next report spans this time too
        self.seen_at, self.share = at, share

    def left(self, now: float) -> float | None:
        """Return the seconds left; None while that is not known."""
        if self.began_at is None or not self.weight:
            return None
        if self.seen_at - self.began_at < MIN_S or self.share - self.began_share < MIN_SHARE:
            return None
        return max(0.0, (1 - self.share) / (self.speed / self.weight) - (now - self.seen_at))
