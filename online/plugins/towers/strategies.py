"""Strategies against forgetting: what is replayed beside the fresh examples, and what is penalised.

    naive    nothing                                        er      replayed rows count like fresh ones
    er_ace   fresh rows compete only with recent classes    derpp   replayed rows also keep their former logits
    ewc      important weights are held in place            lwf     fresh rows keep the answers of a former copy
    agem     a step that hurts replayed rows is projected

A strategy says which losses of a step are differentiated, and how their gradients [L, P] become that of the step,
for L copies with their own learning rates. A loss is a sum over rows, so that the gradient of a step is the sum of
those of its parts. A stream has no task boundaries, so ewc and lwf take a new reference copy every
CONSOLIDATE_EVERY examples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from online.models.contract import Tensors
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.options import STRENGTHS
from online.plugins.towers.stack import Stack, to_array

CONSOLIDATE_EVERY = 100  # examples
TEMPERATURE = 2.0  # of lwf's distillation
FADING = 0.9  # share of the former importance that a consolidation of ewc keeps


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """B rows of a step, or of a part of it: the first `fresh` are new, the others replayed, `draws` times the same number.

    label_B: class indices. liked_B: whether the class is right, or known to be wrong. share_B: weights
    that sum to 1 over the fresh rows and over each draw of all parts; 0 for rows that only fill the shape.
    known_C: classes that may be answered. lately_C: classes among the last few examples. kept_BLC:
    the logits that replayed rows had when they were fresh, NaN for classes unknown then.
    """

    layout: ParameterLayout
    logits_LBC: Tensor
    fresh: int
    label_B: Tensor
    liked_B: Tensor
    share_B: Tensor
    known_C: Tensor
    lately_C: Tensor
    x_BD: Tensor
    kept_BLC: Tensor | None = None

    def losses(self, rows: slice = slice(None), allowed: Tensor | None = None) -> Tensor:
        """Return weighted losses [L, B] of some rows; their sum is a mean over the fresh rows plus one per draw."""
        answers = self.known_C if allowed is None else allowed
        found = compute_losses(self.logits_LBC[:, rows], self.label_B[rows], self.liked_B[rows], answers)
        return found * self.share_B[rows]


class Strategy(Protocol):
    """A strategy. draws: sets of replayed rows per step. keeps_logits: whether rows come with their logits.

    loss_count: how many losses it differentiates.
    is_plain: whether its gradient is that of the sum of the losses over all known classes.
    """

    draws: int
    loss_count: int
    keeps_logits: bool
    is_plain: bool

    def loss_terms(self, step: TrainingStep) -> tuple[Tensor, ...]:
        """Return the losses whose gradients `join_gradients` needs: scalars, each a sum over the rows of a part of a step."""

    def join_gradients(self, gradients: Sequence[Tensor], stack: Stack) -> Tensor:
        """Return the gradient [L, P] of a step, from those of its losses, each summed over all parts. May overwrite them."""

    def learned(self, stack: Stack, examples: int) -> None:
        """Note that a micro-batch of `examples` was learned."""

    def grown(self, before: Stack, after: Stack) -> None:
        """Follow a stack that grew for more classes or columns."""

    def tensors(self) -> Tensors:
        """Return what must survive a restart."""

    def restore(self, tensors: Tensors, device: torch.device) -> None:
        """Adopt what `tensors` returned."""


def compute_losses(logits_LBC: Tensor, label_B: Tensor, liked_B: Tensor, allowed: Tensor) -> Tensor:
    """Return losses [L, B]: -log p of a right class, -log(1 - p) of a wrong one.

    allowed [C] or [B, C]: the classes that compete. If none does yet, a wrong class has no loss.
    """
    logp_LBC = logits_LBC.masked_fill(~allowed, -torch.inf).log_softmax(2).nan_to_num(nan=-torch.inf)
    logp_LB = logp_LBC.gather(2, label_B.expand(len(logits_LBC), -1).unsqueeze(2)).squeeze(2)
    return torch.where(liked_B, -logp_LB.clamp_min(-30.0), -torch.log1p(-logp_LB.exp().clamp_max(1 - 1e-6)))


class FineTuning:
    """No defence against forgetting: each step learns its fresh rows only."""

    draws = 0
    loss_count = 1
    keeps_logits = False
    is_plain = False

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def loss_terms(self, step: TrainingStep) -> tuple[Tensor, ...]:
        """Return the losses, each of which is differentiated by itself."""
        return (step.losses().sum(),)

    def join_gradients(self, gradients: Sequence[Tensor], stack: Stack) -> Tensor:
        """Return one gradient for the step, from those of the losses."""
        return gradients[0]

    def learned(self, stack: Stack, examples: int) -> None:
        """Note that a step was taken."""

    def grown(self, before: Stack, after: Stack) -> None:
        """Adapt what the strategy keeps to a stack with more classes."""

    def tensors(self) -> Tensors:
        """Return what must survive a restart: nothing."""
        return {}

    def restore(self, tensors: Tensors, device: torch.device) -> None:
        """Adopt what `tensors` returned."""


class ExperienceReplay(FineTuning):
    """ER, experience replay (Chaudhry et al. 2019)."""

    draws = 1
    is_plain = True


class AsymmetricReplay(FineTuning):
    """ER-ACE (Caccia et al. 2022): a fresh row competes only with recent classes, which spares old ones."""

    draws = 1

    def loss_terms(self, step: TrainingStep) -> tuple[Tensor, ...]:
        """Return the loss; fresh rows compete only with classes among the last examples."""
        own_BC = one_hot(step.label_B, len(step.known_C)).bool() & step.liked_B.unsqueeze(1)
        allowed_BC = step.known_C.expand_as(own_BC).clone()
        fresh = slice(step.fresh)
        allowed_BC[fresh] &= step.lately_C | own_BC[fresh] | ~step.liked_B[fresh].unsqueeze(1)
        return (step.losses(allowed=allowed_BC).sum(),)


class DarkReplay(FineTuning):
    """DER++ (Buzzega et al. 2020): one draw for its logits, one for its classes."""

    draws = 2
    keeps_logits = True

    def loss_terms(self, step: TrainingStep) -> tuple[Tensor, ...]:
        """Return the loss, with the distance of replayed rows to their logits of then."""
        assert step.kept_BLC is not None
        draw = (len(step.label_B) - step.fresh) // 2
        dark, labelled = slice(step.fresh, step.fresh + draw), slice(step.fresh + draw, None)
        kept_LBC = step.kept_BLC[:draw].transpose(0, 1)
        then = ~kept_LBC.isnan()
        difference_LBC = torch.where(then, step.logits_LBC[:, dark] - kept_LBC, 0.0)
        difference_LB = difference_LBC.square().sum(2) / then.sum(2).clamp_min(1)
        dark_loss = self.strength * (difference_LB * step.share_B[dark]).sum()
        return (step.losses(slice(step.fresh)).sum() + step.losses(labelled).sum() + dark_loss,)


class ConsolidatingStrategy(FineTuning):
    """A strategy that takes a new reference copy every CONSOLIDATE_EVERY examples."""

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        self.examples = 0

    def learned(self, stack: Stack, examples: int) -> None:
        """Count the examples, and take a new reference copy when it is due."""
        due = self.examples // CONSOLIDATE_EVERY < (self.examples + examples) // CONSOLIDATE_EVERY
        self.examples += examples
        if due:
            self.consolidate(stack)

    def consolidate(self, stack: Stack) -> None:
        """Take the present stack as the reference."""
        raise NotImplementedError

    def held(self) -> Mapping[str, Tensor | None]:
        """Return the reference tensors by name; None before the first consolidation."""
        raise NotImplementedError

    def tensors(self) -> Tensors:
        """Return the reference copy and the count."""
        found = {name: to_array(tensor) for name, tensor in self.held().items() if tensor is not None}
        return {**found, "examples": np.array([self.examples])}

    def restore(self, tensors: Tensors, device: torch.device) -> None:
        """Adopt what `tensors` returned."""
        self.examples = int(tensors["examples"][0])
        for name in self.held():
            setattr(self, name, torch.tensor(tensors[name], device=device) if name in tensors else None)


class ElasticWeights(ConsolidatingStrategy):
    """Online EWC (Schwarz et al. 2018): weights are pulled back to an anchor by their importance."""

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        self.seen_LP: Tensor | None = None  # squared gradients since the anchor was taken
        self.fisher_LP: Tensor | None = None
        self.anchor_LP: Tensor | None = None

    def held(self) -> Mapping[str, Tensor | None]:
        """Return the tensors that the strategy keeps."""
        return {"seen_LP": self.seen_LP, "fisher_LP": self.fisher_LP, "anchor_LP": self.anchor_LP}

    def join_gradients(self, gradients: Sequence[Tensor], stack: Stack) -> Tensor:
        """Add the pull of the anchor, weighted by the Fisher information."""
        gradient_LP = gradients[0]
        square_LP = gradient_LP.square() / CONSOLIDATE_EVERY
        self.seen_LP = square_LP if self.seen_LP is None else self.seen_LP.add_(square_LP)
        if self.fisher_LP is not None and self.anchor_LP is not None:
            pull_LP = self.fisher_LP * (stack.parameters_LP - self.anchor_LP)
            gradient_LP.add_(pull_LP, alpha=self.strength)
        return gradient_LP

    def consolidate(self, stack: Stack) -> None:
        """Take the present parameters as the anchor."""
        assert self.seen_LP is not None
        self.fisher_LP = self.seen_LP if self.fisher_LP is None else FADING * self.fisher_LP + self.seen_LP
        self.seen_LP, self.anchor_LP = None, stack.parameters_LP.clone()

    def grown(self, before: Stack, after: Stack) -> None:
        """Follow a larger stack; new weights have no importance."""
        for name, flat_LP in self.held().items():
            if flat_LP is not None:
                empty_LP = torch.zeros_like(after.parameters_LP)
                setattr(self, name, before.layout.into_corner(flat_LP, after.layout, empty_LP))


class Distillation(ConsolidatingStrategy):
    """LwF (Li and Hoiem 2016) without tasks: fresh rows also keep the answers of a former copy."""

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        self.teacher_LP: Tensor | None = None
        self.taught_C: Tensor | None = None  # classes that the teacher knew
        self.known_C: Tensor | None = None

    def held(self) -> Mapping[str, Tensor | None]:
        """Return the tensors that the strategy keeps."""
        return {"teacher_LP": self.teacher_LP, "taught_C": self.taught_C}

    def loss_terms(self, step: TrainingStep) -> tuple[Tensor, ...]:
        """Return the loss, with the distance to the teacher's answers."""
        self.known_C = step.known_C
        return (step.losses().sum() + self._distillation_loss(step),)

    def _distillation_loss(self, step: TrainingStep) -> Tensor:
        if self.teacher_LP is None or self.taught_C is None:
            return torch.zeros((), device=step.x_BD.device)
        layout, taught_C = step.layout, self.taught_C
        with torch.no_grad():
            teacher_LBC = layout.logits(layout.views(self.teacher_LP), step.x_BD)[..., taught_C] / TEMPERATURE
        ours_LBC = (step.logits_LBC[..., taught_C] / TEMPERATURE).log_softmax(2)
        cross_LB = -(teacher_LBC.softmax(2) * ours_LBC).sum(2)
        return self.strength * TEMPERATURE**2 * (cross_LB * step.share_B).sum()

    def consolidate(self, stack: Stack) -> None:
        """Take the present parameters as the teacher."""
        assert self.known_C is not None
        self.teacher_LP, self.taught_C = stack.parameters_LP.clone(), self.known_C.nonzero().squeeze(1)

    def grown(self, before: Stack, after: Stack) -> None:
        """Give the teacher room for more classes."""
        if self.teacher_LP is not None:
            self.teacher_LP = before.layout.into_corner(self.teacher_LP, after.layout, after.parameters_LP.clone())


class AveragedEpisodicMemory(FineTuning):
    """A-GEM (Chaudhry et al. 2019): the part that opposes the replayed rows' gradient is removed."""

    draws = 1
    loss_count = 2

    def loss_terms(self, step: TrainingStep) -> tuple[Tensor, ...]:
        """Return the losses of replayed and of fresh rows separately."""
        losses_LB = step.losses()
        return losses_LB[:, step.fresh :].sum(), losses_LB[:, : step.fresh].sum()

    def join_gradients(self, gradients: Sequence[Tensor], stack: Stack) -> Tensor:
        """Remove from the fresh gradient what would increase the loss of replayed rows."""
        replayed_LP, fresh_LP = gradients
        along_L1 = (fresh_LP * replayed_LP).sum(1, keepdim=True)
        length_L1 = replayed_LP.square().sum(1, keepdim=True).clamp_min(1e-12)
        return fresh_LP.sub_(replayed_LP * (along_L1 / length_L1).clamp_max(0))


STRATEGIES: dict[str, type[FineTuning]] = {
    "naive": FineTuning,
    "er": ExperienceReplay,
    "er_ace": AsymmetricReplay,
    "derpp": DarkReplay,
    "ewc": ElasticWeights,
    "lwf": Distillation,
    "agem": AveragedEpisodicMemory,
}


def create_strategy(name: str, strength: float) -> Strategy:
    """Create a strategy. strength 0: its default. Raises ValueError for an unknown name."""
    if name not in STRATEGIES:
        raise ValueError(f"unknown strategy {name!r}; use one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name](strength or STRENGTHS[name])
