"""Copies of one network, trained side by side on the same micro-batches at different learning rates.

    parameters [L, P] --views--> {name: [L, ...]} --network, head--> logits [L, B, C] --autograd--> gradient [L, P]
    gradient --clip--> AdamW (one fused call for all copies) --> parameters --> average [L, P]

L copies, P parameters per copy, B rows, H width of the representation, C capacity for classes. A
copy's parameters are one row, so that the optimiser, the average, a penalty or a projection is one
operation on [L, P], for any network.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adamw import adamw

from online.models.contract import Tensors
from online.models.tower.networks import Network

HEAD_WEIGHT, HEAD_BIAS = "head weight", "head bias"  # names that no parameter of a module can have
BETAS = (0.9, 0.99)
LARGEST_NORM = 1.0  # to which a copy's gradient is clipped
FLAT = ("parameters_LP", "average_LP", "mean_LP", "square_LP")  # tensors of the state, in addition to the steps
WARM_UP = 20  # steps over which the learning rate rises


class Layout:
    """The positions of a network's and its head's parameters in a row of P numbers.

    labels: the head's capacity for classes.
    """

    def __init__(self, network: Network, labels: int) -> None:
        self.network, self.labels = network, labels
        self.shapes = {**network.shapes, HEAD_WEIGHT: (network.width, labels), HEAD_BIAS: (labels,)}
        self.sizes = [math.prod(shape) for shape in self.shapes.values()]

    def first(self, seed: int) -> Tensor:
        """The initial row [P]; the head is all zeros."""
        initial = self.network.first(seed)
        row = [initial[name] if name in initial else torch.zeros(shape) for name, shape in self.shapes.items()]
        return torch.cat([tensor.reshape(-1) for tensor in row])

    def matrices(self) -> Tensor:
        """A mask [P] of weight decay: 1.0 for matrices, 0.0 for biases and gains."""
        return torch.cat([torch.full((math.prod(s),), float(len(s) > 1)) for s in self.shapes.values()])

    def views(self, flat_LP: Tensor) -> dict[str, Tensor]:
        """Tensors by name, [L, ...], as views of flat [L, P]."""
        parts = zip(self.shapes.items(), torch.split(flat_LP, self.sizes, 1), strict=True)
        return {name: part.view(part.shape[0], *shape) for (name, shape), part in parts}

    def logits(self, parameters: Mapping[str, Tensor], x_BD: Tensor) -> Tensor:
        """Logits [L, B, C]."""
        with torch.autocast(x_BD.device.type, torch.bfloat16) if has_bf16(x_BD.device) else nullcontext():
            h_LBH = self.network.forward(parameters, x_BD)
        return torch.baddbmm(parameters[HEAD_BIAS].unsqueeze(1), h_LBH.float(), parameters[HEAD_WEIGHT])

    def into_corner(self, flat_LP: Tensor, larger: "Layout", into_LP: Tensor) -> Tensor:
        """Copy flat [L, P] into the leading corner of each tensor of a larger layout, and return that."""
        olds = self.views(flat_LP)
        for name, new in larger.views(into_LP).items():
            new[tuple(slice(size) for size in olds[name].shape)].copy_(olds[name])
        return into_LP


class Stack:
    """L copies that learn. average: the share of the published average that a step keeps."""

    def __init__(
        self, layout: Layout, rates: Sequence[float], decay: float, average: float, seed: int, device: torch.device
    ) -> None:
        self.layout, self.rates, self.decay, self.memory = layout, rates, decay, average
        self.seed, self.device = seed, device
        self.parameters_LP = layout.first(seed).to(device).repeat(len(rates), 1)
        self.average_LP = self.parameters_LP.clone()
        self.mean_LP, self.square_LP = torch.zeros_like(self.parameters_LP), torch.zeros_like(self.parameters_LP)
        self.steps = torch.zeros((), device=device)
        self._move_LP = torch.zeros_like(self.parameters_LP)
        self._rate_L1 = torch.tensor(rates, device=device).unsqueeze(1)
        self._kept_LP = 1 - self._rate_L1 * decay * layout.matrices().to(device)
        self._leaf_LP = self.parameters_LP.detach().requires_grad_()  # the same memory

    def logits(self, x_BD: Tensor) -> Tensor:
        """Logits [L, B, C] that can be differentiated."""
        return self.layout.logits(self.layout.views(self._leaf_LP), x_BD)

    def differentiate(self, loss: Tensor, again: bool = False) -> Tensor:
        """d loss / d parameters [L, P]. again: keep the graph for another loss of the same logits."""
        return torch.autograd.grad(loss, self._leaf_LP, retain_graph=again)[0]

    @torch.no_grad()
    def descend(self, gradient_LP: Tensor) -> None:
        """Take a step of AdamW (Loshchilov and Hutter 2019) on the clipped gradient, and update the average."""
        gradient_LP.div_(gradient_LP.norm(dim=1, keepdim=True).clamp_min_(LARGEST_NORM))
        adamw(
            [self._move_LP.zero_()],
            [gradient_LP],
            [self.mean_LP],
            [self.square_LP],
            [],
            [self.steps],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=1.0,  # each copy moves by its own multiple of this
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )
        step = int(self.steps)
        self.parameters_LP.mul_(self._kept_LP)
        self.parameters_LP.addcmul_(self._move_LP, self._rate_L1, value=min(1.0, step / WARM_UP))
        self.average_LP.lerp_(self.parameters_LP, 1 - min(self.memory, step / (step + 10)))

    def grown(self, layout: Layout) -> "Stack":
        """The same copies, with their moments, in a larger layout."""
        more = Stack(layout, self.rates, self.decay, self.memory, self.seed, self.device)
        more.steps = self.steps
        for name in FLAT:
            self.layout.into_corner(getattr(self, name), layout, getattr(more, name))
        return more

    def tensors(self) -> Tensors:
        return {name: to_array(getattr(self, name)) for name in (*FLAT, "steps")}

    def restore(self, tensors: Tensors) -> None:
        with torch.no_grad():
            for name in (*FLAT, "steps"):
                own = getattr(self, name)
                own.copy_(torch.tensor(tensors[name]).reshape(own.shape))


def has_bf16(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def to_array(tensor: Tensor) -> NDArray[np.float32]:
    """A copy of the tensor as an array."""
    return cast(NDArray[np.float32], tensor.detach().cpu().numpy().copy())


def determinism_domain(device: str) -> str:
    """The conditions under which equal logs give equal bits: build, device and settings."""
    cuda = torch.device(device).type == "cuda"
    facts = [
        f"torch {torch.__version__}",
        torch.cuda.get_device_name(device) if cuda else f"cpu {torch.backends.cpu.get_cpu_capability()}",
        f"threads {torch.get_num_threads()}",
        f"deterministic {'on' if torch.are_deterministic_algorithms_enabled() else 'off'}",
    ]
    return ", ".join(facts)
