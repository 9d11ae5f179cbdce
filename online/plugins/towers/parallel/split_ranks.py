"""The ranks over which the stack of a tower is split: each holds a part of it, and takes its part in every step.

    fsdp       rank r differentiates its parts of a step; each layer is gathered while it is used
    pipeline   the parts of a step follow each other through the ranks as micro-batches; the last one has the losses

With a rank, its part of the stack is lost. Whatever needs the whole stack then raises LearningLost, and the learner
resumes from its last durable version, with as many ranks as there are.

Shapes: L copies, B rows, D inputs, C classes, F fresh rows of a part, K = 2 L served choices.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor

from online.errors import LearningLost
from online.models.contract import Tensors
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.fsdp import ShardedStack
from online.plugins.towers.parallel.peers import PeerLost
from online.plugins.towers.parallel.pipeline import PipelineStack
from online.plugins.towers.parallel.split_group import SplitGroup
from online.plugins.towers.parallel.split_stack import SplitStack
from online.plugins.towers.parts import CutStep, PartResult, add_results
from online.plugins.towers.published import FlatCopy
from online.plugins.towers.stack import LearningOptions
from online.plugins.towers.strategies import Strategy

Ask = Callable[[int | None], None]


class SplitRanks:
    """This process and others. is_pipeline: split into consecutive layers rather than within each layer.

    parts: of each step. offload: whether fsdp keeps its parts in the host's memory. ask_others: has the other ranks
    call `help_gather`, where only this one wants the whole stack.
    """

    is_shared = True
    holds_all = False

    def __init__(
        self,
        group: SplitGroup,
        is_pipeline: bool,
        parts: int,
        offload: bool = False,
        ask_others: Ask = lambda choice: None,
    ) -> None:
        self.group, self.is_pipeline, self.parts, self.offload = group, is_pipeline, parts, offload
        self._ask_others = ask_others
        self.reason = ""  # why ranks are lost

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Raise LearningLost for the errors of torch, after which the ranks may disagree about the step."""
        if self.reason:
            raise LearningLost(self.reason)
        try:
            yield
            return
        except RuntimeError as error:  # of gloo, NCCL or the allocator
            what = (
                "found too little memory for a part" if isinstance(error, torch.OutOfMemoryError) else "lost a process"
            )
            self.reason = f"a tower that processes hold together {what}: {PeerLost.by(error)}"
            self.is_shared = False
            traceback.clear_frames(error.__traceback__)  # they hold the stack, which keeps the connections open
        raise LearningLost(self.reason)

    @property
    def is_lost(self) -> bool:
        """Whether another rank was lost, and with it a part of the stack."""
        return bool(self.reason)

    def leave(self) -> None:
        """Leave the others. They notice at once if nothing holds the stack any more."""
        self.reason = self.reason or "the processes that held a tower have left each other"
        self.is_shared = False
        self.group.leave()

    # the stack

    def create(self, layout: ParameterLayout, learning: LearningOptions, device: torch.device) -> SplitStack:
        """Create the stack of the engine, a part of it on each rank."""
        with self._whole():
            if self.is_pipeline:
                return PipelineStack(layout, learning, self.group.handle, device, self.parts)
            return ShardedStack(layout, learning, self.group.create_mesh(device), self.offload)

    def grow(self, stack: SplitStack, layout: ParameterLayout, strategy: Strategy) -> SplitStack:
        """Return a stack with room for more classes, on every rank."""
        with self._whole():
            return cast(ShardedStack | PipelineStack, stack).grown(layout)

    def descend(self, stack: SplitStack, gradients: list[Tensor], strategy: Strategy) -> None:
        """Take a step on every rank."""
        with self._whole():
            stack.descend(gradients)

    def pick_copy(self, stack: SplitStack, choice: int) -> FlatCopy:
        """Gather one published copy from all ranks."""
        with self._whole():
            self._ask_others(choice)
            return FlatCopy(stack.layout, stack.whole_copy(choice))

    def tensors(self, stack: SplitStack) -> Tensors:
        """Gather the stack's tensors from all ranks."""
        with self._whole():
            self._ask_others(None)
            return stack.tensors()

    def help_gather(self, stack: SplitStack, choice: int | None) -> None:
        """Take part in `pick_copy` or, without a choice, in `tensors` of the rank that asked for it."""
        with self._whole():
            stack.help_gather(choice)

    # steps

    def sum_parts(self, stack: SplitStack, step: CutStep) -> PartResult:
        """Return the sum over all parts, whose gradients are the pieces of this rank."""
        with self._whole():
            if isinstance(stack, PipelineStack):
                return self._pipe_parts(stack, step)
            return self._share_parts(cast(ShardedStack, stack), step)

    def _share_parts(self, stack: ShardedStack, step: CutStep) -> PartResult:
        """Return each rank differentiates its consecutive parts."""
        share = step.count // self.group.size
        own = add_results(step.learn(self.group.rank * share + part, stack) for part in range(share))
        dist.all_reduce(own.loss_K, group=self.group.handle)
        return PartResult(own.gradients, own.loss_K, self._gather(own.logits_LFC))

    def _gather(self, logits_LFC: Tensor | None) -> Tensor | None:
        """Return the logits of all ranks' fresh rows, in order."""
        if logits_LFC is None:
            return None
        every = [torch.empty_like(logits_LFC) for _ in range(self.group.size)]
        dist.all_gather(every, logits_LFC.contiguous(), group=self.group.handle)
        return torch.cat(every, 1)

    def _pipe_parts(self, stack: PipelineStack, step: CutStep) -> PartResult:
        """Return the sum of the parts: each is a micro-batch, of which the last rank computes the logits."""
        inputs = [step.inputs(part) for part in range(step.count)]
        judged = [x_BD[: step.fresh] for x_BD in inputs]
        averages_LFC = torch.split(stack.average_logits(torch.cat(judged)), step.fresh, 1) if step.fresh else ()
        size, copies = len(inputs[0]), len(stack.learning.rates)
        loss_NK = torch.zeros(step.count, 2 * copies, device=stack.device)
        kept = torch.zeros(copies, step.count * step.fresh, stack.layout.labels, device=stack.device)

        def learn(logits_LBC: Tensor, rows_B: Tensor) -> Tensor:
            part = int(rows_B[0]) // size
            engine = GivenLogits(logits_LBC, averages_LFC[part] if step.fresh else None)
            result = step.learn(part, engine)
            loss_NK[part] = result.loss_K  # not added: the first schedule calls this once more, to learn shapes
            if result.logits_LFC is not None:
                kept[:, part * step.fresh : (part + 1) * step.fresh] = result.logits_LFC
            return engine.loss

        gradients = stack.gradient(torch.cat(inputs), learn)
        for tensor in (loss_NK, kept) if step.keeps_logits else (loss_NK,):
            dist.broadcast(tensor, group=self.group.handle, group_src=self.group.size - 1)
        return PartResult(gradients, loss_NK.sum(0), kept if step.keeps_logits else None)


class GivenLogits:
    """Logits that are known, and whose loss another one differentiates."""

    loss: Tensor

    def __init__(self, logits_LBC: Tensor, averages_LFC: Tensor | None) -> None:
        self._logits_LBC, self._averages_LFC = logits_LBC, averages_LFC

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return the logits that were given."""
        return self._logits_LBC

    def average_logits(self, x_BD: Tensor) -> Tensor:
        """Return the logits of the averages that were given."""
        assert self._averages_LFC is not None, "they are computed for fresh rows only"
        return self._averages_LFC

    def differentiate(self, losses: Sequence[Tensor]) -> list[Tensor]:
        """Keep the loss; the ranks differentiate it together."""
        (self.loss,) = losses
        return []
