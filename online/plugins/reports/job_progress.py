"""The progress of a report or a replay: one percentage over all its steps, its speed and the time left.

{"what", "percent", "done", "total"} <-- a line that the process prints --> JobProgress --describe--> Progress

The time left is estimated steadily: a burst or a pause moves the estimate a little, not at once.

(moment, share done) --speeds, each weighted by how recent it is--> speed --> seconds left, which count down between reports
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from online.plugins.reports.schemas import ReportProgress
from online.schemas.json_values import JSONObject

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


WAITING = "waiting for its turn"
STEPS = {
    # step: the percentages of the whole between which it lies; the others come before all of these
    "writing the log": (0, 8),
    "replaying it": (8, 97),
    "writing the page": (97, 100),
}
TIMED = "replaying it"  # the step whose time left is reported: it takes nearly all of it


@dataclass(slots=True)
class JobProgress:
    """what: the step. done, total: the events of this step; total is an estimate until the end is known."""

    clock: Callable[[], float] = time.monotonic
    what: str = WAITING
    percent: int = 0
    done: int | None = None
    total: int | None = None
    time_left: TimeLeft = field(default_factory=TimeLeft)

    def receive(self, message: JSONObject) -> None:
        """Take a message that the process has printed."""
        if "what" not in message:
            return
        self.what = message["what"]
        begin, end = STEPS.get(self.what, (self.percent, self.percent))
        self.percent = max(self.percent, begin + (end - begin) * int(message.get("percent", 0)) // 100)
        self.done, self.total = (message.get("done"), message.get("total")) if self.what in STEPS else (None, None)
        if self.what == TIMED and self.total:
            self.time_left.see((self.done or 0) / self.total, self.clock())

    def describe(self, ahead: int = 0) -> ReportProgress:
        """ahead: the number of jobs that come before it."""
        left = self.time_left.left(self.clock()) if self.what == TIMED else None
        speed = self.time_left.speed / self.time_left.weight * self.total if left is not None and self.total else None
        return ReportProgress(
            what=self.what,
            percent=self.percent,
            ahead=ahead,
            done=self.done,
            total=self.total,
            per_second=None if speed is None else round(speed, 1),
            left_s=None if left is None else round(left, 1),
        )
