"""The devices of this machine, and what is known about each: memory, utilisation.

    SystemDevices   "cpu" and every CUDA device, as torch sees them: CUDA_VISIBLE_DEVICES decides which
    a test's own    lists whatever devices it wants to have

Everything that places, limits or shows devices asks a `Devices`, so that a machine with several GPUs can be described
without having one.
"""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch
else:
    from online.models.lazy_torch import torch

ACCELERATORS = tuple(map(Path, ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")))  # of NVIDIA, of Windows' Linux, of AMD
CPU = "cpu"


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """A device at one moment. used, free: by all processes, in bytes. None: not known."""

    name: str
    description: str
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    utilization_percent: float | None = None
    cores: int | None = None


class Devices(Protocol):
    """The devices of a machine. The CPU is always among them; the others are its accelerators."""

    def list_names(self) -> tuple[str, ...]:
        """Return the names of all devices, the CPU first."""

    def measure(self, name: str) -> DeviceFigures:
        """Return what is known about a device now."""

    def limit_memory(self, name: str, fraction: float) -> None:
        """Let this process take at most this share of an accelerator's memory."""

    def reserve_memory(self, name: str, bytes: int) -> None:
        """Take memory of an accelerator now, for tensors to come. Raises torch.OutOfMemoryError."""


class SystemDevices:
    """The devices that torch finds. Implements `Devices`."""

    def list_names(self) -> tuple[str, ...]:
        """Return the names of the devices of this machine. A Linux machine without an accelerator is recognised without importing torch."""
        if sys.platform == "linux" and not any(path.exists() for path in ACCELERATORS):
            return (CPU,)
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return (CPU, *(f"cuda:{number}" for number in range(count)))

    def measure(self, name: str) -> DeviceFigures:
        """Measuring an accelerator begins to use it, which takes some of its memory: only ask where it is used."""
        if name == CPU:
            return measure_cpu()
        free, total = torch.cuda.mem_get_info(name)
        used, description = total - free, torch.cuda.get_device_name(name)
        return DeviceFigures(name, description, total, used, free, measure_utilization(name))

    def limit_memory(self, name: str, fraction: float) -> None:
        """Bound the share of the device's memory that this process may take."""
        torch.cuda.set_per_process_memory_fraction(fraction, name)

    def reserve_memory(self, name: str, bytes: int) -> None:
        """Reserve memory: the allocator keeps what it once took, so that a block which is freed at once stays reserved."""
        torch.empty(bytes, dtype=torch.uint8, device=name)


def measure_utilization(name: str) -> float | None:
    """Return the share of the last moments in which an accelerator computed, in percent; None without NVML."""
    with suppress(Exception):  # no pynvml, a driver without it, a MIG slice: each raises an error of its own
        return float(torch.cuda.utilization(name))
    return None


def measure_cpu() -> DeviceFigures:
    """Return the cores that this process may use, and the memory of the machine. utilization: of the last minute."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    total, free = read_memory()
    used = None if total is None or free is None else total - free
    utilization = min(100.0, 100 * os.getloadavg()[0] / (os.cpu_count() or 1))
    return DeviceFigures(CPU, f"{cores} cores", total, used, free, round(utilization, 1), cores)


def read_memory(source: Path = Path("/proc/meminfo")) -> tuple[int | None, int | None]:
    """Return the machine's memory and what of it is available, in bytes; None where the system does not say."""
    try:
        lines = source.read_text().splitlines()
    except OSError:
        return None, None
    sizes = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines) if rest}
    return sizes.get("MemTotal"), sizes.get("MemAvailable")
