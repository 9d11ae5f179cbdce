"""Copies of one network, trained side by side on the same micro-batches at different learning rates.

    parameters [L, P] --views--> {name: [L, ...]} --network, head--> logits [L, B, C] --autograd--> gradient [L, P]
    gradient --clip--> AdamW (one fused call for all copies) --> parameters --> average [L, P]

L copies, P parameters per copy, B rows, H width of the representation, C capacity for classes. A
copy's parameters are one row, so that the optimiser, the average, a penalty or a projection is one
operation on [L, P], for any network.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.models.contract import Tensors
from online.plugins.towers.closed_form import ForwardPass, MlpPass
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Mlp
from online.plugins.towers.published import FlatCopy

BETAS = (0.9, 0.99)
LARGEST_NORM = 1.0  # to which a copy's gradient is clipped
FLAT = ("parameters_LP", "average_LP", "mean_LP", "square_LP")  # tensors of the state, in addition to the steps
WARM_UP = 20  # steps over which the learning rate rises


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """The options of learning of a stack. rates: of its copies. average: the share of the published average that a step keeps."""

    rates: tuple[float, ...]
    decay: float
    average: float
    seed: int = 0


class Stack:
    """L copies that learn."""

    def __init__(self, layout: ParameterLayout, learning: LearningOptions, device: torch.device) -> None:
        self.layout, self.learning, self.device = layout, learning, device
        rates = learning.rates
        self.parameters_LP = layout.first(learning.seed).to(device).repeat(len(rates), 1)
        self.average_LP = self.parameters_LP.clone()
        self.mean_LP, self.square_LP = torch.zeros_like(self.parameters_LP), torch.zeros_like(self.parameters_LP)
        self.steps = torch.zeros((), device=device)
        self._move_LP = torch.zeros_like(self.parameters_LP)
        self._rate_L1 = torch.tensor(rates, device=device).unsqueeze(1)
        self._kept_LP = 1 - self._rate_L1 * learning.decay * layout.matrices().to(device)
        self._leaf_LP = self.parameters_LP.detach().requires_grad_()  # the same memory

    @property
    def has_closed_form(self) -> bool:
        """Whether `copies` and `averages` exist."""
        is_plain = self.layout.quantiser is None and isinstance(self.layout.network, Mlp)
        return self.device.type == "cpu" and is_plain

    @cached_property
    def copies(self) -> MlpPass:
        """The copies' passes without autograd, for an MLP on the CPU that learns by float products."""
        return MlpPass(self.layout, self.parameters_LP)

    @cached_property
    def averages(self) -> ForwardPass:
        """The forward pass of their averages."""
        return ForwardPass(self.layout, self.average_LP)

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C] that can be differentiated."""
        return self.layout.logits(self.layout.views(self._leaf_LP), x_BD)

    @torch.no_grad()
    def average_logits(self, x_BD: Tensor) -> Tensor:
        """Return the logits [L, B, C] of the averages, without a graph."""
        return self.layout.logits(self.layout.views(self.average_LP), x_BD)

    def differentiate(self, losses: Sequence[Tensor]) -> list[Tensor]:
        """d loss / d parameters [L, P] for each loss of the same logits."""
        last = len(losses) - 1
        return [
            torch.autograd.grad(loss, self._leaf_LP, retain_graph=place < last)[0] for place, loss in enumerate(losses)
        ]

    @torch.no_grad()
    def descend(self, gradient_LP: Tensor) -> None:
        """Take a step of AdamW (Loshchilov and Hutter 2019) on the clipped gradient, and update the average."""
        gradient_LP.div_(gradient_LP.norm(dim=1, keepdim=True).clamp_min_(LARGEST_NORM))
        self.steps.add_(1)
        torch._fused_adamw_(  # what torch.optim calls, without grouping by device
            [self._move_LP.zero_()],
            [gradient_LP],
            [self.mean_LP],
            [self.square_LP],
            [],
            [self.steps],
            lr=1.0,  # each copy moves by its own multiple of this
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )
        step = int(self.steps)
        self.parameters_LP.mul_(self._kept_LP)
        self.parameters_LP.addcmul_(self._move_LP, self._rate_L1, value=min(1.0, step / WARM_UP))
        self.average_LP.lerp_(self.parameters_LP, 1 - min(self.learning.average, step / (step + 10)))

    @cached_property
    def rows(self) -> list[FlatCopy]:
        """Each average and then each copy alone, in the same memory."""
        return [FlatCopy(self.layout, row_P[None]) for flat in (self.average_LP, self.parameters_LP) for row_P in flat]

    def grown(self, layout: ParameterLayout) -> "Stack":
        """Return the same copies, with their moments, in a larger layout."""
        more = Stack(layout, self.learning, self.device)
        more.steps = self.steps
        for name in FLAT:
            self.layout.into_corner(getattr(self, name), layout, getattr(more, name))
        return more

    def tensors(self) -> Tensors:
        """Return the parameters, moments, averages and the number of steps."""
        return {name: to_array(getattr(self, name)) for name in (*FLAT, "steps")}

    def restore(self, tensors: Tensors) -> None:
        """Adopt what `tensors` returned, in place."""
        with torch.no_grad():
            for name in (*FLAT, "steps"):
                own = getattr(self, name)
                own.copy_(torch.tensor(tensors[name]).reshape(own.shape))


def to_array(tensor: Tensor) -> NDArray[np.float32]:
    """Return a copy of the tensor as an array."""
    return cast(NDArray[np.float32], tensor.detach().cpu().numpy().copy())
