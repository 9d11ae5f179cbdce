"""AdamW with clipping, warm-up and an average, over pieces of copies that lie on several ranks.

    pieces of this rank --> squares_L --all_reduce--> norm of each copy --clip--> torch.optim.AdamW --> average

It takes the step that `Stack.descend` takes on flat tensors: a copy's gradient is clipped by the norm over all of
its pieces, wherever they lie, and each copy has its own learning rate.

Shapes: L copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from online.plugins.towers.stack import BETAS, LARGEST_NORM, WARM_UP


@dataclass(frozen=True, slots=True)
class ParameterShard:
    """A part of a copy's parameters that this rank keeps, and of their average, as plain tensors.

    copy: whose. share: the share of its square that this rank counts; 1/n where n ranks keep the same numbers.
    """

    parameters: Tensor
    average: Tensor
    copy: int
    is_matrix: bool
    share: float = 1.0


class Descent:
    """Steps on pieces. rates: of the L copies. average: the share of the average that a step keeps."""

    def __init__(
        self,
        pieces: Sequence[ParameterShard],
        rates: Sequence[float],
        decay: float,
        average: float,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self.pieces, self.rates, self.decay, self.memory, self.group = pieces, rates, decay, average, group
        self.steps = 0
        self._kept = [piece for piece in pieces if piece.parameters.numel()]  # a rank may keep no row of a small tensor
        self.optimiser = torch.optim.AdamW(self._groups(), betas=BETAS, eps=1e-8, fused=True)
        for piece in pieces:
            self.optimiser.state[piece.parameters] = {
                "step": torch.zeros((), device=piece.parameters.device),
                "exp_avg": torch.zeros_like(piece.parameters),
                "exp_avg_sq": torch.zeros_like(piece.parameters),
            }

    def _groups(self) -> list[dict[str, object]]:
        """Return a group for the matrices of each copy and one for its vectors, which do not decay."""
        keys = sorted({(piece.copy, piece.is_matrix) for piece in self._kept})
        return [
            {"params": [p.parameters for p in self._kept if (p.copy, p.is_matrix) == key], "copy": key[0], "of": key}
            for key in keys
        ] or [{"params": [torch.zeros(1)], "copy": 0, "of": (0, False)}]

    @torch.no_grad()
    def step(self, gradient: Sequence[Tensor]) -> None:
        """Step on a gradient, one tensor for each piece. Every rank of the group takes part."""
        norms_L = self._squares(gradient).sqrt().clamp_min(LARGEST_NORM)
        self.steps += 1
        for piece, slope in zip(self.pieces, gradient, strict=True):
            piece.parameters.grad = slope.div_(norms_L[piece.copy])
        self._set_rates()
        self.optimiser.step()
        kept = min(self.memory, self.steps / (self.steps + 10))
        for piece in self.pieces:
            piece.parameters.grad = None
            piece.average.lerp_(piece.parameters, 1 - kept)

    def _squares(self, gradient: Sequence[Tensor]) -> Tensor:
        """Return the squared norm [L] of each copy's gradient."""
        device = gradient[0].device if gradient else None
        squares_L = torch.zeros(len(self.rates), device=device)
        for piece, slope in zip(self.pieces, gradient, strict=True):
            squares_L[piece.copy] += piece.share * slope.square().sum()
        if self.group is not None:
            dist.all_reduce(squares_L, group=self.group)
        return squares_L

    def _set_rates(self) -> None:
        """Warm the rates up. The weights decay at the full rate, as in `Stack.descend`."""
        warmth = min(1.0, self.steps / WARM_UP)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rates[group["copy"]] * warmth
            group["weight_decay"] = self.decay / warmth if group["of"][1] else 0.0

    def tensors_of(self, flat: str) -> list[Tensor]:
        """Return the pieces of one of the stack's flat tensors (`stack.FLAT`), in memory that may be written."""
        match flat:
            case "parameters_LP":
                return [piece.parameters for piece in self.pieces]
            case "average_LP":
                return [piece.average for piece in self.pieces]
            case _:
                moment = {"mean_LP": "exp_avg", "square_LP": "exp_avg_sq"}[flat]
                return [self.optimiser.state[piece.parameters][moment] for piece in self.pieces]

    def set_steps(self, steps: int) -> None:
        """Set the number of steps, from which the warm-up follows."""
        self.steps = steps
        for piece in self.pieces:
            self.optimiser.state[piece.parameters]["step"].fill_(steps)

    def held_bytes(self) -> int:
        """Return bytes of the parameters, the average, the moments and a gradient on this rank."""
        return 5 * sum(piece.parameters.numel() * piece.parameters.element_size() for piece in self.pieces)
