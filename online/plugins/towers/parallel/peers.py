"""The processes that learn one tower together, and what they send to each other.

    rank 0  [a0 a1]  --all to all-->  [a0 b0]  --add in pairs-->  [s0]  --all gather-->  [s0 s1]
    rank 1  [b0 b1]                   [a1 b1]                     [s1]                   [s0 s1]

Each rank adds one slice of all ranks' tensors, in the order of the ranks. That moves as many bytes as a ring all-reduce,
and every rank gets the same bits, which do not depend on the network or on how a tensor is cut.

The engine is a process group of torch.distributed: gloo on the CPU, NCCL on GPUs. A group is created for each meeting
of processes, apart from torch's global one, so that a process can leave one and enter another.
"""

import gc
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Store

from online.plugins.towers.parallel.pair_sums import add_in_pairs

TIMEOUT_S = 20.0  # for a rank that is alive but does not answer; a dead one is noticed at once


class PeerLost(RuntimeError):
    """Another rank of the group is gone, or did not answer in time."""

    @classmethod
    def by(cls, error: Exception) -> "PeerLost":
        """For an error of torch. Its first sentence says what happened; the others are advice on its own logs."""
        return cls(str(error).partition(". ")[0])


class Peers:
    """A group with `size` ranks, of which this process is `rank`. All ranks must call the same methods in the same order."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.rank, self.size = group.rank(), group.size()

    def sum(self, tensor: Tensor, sent_as: torch.dtype | None = None) -> Tensor:
        """Return the sum of all ranks' float32 tensors of one shape; the same bits everywhere. Raises PeerLost.

        sent_as: the type in which the ranks' tensors travel; by default their own. They are added as float32.
        """
        flat = tensor.reshape(-1)
        size = -(-len(flat) // self.size)
        sent = torch.zeros(size * self.size, dtype=sent_as or flat.dtype, device=flat.device)
        sent[: len(flat)] = flat
        slices, total = torch.empty_like(sent), torch.empty(len(sent), dtype=flat.dtype, device=flat.device)
        self._wait(lambda: self.group.alltoall_base(slices, sent, [], [], dist.AllToAllOptions()))
        [own] = add_in_pairs([each.to(flat.dtype, copy=True)] for each in slices.view(self.size, size))
        self._wait(lambda: self.group._allgather_base(total, own))
        return total[: len(flat)].view(tensor.shape)

    def gather(self, tensor: Tensor) -> Tensor:
        """Return all ranks' tensors of one shape, as [ranks, ...]. Raises PeerLost."""
        every = torch.empty(self.size * tensor.numel(), dtype=tensor.dtype, device=tensor.device)
        self._wait(lambda: self.group._allgather_base(every, tensor.reshape(-1).contiguous()))
        return every.view(self.size, *tensor.shape)

    def _wait(self, begin: Callable[[], dist.Work]) -> None:
        try:
            begin().wait()
        except RuntimeError as error:  # what gloo and NCCL raise for a connection that broke or timed out
            raise PeerLost.by(error) from None

    def leave(self) -> None:
        """Close the connections: the other ranks notice at once.

        gloo closes them with the last reference to the group, some of which DistributedDataParallel has in cycles.
        """
        del self.group
        gc.collect()


def form_group(
    store: Store, rank: int, size: int, host: str = "127.0.0.1", device: str = "cpu", timeout_s: float = TIMEOUT_S
) -> dist.ProcessGroup:
    """Meet the other ranks at a store, and connect to them. host: the own address that they connect to.

    Raises PeerLost if they do not come in time.
    """
    try:
        group = dist.ProcessGroup(store, rank, size)
        kinds = dist.ProcessGroup.BackendType
        if torch.device(device).type == "cuda":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = timedelta(seconds=timeout_s)
            engine: Any = dist.ProcessGroupNCCL(store, rank, size, options)
            group._set_default_backend(kinds.NCCL)
            group._register_backend(torch.device("cuda"), kinds.NCCL, engine)
        else:
            own: Any = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
            own._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
            own._timeout, own._threads = timedelta(seconds=timeout_s), 2
            group._set_default_backend(kinds.GLOO)
            group._register_backend(torch.device("cpu"), kinds.GLOO, dist.ProcessGroupGloo(store, rank, size, own))
    except RuntimeError as error:
        raise PeerLost.by(error) from None
    return group
