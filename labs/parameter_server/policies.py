"""What a server does about gradients that were computed on older parameters than those they are applied to.

    arrival: gradient, parameters it was computed on, parameters now --correct, one remedy after the other--> gradient
                                                                                              or None: it is dropped

A policy is a coordination, remedies and the numbers in which gradients and parameters travel. A new one is a line in
POLICIES.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from labs.parameter_server.coordination import Asynchronous, Bounded, Coordination, OneFirst, Synchronous


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gradient that a server is about to apply.

    version: how many updates the server has made. staleness: how many of them came after the parameters on which the
    gradient was computed. base_P: those parameters. now_P: the present ones.
    """

    gradient_P: Tensor
    version: int
    staleness: int
    base_P: Tensor
    now_P: Tensor


class Remedy(Protocol):
    """One correction of gradients, by numbers of the same parameter alone, so that shards agree with the whole."""

    needs_base: bool  # whether a server must keep the parameters that it handed out

    def correct(self, arrival: Arrival) -> Tensor | None:
        """The gradient [P] to apply; None to drop it."""


class RateByStaleness:
    """The learning rate divided by 1 + staleness (Zhang et al. 2016, staleness-aware async-SGD)."""

    needs_base = False

    def correct(self, arrival: Arrival) -> Tensor | None:
        return arrival.gradient_P / (1 + arrival.staleness)


@dataclass(frozen=True, slots=True)
class DropStale:
    """Drop what is staler than a bound."""

    bound: int
    needs_base = False

    def correct(self, arrival: Arrival) -> Tensor | None:
        return arrival.gradient_P if arrival.staleness <= self.bound else None


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A learning rate that rises linearly to its value in the first updates (Goyal et al. 2017)."""

    updates: int
    needs_base = False

    def correct(self, arrival: Arrival) -> Tensor | None:
        return arrival.gradient_P * min(1.0, (arrival.version + 1) / self.updates)


@dataclass(frozen=True, slots=True)
class Scale:
    """A constant factor of the learning rate."""

    factor: float
    needs_base = False

    def correct(self, arrival: Arrival) -> Tensor | None:
        return arrival.gradient_P * self.factor


class DelayCompensation:
    """A first-order estimate of the gradient on the present parameters (Zheng et al. 2017, DC-ASGD).

    g + k * g * g * (now - base), where g * g stands for the diagonal of the Hessian, and k = strength / sqrt(mean of g * g) is adaptive.
    decay: of that running mean. floor: is added to it.
    """

    needs_base = True

    def __init__(self, strength: float, decay: float = 0.95, floor: float = 1e-7) -> None:
        self.strength, self.decay, self.floor = strength, decay, floor
        self._mean_square_P: Tensor | None = None

    def correct(self, arrival: Arrival) -> Tensor | None:
        square_P = arrival.gradient_P**2
        before_P = torch.zeros_like(square_P) if self._mean_square_P is None else self._mean_square_P
        self._mean_square_P = torch.lerp(square_P, before_P, self.decay)
        strength_P = self.strength / (self._mean_square_P + self.floor).sqrt()
        return arrival.gradient_P + strength_P * square_P * (arrival.now_P - arrival.base_P)


@dataclass(frozen=True, slots=True)
class Policy:
    """How servers treat workers and gradients.

    coordination, remedies: create those of one server. numbers: in which gradients and parameters travel; servers and
    workers compute in float32.
    """

    coordination: Callable[[int], Coordination] = Asynchronous
    remedies: tuple[Callable[[], Remedy], ...] = ()
    numbers: torch.dtype = torch.float32

    def and_also(self, *remedies: Callable[[], Remedy]) -> "Policy":
        return replace(self, remedies=(*self.remedies, *remedies))


POLICIES: Mapping[str, Policy] = {
    "synchronous": Policy(Synchronous),
    "4 spare": Policy(partial(Synchronous, spare=4)),
    "asynchronous": Policy(),
    "bounded, 1": Policy(partial(Bounded, bound=1)),
    "rate / (1 + staleness)": Policy(remedies=(RateByStaleness,)),
    "drop staler than 64": Policy(remedies=(partial(DropStale, 64),)),
    "warm-up, 500 updates": Policy(remedies=(partial(WarmUp, 500),)),
    "one worker first, 200 updates": Policy(partial(OneFirst, updates=200)),
    "delay compensation": Policy(remedies=(partial(DelayCompensation, 2.0),)),
    "bfloat16": Policy(numbers=torch.bfloat16),
    "float16": Policy(numbers=torch.float16),
    "synchronous, bfloat16": Policy(Synchronous, numbers=torch.bfloat16),
    "synchronous, float16": Policy(Synchronous, numbers=torch.float16),
}
