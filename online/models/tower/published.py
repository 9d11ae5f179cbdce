"""The published copy of a tower's network: what prediction needs, and nothing that learns.

Shapes: B rows, D columns, C classes, K known classes, P parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.models.contract import Answer, build_candidates
from online.models.tower.layout import Layout


@dataclass(frozen=True, slots=True)
class PublishedCopy:
    """What prediction needs. row_1P: the published copy. known_C: classes that may be answered."""

    layout: Layout
    row_1P: Tensor
    known_C: NDArray[np.bool_]
    parameters: dict[str, Tensor] = field(init=False)  # views of the row

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", self.layout.views(self.row_1P))

    @torch.no_grad()
    def chances(self, x_BD: NDArray[np.float32]) -> NDArray[np.float64]:
        """[B, K] over the known labels, in the order of their indices."""
        x = torch.from_numpy(x_BD).to(self.row_1P.device)
        logits_BK = self.layout.logits(self.parameters, x)[0].cpu().numpy()[:, self.known_C].astype(np.float64)
        odds_BK = np.exp(logits_BK - logits_BK.max(1, keepdims=True))
        chances: NDArray[np.float64] = odds_BK / odds_BK.sum(1, keepdims=True)
        return chances


def make_answer(labels: Sequence[str], order: Sequence[int], chances: Sequence[float]) -> Answer:
    """An answer. order: class indices, the likeliest first. chances: in that order."""
    candidates = build_candidates([labels[place] for place in order], chances)
    return Answer(candidates[0].id, candidates, candidates[0].score)
