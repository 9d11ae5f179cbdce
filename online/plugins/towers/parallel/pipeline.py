"""Copies whose layers lie on several ranks, by torch.distributed.pipelining.

    rank 0: layers 0, 1 --[b, L, H]--> rank 1: layers 2, 3 --[b, L, H]--> rank 2: the head --> loss of b rows
                        <--slopes---                       <--slopes---

A batch is cut into micro-batches that follow each other through the stages. `gpipe` (Huang et al. 2019) runs all
forward passes and then all backward passes, so that stage s keeps the activations of every micro-batch. `1f1b`
(Narayanan et al. 2021) starts a backward pass as soon as it can, and keeps at most n - s of them. Both wait for the
last backward pass before the step, so the gradient is that of one process. The stages idle for (n - 1) of the
(m + n - 1) turns that m micro-batches take.

Shapes: L copies, B rows, b rows of a micro-batch, D inputs, H width, C capacity for classes.
"""

from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.blocks import block_bounds, block_sizes, build_blocks
from online.plugins.towers.parallel.split_stack import LossOfRows, SplitStack
from online.plugins.towers.stack import LearningOptions

SCHEDULES: dict[str, type[ScheduleGPipe | Schedule1F1B]] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class PipelineStack(SplitStack):
    """Copies whose layers are split over the ranks of a group, into stages of about equal size.

    micro_batches: into which a batch is cut; Schedule1F1B needs at least as many as there are ranks. Raises
    ValueError for more ranks than layers.
    """

    def __init__(
        self,
        layout: ParameterLayout,
        learning: LearningOptions,
        group: dist.ProcessGroup,
        device: torch.device,
        micro_batches: int,
        schedule: str = "1f1b",
    ) -> None:
        super().__init__(layout, learning, group, device)
        self.micro_batches, self.schedule = micro_batches, schedule
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self.bounds = block_bounds(block_sizes(layout), self.ranks)
        self.module, self.mean_module = self._create_stage(), self._create_stage()
        self._steppers: dict[int, ScheduleGPipe | Schedule1F1B] = {}  # by the rows of a batch, whose shape is fixed
        self._begin()

    def _create_stage(self) -> nn.Module:
        blocks = build_blocks(self.layout, len(self.learning.rates))
        return blocks[self.bounds[self.rank] : self.bounds[self.rank + 1]].to_empty(device=self.device)

    def stage(self, module: nn.Module) -> PipelineStage:
        """This rank's stage, for a schedule of its own."""
        return PipelineStage(module, self.rank, self.ranks, self.device, group=self.group)

    def gradient(self, x_BD: Tensor, loss: LossOfRows) -> list[Tensor]:
        """Return the gradient of all rows. B must be a multiple of the micro-batches. Only the last stage calls `loss`."""
        if len(x_BD) % self.micro_batches:
            raise ValueError(f"{len(x_BD)} rows cannot be cut into {self.micro_batches} micro-batches of one size")
        self._loss = loss
        stepper = self._steppers.get(len(x_BD)) or self._create_stepper(len(x_BD))
        inputs = (x_BD,) if self.rank == 0 else ()
        target = torch.arange(len(x_BD), device=self.device) if self.rank == self.ranks - 1 else None
        stepper.step(*inputs, target=target, return_outputs=False)
        return self.collect()

    def _create_stepper(self, rows: int) -> ScheduleGPipe | Schedule1F1B:
        create: type[ScheduleGPipe | Schedule1F1B] = SCHEDULES[self.schedule]
        stepper = create(self.stage(self.module), self.micro_batches, loss_fn=self._loss_of_rows, scale_grads=False)
        self._steppers[rows] = stepper
        return stepper

    def _loss_of_rows(self, logits_bLC: Tensor, rows_b: Tensor) -> Tensor:
        return self._loss(logits_bLC.transpose(0, 1), rows_b)

    @torch.no_grad()
    def average_logits(self, x_BD: Tensor) -> Tensor:
        """Return the logits [L, B, C] of the averaged parameters, on every rank."""
        forward = ScheduleGPipe(self.stage(self.mean_module), 1)
        found = forward.step(*((x_BD,) if self.rank == 0 else ()))
        logits_BLC = torch.empty(len(x_BD), len(self.learning.rates), self.layout.labels, device=self.device)
        if found is not None:
            logits_BLC.copy_(cast(Tensor, found))
        dist.broadcast(logits_BLC, group=self.group, group_src=self.ranks - 1)
        return logits_BLC.transpose(0, 1)

    def whole(self, name: str, local: Tensor | None, shape: tuple[int, ...]) -> Tensor:
        """Return the tensor, from the rank whose stage it belongs to."""
        block = self.places[name].block
        owner = next(rank for rank in range(self.ranks) if block < self.bounds[rank + 1])
        whole = torch.empty(shape, device=self.device) if local is None else local.contiguous()
        dist.broadcast(whole, group=self.group, group_src=owner)
        return whole

    def grown(self, layout: ParameterLayout) -> "PipelineStack":
        """Return a stack with room for more classes, and the same parameters."""
        how = self.group, self.device, self.micro_batches, self.schedule
        more = PipelineStack(layout, self.learning, *how)
        more.grow_from(self)
        return more
