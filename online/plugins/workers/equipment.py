"""The capacity of a process to learn towers, and which processes can learn one together.

They must have devices of one type, and each card serves one of them: NCCL refuses a second process.
"""

import json
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from online.plugins.towers.parallel.engine import free_bytes


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """type: of the device, cpu or cuda. unit: the card, or the machine of a CPU. free_bytes: that it may still use."""

    type: str
    unit: str
    free_bytes: int

    def pack(self) -> bytes:
        """Return the description as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, data: bytes) -> "DeviceCapacity":
        """Return what `pack` packed. Raises ValueError for anything else."""
        match json.loads(data):
            case {"type": str(kind), "unit": str(unit), "free_bytes": int(free)}:
                return cls(kind, unit, free)
        raise ValueError("a worker describes its device by type, unit and free_bytes")


def describe_device(device: torch.device) -> DeviceCapacity:
    """Return the equipment of this process, which learns towers on a device."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what the allocator keeps for later is free too
        return DeviceCapacity("cuda", str(torch.cuda.get_device_properties(device).uuid), free_bytes(device))
    return DeviceCapacity(device.type, socket.gethostname(), free_bytes(device))


def can_join(own: DeviceCapacity, others: Sequence[DeviceCapacity], new: DeviceCapacity) -> bool:
    """Return whether a process can learn with those that have this equipment."""
    is_taken = new.type != "cpu" and new.unit in {each.unit for each in (own, *others)}
    return new.type == own.type and not is_taken


def share_memory(members: Sequence[DeviceCapacity]) -> list[int]:
    """Return the bytes that each may use, where those on one machine's CPU share its memory."""
    sharing = Counter(each.unit for each in members)
    return [each.free_bytes // sharing[each.unit] for each in members]
