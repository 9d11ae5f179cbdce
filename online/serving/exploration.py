"""How many of a user's answers may try another reply than the best one: a share of those of the present hour.

    request --admit--> the first n instances may be drawn, the others get the best reply --count--> what was really tried

The bound is kept before the model is called, and what is decided is in the recorded prediction: an answer that could not be drawn has
the propensity 1. So neither what is learned nor a replay depends on these counts. They are kept in the memory of each process, for the
present hour only; several workers keep the share each, so together they exceed it by one answer for each worker at most.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from online.models import Answer

WINDOW_S = 3_600
MAX_USERS = 100_000  # in one hour; further ones share one count
ROUNDING = 1e-9  # so that .1 of 30 answers is 3, not 4


@dataclass(slots=True)
class UserCounts:
    """answers: that could be drawn, with those that are being computed. tried: with those that may be."""

    answers: int = 0
    tried: int = 0


class DrawAllowance:
    """A request while it is being answered. allowed: how many of its instances may be drawn, the first ones."""

    def __init__(self, counts: UserCounts, instances: int, share: float) -> None:
        self._counts, self._instances, self._tried = counts, instances, 0
        counts.answers += instances
        left = math.ceil(share * counts.answers - ROUNDING) - counts.tried
        self.allowed = min(max(left, 0), instances)
        counts.tried += self.allowed

    def count(self, answers: Sequence[Answer]) -> None:
        """Count what was tried, once there are answers."""
        self._tried = sum(answer.is_tried for answer in answers)
        self._instances = 0

    def __enter__(self) -> "DrawAllowance":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give back what was not tried, and after an error the answers that were not given."""
        self._counts.tried -= self.allowed - self._tried
        self._counts.answers -= self._instances


class ExplorationShares:
    """The counts of all users of one model. For one event loop."""

    def __init__(self, share: float, clock: Callable[[], float]) -> None:
        """share: in [0, 1]. clock: seconds."""
        self.share, self.clock = share, clock
        self._window = 0
        self._users = dict[str, UserCounts]()

    def admit(self, user: str | None, instances: int) -> DrawAllowance:
        """Begin to answer this many instances. Requests without a user share one count."""
        return DrawAllowance(self._find(user or ""), instances, self.share)

    def _find(self, user: str) -> UserCounts:
        window = int(self.clock() // WINDOW_S)
        if window != self._window:
            self._window, self._users = window, {}
        if user not in self._users and len(self._users) >= MAX_USERS:
            user = ""
        return self._users.setdefault(user, UserCounts())
