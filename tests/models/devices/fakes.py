"""Devices that a machine without a GPU can compute on, and memory that is full.

torch takes "cpu:0" and "cpu:1" for the processor. They are names of their own, so that what distinguishes "cpu" from other
devices takes them for accelerators, and computes there with tensors.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from online.models.devices.probe import CPU, DeviceFigures

GIB = 1 << 30


class FakeDevices:
    """A machine with these accelerators. Implements `probe.Devices`. limits, reserved: what was asked of it."""

    def __init__(self, *names: str, total_bytes: int = 16 * GIB, free_bytes: int | None = None) -> None:
        self.names, self.total_bytes = (CPU, *names), total_bytes
        self.free_bytes = total_bytes if free_bytes is None else free_bytes
        self.limits = dict[str, float]()
        self.reserved = dict[str, int]()

    def list_names(self) -> tuple[str, ...]:
        return self.names

    def measure(self, name: str) -> DeviceFigures:
        assert name in self.names, f"there is no device {name}"
        if name == CPU:
            return DeviceFigures(CPU, "4 cores", 8 * GIB, 3 * GIB, 5 * GIB, 25.0, 4)
        used = self.total_bytes - self.free_bytes
        return DeviceFigures(name, "Fake 16", self.total_bytes, used, self.free_bytes, 40.0)

    def limit_memory(self, name: str, fraction: float) -> None:
        self.limits[name] = fraction

    def reserve_memory(self, name: str, bytes: int) -> None:
        if bytes > self.free_bytes:
            raise torch.OutOfMemoryError(f"no room for {bytes} bytes on {name}")
        self.reserved[name] = bytes


class LimitedMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets no tensor be made in this block, on this thread, that takes more than `most_bytes`. refused: how many were not."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most_bytes, self.refused = most_bytes, 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.nbytes > self.most_bytes and not is_view(made, args):
            self.refused += 1
            raise torch.OutOfMemoryError(f"no room for {made.nbytes} bytes")
        return made


def is_view(made: torch.Tensor, args: Sequence[Any]) -> bool:
    """Whether a tensor takes no memory of its own."""
    return any(
        isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() == made.untyped_storage().data_ptr()
        for each in args
    )
