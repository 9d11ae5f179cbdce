"""A published copy whose layers lie on several devices, for a network that no single device holds.

    x_BD --> layers on device 0 --h--> layers on device 1 --h--> ... --> logits_BC on the last device

Consecutive layers lie together, so that one hidden state crosses between two devices. The devices compute one after
the other: splitting gives room, not speed.

Shapes: B rows, D inputs, C capacity for classes, P parameters.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.blocks import block_bounds, block_sizes, build_blocks, named_places


class SplitCopy:
    """One copy, split over devices into parts of about equal size. row_1P: its parameters, in the host's memory."""

    def __init__(self, layout: ParameterLayout, row_1P: Tensor, devices: Sequence[torch.device]) -> None:
        self.layout, self.row_1P, self.devices = layout, row_1P, tuple(devices)
        bounds = block_bounds(block_sizes(layout), min(len(devices), len(block_sizes(layout))))
        blocks, views = build_blocks(layout, 1), layout.views(row_1P)
        self.parts = [
            blocks[start:end].to_empty(device=device)
            for (start, end), device in zip(pairwise(bounds), devices, strict=False)
        ]
        places = named_places(layout, 1)
        with torch.no_grad():
            for part in self.parts:
                for name, parameter in part.named_parameters():
                    parameter.copy_(places[name].turn(views[places[name].name][0])).requires_grad_(False)

    @torch.no_grad()
    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [B, C], on the last device."""
        h = x_BD
        for part, device in zip(self.parts, self.devices, strict=False):
            h = part(h.to(device))
        return h.squeeze(1)

    def held_bytes(self) -> list[int]:
        """Return bytes of the parameters on each device."""
        return [count_bytes(part) for part in self.parts]


def count_bytes(module: nn.Module) -> int:
    """Return the bytes of a module's parameters."""
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
