"""Copies whose parameters, gradients, moments and averages are sharded over ranks, by torch's FSDP2.

    rank r keeps 1/n of each layer of each copy
    forward, backward:  gather one layer of one copy -> compute -> free it; its gradient is summed and scattered
    step:               each rank on its own shard, with a norm that is summed over the ranks

A layer of one copy is the unit that is gathered, so a rank needs the memory of its shards and of one layer. Each
rank computes the gradient of its own rows; with `offload`, shards and moments lie in the host's memory.

Zhao et al. 2023, "PyTorch FSDP". Shapes: L copies, B rows, D inputs, C capacity for classes.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, OffloadPolicy, fully_shard

from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.blocks import build_blocks
from online.plugins.towers.parallel.split_stack import LossOfRows, SplitStack
from online.plugins.towers.stack import LearningOptions


class ShardedStack(SplitStack):
    """Copies that are sharded over the ranks of a mesh of one dimension.

    offload: keep the shards in the host's memory while they are not used.
    """

    def __init__(
        self, layout: ParameterLayout, learning: LearningOptions, mesh: DeviceMesh, offload: bool = False
    ) -> None:
        device = torch.device("cpu") if offload or mesh.device_type == "cpu" else current_device(mesh.device_type)
        super().__init__(layout, learning, mesh.get_group(), device)
        self.mesh, self.offload, self.device_type = mesh, offload, mesh.device_type
        self.module, self.mean_module = self._create_module(), self._create_module()
        self._begin()

    def _create_module(self) -> nn.Module:
        module = build_blocks(self.layout, len(self.learning.rates))
        shard(module, self.mesh, self.offload)
        return module.to_empty(device=self.device)

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C] of this rank's rows, which can be differentiated."""
        return cast(Tensor, self.module(x_BD)).transpose(0, 1)

    def differentiate(self, losses: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradient of the sum of all ranks' losses, in this rank's pieces. losses: only one.

        Every rank differentiates a loss of its own logits at the same time; one without rows, a loss of zero.
        """
        (loss,) = losses
        loss.backward()  # type: ignore[no-untyped-call]
        return self.collect()

    def gradient(self, x_BD: Tensor, loss: LossOfRows) -> list[Tensor]:
        """Return the gradient of all rows, of which each of the n ranks computes every n-th."""
        rows = torch.arange(self.mesh.get_local_rank(), len(x_BD), self.mesh.size(), device=x_BD.device)
        return self.differentiate([loss(self.logits(x_BD[rows]), rows)])

    @torch.no_grad()
    def average_logits(self, x_BD: Tensor) -> Tensor:
        """Return the logits [L, B, C] of the averaged parameters."""
        return cast(Tensor, self.mean_module(x_BD)).transpose(0, 1)

    def grown(self, layout: ParameterLayout) -> "ShardedStack":
        """Return a stack with room for more classes, and the same parameters."""
        more = ShardedStack(layout, self.learning, self.mesh, self.offload)
        more.grow_from(self)
        return more


def shard(module: nn.Module, mesh: DeviceMesh, offload: bool) -> None:
    """Shard each layer of each copy, so that each is gathered on its own."""
    policy = CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda") if offload else OffloadPolicy()
    options: dict[str, Any] = {"mesh": mesh, "reshard_after_forward": True, "offload_policy": policy}
    for block in module.children():
        for copy in cast(nn.Module, block.copies).children():
            fully_shard(copy, **options)
    fully_shard(module, **options)
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.set_gradient_divide_factor(1.0)  # a loss is a sum of shares, not a mean over ranks
            part.set_force_sum_reduction_for_comms(True)  # gloo can only sum


def current_device(kind: str) -> torch.device:
    """Return the device of this process."""
    return torch.device(kind, torch.accelerator.current_device_index())


def create_mesh(device: str = "cpu") -> DeviceMesh:
    """Return a mesh of all ranks."""
    return dist.device_mesh.init_device_mesh(device, (dist.get_world_size(),))
