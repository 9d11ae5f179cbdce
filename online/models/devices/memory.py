"""Bounds the memory of an accelerator that this process takes: a share, a cap in bytes, and how it grows.

share of the device, bytes  --the smaller one--> the cap  --> torch's allocator refuses more (OutOfMemoryError)
growth = "grow"     memory is taken as tensors need it, and kept
growth = "reserve"  the whole share is taken at once, so that no other process can take it meanwhile

The cap is that of a process on a device. Models that one process learns share it.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from online.models.devices.probe import CPU, Devices

if TYPE_CHECKING:
    import torch
else:
    from online.models.lazy_torch import torch

log = logging.getLogger("online.models")

Growth = Literal["grow", "reserve"]


@dataclass(frozen=True, slots=True)
class MemoryShare:
    """The share of one process. fraction: of each device it uses, in (0, 1]. cap_bytes: at most; None: no such cap."""

    fraction: float = 1.0
    cap_bytes: int | None = None
    growth: Growth = "grow"

    @property
    def is_whole(self) -> bool:
        """Whether the process may use all memory."""
        return self.fraction == 1.0 and self.cap_bytes is None

    def compute_cap(self, total_bytes: int) -> int:
        """Return the bytes of a device with this memory that the process may take."""
        share = int(self.fraction * total_bytes)
        return share if self.cap_bytes is None else min(share, self.cap_bytes)


def apply_share(share: MemoryShare, names: Iterable[str], devices: Devices) -> dict[str, int]:
    """Limit this process to its share of each of these accelerators. Returns the caps in bytes, by name."""
    caps = dict[str, int]()
    for name in dict.fromkeys(names):
        total = None if name == CPU else devices.measure(name).total_bytes
        if total is not None:
            caps[name] = share.compute_cap(total)
            devices.limit_memory(name, caps[name] / total)
            if share.growth == "reserve":
                _reserve(name, caps[name], devices)
    return caps


def _reserve(name: str, cap_bytes: int, devices: Devices) -> None:
    try:
        devices.reserve_memory(name, cap_bytes)
    except torch.OutOfMemoryError as error:  # others have taken it already: it grows as far as there is room
        log.warning("%s bytes of %s cannot be reserved (%s): memory is taken as it is needed", cap_bytes, name, error)
