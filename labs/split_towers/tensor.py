"""Copies whose wide layers are cut within the layer, by torch.distributed.tensor.parallel.

    x_BD --each rank: some of the inputs--> first layer --sum--> hidden layers, on every rank
         --each rank: some of the classes--> head --gather--> logits_BLC on every rank

A network with many classes has most of its parameters in the head, one with many inputs in the first layer. Each
rank keeps and computes a share of these two, and the whole of what lies between. Every rank reads the same rows.

Shoeybi et al. 2019, "Megatron-LM". Shapes: L copies, B rows, D inputs, C capacity for classes.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
from torch.nn.functional import cross_entropy

from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Mlp
from online.plugins.towers.parallel.blocks import build_blocks
from online.plugins.towers.parallel.split_stack import LossOfRows, SplitStack
from online.plugins.towers.stack import LearningOptions


class TensorStack(SplitStack):
    """Copies whose head, and first layer if the network is an `Mlp`, are cut over the ranks of a mesh.

    gathers: every rank gets the logits of all classes. Without, `logits` gives each rank those of its classes.
    """

    def __init__(
        self, layout: ParameterLayout, learning: LearningOptions, mesh: DeviceMesh, gathers: bool = True
    ) -> None:
        super().__init__(layout, learning, mesh.get_group(), torch.device(mesh.device_type))
        self.mesh, self.gathers = mesh, gathers
        self.module, self.mean_module = self._create_module(gathers), self._create_module(True)
        self._begin()

    def _create_module(self, gathers: bool) -> nn.Module:
        module = build_blocks(self.layout, len(self.learning.rates))
        output = Replicate() if gathers else Shard(-1)
        for head in copies_of(module[-1]):
            parallelize_module(head, self.mesh, ColwiseParallel(output_layouts=output, use_local_output=gathers))
        if isinstance(self.layout.network, Mlp):
            for layer in copies_of(module[0]):
                parallelize_module(layer, self.mesh, {"0": RowwiseParallel(input_layouts=Replicate())})
        return module.to_empty(device=self.device)

    def logits(self, x_BD: Tensor) -> Tensor:
        """Logits [L, B, C] that can be differentiated, a DTensor that is cut along C unless they are gathered."""
        return cast(Tensor, self.module(x_BD)).transpose(0, 1)

    def gradient(self, x_BD: Tensor, loss: LossOfRows) -> list[Tensor]:
        """The gradient of all rows, which every rank computes."""
        return self.differentiate(loss(self.logits(x_BD), torch.arange(len(x_BD), device=x_BD.device)))

    def differentiate(self, loss: Tensor) -> list[Tensor]:
        """The gradient of a loss that all ranks compute alike."""
        loss.backward()  # type: ignore[no-untyped-call]
        return self.collect()

    def cross_entropy_gradient(self, x_BD: Tensor, label_B: Tensor, share_B: Tensor) -> list[Tensor]:
        """The gradient of the weighted -log p of right classes, all of them known, without gathering the logits."""
        logits_LBC = self.logits(x_BD)
        with loss_parallel():
            losses = [self._weighted_loss(logits_BC, label_B, share_B) for logits_BC in logits_LBC.unbind(0)]
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        return self.collect()

    def _weighted_loss(self, logits_BC: Tensor, label_B: Tensor, share_B: Tensor) -> Tensor:
        losses_B = cross_entropy(logits_BC, label_B, reduction="none")
        return (cast(DTensor, losses_B).to_local() * share_B).sum()

    @torch.no_grad()
    def average_logits(self, x_BD: Tensor) -> Tensor:
        return cast(Tensor, self.mean_module(x_BD)).transpose(0, 1)

    def share(self, parameter: Tensor) -> float:
        is_cut = isinstance(parameter, DTensor) and any(place.is_shard() for place in parameter.placements)
        return 1.0 if is_cut else 1 / self.mesh.size()

    def grown(self, layout: ParameterLayout) -> "TensorStack":
        more = TensorStack(layout, self.learning, self.mesh, self.gathers)
        more.grow_from(self)
        return more


def copies_of(block: nn.Module) -> list[nn.Module]:
    return list(cast(nn.Module, block.copies).children())
