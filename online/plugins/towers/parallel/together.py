"""The parts of a step on several ranks that all hold the same stack.

parts    0  1 | 2  3        each rank differentiates its consecutive parts ...
ranks     0   |   1         ... and adds those of all ranks, in the order that one process would have
"""

import torch
from torch import Tensor

from online.plugins.towers.parallel.mirror import Mirror
from online.plugins.towers.parallel.peers import Peers
from online.plugins.towers.parts import CutStep, PartResult, SingleProcessEngine, add_results
from online.plugins.towers.stack import Stack


class PeerEngine(SingleProcessEngine):
    """This process and its peers. precision: to which each part's gradient is rounded before it is sent; None: float32."""

    is_shared = True

    def __init__(self, peers: Peers, precision: torch.dtype | None = None) -> None:
        super().__init__(precision)
        self.peers = peers
        self._mirror: Mirror | None = None

    def sum_parts(self, stack: Stack, step: CutStep) -> PartResult:
        """Return the sum over the parts of all ranks, which is the same on each. Raises PeerLost."""
        share = step.count // self.peers.size
        if share == 1 and step.can_overlap:
            result = step.learn(self.peers.rank, self._mirrored(stack))
            return PartResult(result.gradients, self.peers.sum(result.loss_K), self._gather(result.logits_LFC))
        parts = range(self.peers.rank * share, (self.peers.rank + 1) * share)
        result = add_results(step.learn(part, stack).rounded(self.precision) for part in parts)
        sent_as = self.precision if share == 1 else None
        gradients = [self.peers.sum(each, sent_as) for each in result.gradients]
        return PartResult(gradients, self.peers.sum(result.loss_K), self._gather(result.logits_LFC))

    def _mirrored(self, stack: Stack) -> Mirror:
        if self._mirror is None or self._mirror.stack is not stack:
            self._mirror = Mirror(stack, self.peers, self.precision)
        return self._mirror

    def _gather(self, logits_LFC: Tensor | None) -> Tensor | None:
        """Return the logits of all ranks' fresh rows, in order."""
        if logits_LFC is None:
            return None
        return torch.cat(list(self.peers.gather(logits_LFC)), 1)

    def leave(self) -> None:
        """Close the connections of the group. Other ranks that wait for this one then lose it at once."""
        self._mirror = None
        self.peers.leave()
