"""One server of central parameters: it holds a shard of them, and makes every update of that shard.

    worker --pull--> version, parameters_P        the shard's newest
    worker --push(version, gradient_P)--> coordination --pushes of one update--> remedies --mean--> parameters_P, version + 1

A network of P parameters is cut into contiguous shards of nearly equal size, one for each server. Updates and remedies
compute each parameter from numbers of the same place, so that any number of servers that get the same messages in the
same order hold the same parameters, bit for bit. A server has no clock, no thread and no network: `simulation` and
`processes` drive it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from torch import Tensor

from labs.parameter_server.coordination import Push
from labs.parameter_server.policies import Arrival, Policy


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a worker gets. number: how many pulls the server had answered before; the first server's names a micro-batch."""

    version: int
    number: int
    parameters_P: Tensor


@dataclass(slots=True)
class Tally:
    """What a server has done. used: gradients that are in the parameters. staleness: of each that could have been."""

    pulls: int = 0
    pushes: int = 0
    used: int = 0
    staleness: list[int] = field(default_factory=list)


class ParameterServer:
    """A shard [P] under plain gradient descent.

    budget: how many pulls it answers; None: without end. The parameters that it hands out are never written again.
    """

    def __init__(
        self, parameters_P: Tensor, rate: float, policy: Policy, workers: int, budget: int | None = None
    ) -> None:
        self.parameters_P, self.version, self.tally = parameters_P, 0, Tally()
        self.rate, self.budget = rate, budget
        self._coordination = policy.coordination(workers)
        self._remedies = [create() for create in policy.remedies]
        self._bases = Bases() if any(remedy.needs_base for remedy in self._remedies) else None

    @property
    def is_finished(self) -> bool:
        """Whether every micro-batch has been handed out."""
        return self.budget is not None and self.tally.pulls >= self.budget

    def pull(self, worker: int) -> Pulled | None:
        """The newest parameters; None if the worker has to wait, until another push has come."""
        if not self._coordination.may_pull(worker, self.version):
            return None
        self._coordination.note_pull(worker, self.version)
        self.tally.pulls += 1
        if self._bases is not None:
            self._bases.keep(worker, self.version, self.parameters_P)
        return Pulled(self.version, self.tally.pulls - 1, self.parameters_P)

    def push(self, push: Push) -> None:
        """Take a gradient, and make an update if it completes one."""
        self.tally.pushes += 1
        self._update(self._coordination.gather(push, self.version))
        if self._bases is not None:
            self._bases.release(push.worker, push.version)

    def flush(self) -> None:
        """Make an update of the gradients that wait for others, which nobody is left to send."""
        self._update(self._coordination.flush())

    def leave(self, worker: int) -> None:
        """Expect nothing more from a worker."""
        self._coordination.leave(worker)
        if self._bases is not None:
            self._bases.release_all(worker)

    def _update(self, pushes: Sequence[Push]) -> None:
        """Descend along the mean of the gradients that no remedy drops."""
        corrected = [gradient_P for push in pushes if (gradient_P := self._correct(push)) is not None]
        if corrected:
            sum_P = reduce(add, corrected)  # one after the other, so that the bits do not depend on a shard's size
            self.parameters_P = self.parameters_P - self.rate / len(corrected) * sum_P
            self.version += 1
            self.tally.used += len(corrected)

    def _correct(self, push: Push) -> Tensor | None:
        staleness = self.version - push.version
        self.tally.staleness.append(staleness)
        base_P = self.parameters_P if self._bases is None else self._bases.find(push.version, self.parameters_P)
        gradient_P: Tensor | None = push.gradient_P
        for remedy in self._remedies:
            assert gradient_P is not None
            gradient_P = remedy.correct(Arrival(gradient_P, self.version, staleness, base_P, self.parameters_P))
            if gradient_P is None:
                return None
        return gradient_P


class Bases:
    """The parameters on which workers compute at present, by version: as many as gradients are on their way at most."""

    def __init__(self) -> None:
        self._parameters: dict[int, Tensor] = {}
        self._holders: dict[int, Counter[int]] = {}  # by version: how many gradients each worker owes

    def keep(self, worker: int, version: int, parameters_P: Tensor) -> None:
        self._parameters[version] = parameters_P
        self._holders.setdefault(version, Counter())[worker] += 1

    def find(self, version: int, otherwise_P: Tensor) -> Tensor:
        """The parameters of a version; others if the worker has left meanwhile."""
        return self._parameters.get(version, otherwise_P)

    def release(self, worker: int, version: int) -> None:
        holders = self._holders.get(version, Counter())
        holders[worker] -= 1
        if not +holders:
            self._holders.pop(version, None)
            self._parameters.pop(version, None)

    def release_all(self, worker: int) -> None:
        for version in list(self._holders):
            self._holders[version][worker] = 0
            self.release(worker, version)

    def __len__(self) -> int:
        return len(self._parameters)


def cut(row_P: Tensor, servers: int) -> tuple[Tensor, ...]:
    """A row of numbers as contiguous shards, one for each server; views of it."""
    return row_P.tensor_split(servers)
