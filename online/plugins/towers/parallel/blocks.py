"""The copies of a network as a sequence of torch modules, which torch's engines can split over devices.

    layout --build_blocks--> Sequential(Block, Block, ..., head)      x_BD -> [B, L, H] -> ... -> logits_BLC
                                          |
                    named_places: whose tensor of the layout each parameter is

A `Stack` computes its L copies from flat [L, P] tensors. Here each copy of each layer is a module with parameters
of its own, so that one layer can be gathered, moved or cut without the others. The numbers are those of the
layout; a matrix is stored transposed, as torch's Linear has it.

Shapes: L copies, P parameters of a copy, B rows, D inputs, H width, C capacity for classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from online.plugins.towers.layout import HEAD_BIAS, HEAD_WEIGHT, ParameterLayout
from online.plugins.towers.networks import EPSILON, Mlp, Module

MLP_NAMES = {"0.weight": "weight", "0.bias": "bias", "1.weight": "gain", "1.bias": "shift"}
HEAD_NAMES = {"weight": HEAD_WEIGHT, "bias": HEAD_BIAS}


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """The tensor of a layout that a parameter is. block: its layer. name: in the layout."""

    block: int
    copy: int
    name: str
    transposed: bool

    def turn(self, tensor: Tensor) -> Tensor:
        """Return the tensor as the module has it, from the layout's, or the other way round."""
        return tensor.t() if self.transposed else tensor


class LayerBlock(nn.Module):
    """One layer of all copies. is_first: its input [B, D] is the same for all copies, not [B, L, ...]."""

    def __init__(self, copies: Sequence[nn.Module], is_first: bool) -> None:
        super().__init__()
        self.copies, self.is_first = nn.ModuleList(copies), is_first

    def forward(self, h: Tensor) -> Tensor:
        """Return the layer's output [B, L, W] of all copies."""
        inputs = [h] * len(self.copies) if self.is_first else h.unbind(1)
        return torch.stack([copy(own) for copy, own in zip(self.copies, inputs, strict=True)], 1)


def build_blocks(layout: ParameterLayout, copies: int) -> nn.Sequential:
    """Return the layers and the head of `copies` copies, without memory: parameters are on the device `meta`."""
    layers = [*(layer for layer, _ in network_layers(layout)), head_layer(layout)]
    blocks = [LayerBlock([deepcopy(layer) for _ in range(copies)], at == 0) for at, layer in enumerate(layers)]
    return nn.Sequential(*blocks).eval().requires_grad_(True)  # a stack trains all parameters of a network


def head_layer(layout: ParameterLayout) -> nn.Module:
    """Return the layer of the head, without memory for its weights."""
    return nn.Linear(layout.network.width, layout.labels, device="meta")


def network_layers(layout: ParameterLayout) -> list[tuple[nn.Module, dict[str, str]]]:
    """Return the layers of one copy, each with the layout's names of its parameters.

    A module of the user is split into the children of a Sequential; any other module is one layer.
    """
    network = layout.network
    if isinstance(network, Mlp):
        widths = zip((network.inputs, *network.hidden), network.hidden, strict=False)
        return [(mlp_layer(*pair), rename(MLP_NAMES, at)) for at, pair in enumerate(widths)]
    assert isinstance(network, Module)
    module = deepcopy(network.module).to("meta")
    if isinstance(module, nn.Sequential):
        children = [(child, own_names(child, f"{name}.")) for name, child in module.named_children()]
        if [name for _, names in children for name in names.values()] == list(network.shapes):
            return children
    return [(module, own_names(module, ""))]  # also where layers share a parameter


def mlp_layer(before: int, after: int) -> nn.Module:
    """Return a hidden layer, without memory for its weights."""
    with torch.device("meta"):
        return nn.Sequential(nn.Linear(before, after), nn.LayerNorm(after, eps=EPSILON), nn.ReLU())


def rename(names: Mapping[str, str], layer: int) -> dict[str, str]:
    """Return the names of a layer's parameters in the sequence."""
    return {own: f"{layer}.{name}" for own, name in names.items()}


def own_names(module: nn.Module, prefix: str) -> dict[str, str]:
    """Return the names of a module's parameters under a prefix."""
    return {name: prefix + name for name, _ in module.named_parameters()}


def named_places(layout: ParameterLayout, copies: int) -> dict[str, TensorPlace]:
    """Return where each parameter of `build_blocks` lies in the layout, by the parameter's name."""
    return {f"{place.block}.copies.{place.copy}.{own}": place for own, place in _places(layout, copies)}


def _places(layout: ParameterLayout, copies: int) -> Iterator[tuple[str, TensorPlace]]:
    is_mlp = isinstance(layout.network, Mlp)
    layers = [names for _, names in network_layers(layout)]
    for block, names in enumerate((*layers, HEAD_NAMES)):
        is_ours = is_mlp or names is HEAD_NAMES  # its matrices are [in, out] in the layout
        for copy in range(copies):
            for own, name in names.items():
                yield own, TensorPlace(block, copy, name, is_ours and len(layout.shapes[name]) == 2)


def block_sizes(layout: ParameterLayout) -> list[int]:
    """Return the parameters of one copy in each block."""
    sizes = dict(zip(layout.shapes, layout.sizes, strict=True))
    layers = [names.values() for _, names in network_layers(layout)]
    return [sum(sizes[name] for name in names) for names in (*layers, HEAD_NAMES.values())]


def block_bounds(sizes: Sequence[int], stages: int) -> list[int]:
    """Cut blocks into consecutive stages so that the largest is as small as possible.

    The bounds [stages + 1]: stage s holds blocks bounds[s] to bounds[s + 1]. Raises ValueError for more stages than
    blocks.
    """
    if stages > len(sizes):
        raise ValueError(f"{len(sizes)} layers cannot be split over {stages} ranks: use at most {len(sizes)} ranks")

    @cache
    def best(start: int, left: int) -> tuple[int, tuple[int, ...]]:
        """Return the largest stage and the bounds when the blocks from `start` on are cut into `left` stages."""
        if left == 1:
            return sum(sizes[start:]), (start, len(sizes))
        cuts = range(start + 1, len(sizes) - left + 2)
        found = (max(sum(sizes[start:cut]), best(cut, left - 1)[0]) for cut in cuts)
        largest, cut = min(zip(found, cuts, strict=True))
        return largest, (start, *best(cut, left - 1)[1])

    return list(best(0, stages)[1])
