"""Who may compute when, and which gradients make one update.

    push --gather--> the pushes of one update, or none yet
    pull --may_pull--> a worker gets parameters now, or waits for the next push of another one

A coordination counts; it never touches a parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Push:
    """A gradient [P] of one micro-batch. number: of the micro-batch. version: of the parameters it was computed on."""

    worker: int
    number: int
    version: int
    gradient_P: Tensor


class Coordination(Protocol):
    """How one server keeps its workers in step. It is created with the number of workers."""

    def may_pull(self, worker: int, version: int) -> bool:
        """Whether a worker gets the parameters of this version now."""

    def note_pull(self, worker: int, version: int) -> None:
        """A worker got the parameters of this version."""

    def gather(self, push: Push, version: int) -> Sequence[Push]:
        """The pushes that make an update now that this one is here."""

    def flush(self) -> Sequence[Push]:
        """The pushes that wait for others, for an update without those: nobody is left to send them."""

    def leave(self, worker: int) -> None:
        """Expect nothing more from a worker."""


class Asynchronous:
    """Every gradient is an update by itself, whatever it was computed on (Dean et al. 2012, DistBelief)."""

    def __init__(self, workers: int) -> None:
        self.members = set(range(workers))

    def may_pull(self, worker: int, version: int) -> bool:
        return True

    def note_pull(self, worker: int, version: int) -> None:
        pass

    def gather(self, push: Push, version: int) -> Sequence[Push]:
        return (push,)

    def flush(self) -> Sequence[Push]:
        return ()

    def leave(self, worker: int) -> None:
        self.members.discard(worker)


class Synchronous(Asynchronous):
    """One update is the mean of N - b gradients of one version (Chen et al. 2016).

    spare: b, how many of the N workers an update does not wait for. What they send for an older version is dropped.
    """

    def __init__(self, workers: int, spare: int = 0) -> None:
        super().__init__(workers)
        if not 0 <= spare < workers:
            raise ValueError(f"{spare} spare workers of {workers}: at least one must count")
        self.needed = workers - spare
        self._pulled = dict.fromkeys(range(workers), -1)  # the newest version that each worker got
        self._round: list[Push] = []

    def may_pull(self, worker: int, version: int) -> bool:
        return self._pulled[worker] < version

    def note_pull(self, worker: int, version: int) -> None:
        self._pulled[worker] = version

    def gather(self, push: Push, version: int) -> Sequence[Push]:
        if push.version < version:
            return ()
        self._round.append(push)
        return self.flush() if len(self._round) >= self.needed else ()

    def flush(self) -> Sequence[Push]:
        """The pushes in the order of their micro-batches, so that their mean does not depend on who was first."""
        complete, self._round = sorted(self._round, key=lambda push: push.number), []
        return complete


class Bounded(Asynchronous):
    """Asynchronous, but no worker is more than `bound` gradients ahead of the slowest (Ho et al. 2013, SSP)."""

    def __init__(self, workers: int, bound: int) -> None:
        super().__init__(workers)
        if bound < 0:
            raise ValueError(f"the bound {bound} is negative")
        self.bound = bound
        self._pulls = [0] * workers
        self._owed: list[list[tuple[int, int]]] = [[] for _ in range(workers)]  # (place in its order, version)

    def may_pull(self, worker: int, version: int) -> bool:
        return self._pulls[worker] - min(map(self._count_complete, self.members)) <= self.bound

    def note_pull(self, worker: int, version: int) -> None:
        self._owed[worker].append((self._pulls[worker], version))
        self._pulls[worker] += 1

    def gather(self, push: Push, version: int) -> Sequence[Push]:
        owed = self._owed[push.worker]
        owed.remove(next(each for each in owed if each[1] == push.version))
        return (push,)

    def _count_complete(self, worker: int) -> int:
        """How many gradients of a worker are here, up to the first that is not: a later one may overtake it."""
        return self._owed[worker][0][0] if self._owed[worker] else self._pulls[worker]


class OneFirst(Asynchronous):
    """Asynchronous after a start in which one worker makes the first updates alone (Dean et al. 2012, warmstarting)."""

    def __init__(self, workers: int, updates: int) -> None:
        super().__init__(workers)
        self.updates = updates

    def may_pull(self, worker: int, version: int) -> bool:
        return version >= self.updates or worker == min(self.members)
