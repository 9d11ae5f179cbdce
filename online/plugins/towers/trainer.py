"""Takes a tower's steps: who differentiates which parts of a step, and on which device.

    StepRows --cut--> parts --Alone | Together | SplitRanks--> gradient --Strategy--> the stack's next parameters
                                     |
             out of memory: twice as many parts, then the CPU

Shapes: B rows, F fresh rows, L copies, P parameters of a copy, C classes, K = 2 L served choices.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.models.contract import AnyArray, Options, Tensors
from online.models.devices.fallback import note_fallback
from online.plugins.towers.buffer import Buffer
from online.plugins.towers.closed_form import LOWEST, log_probabilities, loss_gradient, select_labels
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.pair_sums import fits
from online.plugins.towers.parallel.peers import PeerLost, Peers
from online.plugins.towers.parallel.together import PeerEngine
from online.plugins.towers.parts import CutStep, Engine, PartResult, Ranks, SingleProcessEngine
from online.plugins.towers.published import FlatCopy
from online.plugins.towers.stack import LearningOptions, Stack
from online.plugins.towers.step_rows import StepRows
from online.plugins.towers.strategies import TrainingStep, compute_losses, create_strategy

if TYPE_CHECKING:
    from online.plugins.towers.parallel.split_ranks import SplitRanks
    from online.plugins.towers.parallel.split_stack import SplitStack

log = logging.getLogger("online.models")

SPREAD = (1 / 3, 1.0, 3.0)  # multiples of the option `rate`
CHOICES = 2 * len(SPREAD)
LARGEST_LOSS = 5.0  # of one example in the choice of the copy
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}  # option gradients


@dataclass(frozen=True, slots=True)
class ClassMasks:
    """known_C: those that may be answered. lately_C: those among the last few examples."""

    known_C: NDArray[np.bool_]
    lately_C: NDArray[np.bool_]


class Trainer:
    """The copies of a tower's network, and what moves them. buffer: the tower's, with the logits that strategies keep."""

    def __init__(self, options: Options, buffer: Buffer, device: torch.device) -> None:
        self.options, self.buffer, self.device, self._first_device = options, buffer, device, device
        self.strategy = create_strategy(options["strategy"], options["strength"])
        rates = tuple(options["rate"] * factor for factor in SPREAD)
        self.learning = LearningOptions(rates, options["decay"], options["average"], options["seed"])
        self.precision = PRECISIONS[options["gradients"]]
        self.parts: int = options["accumulate"]  # into which a step is cut
        self.ranks: Ranks[Any] = SingleProcessEngine(self.precision)
        self.stack: Stack | SplitStack | None = None  # None until the first lesson

    # with others

    @property
    def is_alone(self) -> bool:
        """Whether this process learns without others."""
        return not self.ranks.is_shared

    def learn_with(self, peers: Peers) -> None:
        """Share the parts of each step with other processes, which hold the same tower and learn the same examples.

        The bits of what is learned stay the same. Raises ValueError for a number of processes with which they would not.
        """
        if not fits(self.parts, peers.size):
            raise ValueError(f"{peers.size} processes cannot share {self.parts} parts (option accumulate)")
        self.learn_alone()
        self.ranks = PeerEngine(peers, self.precision)

    def split_over(self, ranks: "SplitRanks") -> None:
        """Hold a part of the stack, beside other processes that hold the others. The state must be restored next."""
        self.learn_alone()
        self.ranks, self.stack = ranks, None
        self.device, self.parts = self._first_device, self.options["accumulate"]  # as on all ranks

    def learn_alone(self) -> None:
        """Leave the others. Of a split stack, this process has its part only: the state must be restored."""
        if self.ranks.holds_all:
            self.ranks.leave()
            self.ranks = SingleProcessEngine(self.precision)
            return
        self.stack = None  # it keeps the connections open
        self.ranks.leave()  # these ranks stay, and raise LearningLost until the state is restored

    # steps

    def take_step(self, rows: StepRows, classes: ClassMasks) -> PartResult:
        """Take a step; without enough memory, in smaller parts, then on the CPU."""
        try:
            step = self._sum_parts(rows, classes)
        except torch.OutOfMemoryError as error:
            if not self._save_memory(len(rows.label_B), error):
                raise
            return self.take_step(rows, classes)
        self.ranks.descend(self.stack, step.gradients, self.strategy)
        return step

    def _sum_parts(self, rows: StepRows, classes: ClassMasks) -> PartResult:
        """Differentiate the parts of a step. Nothing has changed when a peer is lost: the tower then learns alone."""
        step = self._cut(rows, classes)
        try:
            return self.ranks.sum_parts(self.stack, step)
        except PeerLost as error:
            log.warning("a process that learns a tower with this one is lost (%s): it continues alone", error)
        self.learn_alone()  # not above: the error keeps the connections of the group open
        return self.ranks.sum_parts(self.stack, step)

    def _cut(self, rows: StepRows, classes: ClassMasks) -> CutStep:
        strategy, stack, parts = self.strategy, self.stack, self.parts
        is_simple = (
            strategy.is_plain and isinstance(stack, Stack) and stack.has_closed_form and bool(rows.liked_B.all())
        )

        def learn(part: int, engine: Engine) -> PartResult:
            own = rows.cut(part, parts)
            return self._learn_simple(own, classes) if is_simple else self._learn_part(engine, own, classes)

        return CutStep(
            parts,
            inputs=lambda part: self._tensor(rows.cut(part, parts).x_BD),
            learn=learn,
            fresh=rows.cut(0, parts).fresh if rows.is_first else 0,
            keeps_logits=rows.is_first and strategy.keeps_logits,
            can_overlap=strategy.loss_count == 1 and not is_simple,
        )

    def _learn_simple(self, rows: StepRows, classes: ClassMasks) -> PartResult:
        """Return a part of a plain step on right classes, in closed form: the same bits as autograd's."""
        stack, x, unknown = self.stack, torch.from_numpy(rows.x_BD), torch.from_numpy(~classes.known_C)
        assert isinstance(stack, Stack)
        logp_LBC = log_probabilities(stack.copies.logits(x), unknown)
        loss_K = torch.zeros(CHOICES)
        if rows.is_first:
            averages = log_probabilities(stack.averages.logits(x[: rows.fresh]), unknown)
            label_F = rows.label_B[: rows.fresh]
            logp_KF = np.concatenate([select_labels(each, label_F) for each in (averages, logp_LBC)])
            losses_KF = np.minimum(-np.maximum(logp_KF, np.float32(LOWEST)), np.float32(LARGEST_LOSS))
            loss_K = torch.from_numpy(losses_KF * rows.share_B[: rows.fresh]).sum(1)
        slope_LBC = loss_gradient(logp_LBC, unknown, rows.label_B, rows.share_B)
        gradient_LP = stack.copies.differentiate(slope_LBC)  # overwritten by the next part
        return PartResult([gradient_LP if self.parts == 1 else gradient_LP.clone()], loss_K)

    def _learn_part(self, engine: Engine, rows: StepRows, classes: ClassMasks) -> PartResult:
        step = self.prepare_step(engine, rows, classes)
        gradients = engine.differentiate(self.strategy.loss_terms(step))
        if not rows.is_first:
            return PartResult(gradients, torch.zeros(CHOICES, device=self.device))
        kept = None
        if self.strategy.keeps_logits:
            kept = step.logits_LBC[:, : step.fresh].detach().masked_fill(~step.known_C, torch.nan)
        return PartResult(gradients, find_losses(engine, step), kept)

    def prepare_step(self, engine: Engine, rows: StepRows, classes: ClassMasks) -> TrainingStep:
        """Return what the strategy reads of a step, or of a part of it."""
        x = self._tensor(rows.x_BD)
        assert self.stack is not None
        return TrainingStep(
            self.stack.layout,
            engine.logits(x),
            rows.fresh,
            self._tensor(rows.label_B),
            self._tensor(rows.liked_B),
            self._tensor(rows.share_B),
            self._tensor(classes.known_C),
            self._tensor(classes.lately_C),
            x,
            self._tensor(self.buffer.extra_N[rows.slots]) if self.strategy.keeps_logits else None,
        )

    def _tensor(self, array: AnyArray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def learned(self, examples: int) -> None:
        """Note that a micro-batch of `examples` was learned."""
        if isinstance(self.stack, Stack):  # a strategy that notes it is not split
            self.strategy.learned(self.stack, examples)

    # memory

    def _save_memory(self, rows: int, error: torch.OutOfMemoryError) -> bool:
        """Cut steps into twice as many parts or, once a part is a row, move to the CPU. Whether that was possible."""
        self.learn_alone()
        if self.parts < rows:
            self.parts *= 2
            note_fallback("a tower", str(self.device), f"with steps in {self.parts} parts", error)
            return True
        self.parts = self.options["accumulate"]
        if self.device.type == "cpu":
            return False
        self._leave_device(error)
        return True

    def move(self, device: torch.device) -> None:
        """Continue on another device. The stack must not be split."""
        self.device, stack = device, self.stack
        if stack is not None:
            self.restore(stack.layout, stack.tensors())
        self.strategy.restore(self.strategy.tensors(), device)

    # the stack

    def grow(self, layout: ParameterLayout) -> None:
        """Have a stack of this layout; one that there is already is grown. Without room for it, it is on the CPU."""
        if self.stack is None:
            self.stack = self._create(layout)
        elif self.stack.layout is not layout:
            try:
                self.stack = self.ranks.grow(self.stack, layout, self.strategy)
            except torch.OutOfMemoryError as error:
                self._leave_device(error)
                self.stack = self.ranks.grow(self.stack, layout, self.strategy)

    def _create(self, layout: ParameterLayout) -> "Stack | SplitStack":
        stack: Stack | SplitStack
        try:
            stack = self.ranks.create(layout, self.learning, self.device)
        except torch.OutOfMemoryError as error:
            self._leave_device(error)
            stack = self.ranks.create(layout, self.learning, self.device)
        return stack

    def _leave_device(self, error: torch.OutOfMemoryError) -> None:
        """Continue on the CPU. Raises the error if this is the CPU."""
        if self.device.type == "cpu":
            raise error
        note_fallback("a tower", str(self.device), "on the CPU", error)
        self.move(torch.device("cpu"))

    @property
    def is_lost(self) -> bool:
        """Whether what was learned is gone, with the processes that held parts of it."""
        return self.ranks.is_lost

    def pick_copy(self, choice: int) -> FlatCopy:
        """Return one of the averages or, after all of them, of the copies. Raises LearningLost."""
        copy: FlatCopy = self.ranks.pick_copy(self.stack, choice)
        return copy

    def help_gather(self, choice: int | None) -> None:
        """Take part in `pick_copy` or, without a choice, in `tensors` of another rank. The stack must be split."""
        cast("SplitRanks", self.ranks).help_gather(cast("SplitStack", self.stack), choice)

    def tensors(self) -> Tensors:
        """Return the tensors of the whole stack; none before the first lesson. Raises LearningLost."""
        return {} if self.stack is None and not self.is_lost else self.ranks.tensors(self.stack)

    def forget(self) -> None:
        """Have no stack, as before the first lesson."""
        self.stack = None
        if self.is_alone:
            self.ranks = SingleProcessEngine(self.precision)

    def restore(self, layout: ParameterLayout, tensors: Tensors) -> None:
        """Create the stack again with the tensors of a state."""
        self.forget()
        self.stack = self._create(layout)
        self.stack.restore(tensors)


@torch.no_grad()
def find_losses(engine: Engine, step: TrainingStep) -> Tensor:
    """Return the losses [K] of all averages and copies for the fresh rows, before they are learned."""
    fresh = slice(step.fresh)
    logits = torch.cat([engine.average_logits(step.x_BD[fresh]), step.logits_LBC[:, fresh]])
    losses_KF = compute_losses(logits, step.label_B[fresh], step.liked_B[fresh], step.known_C).clamp_max(LARGEST_LOSS)
    return (losses_KF * step.share_B[fresh]).sum(1)
