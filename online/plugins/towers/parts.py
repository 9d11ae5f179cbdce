"""A step whose parts are differentiated one after the other, or by several processes at the same time.

    rows --cut--> part 0, 1, ... --learn--> PartResult --add in pairs--> the result of the step

Part by part, a step needs less memory. What is added, and in which order, is the same wherever a part was computed.
Shapes: L copies, B rows, D inputs, P parameters of a copy, K = 2 L served choices, F fresh rows of a part, C classes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from online.models.contract import Tensors
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.pair_sums import add_in_pairs
from online.plugins.towers.published import FlatCopy
from online.plugins.towers.stack import LearningOptions, Stack
from online.plugins.towers.strategies import Strategy


class Engine(Protocol):
    """The engine that runs a stack's network forward and backward: the stack itself, or several ranks with one each."""

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C] that can be differentiated."""

    def average_logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C] of the averages, without a graph."""

    def differentiate(self, losses: Sequence[Tensor]) -> list[Tensor]:
        """d loss / d parameters [L, P] for each loss of the last logits; of a stack that is split, this rank's pieces."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """gradients: [L, P] for each loss of the strategy; of a stack that is split, this rank's pieces of the only one.

    loss_K: of the fresh rows, before they are learned. logits_LFC: of the fresh rows, where the strategy keeps them.
    """

    gradients: list[Tensor]
    loss_K: Tensor
    logits_LFC: Tensor | None = None

    def rounded(self, precision: torch.dtype | None) -> "PartResult":
        """With gradients of another precision, as float32 again."""
        if precision is None:
            return self
        gradients = [each.to(precision).to(each.dtype) for each in self.gradients]
        return PartResult(gradients, self.loss_K, self.logits_LFC)


@dataclass(frozen=True, slots=True)
class CutStep:
    """A step in `count` parts of one shape. inputs: the rows [B, D] of a part. learn: differentiates a part by an engine.

    fresh: the leading rows of a part that are judged before they are learned; 0 in later steps on a micro-batch.
    keeps_logits: whether a result has those of its fresh rows. can_overlap: `learn` differentiates one loss, by its
    engine.
    """

    count: int
    inputs: Callable[[int], Tensor]
    learn: Callable[[int, Engine], PartResult]
    fresh: int
    keeps_logits: bool
    can_overlap: bool


AnyStack = TypeVar("AnyStack")


class Ranks(Protocol[AnyStack]):
    """This process, alone or with others: who holds the stack of a tower, and who differentiates the parts of a step.

    All ranks call the same methods in the same order. is_shared: whether there are others. holds_all: whether each rank
    holds the whole stack, so that nothing is lost with another one. is_lost: whether something was.
    """

    is_shared: bool
    holds_all: bool

    @property
    def is_lost(self) -> bool:
        """Whether another rank was lost, and something with it."""

    def create(self, layout: ParameterLayout, learning: LearningOptions, device: torch.device) -> AnyStack:
        """Return the stack before its first lesson."""

    def sum_parts(self, stack: AnyStack, step: CutStep) -> PartResult:
        """Return the sum over all parts."""

    def descend(self, stack: AnyStack, gradients: list[Tensor], strategy: Strategy) -> None:
        """Take the step that the strategy makes of the gradients of its losses."""

    def grow(self, stack: AnyStack, layout: ParameterLayout, strategy: Strategy) -> AnyStack:
        """Return the same copies in a larger layout."""

    def pick_copy(self, stack: AnyStack, choice: int) -> FlatCopy:
        """Return one of the averages or, after all of them, of the copies."""

    def tensors(self, stack: AnyStack) -> Tensors:
        """Return the tensors of the whole stack."""

    def leave(self) -> None:
        """Leave the others, who notice at once."""


class SingleProcessEngine:
    """This process differentiates all parts. precision: to which each part's gradient is rounded; None: float32."""

    is_shared = False
    holds_all = True
    is_lost = False

    def __init__(self, precision: torch.dtype | None = None) -> None:
        self.precision = precision

    def create(self, layout: ParameterLayout, learning: LearningOptions, device: torch.device) -> Stack:
        """Create a stack on one device."""
        return Stack(layout, learning, device)

    def sum_parts(self, stack: Stack, step: CutStep) -> PartResult:
        """Differentiate the parts one after the other, and add them."""
        return add_results(step.learn(part, stack).rounded(self.precision) for part in range(step.count))

    def descend(self, stack: Stack, gradients: list[Tensor], strategy: Strategy) -> None:
        """Take a step on the joined gradient."""
        stack.descend(strategy.join_gradients(gradients, stack))

    def grow(self, stack: Stack, layout: ParameterLayout, strategy: Strategy) -> Stack:
        """Return a stack with room for more classes, and the same parameters."""
        more = stack.grown(layout)
        strategy.grown(stack, more)
        return more

    def pick_copy(self, stack: Stack, choice: int) -> FlatCopy:
        """Return one copy, in the stack's own memory: it changes with the next step."""
        return stack.rows[choice]  # in the same memory: it changes with the next step

    def tensors(self, stack: Stack) -> Tensors:
        """Return the stack's tensors."""
        return stack.tensors()

    def leave(self) -> None:
        """Leave the others; there are none here."""


def add_results(results: Iterable[PartResult]) -> PartResult:
    """Return the sum of the results of consecutive parts, whose fresh rows follow each other."""
    kept: list[Tensor] = []
    *gradients, loss_K = add_in_pairs(list_tensors(result, kept) for result in results)
    return PartResult(gradients, loss_K, torch.cat(kept, 1) if len(kept) > 1 else kept[0] if kept else None)


def list_tensors(result: PartResult, kept: list[Tensor]) -> list[Tensor]:
    """Return what is added of a result. Its logits are kept."""
    if result.logits_LFC is not None:
        kept.append(result.logits_LFC)
    return [*result.gradients, result.loss_K]
