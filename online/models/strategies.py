"""How a tower does not forget: what it replays beside the fresh examples, and what it punishes.

    naive    nothing                                        er      replayed rows count like fresh ones
    er_ace   fresh rows push away only labels met lately    derpp   replayed rows also keep the logits they had
    ewc      weights that mattered are held in place        lwf     fresh rows keep the answers of an earlier self
    agem     a step that hurts replayed rows is turned aside

A strategy is asked for one thing: the gradient [L, P] of a step, for L copies at their own learning rates. A stream
has no task boundaries, so ewc and lwf take a new self to hold on to every CONSOLIDATE_EVERY examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from online.models import Tensors
from online.models.stack import Stack, as_array

CONSOLIDATE_EVERY = 100  # examples
TEMPERATURE = 2.0  # of lwf's answers
FADING = 0.9  # of what mattered before, at each of ewc's consolidations


@dataclass(frozen=True, slots=True)
class Step:
    """B rows: the first `fresh` are new, the others replayed, `draws` times the same number.

    liked_B: whether the label is right, or known to be wrong. share_B: adds up to 1 over the fresh rows and over each
    draw; 0 for rows that only fill the shape. known_C: labels that may be answered; lately_C: met among the last few
    examples. kept_BLC: the logits replayed rows had when they were fresh, NaN for labels not known then.
    """

    stack: Stack
    logits_LBC: Tensor
    fresh: int
    label_B: Tensor
    liked_B: Tensor
    share_B: Tensor
    known_C: Tensor
    lately_C: Tensor
    x_BD: Tensor
    kept_BLC: Tensor | None = None

    def gradient(self, loss: Tensor) -> Tensor:
        return self.stack.differentiate(loss)

    def losses(self, rows: slice = slice(None), allowed: Tensor | None = None) -> Tensor:
        """[L, B] of some rows; their sum over B is a mean over the fresh plus a mean over each draw."""
        answers = self.known_C if allowed is None else allowed
        found = surprise(self.logits_LBC[:, rows], self.label_B[rows], self.liked_B[rows], answers)
        return found * self.share_B[rows]


class Strategy(Protocol):
    """draws: how many sets of replayed rows it wants in a step. keeps_logits: whether they come with their logits."""

    draws: int
    keeps_logits: bool

    def gradient(self, step: Step) -> Tensor: ...

    def learned(self, stack: Stack, examples: int) -> None:
        """So many examples were, in one step or more."""

    def grown(self, before: Stack, after: Stack) -> None:
        """The stack got room for more labels or columns."""

    def tensors(self) -> Tensors: ...

    def restore(self, tensors: Tensors, device: torch.device) -> None: ...


def surprise(logits_LBC: Tensor, label_B: Tensor, liked_B: Tensor, allowed: Tensor) -> Tensor:
    """[L, B]: -log p of a right label, -log(1 - p) of a wrong one. allowed [C] or [B, C]: labels that compete.

    Where none competes yet, a wrong label is no surprise.
    """
    logp_LBC = logits_LBC.masked_fill(~allowed, -torch.inf).log_softmax(2).nan_to_num(nan=-torch.inf)
    logp_LB = logp_LBC.gather(2, label_B.expand(len(logits_LBC), -1).unsqueeze(2)).squeeze(2)
    return torch.where(liked_B, -logp_LB.clamp_min(-30.0), -torch.log1p(-logp_LB.exp().clamp_max(1 - 1e-6)))


class Naive:
    draws = 0
    keeps_logits = False

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def gradient(self, step: Step) -> Tensor:
        return step.gradient(step.losses().sum())

    def learned(self, stack: Stack, examples: int) -> None: ...

    def grown(self, before: Stack, after: Stack) -> None: ...

    def tensors(self) -> Tensors:
        return {}

    def restore(self, tensors: Tensors, device: torch.device) -> None: ...


class Replay(Naive):
    """ER (Chaudhry et al. 2019)."""

    draws = 1


class AsymmetricReplay(Naive):
    """ER-ACE (Caccia et al. 2022): a fresh row competes with the labels met lately alone, so it wrecks no old one."""

    draws = 1

    def gradient(self, step: Step) -> Tensor:
        own_BC = one_hot(step.label_B, len(step.known_C)).bool() & step.liked_B.unsqueeze(1)
        allowed_BC = step.known_C.expand_as(own_BC).clone()
        fresh = slice(step.fresh)
        allowed_BC[fresh] &= step.lately_C | own_BC[fresh] | ~step.liked_B[fresh].unsqueeze(1)
        return step.gradient(step.losses(allowed=allowed_BC).sum())


class DarkReplay(Naive):
    """DER++ (Buzzega et al. 2020): one draw for its logits, one for its labels."""

    draws = 2
    keeps_logits = True

    def gradient(self, step: Step) -> Tensor:
        assert step.kept_BLC is not None
        draw = (len(step.label_B) - step.fresh) // 2
        dark, labelled = slice(step.fresh, step.fresh + draw), slice(step.fresh + draw, None)
        kept_LBC = step.kept_BLC[:draw].transpose(0, 1)
        then = ~kept_LBC.isnan()
        away_LBC = torch.where(then, step.logits_LBC[:, dark] - kept_LBC, 0.0)
        away_LB = away_LBC.square().sum(2) / then.sum(2).clamp_min(1)
        dark_loss = self.strength * (away_LB * step.share_B[dark]).sum()
        return step.gradient(step.losses(slice(step.fresh)).sum() + step.losses(labelled).sum() + dark_loss)


class Consolidating(Naive):
    """Takes a new self to hold on to, every so many examples."""

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        self.examples = 0

    def learned(self, stack: Stack, examples: int) -> None:
        due = self.examples // CONSOLIDATE_EVERY < (self.examples + examples) // CONSOLIDATE_EVERY
        self.examples += examples
        if due:
            self.consolidate(stack)

    def consolidate(self, stack: Stack) -> None:
        raise NotImplementedError

    def held(self) -> Mapping[str, Tensor | None]:
        """What it holds on to; None before the first time."""
        raise NotImplementedError

    def tensors(self) -> Tensors:
        found = {name: as_array(tensor) for name, tensor in self.held().items() if tensor is not None}
        return {**found, "examples": np.array([self.examples])}

    def restore(self, tensors: Tensors, device: torch.device) -> None:
        self.examples = int(tensors["examples"][0])
        for name in self.held():
            setattr(self, name, torch.tensor(tensors[name], device=device) if name in tensors else None)


class ElasticWeights(Consolidating):
    """Online EWC (Schwarz et al. 2018): pulled back to an anchor by how much each weight mattered to it."""

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        self.seen_LP: Tensor | None = None  # squared gradients since the anchor was taken
        self.fisher_LP: Tensor | None = None
        self.anchor_LP: Tensor | None = None

    def held(self) -> Mapping[str, Tensor | None]:
        return {"seen_LP": self.seen_LP, "fisher_LP": self.fisher_LP, "anchor_LP": self.anchor_LP}

    def gradient(self, step: Step) -> Tensor:
        gradient_LP = super().gradient(step)
        square_LP = gradient_LP.square() / CONSOLIDATE_EVERY
        self.seen_LP = square_LP if self.seen_LP is None else self.seen_LP.add_(square_LP)
        if self.fisher_LP is not None and self.anchor_LP is not None:
            pull_LP = self.fisher_LP * (step.stack.parameters_LP - self.anchor_LP)
            gradient_LP.add_(pull_LP, alpha=self.strength)
        return gradient_LP

    def consolidate(self, stack: Stack) -> None:
        assert self.seen_LP is not None
        self.fisher_LP = self.seen_LP if self.fisher_LP is None else FADING * self.fisher_LP + self.seen_LP
        self.seen_LP, self.anchor_LP = None, stack.parameters_LP.clone()

    def grown(self, before: Stack, after: Stack) -> None:
        """What is new never mattered."""
        for name, flat_LP in self.held().items():
            if flat_LP is not None:
                empty_LP = torch.zeros_like(after.parameters_LP)
                setattr(self, name, before.layout.into_corner(flat_LP, after.layout, empty_LP))


class Distillation(Consolidating):
    """LwF (Li and Hoiem 2016), without tasks: the answers of an earlier self to the fresh rows are kept too."""

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        self.teacher_LP: Tensor | None = None
        self.taught_C: Tensor | None = None  # labels the teacher knew
        self.known_C: Tensor | None = None

    def held(self) -> Mapping[str, Tensor | None]:
        return {"teacher_LP": self.teacher_LP, "taught_C": self.taught_C}

    def gradient(self, step: Step) -> Tensor:
        self.known_C = step.known_C
        return step.gradient(step.losses().sum() + self._unfaithful(step))

    def _unfaithful(self, step: Step) -> Tensor:
        if self.teacher_LP is None or self.taught_C is None:
            return torch.zeros((), device=step.x_BD.device)
        layout, taught_C = step.stack.layout, self.taught_C
        with torch.no_grad():
            wise_LBC = layout.logits(layout.views(self.teacher_LP), step.x_BD)[..., taught_C] / TEMPERATURE
        ours_LBC = (step.logits_LBC[..., taught_C] / TEMPERATURE).log_softmax(2)
        cross_LB = -(wise_LBC.softmax(2) * ours_LBC).sum(2)
        return self.strength * TEMPERATURE**2 * (cross_LB * step.share_B).sum()

    def consolidate(self, stack: Stack) -> None:
        assert self.known_C is not None
        self.teacher_LP, self.taught_C = stack.parameters_LP.clone(), self.known_C.nonzero().squeeze(1)

    def grown(self, before: Stack, after: Stack) -> None:
        if self.teacher_LP is not None:
            self.teacher_LP = before.layout.into_corner(self.teacher_LP, after.layout, after.parameters_LP.clone())


class AveragedEpisodicMemory(Naive):
    """A-GEM (Chaudhry et al. 2019): what opposes the replayed rows' gradient is projected away."""

    draws = 1

    def gradient(self, step: Step) -> Tensor:
        losses_LB = step.losses()
        replayed_LP = step.stack.differentiate(losses_LB[:, step.fresh :].sum(), again=True)
        fresh_LP = step.gradient(losses_LB[:, : step.fresh].sum())
        along_L1 = (fresh_LP * replayed_LP).sum(1, keepdim=True)
        length_L1 = replayed_LP.square().sum(1, keepdim=True).clamp_min(1e-12)
        return fresh_LP.sub_(replayed_LP * (along_L1 / length_L1).clamp_max(0))


STRATEGIES: dict[str, tuple[type[Naive], float]] = {  # and how strong its punishment is where nobody says
    "naive": (Naive, 0.0),
    "er": (Replay, 0.0),
    "er_ace": (AsymmetricReplay, 0.0),
    "derpp": (DarkReplay, 0.5),
    "ewc": (ElasticWeights, 10_000.0),
    "lwf": (Distillation, 10.0),
    "agem": (AveragedEpisodicMemory, 0.0),
}


def strategy(name: str, strength: float) -> Strategy:
    """strength 0: the strategy's own. Raises ValueError for a name that is not known."""
    if name not in STRATEGIES:
        raise ValueError(f"unknown strategy {name!r}; one of {', '.join(STRATEGIES)}")
    made, usual = STRATEGIES[name]
    return made(strength or usual)
