"""The text encoder with all weights trainable and sharded over ranks, by torch's FSDP2.

    ids_BT, seen_BT --gather embeddings--> x_ND --gather layer 0, free it--> ... --> unit vectors [B, 384]

It computes what `adapter` computes from whole tensors. Each rank encodes its own texts and keeps 1/n of every layer;
a gradient is the sum over the texts of all ranks. `online adapt` trains the last layers on one device, where they fit;
this is for tuning all of them, or an encoder that does not fit.

Shapes: B texts of this rank, T tokens of the longest, N tokens of all, D = 384 features.
"""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from online.models.encoders.minilm import LAYERS
from online.plugins.encoder_tuning.adapter import Weights, apply_layer, embed_tokens, mean_pool

DOT = "/"  # in a parameter's name, where the weights' names have a dot


class NamedWeights(nn.Module):
    """Parameters with the names that the functions of `adapter` look them up by."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        super().__init__()
        for name in sorted(weights):
            if name.startswith(prefix) and weights[name].is_floating_point():
                self.register_parameter(name.replace(".", DOT), nn.Parameter(weights[name].clone()))

    def named_weights(self) -> dict[str, Tensor]:
        return {name.replace(DOT, "."): tensor for name, tensor in self.named_parameters()}


class Embeddings(NamedWeights):
    def forward(self, ids_BT: Tensor) -> Tensor:
        return embed_tokens(self.named_weights(), ids_BT)


class EncoderLayer(NamedWeights):
    def __init__(self, weights: Weights, index: int) -> None:
        super().__init__(weights, f"encoder.layer.{index}.")
        self.index = index

    def forward(self, x_ND: Tensor, seen_BT: Tensor) -> Tensor:
        return apply_layer(self.named_weights(), self.index, x_ND, seen_BT)


class EncoderModule(nn.Module):
    """The network as a torch module. weights: its tensors by name."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.embeddings = Embeddings(weights, "embeddings.")
        self.layers = nn.ModuleList([EncoderLayer(weights, index) for index in range(LAYERS)])

    def forward(self, ids_BT: Tensor, seen_BT: Tensor) -> Tensor:
        """Unit vectors [B, D]. seen_BT: which positions hold a token; the others are padding."""
        x_ND = cast(Tensor, self.embeddings(ids_BT))[seen_BT]
        for layer in self.layers:
            x_ND = layer(x_ND, seen_BT)
        return mean_pool(x_ND, seen_BT)


def shard_encoder(weights: Weights, mesh: DeviceMesh, offload: bool = False) -> EncoderModule:
    """The encoder, sharded over a mesh of one dimension. offload: keep the shards in the host's memory.

    Gradients are summed over the ranks, so each rank's loss is a part of one sum.
    """
    module = EncoderModule(weights)
    policy = CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda") if offload else OffloadPolicy()
    for part in (module.embeddings, *module.layers, module):
        fully_shard(part, mesh=mesh, reshard_after_forward=True, offload_policy=policy)
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)
    return module


@torch.no_grad()
def gather_weights(module: EncoderModule, gradients: bool = False) -> Mapping[str, Tensor]:
    """The whole tensors, or their gradients, by the names of the weights. Collective."""
    found = {}
    for part in (module.embeddings, *module.layers):
        assert isinstance(part, NamedWeights)
        for name, parameter in part.named_weights().items():
            tensor = parameter.grad if gradients else parameter
            found[name] = cast(DTensor, tensor).full_tensor()
    return found
