"""The progress of a report or a replay: one percentage over all its steps, its speed and the time left.

{"what", "percent", "done", "total"} <-- a line that the process prints --> JobProgress --describe--> Progress
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from online.plugins.reports.schemas import ReportProgress
from online.plugins.reports.time_left import TimeLeft
from online.schemas.json_values import JSONObject

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
