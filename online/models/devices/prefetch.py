"""Rows on their way to a device: while it computes on one piece, the next one is copied.

    arrays --copy into--> buffer 0 | buffer 1 (page-locked)  --stream of copies--> tensors on the device

A copy from page-locked memory runs beside computation. There are two buffers: one is being copied to the device while the
other is being filled, and each is filled again only once its last copy is over. On the CPU the rows take the same way
through the same buffers, without locked pages and streams.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from online.models.contract import AnyArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazy_torch import torch

BUFFERS = 2


def prefetch(arrays: Iterable[AnyArray], device: str) -> Iterator["Tensor"]:
    """Yield each array as a tensor on the device, while the next one is on its way.

    The arrays have one data type. A tensor is the caller's: no later one overwrites it. Raises torch.OutOfMemoryError.
    """
    transfer = Transfer(device)
    following: TensorTransfer | None = None
    for array in arrays:
        present, following = following, transfer.start(array)
        if present is not None:
            yield transfer.receive(present)
    if following is not None:
        yield transfer.receive(following)


class TensorTransfer(NamedTuple):
    """A tensor that is on its way, and the event after which it has arrived; None: it has."""

    tensor: "Tensor"
    arrived: "torch.cuda.Event | None"


class Transfer:
    """Copies arrays to a device through two buffers."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.is_cuda = self.device.type == "cuda"
        self.stream = torch.cuda.Stream(self.device) if self.is_cuda else None  # type: ignore[no-untyped-call]
        self.buffers: list[Tensor | None] = [None] * BUFFERS
        self.copied: list[torch.cuda.Event | None] = [None] * BUFFERS  # an event for each buffer: its last copy is over
        self.place = 0

    def start(self, array: AnyArray) -> TensorTransfer:
        """Begin to copy an array. The tensor may be used once `receive` has returned it."""
        self.place = (self.place + 1) % BUFFERS
        if (copied := self.copied[self.place]) is not None:
            copied.synchronize()
        staged = self._stage(np.ascontiguousarray(array))
        if self.stream is None:
            return TensorTransfer(staged.to(self.device, copy=True), None)
        with torch.cuda.stream(self.stream):
            sent = staged.to(self.device, non_blocking=True)
            arrived = self.copied[self.place] = self.stream.record_event()
        return TensorTransfer(sent, arrived)

    def _stage(self, array: AnyArray) -> "Tensor":
        """Return the array in the present buffer, which is replaced by a larger one if it is too small."""
        given, buffer = torch.from_numpy(array), self.buffers[self.place]
        if buffer is None or buffer.numel() < given.numel() or buffer.dtype != given.dtype:
            buffer = torch.empty(given.numel(), dtype=given.dtype, pin_memory=self.is_cuda)
            self.buffers[self.place] = buffer
        return buffer[: given.numel()].view(given.shape).copy_(given)

    def receive(self, sent: TensorTransfer) -> "Tensor":
        """Return the tensor. What is computed from now on begins after it has arrived."""
        if sent.arrived is not None:
            present = torch.cuda.current_stream(self.device)
            present.wait_event(sent.arrived)
            sent.tensor.record_stream(present)
        return sent.tensor
