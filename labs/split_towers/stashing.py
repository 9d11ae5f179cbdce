"""A pipeline that never waits for its last backward pass, and keeps old weights so that gradients are right.

    stage s:  F0 F1 .. F(n-s-1) B0 step F(n-s) B1 step ...      F(m) with the weights of that moment, B(m) with the same

torch's schedules update once after a batch of micro-batches, and idle while the pipeline fills and drains. PipeDream
(Narayanan et al. 2019) updates after each micro-batch. A stage has then changed its weights between the forward and
the backward pass of a micro-batch, so it stashes those of the forward pass: the gradient is the one of the weights
that computed the loss. Stage s forwards micro-batch m after max(0, m - (n - s - 1)) of its own updates, so the
stages' weights in one micro-batch are of different ages; a single process with those weights has the same gradient.

The order of passes, the stash and the sends between stages are ours; torch.distributed.pipelining has no
asynchronous schedule. It serves to study staleness, with plain SGD; towers use `PipelineStack`.

Shapes: b rows of a micro-batch, L copies, H width of what a stage hands on.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call

Weights = dict[str, Tensor]
LossOfBatch = Callable[[Tensor, int], Tensor]  # what the last stage gives for a micro-batch, and its number


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """A micro-batch between its two passes, with the weights that it must be differentiated by."""

    number: int
    weights: Weights
    h: Tensor
    output: Tensor


@dataclass(slots=True)
class StashingStage:
    """Stage `rank` of `ranks`. input_shape: of what it receives for a micro-batch. rate: of plain SGD."""

    module: nn.Module
    group: dist.ProcessGroup
    input_shape: Sequence[int]
    rate: float
    updates: int = 0
    gradients: list[Weights] = field(default_factory=list)  # by micro-batch
    stashed: list[Weights] = field(default_factory=list)  # the weights that computed each
    ages: list[int] = field(default_factory=list)  # updates before the forward pass of each
    most_in_flight: int = 0
    weights: Weights = field(init=False)
    _sends: list[tuple[dist.Work, Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weights = {name: tensor.detach().clone() for name, tensor in self.module.named_parameters()}

    @property
    def rank(self) -> int:
        return dist.get_rank(self.group)

    @property
    def is_last(self) -> bool:
        return self.rank == dist.get_world_size(self.group) - 1

    def learn(self, batches: Sequence[Tensor], loss: LossOfBatch) -> None:
        """Learn from micro-batches [b, D], which only the first stage reads, with an update after each."""
        ahead = dist.get_world_size(self.group) - self.rank  # forward passes before the first backward pass
        waiting: deque[ForwardPass] = deque()
        for number, batch in enumerate(batches):
            waiting.append(self._forward(number, batch))
            self.most_in_flight = max(self.most_in_flight, len(waiting))
            if len(waiting) == ahead:
                self._backward(waiting.popleft(), loss)
        while waiting:
            self._backward(waiting.popleft(), loss)
        for work, _ in self._sends:
            work.wait()
        self._sends.clear()

    def _forward(self, number: int, batch: Tensor) -> ForwardPass:
        h = batch if self.rank == 0 else self._receive(torch.empty(self.input_shape), self.rank - 1)
        h = h.requires_grad_(self.rank > 0)
        own = {name: tensor.requires_grad_() for name, tensor in self.weights.items()}
        output = functional_call(self.module, own, (h,))
        self.ages.append(self.updates)
        if not self.is_last:
            self._send(output.detach(), self.rank + 1)
        return ForwardPass(number, own, h, output)

    def _backward(self, done: ForwardPass, loss: LossOfBatch) -> None:
        inputs = ([done.h] if self.rank else []) + list(done.weights.values())
        slopes = list(torch.autograd.grad(*self._outputs(done, loss, inputs)))
        if self.rank:
            self._send(slopes.pop(0), self.rank - 1)
        gradient = dict(zip(done.weights, slopes, strict=True))
        self.gradients.append(gradient)
        self.stashed.append(done.weights)
        newest = self.weights  # not the stashed ones: other micro-batches have updated them since
        self.weights = {name: (newest[name] - self.rate * gradient[name]).detach() for name in newest}
        self.updates += 1

    def _outputs(
        self, done: ForwardPass, loss: LossOfBatch, inputs: list[Tensor]
    ) -> tuple[Tensor, list[Tensor], Tensor | None]:
        """What to differentiate, by what, and the slope that the next stage sends."""
        if self.is_last:
            return loss(done.output, done.number), inputs, None
        return done.output, inputs, self._receive(torch.empty_like(done.output), self.rank + 1)

    def _send(self, tensor: Tensor, rank: int) -> None:
        whole = tensor.contiguous()
        work = dist.isend(whole, group=self.group, group_dst=rank)
        assert work is not None
        self._sends.append((work, whole))  # the tensor lives until it is sent

    def _receive(self, into: Tensor, rank: int) -> Tensor:
        dist.recv(into, group=self.group, group_src=rank)
        return into


def learn_alone(
    stages: Sequence[nn.Module], batches: Sequence[Tensor], loss: LossOfBatch, rate: float
) -> tuple[list[list[Weights]], list[Weights]]:
    """What one process computes with the weights that a pipeline of these stages stashes.

    The gradients by micro-batch and stage, and the last weights of each stage. Every version of the weights is kept
    here, and micro-batch m is computed as a whole with version max(0, m - (n - s - 1)) of each stage s.
    """
    versions = [[{name: p.detach().clone() for name, p in stage.named_parameters()}] for stage in stages]
    gradients: list[list[Weights]] = []
    for number, batch in enumerate(batches):
        ages = [max(0, number - (len(stages) - at - 1)) for at in range(len(stages))]
        used = [{n: w.requires_grad_() for n, w in versions[at][age].items()} for at, age in enumerate(ages)]
        h = batch
        for stage, weights in zip(stages, used, strict=True):
            h = functional_call(stage, weights, (h,))
        slopes = iter(torch.autograd.grad(loss(h, number), [w for weights in used for w in weights.values()]))
        found = [{name: next(slopes) for name in weights} for weights in used]
        for kept, gradient in zip(versions, found, strict=True):
            kept.append({name: (kept[-1][name] - rate * gradient[name]).detach() for name in gradient})
        gradients.append(found)
    return gradients, [kept[-1] for kept in versions]
