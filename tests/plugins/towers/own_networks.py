"""User-defined networks that the tower's tests name, such as `tests.plugins.towers.own_networks:wide`."""

import torch
from torch import Tensor, nn

a_number = 3


def wide(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 48), nn.LayerNorm(48), nn.GELU())


def batch_norm(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 16), nn.BatchNorm1d(16))


def one_number(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 1), nn.Flatten(0))


class Dropped(nn.Module):
    """A network with dropout, which must be off: towers run networks in evaluation mode."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 32)

    def forward(self, x_BD: Tensor) -> Tensor:
        return nn.functional.dropout(torch.relu(self.layer(x_BD)), 0.5, self.training)
