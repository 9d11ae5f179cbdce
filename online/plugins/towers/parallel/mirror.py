"""One stack on several ranks by DistributedDataParallel, which sends gradients while others are still computed.

    x_BD --DDP.forward--> logits_LBC --loss.backward--> bucket of gradients complete --all gather, add in pairs--> .grad
                                        |                          ...meanwhile...
                                        '-> next layers' gradients

The parameters of the module are views of the stack's memory. Shapes: L copies, B rows, D inputs, C classes,
P parameters of a copy.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.pair_sums import add_in_pairs
from online.plugins.towers.parallel.peers import PeerLost, Peers
from online.plugins.towers.stack import Stack

BUCKET_MB = 4  # gradients of this size are sent together


class StackModule(nn.Module):
    """A stack's forward pass, whose parameters are views of the stack's memory."""

    def __init__(self, layout: ParameterLayout, flat_LP: Tensor) -> None:
        super().__init__()
        self.layout = layout
        views = layout.views(flat_LP.detach())
        self.own = nn.ParameterList([nn.Parameter(view) for view in views.values()])

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return the logits [L, B, C]."""
        return self.layout.logits(dict(zip(self.layout.shapes, self.own, strict=True)), x_BD)


class Mirror:
    """A stack whose gradient is the sum over all ranks. sent_as: the type in which gradients travel."""

    def __init__(self, stack: Stack, peers: Peers, sent_as: torch.dtype | None = None) -> None:
        self.stack = stack
        self.module = StackModule(stack.layout, stack.parameters_LP)
        try:
            self._ddp = DistributedDataParallel(
                self.module,
                process_group=peers.group,
                gradient_as_bucket_view=True,
                bucket_cap_mb=BUCKET_MB,
            )
        except RuntimeError as error:  # it compares the ranks' shapes over the network
            raise PeerLost.by(error) from None
        # never self: the hook would be in a cycle that Python cannot see, and keep the group's connections open
        self._ddp.register_comm_hook((peers, sent_as), add_bucket)

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C] of this rank's rows."""
        return cast(Tensor, self._ddp(x_BD))

    def average_logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C] of the averages of this rank's rows."""
        return self.stack.average_logits(x_BD)

    def differentiate(self, losses: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradient [L, P] of the sum of all ranks' losses. Raises PeerLost."""
        (loss,) = losses
        for parameter in self.module.own:
            parameter.grad = None
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise PeerLost.by(error) from None
        grads = [cast(Tensor, parameter.grad) for parameter in self.module.own]
        return [torch.cat([grad.reshape(len(grad), -1) for grad in grads], 1)]


def add_bucket(sending: tuple[Peers, torch.dtype | None], bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Add one bucket of all ranks in pairs, in the order of the ranks, while the backward pass goes on."""
    (peers, sent_as), own = sending, bucket.buffer()
    sent = own if sent_as is None else own.to(sent_as)
    size = peers.size
    every = torch.empty(size * len(own), dtype=sent.dtype, device=own.device)
    work = peers.group._allgather_base(every, sent)

    def add(_: torch.futures.Future[list[Tensor]]) -> Tensor:
        [total] = add_in_pairs([each.to(own.dtype, copy=True)] for each in every.view(size, -1))
        return total

    future: torch.futures.Future[list[Tensor]] = work.get_future()
    return future.then(add)
