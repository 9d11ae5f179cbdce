"""A step whose parts are differentiated one after the other, or by several processes at the same time.

    rows --cut--> part 0, 1, ... --learn_part--> PartResult --add in pairs--> the result of the step

Part by part, a step needs less memory. What is added, and in which order, is the same wherever a part was computed.
Shapes: L copies, P parameters of a copy, K = 2 L served choices, F fresh rows of a part, C classes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from online.models.tower.parallel.pair_sums import add_in_pairs
from online.models.tower.stack import Stack


class Engine(Protocol):
    """What runs a stack's network forward and backward: the stack itself, or several ranks with one each."""

    def logits(self, x_BD: Tensor) -> Tensor:
        """Logits [L, B, C] that can be differentiated."""

    def differentiate(self, losses: Sequence[Tensor]) -> list[Tensor]:
        """d loss / d parameters [L, P] for each loss of the last logits."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """gradients: [L, P] for each loss of the strategy. loss_K: of the fresh rows, before they are learned.

    logits_LFC: of the fresh rows, where the strategy keeps them.
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


LearnPart = Callable[[int, Engine], PartResult]


class PartSum(Protocol):
    """Who differentiates the parts of a step."""

    def sum_parts(self, stack: Stack, count: int, learn: LearnPart, can_overlap: bool) -> PartResult:
        """The sum over `count` parts. can_overlap: `learn` differentiates one loss, by its engine."""


class Alone:
    """This process differentiates all parts. precision: to which each part's gradient is rounded; None: float32."""

    def __init__(self, precision: torch.dtype | None = None) -> None:
        self.precision = precision

    def sum_parts(self, stack: Stack, count: int, learn: LearnPart, can_overlap: bool) -> PartResult:
        return add_results(learn(part, stack).rounded(self.precision) for part in range(count))


def add_results(results: Iterable[PartResult]) -> PartResult:
    """The sum of the results of consecutive parts, whose fresh rows follow each other."""
    kept: list[Tensor] = []
    *gradients, loss_K = add_in_pairs(list_tensors(result, kept) for result in results)
    return PartResult(gradients, loss_K, torch.cat(kept, 1) if len(kept) > 1 else kept[0] if kept else None)


def list_tensors(result: PartResult, kept: list[Tensor]) -> list[Tensor]:
    """What is added of a result. Its logits are kept."""
    if result.logits_LFC is not None:
        kept.append(result.logits_LFC)
    return [*result.gradients, result.loss_K]
