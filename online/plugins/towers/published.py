"""The published copy of a tower's network: what prediction needs, and nothing that learns.

Shapes: B rows, D columns, C classes, K known classes, P parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.models.contract import Answer, build_candidates
from online.plugins.towers.closed_form import ForwardPass
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Mlp


class NetworkCopy(Protocol):
    """One copy of the network. row_1P: its parameters, on the device that inputs must lie on."""

    row_1P: Tensor

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [B, C]."""


class FlatCopy:
    """One copy. row_1P: its parameters, which may be updated in place."""

    def __init__(self, layout: ParameterLayout, row_1P: Tensor) -> None:
        self.layout, self.row_1P = layout, row_1P
        is_simple = row_1P.device.type == "cpu" and isinstance(layout.network, Mlp)
        self._forward = ForwardPass(layout, row_1P) if is_simple else None
        self._parameters = layout.views(row_1P)

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [B, C]."""
        if self._forward is not None:
            return self._forward.logits(x_BD)[0]
        return self.layout.served_logits(self._parameters, x_BD)[0]


@dataclass(frozen=True, slots=True)
class PublishedCopy:
    """The published part of a tower: a copy of the network, and known_C, the classes that may be answered."""

    copy: NetworkCopy
    known_C: NDArray[np.bool_]

    @torch.no_grad()
    def chances(self, x_BD: NDArray[np.float32]) -> NDArray[np.float64]:
        """[B, K] over the known labels, in the order of their indices."""
        x = torch.from_numpy(x_BD).to(self.copy.row_1P.device)
        logits_BK = self.copy.logits(x).cpu().numpy()[:, self.known_C].astype(np.float64)
        odds_BK = np.exp(logits_BK - logits_BK.max(1, keepdims=True))
        chances: NDArray[np.float64] = odds_BK / odds_BK.sum(1, keepdims=True)
        return chances


def make_answer(labels: Sequence[str], order: Sequence[int], chances: Sequence[float]) -> Answer:
    """Return an answer. order: class indices, the likeliest first. chances: in that order."""
    candidates = build_candidates([labels[place] for place in order], chances)
    return Answer(candidates[0].id, candidates, candidates[0].score)
