"""The layout of a network's and its head's parameters in one row of numbers, and their forward pass.

    row of P numbers --views--> {name: tensor} --network, head--> logits

Shapes: L copies, P parameters of a copy, B rows, D inputs, H width of the representation, C capacity for classes.
"""

import math
from collections.abc import Mapping
from contextlib import nullcontext

import torch
from torch import Tensor

from online.plugins.towers.fake_quantisation import FakeQuantiser
from online.plugins.towers.networks import Network

HEAD_WEIGHT, HEAD_BIAS = "head weight", "head bias"  # names that no parameter of a module can have


class ParameterLayout:
    """The positions of a network's and its head's parameters in a row of P numbers.

    labels: the head's capacity for classes. quantiser: with which the copies learn; None: by float products.
    """

    def __init__(self, network: Network, labels: int, quantiser: FakeQuantiser | None = None) -> None:
        self.network, self.labels, self.quantiser = network, labels, quantiser
        self.shapes = {**network.shapes, HEAD_WEIGHT: (network.width, labels), HEAD_BIAS: (labels,)}
        self.sizes = [math.prod(shape) for shape in self.shapes.values()]

    def first(self, seed: int) -> Tensor:
        """Return the initial row [P]; the head is all zeros."""
        initial = self.network.first(seed)
        row = [initial[name] if name in initial else torch.zeros(shape) for name, shape in self.shapes.items()]
        return torch.cat([tensor.reshape(-1) for tensor in row])

    def matrices(self) -> Tensor:
        """Return a mask [P] of weight decay: 1.0 for matrices, 0.0 for biases and gains."""
        return torch.cat([torch.full((math.prod(s),), float(len(s) > 1)) for s in self.shapes.values()])

    def views(self, flat_LP: Tensor) -> dict[str, Tensor]:
        """Return tensors by name, [L, ...], as views of flat [L, P]."""
        parts = zip(self.shapes.items(), torch.split(flat_LP, self.sizes, 1), strict=True)
        return {name: part.view(part.shape[0], *shape) for (name, shape), part in parts}

    def logits(self, parameters: Mapping[str, Tensor], x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C] as copies learn: by fake-quantised products where there is a quantiser."""
        if self.quantiser is None:
            return self.served_logits(parameters, x_BD)
        h_LBH = self.network.forward(parameters, x_BD, self.quantiser)  # float32: bfloat16 would round once more
        return self.quantiser.multiply(parameters[HEAD_BIAS].unsqueeze(1), h_LBH, parameters[HEAD_WEIGHT])

    def served_logits(self, parameters: Mapping[str, Tensor], x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C] by the weights as they are."""
        with torch.autocast(x_BD.device.type, torch.bfloat16) if has_bf16(x_BD.device) else nullcontext():
            h_LBH = self.network.forward(parameters, x_BD)
        return torch.baddbmm(parameters[HEAD_BIAS].unsqueeze(1), h_LBH.float(), parameters[HEAD_WEIGHT])

    def into_corner(self, flat_LP: Tensor, larger: "ParameterLayout", into_LP: Tensor) -> Tensor:
        """Copy flat [L, P] into the leading corner of each tensor of a larger layout, and return that."""
        olds = self.views(flat_LP)
        for name, new in larger.views(into_LP).items():
            new[tuple(slice(size) for size in olds[name].shape)].copy_(olds[name])
        return into_LP


def has_bf16(device: torch.device) -> bool:
    """Return whether a device computes in bfloat16 without emulation."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
